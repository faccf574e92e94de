"""Tells a process which peers its entries mean."""

from antecede.core.dependencies import PeerDependencies
from antecede.core.process import NO_PROCESS, ProcessBase, ProcessId
from antecede.engine.datagram import name_hash
from antecede.engine.limits import Limits
from antecede.engine.name_exchange import NAMES_BYTES_MAX, NameExchange
from antecede.engine.peer_session import PeerSession
from antecede.engine.process_names import ProcessNames
from antecede.engine.session_layer import SessionLayer
from antecede.errors import ConfigError

__all__ = ["EntryNames", "make_entry_names"]


class EntryNames:
    """The names of processes for one node whose frames contain entries.

    Args:
        dependencies: the entries of the process.
        names: the processes that the node knows.
        budget_bytes: the size of the entries on a message.
    """

    __slots__ = ("_reporters", "bytes_max", "dependencies", "names")

    bytes_max: int
    """The most bytes that entries and names add to a datagram without definitions."""

    def __init__(
        self, dependencies: PeerDependencies, names: ProcessNames, budget_bytes: int
    ) -> None:
        self.dependencies = dependencies
        self.names = names
        self.bytes_max = budget_bytes + NAMES_BYTES_MAX
        self._reporters: dict[ProcessId, tuple[str, int]] = {}

    def add_session(self, session: PeerSession) -> None:
        """Name a peer of which the history may be unknown."""
        session.names = NameExchange(self.names, session.name_hash)
        self.identify(session)

    def identify(self, session: PeerSession) -> None:
        """Tell the process the ids of a peer, after each change of its history."""
        source = NO_PROCESS
        if session.history != 0:
            source = self.names.source(session.name_hash, session.history)
        self._reporters[session.id] = session.name, session.history
        target = self.names.target(session.name_hash)
        self.dependencies.identify(session.id, source, target)

    def identify_former(self, id: ProcessId, name: str, history: int) -> None:
        """Tell the process the id of a former history of a peer, which is no target."""
        source = self.names.source(name_hash(name), history)
        self._reporters[id] = name, history
        self.dependencies.identify(id, source, NO_PROCESS)

    def reporter(self, id: ProcessId) -> tuple[str, int]:
        """Return the name and the history of a peer that has reported an entry.

        Both are empty if the peer is gone.
        """
        return self._reporters.get(id, ("", 0))

    def forget(self, id: ProcessId) -> None:
        """Forget a peer, or a former history of one."""
        self._reporters.pop(id, None)

    def sweep(self) -> None:
        """Forget processes that nothing names any more, if there are many."""
        if self.names.is_sweep_due:
            self.names.sweep(self.dependencies.used_ids())


def make_entry_names(
    process: ProcessBase, layer: SessionLayer, limits: Limits, budget_bytes: int
) -> EntryNames | None:
    """Return the names for a process whose frames contain entries; else None.

    Raise ConfigError if the budget leaves no room for data in a datagram.
    """
    dependencies = process.dependencies
    if dependencies is None:
        return None
    largest = limits.base_bytes // 2
    if not 0 <= budget_bytes <= largest:
        raise ConfigError(
            f"budget_bytes must be 0 to {largest}, half of datagram_bytes_base, got"
            f" {budget_bytes}"
        )
    dependencies.enable(limits.lease_s)
    names = ProcessNames(layer.name_hash, layer.history)
    return EntryNames(dependencies, names, budget_bytes)
