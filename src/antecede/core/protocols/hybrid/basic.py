"""``hybrid-basic``: hybrid buffering that enforces CSPS (Almeida, Algorithms 1 and 3).

Rules, in the words of docs/glossary.md:

1. A process numbers its messages from 1. Every copy carries its message's number and the
   number of the message before it to the same target; a target delivers each sender's
   messages in that order (FIFO), holding early ones back.
2. A delivered message is acked. The *frontier* of a process towards a peer is the highest
   number such that all its messages up to it have been acked by all their targets, save
   that the peer's own ack of the last of them may be missing (`_frontier`).
3. A copy numbered above the frontier needs a permit: the sender transmits one as soon as
   the frontier has passed it. A copy that needs none says so, and is itself a permit.
4. A message leaves only when the permits for all messages delivered before its send are
   there (CSPS, Definition 4.3).

Acks and permits are cumulative. FIFO makes an ack of n cover all earlier messages of the
pair; the frontier makes a permit for n cover all earlier messages of its sender. Both are
idempotent, so loss and duplication cost time only. A permit may overtake its message, so
the highest permit of each peer is remembered.

The paper's send buffer and unacked buffer are one window of copies here, as in its
Algorithm 2: what is not released yet is at its end. A multicast is a run of copies with
the same number. Where this module departs from the listings, docs/errata.md says why.
"""

from collections.abc import Iterable

from antecede.core.codec import Frame
from antecede.core.process import (
    Delivery,
    ProcessId,
    Transmit,
    check_now,
    checked_payload,
    checked_targets,
)
from antecede.core.protocols.hybrid.frames import Ack, Message, Permit, Request
from antecede.core.protocols.hybrid.peer import Copy, Peer
from antecede.core.protocols.hybrid.state import HybridState
from antecede.errors import LocalError, PeerError

__all__ = ["HybridBasic"]


