"""Which peer of a process of ``bounded`` an entry means by an id.

A driver may give a peer other ids in entries than its process id, one as a source and one
as a target (:class:`antecede.core.dependencies.PeerDependencies`).
"""

from typing import Final

from antecede.core.process import NO_PROCESS, ProcessId
from antecede.core.protocols.hybrid.peer_ledger import PeerLedger
from antecede.core.protocols.hybrid.state import HybridState

__all__ = ["Channels"]

ENDED_MAX: Final = 4096
"""How many sources a process remembers that have ended."""


class Channels:
    """The ids of the peers of one process in entries.

    Args:
        parts: the part of each peer in the ledger.
        state: the state of the process.
    """

    __slots__ = ("_by_id", "_parts", "_state", "ended")

    ended: dict[int, None]
    """Sources that have ended for good: their copies are delivered, or never will be.
    Others may report entries of them later. Only ids that are never used again are here."""

    def __init__(self, parts: dict[int, PeerLedger], state: HybridState) -> None:
        self._parts = parts
        self._state = state
        # By source and by target; None if entries use the process ids of peers.
        self._by_id: dict[int, ProcessId] | None = None
        self.ended = {}

    def identify(self, part: PeerLedger, source: int, target: int) -> None:
        """Set the ids that entries use for a peer."""
        if self._by_id is None:
            self._by_id = {}
        self.forget(part)
        for process in (source, target):
            if process != NO_PROCESS:
                self._by_id[process] = part.id
        part.source = source
        part.target = target

    def forget(self, part: PeerLedger) -> None:
        """Find a peer no longer by the ids that entries use for it."""
        if self._by_id is not None:
            for process in (part.source, part.target):
                if self._by_id.get(process, NO_PROCESS) == part.id:
                    del self._by_id[process]

    def end(self, source: int) -> None:
        """Remember that a source has ended for good, if its id is never used again."""
        if self._by_id is not None and source != NO_PROCESS:
            self.ended[source] = None
            if len(self.ended) > ENDED_MAX:
                del self.ended[next(iter(self.ended))]

    def find(self, process: int) -> ProcessId:
        """Return the peer that entries name by an id, or NO_PROCESS."""
        nobody = ProcessId(NO_PROCESS)
        if self._by_id is not None:
            return self._by_id.get(process, nobody)
        id = ProcessId(process)  # noqa: A001 (the word for it)
        return id if id in self._state.peers else nobody

    def sender(self, source: int) -> ProcessId:
        """Return the process to ask for the copies of a source, or NO_PROCESS.

        The copies may be the first ones that the process sends to this one.
        """
        if self._by_id is not None:
            return self.find(source)
        return ProcessId(source)  # Entries use the ids that the driver uses.

    def source_of(self, id: ProcessId) -> int:
        """Return the id of a peer as the source of entries."""
        part = self._parts.get(id)
        return id if part is None else part.source

    def target_of(self, id: ProcessId) -> int:
        """Return the id of a peer as the target of entries."""
        part = self._parts.get(id)
        return id if part is None else part.target
