"""The frames that a process of hybrid buffering transmits in place of lost ones."""

from antecede.core.codec import Frame
from antecede.core.process import ProcessId, Transmit
from antecede.core.protocols.hybrid.algorithm import HybridAlgorithm
from antecede.core.protocols.hybrid.dependency_frames import NotesFrame, Settled, SettledAck
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit, PermitRequest
from antecede.core.protocols.hybrid.gone_peers import is_held_in_vain
from antecede.core.protocols.hybrid.peer import PeerState

__all__ = ["retransmit", "transmit_again"]


def retransmit(algorithm: HybridAlgorithm, peer: PeerState, now: float) -> None:
    """Retransmit the copies to a peer that were in flight for a timeout without any ack.

    Copies that have arrived are left out, except the first: if its ack was lost, its
    retransmission brings another. Copies above the window are left out, too.
    """
    in_flight = peer.in_flight
    timeout_s = peer.transmit_timer.timeout_s
    window = max(peer.window, 1)
    for index in range(in_flight.first, in_flight.first + peer.transmitted):
        copy = in_flight[index]
        if not peer.is_in_window(copy, window):
            break
        is_due = not copy.arrived and copy.transmitted_at + timeout_s <= now
        is_first = index == in_flight.first
        if is_due or is_first or is_held_in_vain(algorithm.ledger, copy):
            copy.retransmitted = True
            algorithm.transmit(copy, now)


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
    copy = in_flight[index]
    if (
        index - in_flight.first < peer.transmitted
        and peer.is_in_window(copy, max(peer.window, 1))
        and not copy.arrived
        and copy.transmitted_at <= sent_at
    ):
        copy.retransmitted = True
        algorithm.transmit(copy, now)
