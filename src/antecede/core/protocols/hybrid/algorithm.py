"""The algorithm of hybrid buffering, shared by ``hybrid`` and ``hybrid-basic`` (Almeida).

Rules, in the terms of docs/reference/glossary.md:

1. A process numbers its messages from 1. Every copy carries the number of its message and
   the number of the previous message to the same target. A target delivers the messages of
   each sender in that order (FIFO), and holds messages that arrive early.
2. A target acks a message when it has delivered it. The *frontier* of a process towards a
   peer is the highest number such that all its messages up to it have been acked by all
   their targets; a :class:`PermitRule` says which acks of the peer itself may be missing.
3. A copy numbered above the frontier needs a permit: the sender transmits one as soon as
   the frontier has passed the copy. A copy that needs no permit carries a flag that says
   so, and is itself a permit.
4. A copy is queued until the permits for the messages delivered before its send have
   arrived; a :class:`PermitRule` says which of these permits count.

Acks and permits are cumulative. FIFO makes an ack of n cover all earlier messages of the
channel; the frontier makes a permit for n cover all earlier messages of its sender. Both
are idempotent, so loss and duplication only cost time. A permit may overtake its message,
therefore each process remembers the highest permit of each peer.

The paper's send buffer and unacked buffer are one window of copies here, as in its
Algorithm 2; the copies at its end are not released. A multicast is a run of copies with the
same number. docs/explanation/errata.md lists where this module departs from the paper's
listings, and why.
"""

from antecede.core.process import Delivery, ProcessId, Transmit
from antecede.core.protocols.hybrid.dependency_frames import DependentMessage, SettledAck
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit, PermitRequest
from antecede.core.protocols.hybrid.gone_peers import hold
from antecede.core.protocols.hybrid.ledger import Ledger
from antecede.core.protocols.hybrid.message_checks import checked_sender
from antecede.core.protocols.hybrid.peer import NOT_RELEASED, Copy, PeerState
from antecede.core.protocols.hybrid.peer_ledger import DependentCopy
from antecede.core.protocols.hybrid.received_entries import (
    add_entries,
    next_message,
    waits_for_nothing,
    woken,
)
from antecede.core.protocols.hybrid.rule import PermitRule
from antecede.core.protocols.hybrid.state import HybridState
from antecede.errors import PeerError

__all__ = ["HybridAlgorithm"]


