"""A naive implementation of the rules of docs/explanation/bounded.md.

Only the frames are shared with the protocol. There are no indexes: every step scans all
copies, entries and wildcards. The methods have the numbers of the rules in their comments.

The rules leave some choices to a process. :class:`Choice` tells the naive process what the
other one has chosen, and the naive process checks that the rules allow it:

* the order in which messages of *different* sources are delivered in one step,
* new wildcards (rule 3).

Further choices are checked by :mod:`tests.core.naive_bounded_outputs`: when notes leave and
in how many frames, when to retransmit, and when to ask.

Rule 1 allows to replace entries by higher ones. The naive process never does, because a
replaced entry must not be missed. It marks the entries that may have been replaced.
"""

from collections.abc import Sequence

from antecede.core.codec import Frame
from antecede.core.process import ProcessId
from antecede.core.protocols.hybrid.dependency_frames import (
    Notes,
    Query,
    Settled,
    SettledAck,
)
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit, PermitRequest
from tests.core.naive_bounded_records import Content, Copy, Entry, Kept, KeptWildcard
from tests.core.naive_bounded_rules import NaiveRules

__all__ = ["NaiveBounded"]

GAIN = 0.125
"""The weight of a sample in the smoothed round trip."""


class NaiveBounded(NaiveRules):
    """A process of the naive rules."""

    # Delivery (rules 1, 4 and 5).

    def held(self) -> list[tuple[int, Content]]:
        """Return the messages that have arrived and are not delivered."""
        return [
            (source, message)
            for source, messages in self.arrived.items()
            for message in messages.values()
            if message.number > self.delivered.get(source, 0)
        ]

    def awaited(self, source: int) -> set[int]:
        """Return the copies of a process that held messages wait for."""
        delivered = self.delivered.get(source, 0)
        numbers = {
            message.predecessor for sender, message in self.held() if sender == source
        }
        numbers |= {
            entry.number
            for _, message in self.held()
            for entry in message.listing.inherited
            if entry.source == source and entry.target == self.id
        }
        return {number for number in numbers if number > delivered}

    def may_deliver(self, source: int, message: Content) -> bool:
        return message.predecessor == self.delivered.get(source, 0) and all(
            self.is_settled(entry)
            for entry in message.listing.inherited
            if entry.target == self.id
        )

    def deliver(self, now: float) -> None:
        """Deliver all messages that need not wait, in the order that was chosen."""
        while self.choice.deliveries:
            source, number = self.choice.deliveries[0]
            message = self.arrived.get(source, {}).get(number)
            if message is None or not self.may_deliver(source, message):
                break  # Perhaps later in this step, else it must wait.
            del self.choice.deliveries[0]
            self.deliver_message(source, message, now)
        for source, message in self.held():
            assert not self.may_deliver(source, message), f"{source}:{message} may not wait"

    def deliver_message(self, source: int, message: Content, now: float) -> None:
        self.deliveries += 1
        self.delivered[source] = message.number
        listing = message.listing
        self.use_absence(source, message)
        self.remove_settled(now)
        self.use_absence_of_wildcards(source, message)
        self.remove_settled(now)
        for entry in listing.own | listing.inherited:
            self.add_entry(source, entry, now)
        for target in listing.wildcards:
            if message.number > self.cleared.get((source, target), 0):
                self.wildcards.append(
                    KeptWildcard(target, source, message.number, self.deliveries)
                )
        if message.is_opaque and message.number > self.permits.get(source, 0):
            self.missing.append((source, message.number))

    def use_absence(self, source: int, message: Content) -> None:
        listing = message.listing
        listed = {(e.source, e.target) for e in listing.own | listing.inherited}
        for kept in self.entries:
            entry = kept.entry
            if (
                kept.reporters[0] != source
                or (entry.source, entry.target) in listed
                or entry.target in listing.wildcards
                or (entry.source == source and message.is_opaque)
                or self.has_reported(source, entry.target, entry.source)
            ):
                continue
            if kept.is_replaceable:
                kept.may_be_settled = True
            else:
                self.learn(entry)

    def use_absence_of_wildcards(self, source: int, message: Content) -> None:
        listing = message.listing
        listed = {entry.target for entry in listing.own | listing.inherited}
        if not message.is_opaque:
            self.wildcards = [
                each
                for each in self.wildcards
                if each.reporter != source
                or each.target in listed | listing.wildcards
                or self.has_reported(source, each.target)
            ]

    def add_entry(self, reporter: int, entry: Entry, now: float) -> None:  # Rule 1.
        if self.id in (entry.source, entry.target) or self.is_settled(entry):
            return
        pair = entry.source, entry.target
        same = [k for k in self.entries if (k.entry.source, k.entry.target) == pair]
        if any(kept.entry == entry for kept in same):
            for kept in same:
                if kept.entry == entry and reporter not in kept.reporters:
                    kept.reporters.append(reporter)
            return
        if any(kept.entry.number > entry.number for kept in same):
            return
        if same:
            last = max(same, key=lambda kept: kept.entry.number)
            last.is_replaceable = self.may_replace(last)
        self.entries.append(Kept(entry, self.deliveries, now, [reporter]))

    def may_replace(self, last: Kept) -> bool:
        source, target, _ = last.entry
        return not (
            any((e.source, e.target) == (source, target) for _, e in self.reported)
            or any(
                copy.is_queued and copy.sent_at >= last.delivered_at for copy in self.copies
            )
            or any(
                sent.target == target and sent.sent_at >= last.delivered_at
                for sent in self.sent_wildcards
            )
        )

    # Inputs.

    def send(self, targets: Sequence[ProcessId], payload: bytes, now: float) -> int:
        self.last_number += 1
        for target in dict.fromkeys(targets):
            if target != self.id:
                earlier = [
                    c.number for c in self.copies if c.target == target and c.is_in_channel
                ]
                self.copies.append(
                    Copy(
                        target,
                        self.last_number,
                        max(earlier, default=0),
                        payload,
                        self.deliveries,
                        list(self.missing),
                    )
                )
        self.release(now)
        return self.last_number

    def handle_timer(self, now: float) -> None:
        self.release(now)

    def next_timer(self) -> float | None:
        return None

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        if isinstance(frame, MessageFrame):
            self.receive_message(source, frame, now)
        elif isinstance(frame, Ack):
            self.receive_ack(source, frame, now)
            if isinstance(frame, SettledAck):
                self.receive_notes(source, frame.notes, now)
        elif isinstance(frame, Permit):
            self.receive_permit(source, frame.number, now)
        elif isinstance(frame, PermitRequest):
            frontier = self.frontier(source)
            if frame.number <= frontier:
                self.granted[source] = frontier
                self.permits_due.append((source, frontier))
        elif isinstance(frame, Settled):
            self.receive_notes(source, frame.notes, now)
        else:
            assert isinstance(frame, Query)
            self.asked = source, frame.notes

    def receive_message(self, source: ProcessId, frame: MessageFrame, now: float) -> None:
        message = Content.of(source, frame)
        if message.permitted:
            self.receive_permit(source, message.number, now)
        before = dict(self.delivered)
        self.arrived.setdefault(source, {})[message.number] = message
        self.deliver(now)
        self.release(now)
        for peer, last in self.delivered.items():
            if last > before.get(peer, 0):
                self.acks[peer] = Ack(last, last)
        self.acks[source] = Ack(self.delivered.get(source, 0), message.number)

    def receive_ack(self, source: ProcessId, ack: Ack, now: float) -> None:
        for copy in self.copies:
            if copy.target == source and copy.number == ack.arrived:
                if not (copy.is_acked or copy.has_arrived or copy.is_retransmitted):
                    self.sample(now - copy.transmitted_at)
                copy.has_arrived = True
        for copy in self.unacked(source, ack.delivered):
            assert copy.listing is not None, "the ack of a queued copy"
            copy.is_acked = True
            for entry in copy.listing.inherited:
                if entry.target == source:
                    self.learn(entry)
        self.remove_settled(now)
        self.grant()
        self.release(now)

    def sample(self, round_trip_s: float) -> None:
        if self.round_trip_s == 0:
            self.round_trip_s = round_trip_s
        else:
            self.round_trip_s += GAIN * (round_trip_s - self.round_trip_s)
        self.longest_round_trip_s = max(self.longest_round_trip_s, self.round_trip_s)

    def receive_notes(self, source: ProcessId, notes: Notes, now: float) -> None:
        if notes.number > 0:
            self.receive_permit(source, notes.number, now)
        for each in notes.targets:
            self.learn(Entry(source, each.target, each.number))
        for each in notes.entries:
            self.learn(Entry(each.source, each.target, each.number))
        for each in notes.wildcards:
            key = source, each.target
            self.cleared[key] = max(self.cleared.get(key, 0), each.number)
        self.wildcards = [
            kept
            for kept in self.wildcards
            if kept.number > self.cleared.get((kept.reporter, kept.target), 0)
        ]
        self.remove_settled(now)
        self.release(now)
