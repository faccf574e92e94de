"""Checks of the messages that a process of hybrid buffering receives."""

from antecede.core.process import ProcessId
from antecede.core.protocols.hybrid.dependency_frames import DependentMessage
from antecede.core.protocols.hybrid.frames import MessageFrame
from antecede.core.protocols.hybrid.ledger import Ledger
from antecede.core.protocols.hybrid.peer import PeerState
from antecede.core.protocols.hybrid.received_entries import check_entries
from antecede.core.protocols.hybrid.state import HybridState
from antecede.errors import PeerError

__all__ = ["checked_sender"]


def checked_sender(
    state: HybridState,
    ledger: Ledger | None,
    source: ProcessId,
    message: MessageFrame,
    reorder_buffer_max: int,
) -> PeerState:
    """Return the state of the sender; raise PeerError if the message is invalid.

    An invalid message changes nothing.
    """
    if message.number < 1 or not 0 <= message.predecessor < message.number:
        raise PeerError(f"invalid {message}: needs 0 <= predecessor < number")
    if isinstance(message, DependentMessage):
        if ledger is None:
            raise PeerError(f"invalid {message}: this protocol has no entries")
        check_entries(ledger, source, message)
    peer = state.peers.get(source)
    if peer is not None and peer.is_receiving:
        peer.check_message(message, reorder_buffer_max)
        return peer
    if message.predecessor > 0 and reorder_buffer_max < 1:
        raise PeerError(
            f"out-of-order {message}, and the reorder buffer is disabled"
            " (reorder_buffer_max=0)"
        )
    return state.receiving_peer(source)
