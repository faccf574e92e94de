"""``hybrid``: hybrid buffering that enforces SPS optimally (Almeida §5.6, Algorithm 2).

It differs from :mod:`antecede.core.protocols.hybrid.basic` in the three points of §5.6. Points 1 and
2, whether a message needs a permit and when the permit may go out, are one: towards a
peer only the acks of *other* processes matter, so its frontier reaches up to the first
message with an unacked copy to somebody else. Point 3: a copy waits only for permits of
processes *other* than its own target.

Both ask the same thing of a window: where is the first element that belongs to somebody
other than j? It is the first element of all, unless that one is j's; then it is the first
that belongs to another than j. Two indexes answer it for every j, and neither ever moves
back: ``_unacked`` and ``_unacked_other`` over the copies (``u2`` in the paper), the first
and ``_permits_other`` over the missing permits (``p2``). That makes every operation
amortised constant time, however many processes and messages there are (on the work that
loss makes, see docs/multicast.md).

The rule for multicast, which the paper leaves open, is the same sentence said of copies
instead of messages: docs/multicast.md derives it and proves that it keeps causal order.
"""

from antecede.core.process import UNBOUNDED, ProcessId
from antecede.core.protocols.hybrid.basic import HybridBasic
from antecede.core.protocols.hybrid.peer import Copy, MissingPermit, Peer
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.core.support.sliding import IndexedSlidingMap

__all__ = ["Hybrid"]


class Hybrid(HybridBasic):
    """A process of ``hybrid``; see :class:`antecede.core.process.Process`."""

    __slots__ = ("_permits_indexed", "_permits_other", "_unreleased_other")

    def __init__(
        self,
        id: ProcessId,
        policy: RetransmissionPolicy | None = None,
        early_max: int = UNBOUNDED,
    ) -> None:
        """Start a process with no history and no peers."""
        super().__init__(id, policy, early_max)
        self._permits_indexed: IndexedSlidingMap[MissingPermit] = IndexedSlidingMap()
        self._permits = self._permits_indexed
        self._permits_other = 0  # p2: the first missing permit from another source.
        self._unreleased_other = 0  # m2: the first copy that depends on the one at p2.

    def _frontier(self, peer: Peer) -> int:
        """Return the highest number that needs no permit towards ``peer``.

        All messages before the first with an unacked copy to another process (§5.6,
        points 1 and 2; Algorithm 2 lines 33, 57 and 69).
        """
        buffer = self._buffer
        index = self._unacked
        if index < buffer.next and buffer[index].peer is peer:
            index = self._unacked_other
        if index < buffer.next:
            return buffer[index].number - 1
        return self._clock

    def _waits_for(self, copy: Copy, missing: MissingPermit) -> bool:
        """Tell whether a copy is kept back for this permit: not for its own target's."""
        return missing.peer is not copy.peer

    def _release(self, now: float) -> None:
        """Release every copy whose missing permits are all its own target's (point 3).

        A copy that depends on no missing permit may leave; one that depends on no permit
        at ``p2`` or later may leave for the source of the first missing permit; any other
        depends on two sources (Algorithm 2 lines 25 to 47).
        """
        buffer = self._buffer
        permits = self._permits_indexed
        permits_first = permits.first
        permits_other = self._advance_permits_other()
        # What was released out of turn may have been acked and removed since.
        index = max(self._unreleased, buffer.first)
        while index < buffer.next:
            copy = buffer[index]
            if not copy.released:
                if copy.depends > permits_first:
                    break
                self._release_copy(copy, now)
            index += 1
        self._unreleased = index
        index = max(self._unreleased_other, index)
        if permits_first < permits.next:
            source = permits.peek().peer
            while index < buffer.next:
                copy = buffer[index]
                if copy.depends > permits_other:
                    break
                if copy.peer is source and not copy.released:
                    self._release_copy(copy, now)
                index += 1
        self._unreleased_other = index

    def _advance_permits_other(self) -> int:
        """Let ``_permits_other`` point again at what its name says, and return it."""
        permits = self._permits_indexed
        other = max(self._permits_other, permits.first)
        while other < permits.next:
            missing = permits[other]
            if missing is not None and missing.peer is not permits.peek().peer:
                break
            other += 1
        self._permits_other = other
        return other
