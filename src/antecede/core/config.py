"""The configuration of a process."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from antecede.core.overlay.directory import Directory
from antecede.core.overlay.graphs import reversed_links
from antecede.core.overlay.tree_topology import Topology, balanced_parents
from antecede.core.process import UNBOUNDED, ProcessId
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import ConfigError

__all__ = [
    "DEFAULT_BUDGET_BYTES",
    "DEFAULT_PROTOCOL",
    "EXCHANGE_TIMEOUT_S",
    "LINGER_S",
    "ProcessConfig",
]

LINGER_S: Final = 30.0
"""How long a link is kept after its peer has left the view: two timeouts of
``pc-broadcast``, so that a ping whose mediator has crashed can take another way before the
old link is removed. With less than one timeout, several crashes at once may disconnect a
process."""

EXCHANGE_TIMEOUT_S: Final = 20.0
"""Four times the longest delay in the experiment of PC-broadcast."""

DEFAULT_PROTOCOL: Final = "bounded"
"""The protocol of a node."""

DEFAULT_BUDGET_BYTES: Final = 64
"""The budget of ``bounded``."""


class _Derived:
    """Data that is computed from a configuration once, for all processes of a run."""

    __slots__ = ("incoming", "topology")

    def __init__(self) -> None:
        self.topology: Topology | None = None
        self.incoming: list[list[int]] | None = None


@dataclass(frozen=True, kw_only=True)
class ProcessConfig:
    """The configuration that a driver passes to every process of a run.

    A protocol raises ConfigError if a value that it needs is missing.
    """

    processes: int = 0
    """The number of members, whose ids start at 0; 0 if it is unknown."""
    policy: RetransmissionPolicy = field(default_factory=RetransmissionPolicy)
    reorder_buffer_max: int = UNBOUNDED
    """For hybrid buffering and links: how many messages of one peer are held because an
    earlier one is missing. Further messages are dropped, and retransmitted by the peer."""
    budget_bytes: int = DEFAULT_BUDGET_BYTES
    """For ``bounded``: how many bytes a message may carry beside what it carries under
    ``hybrid``. 0 is ``hybrid``; UNBOUNDED never makes a copy wait at its sender."""
    reliable: bool = False
    """The network loses and duplicates nothing, and keeps the order of each pair if the
    protocol assumes so: the link layer is left out."""
    links: Sequence[Sequence[int]] | None = None
    """The overlay: for each process, the peers that it has links to at the start."""
    parents: Sequence[int] | None = None
    """The tree: for each process, its parent; the root is its own parent."""
    newcomers: frozenset[int] = frozenset()
    """The processes that are not members at the start, and join by their first link."""
    exchange_s: float = 0.0
    """The period of Spray's view exchanges; 0 for a fixed overlay."""
    exchange_until_s: float = 1e999
    """The time after which no exchange starts, so that a run ends."""
    exchange_timeout_s: float = EXCHANGE_TIMEOUT_S
    """The time after which a partner of an exchange counts as failed."""
    linger_s: float = LINGER_S
    """With Spray: how long a link is kept after its peer has left the view."""
    ping_timeout_s: float = 15.0
    """How long ``pc-broadcast`` waits for the first pong of a new link. It should exceed
    the delay of three hops: an unnecessary ping costs more than a late one."""
    directory: Directory | None = None
    """For an overlay whose processes share no ids: the processes that this one knows."""
    silence_s: float = 0.05
    """How long a process of ``newtop`` stays silent before it transmits a null message."""
    seed: int = 0
    """The seed of protocols that use random numbers."""
    _derived: _Derived = field(
        default_factory=_Derived, init=False, repr=False, compare=False
    )

    def require_processes(self, name: str) -> int:
        """Return ``processes``; raise ConfigError with protocol ``name`` if it is 0."""
        if self.processes < 1:
            raise ConfigError(f"{name} needs the number of processes; set processes")
        return self.processes

    def links_of(self, id: ProcessId) -> Sequence[int]:
        """Return the peers that process ``id`` has links to at the start."""
        if self.links is None:
            return [peer for peer in range(self.processes) if peer != id]
        if id >= len(self.links):
            raise ConfigError(
                f"no links for process {id}: links has {len(self.links)} rows"
            )
        return self.links[id]

    def links_to(self, id: ProcessId) -> Sequence[int]:
        """Return the processes that have a link to process ``id`` at the start."""
        derived = self._derived
        if derived.incoming is None:
            links = [self.links_of(ProcessId(i)) for i in range(self.processes)]
            derived.incoming = reversed_links(links)
        return derived.incoming[id]

    def topology(self) -> Topology:
        """Return the tree of the run, by default a balanced one; all processes share it.

        Raise ConfigError if ``parents`` is not a tree with one node for each process.
        """
        derived = self._derived
        if derived.topology is None:
            parents = self.parents
            if parents is None:
                parents = balanced_parents(self.require_processes("tree"))
            topology = Topology(parents)
            if self.processes not in (0, topology.nodes):
                raise ConfigError(
                    f"the tree has {topology.nodes} nodes for {self.processes} processes"
                )
            derived.topology = topology
        return derived.topology
