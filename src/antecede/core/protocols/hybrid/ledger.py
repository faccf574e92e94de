"""The ledger of ``bounded``: what a process knows of undelivered copies in its past.

:mod:`antecede.core.protocols.hybrid.bounded` has the rules.
"""

from antecede.core.codec import varint_width
from antecede.core.dependencies import EntryChange
from antecede.core.process import NEVER, NO_PROCESS, UNBOUNDED, ProcessId
from antecede.core.protocols.hybrid.channels import Channels
from antecede.core.protocols.hybrid.copy_queue import CopyQueue
from antecede.core.protocols.hybrid.dependency_frames import DependentMessage, Notes
from antecede.core.protocols.hybrid.entry import Entry
from antecede.core.protocols.hybrid.frames import MessageFrame
from antecede.core.protocols.hybrid.note_queue import NoteQueue
from antecede.core.protocols.hybrid.pair_table import Pair, PairTable, Unsettled
from antecede.core.protocols.hybrid.peer import Copy, PeerState
from antecede.core.protocols.hybrid.peer_ledger import DependentCopy, PeerLedger
from antecede.core.protocols.hybrid.repairs import RepairQueue
from antecede.core.protocols.hybrid.state import HybridState
from antecede.core.protocols.hybrid.wildcards import SentWildcard, Wildcard, WildcardTable
from antecede.core.support.retransmission import RetransmissionTimer

__all__ = ["Ledger"]


