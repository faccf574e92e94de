"""``hybrid-basic``: hybrid buffering that enforces CSPS (Almeida, Algorithms 1 and 3).

The frontier towards a peer covers all messages before the first unacked one, and that one
itself if the peer's ack is the only one missing. A copy waits for the permits of all
messages delivered before its send (Definition 4.3).
"""

from antecede.core.process import UNBOUNDED, ProcessId
from antecede.core.protocols.hybrid.peer import Copy, PeerState
from antecede.core.protocols.hybrid.process import HybridProcess
from antecede.core.protocols.hybrid.rule import PermitRule
from antecede.core.protocols.hybrid.state import HybridState
from antecede.core.support.retransmission import RetransmissionPolicy

__all__ = ["CspsRule", "make_hybrid_basic"]


class CspsRule(PermitRule):
    """The permit rule of ``hybrid-basic``."""

    __slots__ = ()

    def frontier(self, state: HybridState, peer: PeerState) -> int:
        # Algorithm 1 line 65; for a multicast the optimisation that §5.7 names.
        buffer = state.buffer
        if state.first_unacked == buffer.next:
            return state.clock
        first = buffer[state.first_unacked]
        if first.peer is not peer:
            return first.number - 1
        other = state.first_unacked_other
        if other < buffer.next and buffer[other].number == first.number:
            return first.number - 1
        return first.number

    def next_in_order(self, state: HybridState, now: float) -> Copy | None:
        buffer = state.buffer
        permits_first = state.permits.first
        index = max(state.first_queued, buffer.first)
        found: Copy | None = None
        while (
            found is None
            and index < buffer.next
            and buffer[index].permits_before <= permits_first
        ):
            if not buffer[index].released:  # Else it was abandoned.
                found = buffer[index]
            index += 1
        state.first_queued = index
        return found


def make_hybrid_basic(
    id: ProcessId,
    policy: RetransmissionPolicy | None = None,
    reorder_buffer_max: int = UNBOUNDED,
) -> HybridProcess:
    """Create a process of ``hybrid-basic``."""
    return HybridProcess(id, CspsRule(), HybridState(policy), reorder_buffer_max)
