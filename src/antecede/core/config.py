"""What a process knows of the world it starts in."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from antecede.core.process import UNBOUNDED, ProcessId
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import ConfigError

__all__ = ["LINGER_S", "Setting"]

LINGER_S: Final = 30.0
"""How long a link outlives its place in the view: two time-outs of ``preventive``, so that
a ping whose mediator has crashed can go another way before the old link is gone. With less
than one, a process may be cut off when several others crash at once."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a driver tells every process of a run, the same to all.

    A protocol takes from it what it needs, and raises ConfigError if that is missing.
    """

    processes: int = 0
    """How many members there are, with ids from 0; 0 where nobody knows."""
    policy: RetransmissionPolicy = field(default_factory=RetransmissionPolicy)
    """When to transmit again."""
    early_max: int = UNBOUNDED
    """Under hybrid buffering and on links: how many messages of a peer may wait for one
    before them; what arrives beyond that is dropped, and comes again."""
    reliable: bool = False
    """The network loses and duplicates nothing, and keeps the order of each pair if the
    protocol assumes so: the link layer is left out."""
    links: Sequence[Sequence[int]] | None = None
    """An overlay: for each process, to whom it has links at first."""
    parents: Sequence[int] | None = None
    """A tree: for each process, its parent; the root is its own."""
    newcomers: frozenset[int] = frozenset()
    """On an overlay: who is not there at first, and joins by its first link."""
    exchange_s: float = 0.0
    """Let Spray renew the overlay: how often a process exchanges half of its view; 0 for
    an overlay that stays as it is."""
    exchange_until_s: float = 1e999
    """From this time on, no more exchanges begin, so that a run comes to an end."""
    linger_s: float = LINGER_S
    """Under Spray: how long a link outlives its place in the view."""
    ping_timeout_s: float = 15.0
    """How long ``preventive`` waits for the first pong of a new link; a ping in vain costs
    more than a late one, so it is to be longer than three hops take."""
    silence_s: float = 0.05
    """After how long a silent process of ``newtop`` makes itself heard."""
    seed: int = 0
    """For protocols that draw random numbers."""

    def group(self, name: str) -> int:
        """Return the number of members; raise ConfigError if ``name`` does not get it."""
        if self.processes < 1:
            raise ConfigError(f"{name} must know how many processes there are")
        return self.processes

    def links_of(self, id: ProcessId) -> Sequence[int]:
        """Return to whom the process has links at first."""
        if self.links is None:
            return [peer for peer in range(self.processes) if peer != id]
        if id >= len(self.links):
            raise ConfigError(f"the overlay has {len(self.links)} processes, none is {id}")
        return self.links[id]
