"""Notes and queries of ``bounded``: the frames that report which entries are settled."""

from antecede.core.codec import Frame
from antecede.core.process import NEVER, ProcessId, Transmit
from antecede.core.protocols.hybrid.algorithm import HybridAlgorithm
from antecede.core.protocols.hybrid.dependency_frames import (
    Notes,
    Query,
    Settled,
)
from antecede.core.protocols.hybrid.frames import Permit
from antecede.core.protocols.hybrid.ledger import Ledger
from antecede.core.protocols.hybrid.queries import answer, due_queries
from antecede.core.protocols.hybrid.received_entries import awaited
from antecede.core.support.retransmission import RetransmissionTimer
from antecede.errors import PeerError

__all__ = ["NoteExchange"]


class NoteExchange:
    """The notes and queries of one process."""

    __slots__ = ("_algorithm", "_ledger")

    def __init__(self, algorithm: HybridAlgorithm, ledger: Ledger) -> None:
        self._algorithm = algorithm
        self._ledger = ledger

    def hear(self, source: ProcessId, now: float) -> None:
        """Record that a frame of a peer has arrived; its held messages are valid again."""
        ledger = self._ledger
        if ledger.hold_s == NEVER:
            return
        was_silent = ledger.is_silent(source, now)
        ledger.peer(source).heard_at = now
        peer = self._algorithm.state.peers.get(source)
        if was_silent and peer is not None and peer.is_receiving and peer.held:
            self._algorithm.deliver_ready(ledger, [peer], None, now)
            if ledger.copies.is_check_due:
                self._algorithm.release(now)

    def receive(self, source: ProcessId, frame: Frame, now: float) -> bool:
        """Process a frame of notes or a query; return False for any other frame."""
        if isinstance(frame, Settled):
            self.receive_notes(source, frame.notes, now)
        elif isinstance(frame, Query):
            if frame.notes.number > 0:
                self._retransmit(source, frame.notes.number, now)
            found = answer(self._ledger, source, frame.notes)
            if found is not None:
                self._algorithm.transmits.append(Transmit(source, Settled(found), True))
        else:
            return False
        return True

    def _retransmit(self, source: ProcessId, number: int, now: float) -> None:
        """Retransmit the copies up to ``number`` that a peer misses.

        Copies that were transmitted less than a round trip ago may still arrive.
        """
        state = self._algorithm.state
        if number > state.clock:
            raise PeerError(f"invalid query of {source}: message {number} was not sent")
        peer = state.peers.get(source)
        if peer is None or peer.sent == 0:
            return
        round_trip_s = self._ledger.notes.round_trip_s
        in_flight = peer.in_flight
        for index in range(in_flight.first, in_flight.first + peer.transmitted):
            copy = in_flight[index]
            if copy.number > number:
                break
            if not copy.arrived and copy.transmitted_at + round_trip_s <= now:
                copy.retransmitted = True
                self._algorithm.transmit(copy, now)

    def receive_notes(self, source: ProcessId, notes: Notes, now: float) -> None:
        """Use a permit and the settled entries that a peer reports."""
        algorithm = self._algorithm
        ledger = self._ledger
        if notes.number > 0:
            peer = algorithm.state.receiving_peer(source)
            algorithm.receive_permit(peer, notes.number, now)
        for entry in notes.targets:
            ledger.mark_settled(
                ledger.channels.source_of(source), entry.target, entry.number, now
            )
        for entry in notes.entries:
            ledger.mark_settled(entry.source, entry.target, entry.number, now)
        for entry in notes.wildcards:
            ledger.clear(ledger.peer(source), entry.target, entry.number, now)
        if ledger.copies.is_check_due:
            algorithm.release(now)

    def send(self, now: float) -> None:
        """Transmit the notes that are due in frames of their own."""
        algorithm = self._algorithm
        queue = self._ledger.notes
        part = queue.next_peer(now) if queue.due < NEVER else None
        while part is not None:
            peer = algorithm.state.peer(part.id)
            frontier = algorithm.rule.frontier(algorithm.state, peer)
            notes = self._ledger.take_notes(peer, frontier)
            if notes is not None and (notes.targets or notes.entries or notes.wildcards):
                algorithm.transmits.append(Transmit(part.id, Settled(notes)))
            elif notes is not None:
                algorithm.transmits.append(Transmit(part.id, Permit(notes.number)))
            part = queue.next_peer(now)

    def handle_timer(self, timer: RetransmissionTimer, now: float) -> bool:
        """Transmit the queries that are due; return False for a timer of another kind."""
        part = self._ledger.peers.get(timer.owner)
        if part is None or timer is not part.query_timer:
            return False
        for asked, question in due_queries(self._ledger, part, now).items():
            self._algorithm.transmits.append(Transmit(asked, Query(question)))
        return True

    def retry(self, now: float) -> None:
        """Examine the queued copies again if more wildcards may be drawn by now."""
        ledger = self._ledger
        copies = ledger.copies
        if copies.retry_at <= now:
            copies.retry_at = NEVER
            copies.check_all()
            self._algorithm.release(now)

    def request_missing(self, now: float) -> None:
        """Ask for the copies that held messages wait for, if they should have arrived."""
        ledger = self._ledger
        if ledger.repairs.due <= now:
            for sender in ledger.repairs.take_due(now, ledger.patience_s()):
                number = awaited(ledger, sender)
                if number > 0:
                    question = Query(Notes(number, [], [], []))
                    self._algorithm.transmits.append(Transmit(sender, question))
                else:
                    ledger.repairs.forget(sender)

    def next_timer(self) -> float:
        """Return when notes, a retry or a request for a copy are due."""
        ledger = self._ledger
        due = min(ledger.notes.due, ledger.copies.retry_at)  # min() of three is slow.
        return min(due, ledger.repairs.due)