class HybridAlgorithm:
    """The state of a process, its permit rule, and its two output queues."""

    __slots__ = (
        "_id",
        "_reorder_buffer_max",
        "deliveries",
        "ledger",
        "rule",
        "state",
        "transmits",
    )

    rule: PermitRule
    state: HybridState
    ledger: Ledger | None
    """The entries of ``bounded``; None for the other protocols."""
    transmits: list[Transmit]
    deliveries: list[Delivery]

    def __init__(
        self,
        id: ProcessId,
        rule: PermitRule,
        state: HybridState,
        reorder_buffer_max: int,
        ledger: Ledger | None,
    ) -> None:
        self._id = id
        self._reorder_buffer_max = reorder_buffer_max
        self.rule = rule
        self.state = state
        self.ledger = ledger
        self.transmits = []
        self.deliveries = []

    # Sending.

    def send(
        self, targets: list[ProcessId], payload: bytes, now: float, count: int = 1
    ) -> int:
        """Queue a copy for each target, release what may leave, and return the number.

        A bundle takes ``count`` numbers, of which the last one is its own.
        """
        state = self.state
        state.clock += count
        number = state.clock
        permits_before = state.permits.next
        to_itself = False
        for target in targets:
            if target == self._id:
                to_itself = True
                continue
            peer = state.peer(target)
            if peer.sent == 0:
                peer.open_send(state.ack_rtt)
            if peer.sent < number:  # Else the target is named twice.
                if self.ledger is None:
                    copy = Copy(peer, number, peer.sent, permits_before, payload)
                else:
                    copy = self.ledger.enqueue(peer, number, permits_before, payload)
                copy.count = count
                state.add_copy(copy)
                peer.sent = number
        if to_itself:
            self.deliveries.append(Delivery(self._id, number, payload))
        state.advance_unacked()
        self.release(now)
        return number

    def release(self, now: float) -> None:
        """Release every copy that no longer waits for a permit (``trySend``)."""
        rule = self.rule
        state = self.state
        copy = rule.next_in_order(state, now)
        while copy is not None:
            self._release_copy(copy, now)
            copy = rule.next_in_order(state, now)
        copy = rule.next_out_of_order(state)
        while copy is not None:
            self._release_copy(copy, now)
            copy = rule.next_out_of_order(state)

    def _release_copy(self, copy: Copy, now: float) -> None:
        peer = copy.peer
        copy.released = True
        is_full = peer.waiting > 0 or peer.transmitted_messages >= peer.window
        copy.offset = peer.released
        peer.released += copy.count
        peer.in_flight.add(copy)
        if is_full:
            peer.waiting += 1
            self.transmit_waiting(peer, now)
            return
        self.transmit(copy, now)
        if len(peer.in_flight) == 1:
            self.state.restart(peer.transmit_timer, now)

    def transmit_waiting(self, peer: PeerState, now: float) -> None:
        """Transmit the copies that wait, as far as the peer's window allows.

        For the paper, a released copy that waits is one that the network delays.
        """
        in_flight = peer.in_flight
        while peer.waiting > 0 and peer.transmitted_messages < peer.window:
            copy = in_flight[in_flight.next - peer.waiting]
            peer.waiting -= 1
            self.transmit(copy, now)
            if peer.transmitted == 1:
                self.state.restart(peer.transmit_timer, now)
        if peer.waiting > 0 and peer.transmitted == 0:
            self.state.blocked[peer.id] = None

    def transmit(self, copy: Copy, now: float) -> None:
        """Transmit a copy; its flag says whether it needs a permit at this time."""
        peer = copy.peer
        number = copy.number
        permitted = number <= self.rule.frontier(self.state, peer)
        if permitted and number > peer.granted:
            peer.granted = number
        copy.transmitted_at = now
        if isinstance(copy, DependentCopy) and self.ledger is not None:
            frame = self.ledger.frame(copy, permitted)
        else:
            frame = MessageFrame(number, copy.predecessor, permitted, copy.payload)
        self.transmits.append(Transmit(peer.id, frame, copy.retransmitted))

    # Acks, and permits to peers.

    def receive_ack(self, source: ProcessId, ack: Ack, now: float) -> None:
        """Remove the copies that the ack covers, and grant the permits that follow."""
        state = self.state
        peer = state.peers.get(source)
        arrived = NOT_RELEASED
        delivered = NOT_RELEASED
        if peer is not None and ack.arrived > 0 and ack.delivered >= 0:
            arrived = peer.find_unacked(ack.arrived)
            is_same = ack.delivered == ack.arrived
            delivered = arrived if is_same else peer.find_unacked(ack.delivered)
        if peer is None or arrived == NOT_RELEASED or delivered == NOT_RELEASED:
            if self.ledger is not None and ack.arrived <= self.ledger.restored_number:
                return  # The copy waits again, since this process was restored.
            raise PeerError(f"invalid {ack}: no such message was released to {source}")
        in_flight = peer.in_flight
        if arrived >= 0:
            copy = in_flight[arrived]
            if not copy.arrived and not copy.retransmitted:
                peer.transmit_timer.sample(now - copy.transmitted_at)
                if self.ledger is not None:
                    self.ledger.sample_round_trip(peer, copy, delivered < 0, now)
            peer.mark_arrived(copy)
        if delivered < 0:
            return
        peer.acked = ack.delivered
        ledger = self.ledger
        while in_flight.first <= delivered:
            copy = in_flight.remove()
            copy.acked = True
            if copy.arrived:
                peer.forget_arrived(copy)
            peer.backlog -= copy.count
            peer.backlog_bytes -= len(copy.payload)
            copy.payload = b""
            if ledger is not None and isinstance(copy, DependentCopy):
                ledger.copy_acked(copy, now)
        if peer.waiting > len(in_flight):
            # A process restored from a journal gets acks of copies that still wait.
            peer.waiting = len(in_flight)
        if in_flight.next - in_flight.first > peer.waiting:
            state.restart(peer.transmit_timer, now)
        else:
            peer.transmit_timer.stop()
        state.advance_unacked()
        self.grant()
        if ledger is not None:
            ledger.mark_own_settled(peer, now)
            self.release(now)
        if peer.waiting > 0:
            self.transmit_waiting(peer, now)

    def grant(self) -> None:
        """Transmit the permits that the frontiers now allow, one per peer.

        The frontier towards every peer has passed all messages before the first unacked
        one; towards the target of that one it may be higher. Each copy is examined once
        for each of the two reasons.
        """
        state = self.state
        buffer = state.buffer
        first = state.first_unacked
        number = buffer[first].number if first < buffer.next else state.clock + 1
        while buffer.first < first and buffer.peek().number < number:
            copy = buffer.remove()
            if copy.number > copy.peer.granted and copy.needs_permit:
                self.permit(copy.peer)
        if first == buffer.next:
            return
        peer = buffer[first].peer
        frontier = self.rule.frontier(state, peer)
        index = state.first_ungranted
        if index < buffer.first:
            index = buffer.first
        while index < buffer.next and buffer[index].number <= frontier:
            copy = buffer[index]
            if (
                copy.peer is peer
                and copy.released
                and copy.number > peer.granted
                and copy.needs_permit
            ):
                self.permit(peer)
            index += 1
        state.first_ungranted = index

    def permit(self, peer: PeerState) -> None:
        """Transmit the permit that the frontier towards a peer allows."""
        frontier = self.rule.frontier(self.state, peer)
        is_retransmission = frontier == peer.granted
        peer.granted = frontier
        self.transmits.append(Transmit(peer.id, Permit(frontier), is_retransmission))

    def receive_request(self, source: ProcessId, number: int) -> None:
        """Answer a request with the highest permit that can be granted, if it covers it.

        Otherwise the permit is still to be transmitted, so the request is not recorded.
        The message may have been released before :meth:`HybridRecovery.forget` deleted the
        state of the peer.
        """
        state = self.state
        if not 1 <= number <= state.clock:
            raise PeerError(
                f"invalid PermitRequest(number={number}) of {source}: no such message"
            )
        peer = state.peer(source)
        if number <= self.rule.frontier(state, peer):
            self.permit(peer)

    # Receiving, and permits from peers.

    def receive_message(self, source: ProcessId, message: MessageFrame, now: float) -> None:
        """Deliver or hold a message, and ack it."""
        number = message.number
        predecessor = message.predecessor
        peer = checked_sender(
            self.state, self.ledger, source, message, self._reorder_buffer_max
        )
        if message.permitted:
            self.receive_permit(peer, number, now)
        if number > peer.delivered:
            if self.ledger is not None:
                self._receive_dependent(self.ledger, peer, message, now)
            elif predecessor == peer.delivered:
                self._deliver(peer, message, now)
                while peer.held and peer.delivered in peer.held:
                    self._deliver(peer, peer.held.pop(peer.delivered), now)
            else:
                peer.hold(message)
        self._ack(peer, number)

    def _receive_dependent(
        self, ledger: Ledger, peer: PeerState, message: MessageFrame, now: float
    ) -> None:
        """Deliver or hold a message of ``bounded``, and release what may leave then."""
        if waits_for_nothing(ledger, peer, message):
            self._deliver(peer, message, now)
        else:
            hold(ledger, peer, message)
            self.deliver_ready(ledger, [peer], peer, now)
            if peer.delivered < message.predecessor:
                ledger.expect(peer.id, message.predecessor, now)
        if ledger.copies.is_check_due:
            self.release(now)

    def _ack(self, peer: PeerState, arrived: int) -> None:
        """Ack the arrival of a message, with the notes for the peer."""
        ack = Ack(peer.delivered, arrived)
        ledger = self.ledger
        if ledger is not None and ledger.notes.has_notes(peer.id):
            notes = ledger.take_notes(peer, self.rule.frontier(self.state, peer))
            if notes is not None:
                ack = SettledAck(peer.delivered, arrived, notes)
        self.transmits.append(Transmit(peer.id, ack))

    def deliver_ready(
        self, ledger: Ledger, ready: list[PeerState], arrived: PeerState | None, now: float
    ) -> None:
        """Deliver what need not wait, and ack it, except to the peer ``arrived``."""
        for peer in ready:  # The list grows in the loop.
            before = peer.delivered
            message = next_message(ledger, peer, now)
            while message is not None:
                self._deliver(peer, message, now)
                if ledger.waiting:
                    source = ledger.channels.source_of(peer.id)
                    ready += woken(ledger, source, peer.delivered)
                message = next_message(ledger, peer, now)
            if peer is not arrived and peer.delivered > before:
                self._ack(peer, peer.delivered)

    def _deliver(self, peer: PeerState, message: MessageFrame, now: float) -> None:
        number = message.number
        peer.delivered = number
        needs_permit = number > peer.permitted
        ledger = self.ledger
        if ledger is not None:
            ledger.repairs.arrived(peer.id, number)
            add_entries(ledger, peer, message, now)
            if isinstance(message, DependentMessage) and not message.is_opaque:
                needs_permit = False
        if needs_permit:
            self.state.await_permit(peer, number, now)
        self.deliveries.append(Delivery(peer.id, number, message.payload))

    def receive_permit(self, peer: PeerState, number: int, now: float) -> None:
        """Remove the missing permits up to ``number``, and release what waited for them."""
        if number <= peer.permitted:
            return
        peer.permitted = number
        missing = peer.missing
        ledger = self.ledger
        if ledger is not None and ledger.table.sources:
            ledger.mark_source_settled(ledger.channels.source_of(peer.id), number, now)
        if len(missing) == 0 or missing.peek().number > number:
            if ledger is not None and ledger.copies.is_check_due:
                self.release(now)
            return
        state = self.state
        if not peer.permit_requested:
            peer.request_timer.sample(now - missing.peek().since)
        while len(missing) > 0 and missing.peek().number <= number:
            state.permits.discard(missing.remove().index)
        if len(missing) > 0:
            peer.permit_requested = False
            state.restart(peer.request_timer, now)
        else:
            peer.request_timer.stop()
        if ledger is not None:
            ledger.copies.check_all()
        self.release(now)

    def request_permit(self, peer: PeerState) -> None:
        """Request the oldest missing permit of a peer."""
        request = PermitRequest(peer.missing.peek().number)
        self.transmits.append(Transmit(peer.id, request, peer.permit_requested))
        peer.permit_requested = True
