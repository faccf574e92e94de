"""``hybrid``: hybrid buffering that enforces SPS optimally (Almeida §5.6, Algorithm 2).

It differs from ``hybrid-basic`` in the three points of §5.6. Points 1 and 2 decide whether
a message needs a permit and when the sender may transmit the permit: towards a peer only
the acks of *other* processes count, so the frontier ends before the first message with an
unacked copy to another process. Point 3: a copy waits only for permits of processes *other*
than its own target.

Both points need the first element of a window that does not belong to a process j. That is
the first element of the window, unless it belongs to j; then it is the first element that
belongs to another process. Two indexes, neither of which ever moves back, give the answer
for every j: ``first_unacked`` and ``first_unacked_other`` over the copies (``u2`` in the
paper), the first index and ``_permits_other`` over the missing permits (``p2``). Therefore
every operation takes amortised constant time, independent of the number of processes and
messages (docs/explanation/multicast.md discusses the work that loss causes).

The paper leaves the rule for multicast open. It is the same rule, applied to copies instead
of messages; docs/explanation/multicast.md derives it and proves that it keeps causal order.
"""

from mypy_extensions import i64

from antecede.core.process import UNBOUNDED, ProcessId
from antecede.core.protocols.hybrid.peer import Copy, MissingPermit, PeerState
from antecede.core.protocols.hybrid.process import HybridProcess
from antecede.core.protocols.hybrid.rule import PermitRule
from antecede.core.protocols.hybrid.state import HybridState
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.core.support.sliding import SparseSlidingArray

__all__ = ["SpsRule", "make_hybrid"]


class SpsRule(PermitRule):
    """The permit rule of ``hybrid``.

    A copy that depends on no missing permit may leave in order. A copy that depends on no
    permit at ``p2`` or later may leave, out of order, for the source of the first missing
    permit. Any other copy depends on two sources (Algorithm 2 lines 25 to 47).
    """

    __slots__ = ("_first_queued_other", "_permits_other")

    _permits_other: i64
    """The first missing permit from another source than the first one's (``p2``)."""
    _first_queued_other: i64
    """The first copy that depends on that permit (``m2``)."""

    def __init__(self) -> None:
        self._permits_other = 0
        self._first_queued_other = 0

    def frontier(self, state: HybridState, peer: PeerState) -> int:
        # §5.6 points 1 and 2; Algorithm 2 lines 33, 57 and 69.
        buffer = state.buffer
        index = state.first_unacked
        if index < buffer.next and buffer[index].peer is peer:
            index = state.first_unacked_other
        if index < buffer.next:
            return buffer[index].number - 1
        return state.clock

    def next_in_order(self, state: HybridState, now: float) -> Copy | None:
        buffer = state.buffer
        permits_first = state.permits.first
        # Copies released out of order may have been acked and removed since.
        index = state.first_queued
        if index < buffer.first:
            index = buffer.first
        while index < buffer.next:
            copy = buffer[index]
            if not copy.released:
                if copy.permits_before > permits_first:
                    break
                state.first_queued = index
                return copy
            index += 1
        state.first_queued = index
        return None

    def next_out_of_order(self, state: HybridState) -> Copy | None:
        buffer = state.buffer
        permits = state.permits
        permits_other = self._advance_permits_other(permits)
        index = self._first_queued_other
        if index < state.first_queued:
            index = state.first_queued
        found: Copy | None = None
        if index < buffer.next and permits.first < permits.next:
            source = permits.oldest().peer
            while found is None and index < buffer.next:
                copy = buffer[index]
                if copy.permits_before > permits_other:
                    break
                if copy.peer is source and not copy.released:
                    found = copy
                index += 1
        self._first_queued_other = index
        return found

    def waits_for(self, copy: Copy, missing: MissingPermit) -> bool:
        return missing.peer is not copy.peer

    def first_missing(self, state: HybridState, peer: PeerState) -> i64:
        """Return the index of the first missing permit that copies to ``peer`` wait for."""
        permits = state.permits
        if permits.first < permits.next and permits.oldest().peer is peer:
            return self._advance_permits_other(permits)
        return permits.first

    def _advance_permits_other(self, permits: SparseSlidingArray[MissingPermit]) -> i64:
        end = permits.next
        other = self._permits_other
        if other < permits.first:
            other = permits.first
        if other < end:
            source = permits.oldest().peer
            while other < end:
                missing = permits[other]
                if missing is not None and missing.peer is not source:
                    break
                other += 1
        self._permits_other = other
        return other


def make_hybrid(
    id: ProcessId,
    policy: RetransmissionPolicy | None = None,
    reorder_buffer_max: int = UNBOUNDED,
) -> HybridProcess:
    """Create a process of ``hybrid``."""
    return HybridProcess(id, SpsRule(), HybridState(policy), reorder_buffer_max)
