"""What a process of hybrid buffering transmits in place of a frame that was lost."""

from antecede.core.codec import Frame
from antecede.core.process import ProcessId, Transmit
from antecede.core.protocols.hybrid.algorithm import HybridAlgorithm
from antecede.core.protocols.hybrid.dependency_frames import NotesFrame, Settled, SettledAck
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit, PermitRequest
from antecede.core.protocols.hybrid.peer import PeerState

__all__ = ["transmit_again"]


def transmit_again(
    algorithm: HybridAlgorithm, id: ProcessId, frame: Frame, sent_at: float, now: float
) -> None:
    """Transmit what is still true of a frame to a peer that was lost.

    A copy is transmitted again unless it has arrived, or was transmitted again since. Acks
    and permits are replaced by the current ones. Notes and queries are repeated: what they
    say or ask stays true.
    """
    peer = algorithm.state.peers.get(id)
    if peer is None:
        return
    if isinstance(frame, MessageFrame):
        _transmit_copy_again(algorithm, peer, frame, sent_at, now)
    elif isinstance(frame, Ack):
        if peer.delivered > 0:
            ack = Ack(peer.delivered, peer.delivered)
            algorithm.transmits.append(Transmit(id, ack))
        if isinstance(frame, SettledAck):
            algorithm.transmits.append(Transmit(id, Settled(frame.notes), True))
    elif isinstance(frame, Permit):
        algorithm.permit(peer)
    elif isinstance(frame, PermitRequest):
        if peer.is_receiving and len(peer.missing) > 0:
            algorithm.request_permit(peer)
    elif isinstance(frame, NotesFrame):
        algorithm.transmits.append(Transmit(id, frame, True))


def _transmit_copy_again(
    algorithm: HybridAlgorithm,
    peer: PeerState,
    frame: MessageFrame,
    sent_at: float,
    now: float,
) -> None:
    index = peer.find_unacked(frame.number)
    if index < 0:
        if frame.permitted and frame.number <= peer.acked:
            algorithm.permit(peer)  # The peer has an earlier frame, without the permit.
        return
    # The peer has room for the first copies only; it may have taken room back.
    in_flight = peer.in_flight
    count = min(peer.transmitted, max(peer.window, 1))
    copy = in_flight[index]
    if (
        index - in_flight.first < count
        and not copy.arrived
        and copy.transmitted_at <= sent_at
    ):
        copy.retransmitted = True
        algorithm.transmit(copy, now)