class HybridBasic(HybridState):
    """A process of ``hybrid-basic``; see :class:`antecede.core.process.Process`."""

    __slots__ = ()

    def send(self, targets: Iterable[ProcessId], payload: object, now: float) -> int:
        """Accept a message for ``targets`` and return its number, from 1.

        The payload must be bytes. Its type here is wider, so that compiled code leaves
        the refusal to us: a LocalError, not a TypeError.
        """
        check_now(now)
        members = checked_targets(targets)
        data = checked_payload(payload)
        self._clock += 1
        number = self._clock
        depends = self._permits.next
        to_itself = False
        for target in members:
            if target == self._id:
                to_itself = True
                continue
            peer = self._peer(target)
            if peer.sent == 0:
                peer.begin_to_send(self._ack_experience)
            if peer.sent < number:  # Else it is named twice.
                self._buffer.add(Copy(peer, number, peer.sent, depends, data))
                peer.sent = number
                peer.pending += 1
                peer.pending_bytes += len(data)
        if to_itself:
            self._deliveries.append(Delivery(self._id, number, data))
        self._advance_unacked()
        self._release(now)
        return number

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        """Take a frame that arrived from ``source``."""
        check_now(now)
        if source == self._id:
            raise LocalError("a process transmits nothing to itself")
        if isinstance(frame, Message):
            self._receive_message(source, frame, now)
        elif isinstance(frame, Ack):
            self._receive_ack(source, frame, now)
        elif isinstance(frame, Permit):
            if frame.number < 1:
                raise PeerError(f"permit for message {frame.number}")
            self._receive_permit(self._peer_heard(source), frame.number, now)
        elif isinstance(frame, Request):
            self._receive_request(source, frame.number)
        else:
            raise PeerError(f"a {type(frame).__name__} is no frame of this protocol")

    def handle_timer(self, now: float) -> None:
        """Transmit again what is overdue, and ask again for missing permits."""
        check_now(now)
        timer = self._timers.due(now)
        while timer is not None:
            peer = self._peers[ProcessId(timer.owner)]
            if peer.sent > 0 and timer is peer.transmit_timer:
                self._retransmit(peer, now)
            else:
                self._transmits.append(
                    Transmit(peer.id, Request(peer.missing.peek().number), peer.asked)
                )
                peer.asked = True
            timer.expire(now)
            timer = self._timers.due(now)

    def next_timer(self) -> float | None:
        """Tell when ``handle_timer`` wants to be called next, or None for never."""
        return self._timers.next_deadline()

    # The two decisions that the SPS-optimal variant (§5.6) makes differently.

    def _frontier(self, peer: Peer) -> int:
        """Return the highest number that needs no permit towards ``peer``.

        All messages before the first unacked one, and that one itself if the peer's ack
        is the only one missing (Algorithm 1 line 65; for a multicast the optimisation
        that §5.7 names).
        """
        buffer = self._buffer
        if self._unacked == buffer.next:
            return self._clock
        first = buffer[self._unacked]
        if first.peer is not peer:
            return first.number - 1
        other = self._unacked_other
        if other < buffer.next and buffer[other].number == first.number:
            return first.number - 1
        return first.number

    def _release(self, now: float) -> None:
        """Release, in the order sent, what waits for no permit any more (trySend)."""
        buffer = self._buffer
        permits_first = self._permits.first
        index = max(self._unreleased, buffer.first)
        while index < buffer.next and buffer[index].depends <= permits_first:
            if not buffer[index].released:  # Else it was abandoned.
                self._release_copy(buffer[index], now)
            index += 1
        self._unreleased = index

    # Sending and acks.

    def _release_copy(self, copy: Copy, now: float) -> None:
        peer = copy.peer
        copy.released = True
        peer.released = copy.number
        peer.outstanding.add(copy)
        self._transmit(copy, now)
        timer = peer.transmit_timer
        if len(peer.outstanding) == 1:
            timer.restart(now)
            self._timers.file(timer)

    def _retransmit(self, peer: Peer, now: float) -> None:
        """Transmit again what the peer's acks have left unanswered for a time-out.

        Copies that have arrived stay out of it, save the first: should its ack have been
        lost, its repetition brings the ack of all that the peer has delivered.
        """
        outstanding = peer.outstanding
        timeout_s = peer.transmit_timer.timeout_s
        for index in range(outstanding.first, outstanding.next):
            copy = outstanding[index]
            if index == outstanding.first or (
                not copy.held and copy.transmitted_at + timeout_s <= now
            ):
                copy.repeated = True
                self._transmit(copy, now)

    def _transmit(self, copy: Copy, now: float) -> None:
        """Transmit a copy, which says truly *now* whether it needs a permit."""
        peer = copy.peer
        number = copy.number
        permitted = number <= self._frontier(peer)
        if permitted and number > peer.granted:
            peer.granted = number
        copy.transmitted_at = now
        frame = Message(number, copy.predecessor, permitted, copy.payload)
        self._transmits.append(Transmit(peer.id, frame, copy.repeated))

    def _receive_ack(self, source: ProcessId, ack: Ack, now: float) -> None:
        peer = self._peers.get(source)
        arrived = -1
        delivered = -1
        if peer is not None and peer.sent > 0 and ack.arrived > peer.acked:
            arrived = peer.find(ack.arrived)
        if peer is not None and peer.sent > 0 and ack.delivered > peer.acked:
            delivered = (
                arrived if ack.delivered == ack.arrived else peer.find(ack.delivered)
            )
        if (
            peer is None
            or ack.arrived < 1
            or ack.delivered < 0
            or (ack.arrived > peer.acked and arrived < 0)
            or (ack.delivered > peer.acked and delivered < 0)
        ):
            raise PeerError(f"{ack} of a message that was not released to {source}")
        outstanding = peer.outstanding
        if arrived >= 0:
            copy = outstanding[arrived]
            if not copy.held and not copy.repeated:
                peer.transmit_timer.sample(now - copy.transmitted_at)
            copy.held = True
        if delivered < 0:
            return
        peer.acked = ack.delivered
        while outstanding.first <= delivered:
            copy = outstanding.remove()
            copy.acked = True
            peer.pending -= 1
            peer.pending_bytes -= len(copy.payload)
            copy.payload = b""
        if outstanding.first < outstanding.next:
            peer.transmit_timer.restart(now)
            self._timers.file(peer.transmit_timer)
        else:
            peer.transmit_timer.stop()
        self._advance_unacked()
        self._grant()

    def _advance_unacked(self) -> None:
        """Let ``_unacked`` and ``_unacked_other`` point again at what their names say."""
        buffer = self._buffer
        first = self._unacked
        while first < buffer.next and buffer[first].acked:
            first += 1
        self._unacked = first
        other = max(self._unacked_other, first)
        while other < buffer.next:
            copy = buffer[other]
            if not copy.acked and copy.peer is not buffer[first].peer:
                break
            other += 1
        self._unacked_other = other

    def _grant(self) -> None:
        """Transmit the permits that the frontiers now allow, one per peer.

        The frontier towards every peer has passed all messages before the first unacked
        one; towards the target of that one it may be further. A copy is looked at once
        for each of the two reasons.
        """
        buffer = self._buffer
        first = self._unacked
        number = buffer[first].number if first < buffer.next else self._clock + 1
        while buffer.first < first and buffer.peek().number < number:
            copy = buffer.remove()
            if copy.number > copy.peer.granted:
                self._permit(copy.peer)
        if first == buffer.next:
            return
        peer = buffer[first].peer
        frontier = self._frontier(peer)
        index = max(self._granting, buffer.first)
        while index < buffer.next and buffer[index].number <= frontier:
            copy = buffer[index]
            if copy.peer is peer and copy.released and copy.number > peer.granted:
                self._permit(peer)
            index += 1
        self._granting = index

    def _permit(self, peer: Peer) -> None:
        frontier = self._frontier(peer)
        repeat = frontier == peer.granted
        peer.granted = frontier
        self._transmits.append(Transmit(peer.id, Permit(frontier), repeat))

    def _receive_request(self, source: ProcessId, number: int) -> None:
        """Answer a request with all that can be granted, however late it comes.

        What cannot be granted yet needs no note: its permit is still to be transmitted.
        """
        peer = self._peers.get(source)
        if peer is None or not 1 <= number <= peer.released:
            raise PeerError(f"request for message {number}, not released to {source}")
        if number <= self._frontier(peer):
            self._permit(peer)

    # Receiving and permits.

    def _receive_message(self, source: ProcessId, message: Message, now: float) -> None:
        number = message.number
        predecessor = message.predecessor
        if number < 1 or not 0 <= predecessor < number:
            raise PeerError(f"{message} cannot be")
        peer = self._peer_to_hear(source, message)
        if message.permitted:
            self._receive_permit(peer, number, now)
        if number > peer.delivered:
            if predecessor == peer.delivered:
                self._deliver(peer, message, now)
                while peer.delivered in peer.held:
                    self._deliver(peer, peer.held.pop(peer.delivered), now)
            else:
                peer.held[predecessor] = message
        self._transmits.append(Transmit(source, Ack(peer.delivered, number)))

    def _peer_to_hear(self, source: ProcessId, message: Message) -> Peer:
        """Return the source's record, unless the message contradicts what came before."""
        peer = self._peers.get(source)
        if peer is None or not peer.heard:
            if message.predecessor > 0 and self._early_max < 1:
                raise PeerError(f"{message}, and none may wait")
            return self._peer_heard(source)
        if message.number > peer.delivered:
            if message.predecessor < peer.delivered:
                raise PeerError(f"{message}, but {peer.delivered} was delivered between")
            held = peer.held.get(message.predecessor)
            if held is not None and held.number != message.number:
                raise PeerError(f"{message}, but so is {held}")
            if held is None and (
                len(peer.held) >= self._early_max and message.predecessor != peer.delivered
            ):
                raise PeerError(f"{message}, and too many others wait already")
        return peer

    def _deliver(self, peer: Peer, message: Message, now: float) -> None:
        number = message.number
        peer.delivered = number
        if number > peer.permitted:
            self._await_permit(peer, number, now)
        self._deliveries.append(Delivery(peer.id, number, message.payload))

    def _receive_permit(self, peer: Peer, number: int, now: float) -> None:
        if number <= peer.permitted:
            return
        peer.permitted = number
        missing = peer.missing
        if len(missing) == 0 or missing.peek().number > number:
            return
        if not peer.asked:
            peer.request_timer.sample(now - missing.peek().since)
        while len(missing) > 0 and missing.peek().number <= number:
            self._permits.remove(missing.remove())
        if len(missing) > 0:
            peer.asked = False
            peer.request_timer.restart(now)
            self._timers.file(peer.request_timer)
        else:
            peer.request_timer.stop()
        self._release(now)
