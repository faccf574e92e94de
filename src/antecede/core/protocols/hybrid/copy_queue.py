"""The queued copies of a process of ``bounded``, and which of them to check.

The copies to one peer leave in order, so only the first queued copy of each peer is
checked. A check that fails computes the *excess* of the copy: the bytes by which its list
must become shorter before it may leave, or fewer. Settled entries reduce the excess of all
first copies by their size, and a copy is checked again when nothing of it remains. So the
number of checks does not grow with the number of settled entries.
"""

from antecede.core.process import NEVER
from antecede.core.protocols.hybrid.peer_ledger import DependentCopy, PeerLedger
from antecede.core.support.sliding import SlidingArray

__all__ = ["CopyQueue"]


class CopyQueue:
    """The copies of one process that are not released, by peer."""

    __slots__ = ("candidates", "is_check_due", "last_position", "queued", "retry_at")

    queued: dict[int, PeerLedger]
    """The peers with queued copies."""
    candidates: list[PeerLedger]
    """The peers whose first queued copy is to be checked."""
    is_check_due: bool
    """Some of the first queued copies may have no excess any more."""
    last_position: int
    """The position of the copy queued last; -1 if none is queued."""
    retry_at: float
    """When a queued copy may fit by another wildcard."""

    def __init__(self) -> None:
        self.last_position = -1
        self.queued = {}
        self.candidates = []
        self.is_check_due = False
        self.retry_at = NEVER

    def add(self, part: PeerLedger, copy: DependentCopy) -> None:
        """Append a copy to the queue of its target."""
        part.queue.add(copy)
        if len(part.queue) == 1:
            self.queued[part.id] = part
            self.candidates.append(part)
        self.last_position = copy.position

    def remove_candidate(self) -> None:
        """Remove the first copy of the present candidate; the next one is checked then."""
        part = self.candidates[0]
        part.queue.remove()
        part.excess = 0
        if len(part.queue) == 0:
            self.candidates.pop(0)
            self._forget(part)

    def clear(self, part: PeerLedger) -> None:
        """Remove all copies to a peer; no first copy may be left to check."""
        if len(part.queue) > 0:
            part.queue = SlidingArray()
            part.excess = 0
            self._forget(part)

    def _forget(self, part: PeerLedger) -> None:
        del self.queued[part.id]
        if not self.queued:
            self.last_position = -1

    def free(self, size: int) -> None:
        """Use the fact that lists may be shorter by ``size`` bytes."""
        for part in self.queued.values():
            part.excess -= size
            if part.excess <= 0:
                part.excess = 0
                self.is_check_due = True

    def free_for(self, part: PeerLedger, size: int) -> None:
        """Use the fact that the lists for one peer may be shorter by ``size`` bytes."""
        if len(part.queue) > 0:
            part.excess = max(part.excess - size, 0)
            self.is_check_due = True

    def check_all(self) -> None:
        """Check all first copies: not only the size of their lists has changed."""
        for part in self.queued.values():
            part.excess = 0
        self.is_check_due = True

    def schedule_retry(self, at: float) -> None:
        """Check all first copies at a time or earlier."""
        self.retry_at = min(self.retry_at, at)

    def next_candidate(self) -> PeerLedger | None:
        """Return a peer whose first copy is to be checked, or None."""
        if self.is_check_due:
            self.is_check_due = False
            self.candidates = [part for part in self.queued.values() if part.excess == 0]
        candidates = self.candidates
        return candidates[0] if candidates else None

    def drop_candidate(self, excess: int) -> None:
        """Set the excess of the first copy of the present candidate, after a check."""
        self.candidates.pop(0).excess = excess