class Ledger:
    """The unsettled entries of one process, and the peers to which it has reported them."""

    __slots__ = (
        "changes",
        "channels",
        "copies",
        "floors",
        "has_budget",
        "hold_s",
        "id",
        "notes",
        "open",
        "peers",
        "position",
        "repairs",
        "restored_number",
        "restored_position",
        "state",
        "table",
        "unacked",
        "unacked_copies",
        "waiting",
        "wildcards",
    )

    table: PairTable
    wildcards: WildcardTable
    notes: NoteQueue
    open: dict[Pair, None]
    """The pairs with unsettled entries, in the order of the first of these."""
    peers: dict[int, PeerLedger]
    position: int
    """The number of deliveries with entries."""
    repairs: RepairQueue
    """The copies that held messages wait for."""
    copies: CopyQueue
    """The queued copies."""
    unacked: dict[int, PeerState]
    """The peers with unacked copies, by target."""
    unacked_copies: int
    """The number of these copies."""

    has_budget: bool
    """Whether a message has room for an entry."""
    hold_s: float
    """A message that is held is not delivered while its sender is silent for longer."""
    changes: list[EntryChange] | None
    """The entries that were added and removed, if a driver records them."""
    restored_position: int
    """Entries and wildcards before it are from a journal, which has no reported numbers."""
    restored_number: int
    """Copies up to it may have been transmitted before the process was restored."""
    channels: Channels

    def __init__(self, id: ProcessId, state: HybridState, has_budget: bool) -> None:
        self.id = id
        self.state = state
        self.waiting: dict[int, dict[int, int]] = {}  # By source: peer, number.
        self.floors: dict[int, int] = {}  # Delivered or given up, before a reset.
        self.table = PairTable()
        self.wildcards = WildcardTable()
        self.notes = NoteQueue(id)
        self.open = {}
        self.peers = {}
        self.channels = Channels(self.peers, state)
        self.position = 0
        self.repairs = RepairQueue()
        self.copies = CopyQueue()
        self.has_budget = has_budget
        self.hold_s = NEVER
        self.changes = None
        self.restored_position = 0
        self.restored_number = 0
        self.unacked = {}
        self.unacked_copies = 0

    def peer(self, id: ProcessId) -> PeerLedger:
        """Return the part of a peer; create it if there is none."""
        peer = self.peers.get(id)
        if peer is None:
            timer = RetransmissionTimer(self.state.permit_rtt, id)
            peer = PeerLedger(id, timer)
            self.peers[id] = peer
        return peer

    def identify(self, id: ProcessId, source: int, target: int) -> None:
        """Set the ids that entries use for a peer."""
        self.channels.identify(self.peer(id), source, target)

    # Sending.

    def enqueue(
        self,
        peer: PeerState,
        number: int,
        permits_before: int,
        payload: bytes,
    ) -> Copy:
        """Make a copy and append it to the queue of its target."""
        position = self.position
        copy = DependentCopy(peer, number, peer.sent, permits_before, payload, position)
        self.add_copy(copy)
        return copy

    def add_copy(self, copy: DependentCopy) -> None:
        """Append a copy to the queue of its target."""
        peer = copy.peer
        part = self.peer(peer.id)
        self.copies.add(part, copy)
        self.unacked[part.target] = peer
        self.unacked_copies += 1

    def last_unacked(self, peer: PeerState, number: int) -> int:
        """Return the last unacked copy to ``peer`` numbered up to ``number``, or 0."""
        if peer.sent <= number:
            return peer.sent
        found = self.peers[peer.id].last_queued(number)
        return found if found > 0 else peer.last_in_flight(number)

    def first_unacked(self, peer: PeerState) -> int:
        """Return the first unacked copy to ``peer``, or UNBOUNDED."""
        if len(peer.in_flight) > 0:
            return peer.in_flight.peek().number
        queue = self.peers[peer.id].queue
        return queue.peek().number if len(queue) > 0 else UNBOUNDED

    def last_released(self, id: ProcessId) -> int:
        """Return the last copy to a peer that was released, or 0."""
        part = self.peers.get(id)
        if part is not None and len(part.queue) > 0:
            return part.queue.peek().predecessor
        peer = self.state.peers.get(id)
        return peer.sent if peer is not None else 0

    def report(self, part: PeerLedger, copy: DependentCopy) -> None:
        """Record the entries of a released copy as reported to its target."""
        if part.pending_pairs:
            self.notes.drop_implied(part, copy)
        target = part.id
        for entry in copy.own:
            self.table.pair(self.id, entry.target).report(target, entry.number)
        for entry in copy.inherited:
            if entry.target != part.target:
                self.table.pair(entry.source, entry.target).report(target, entry.number)
        for wildcard in copy.wildcards:
            peer = self.unacked.get(wildcard)
            last = self.last_unacked(peer, copy.number) if peer is not None else 0
            sent = SentWildcard(copy.position, copy.number, target, last)
            self.wildcards.add_sent(wildcard, sent)
            self.record_change(True, Entry(self.id, wildcard, copy.number), target)

    def frame(self, copy: DependentCopy, permitted: bool) -> MessageFrame:
        """Return the frame of a copy, with its entries that are still unsettled."""
        predecessor = copy.predecessor
        number = copy.number
        own = copy.own
        inherited = copy.inherited
        wildcards = copy.wildcards
        if own:
            own = [] if permitted else [e for e in own if self.is_unacked(e)]
        if inherited:
            inherited = [e for e in inherited if not self.is_settled(e)]
        if wildcards:
            target = copy.peer.id
            table = self.wildcards
            wildcards = [w for w in wildcards if table.first_sent(w, target) <= number]
        if not own and not inherited and not wildcards:
            return MessageFrame(number, predecessor, permitted, copy.payload)
        is_opaque = not permitted and copy.needs_permit
        return DependentMessage(
            number,
            predecessor,
            permitted,
            is_opaque,
            own,
            inherited,
            wildcards,
            copy.payload,
        )

    def is_unacked(self, entry: Entry) -> bool:
        """Return whether an own entry is not settled."""
        peer = self.unacked.get(entry.target)
        return peer is not None and self.first_unacked(peer) <= entry.number

    def is_settled(self, entry: Entry) -> bool:
        """Return whether an inherited entry that this process has reported is settled."""
        pair = self.table.find(entry.source, entry.target)
        return pair is None or entry.number <= pair.settled

    def delivered(self, source: int) -> int:
        """Return the last number that was delivered from a source, or given up."""
        if source in self.channels.ended:
            return UNBOUNDED
        peer = self.state.peers.get(self.channels.find(source))
        delivered = peer.delivered if peer is not None else 0
        return max(delivered, self.floors.get(source, 0))

    def is_in_flight(self, target: int) -> bool:
        """Return whether copies to a target are in flight, perhaps with entries for it."""
        peer = self.unacked.get(target)
        return peer is not None and len(peer.in_flight) > 0

    def expect(self, sender: ProcessId, number: int, now: float) -> None:
        """Ask a process for its copies up to ``number`` if they do not arrive soon."""
        if self.has_budget:
            self.repairs.expect(sender, number, now + self.patience_s())

    def patience_s(self) -> float:
        """Return how long a copy may take: the smoothed round trip, if it is known."""
        round_trip_s = self.notes.round_trip_s
        return round_trip_s if round_trip_s > 0 else self.state.ack_rtt.first_s

    def barrier(self, target: int) -> int:
        """Return the last position of a queued copy or of a wildcard sent for a target."""
        return max(self.copies.last_position, self.wildcards.last_sent_position(target))

    def is_silent(self, id: ProcessId, now: float) -> bool:
        """Return whether a peer was silent for so long that its messages may be void."""
        return self.hold_s < NEVER and now - self.peer(id).heard_at > self.hold_s

    def schedule_query(self, part: PeerLedger, next_ask: float) -> None:
        """Let the query timer of a peer expire at ``next_ask`` or earlier."""
        timer = part.query_timer
        if next_ask < timer.deadline:
            timer.deadline = next_ask
            self.state.timers.schedule(timer)

    def take_notes(self, peer: PeerState, frontier: int) -> Notes | None:
        """Remove and return notes to a peer, with a permit where that is shorter."""
        notes = self.notes.take(self.peer(peer.id), frontier, peer.granted)
        if notes is not None and notes.number > 0:
            peer.granted = frontier
        return notes

    def sample_round_trip(
        self, peer: PeerState, copy: Copy, is_held: bool, now: float
    ) -> None:
        """Use the round trip of a copy that has arrived."""
        self.notes.sample(now - copy.transmitted_at)
        if is_held and self.has_budget:
            # The peer holds the copy, which no retransmission helps. Other copies to it may
            # be lost: do not let them wait for the timeout that has doubled meanwhile.
            self.state.restart(peer.transmit_timer, now)

    # Settling.

    def copy_acked(self, copy: DependentCopy, now: float) -> None:
        """Use the ack of a copy: its target has delivered the entries for itself."""
        self.unacked_copies -= 1
        if copy.inherited:
            target = self.peers[copy.peer.id].target
            for entry in copy.inherited:
                if entry.target == target:
                    self.mark_settled(entry.source, target, entry.number, now)
            copy.inherited = []
        copy.own = []

    def mark_own_settled(self, peer: PeerState, now: float) -> None:
        """Use the acks of a peer: own copies to it are settled."""
        target = self.channels.target_of(peer.id)
        if peer.backlog == 0 and self.unacked.get(target) is peer:
            del self.unacked[target]
        if self.copies.queued:  # Own entries take less room now.
            self.copies.free(varint_width(target) + varint_width(self.state.clock))
        self.state.compact(self.unacked_copies)
        self.mark_settled(self.id, target, peer.acked, now)
        self._clear_sent(target, now)

    def mark_settled(self, source: int, target: int, number: int, now: float) -> None:
        """Use the fact that the copies of a pair up to ``number`` are settled."""
        pair = self.table.find(source, target)
        if pair is None:
            if source != self.id and target != self.id:
                self.table.remember(source, target, number)
        elif number > pair.settled:
            self.mark_pair_settled(pair, number, now)

    def mark_source_settled(self, source: int, number: int, now: float) -> None:
        """Use the fact that all copies of a source up to ``number`` are settled."""
        targets = self.table.sources.get(source)
        if targets is not None:
            for pair in list(targets.values()):
                if number > pair.settled:
                    self.mark_pair_settled(pair, number, now)

    def mark_pair_settled(self, pair: Pair, number: int, now: float) -> None:
        """Remove the settled entries of a pair, and add the notes that follow."""
        pair.settled = number
        unsettled = pair.unsettled
        if unsettled and unsettled[0].entry.number <= number:
            self.table.settled_at[pair.target] = now
            size = 0
            while unsettled and unsettled[0].entry.number <= number:
                size = max(size, unsettled[0].entry.size)
                self._close(unsettled.pop(0), now)
            self.copies.free(size)
            if not unsettled:
                del self.open[pair]
            self._clear_sent(pair.target, now)
        if pair.reported:
            for id, numbers in list(pair.reported.items()):  # noqa: A001
                last = 0
                while numbers and numbers[0] <= number:
                    last = numbers.pop(0)
                if not numbers:
                    del pair.reported[id]
                if last > 0:
                    self.notes.add_pair(self.peer(ProcessId(id)), pair, last, now)
        if not unsettled and not pair.reported:
            self.table.discard(pair)
            if pair.source != self.id:
                self.table.remember(pair.source, pair.target, number)

    def _close(self, unsettled: Unsettled, now: float) -> None:
        self.record_change(False, unsettled.entry, unsettled.reporter)
        if unsettled.asked == 0 and not unsettled.is_reporter_gone:
            self.peers[unsettled.answerer].query_timer.sample(now - unsettled.since)
        self.detach(unsettled)

    def detach(self, unsettled: Unsettled) -> None:
        """Stop asking about an entry."""
        if unsettled.answerer != NO_PROCESS:
            part = self.peers[unsettled.answerer]
            del part.unsettled[unsettled]
            if not part.unsettled and not part.received:
                part.query_timer.stop()

    def record_change(self, is_added: bool, entry: Entry, reporter: int) -> None:
        """Record that an entry was added or removed; a wildcard has no source."""
        if self.changes is not None:
            id = ProcessId(reporter)  # noqa: A001 (the word for it)
            self.changes.append((is_added, entry.source, entry.target, entry.number, id))

    def clear(self, part: PeerLedger, target: int, number: int, now: float) -> None:
        """Use the fact that a wildcard of a peer's messages up to ``number`` is settled."""
        for wildcard in list(part.received):
            if wildcard.target == target and wildcard.number <= number:
                self.remove_wildcard(part, wildcard, now)
        delivered = self.state.receiving_peer(part.id).delivered
        if number > max(delivered, part.cleared.get(target, 0)):
            part.cleared[target] = number

    def remove_wildcard(self, part: PeerLedger, wildcard: Wildcard, now: float) -> None:
        """Remove a wildcard that is settled."""
        self.copies.check_all()
        entry = Entry(NO_PROCESS, wildcard.target, wildcard.number)
        self.record_change(False, entry, wildcard.reporter)
        self.wildcards.remove(wildcard)
        del part.received[wildcard]
        if not part.unsettled and not part.received:
            part.query_timer.stop()
        self._clear_sent(wildcard.target, now)

    def _clear_sent(self, target: int, now: float) -> None:
        wildcards = self.wildcards
        if target in wildcards.sent:
            first = min(self.table.first_position(target), wildcards.first_position(target))
            peer = self.unacked.get(target)
            acked = UNBOUNDED
            if peer is not None:
                acked = self.first_unacked(peer) - 1
            for sent in wildcards.take_cleared(target, first, acked):
                self.record_change(False, Entry(self.id, target, sent.number), sent.peer)
                part = self.peers.get(sent.peer)
                if part is not None:  # A peer that was forgotten may ask.
                    self.notes.add_clear(part, target, sent.number, now)
