"""Whether the frames of a process of ``bounded`` are those that the naive rules demand.

A step must transmit the copies that it releases, the acks, the permits for opaque messages,
and the answers to requests and queries; no more and no less. In addition it may transmit

* notes: what they report must be settled,
* copies again: with the entries and wildcards that are unsettled now,
* queries and permit requests: about what the process waits for; a query may ask for a copy
  again that a held message waits for.

A note must leave within a round trip, unless a message stands for it (rule 6).
"""

from collections import Counter

from antecede.core.codec import Frame
from antecede.core.process import ProcessId, Transmit
from antecede.core.protocols.hybrid.dependency_frames import (
    Notes,
    Query,
    Settled,
    SettledAck,
)
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit, PermitRequest
from tests.core.naive_bounded import NaiveBounded
from tests.core.naive_bounded_records import Content, Copy, Entry, size_of

__all__ = ["Outputs"]

TINY_S = 1e-9


class Outputs:
    """The frames that one process transmits in one step, and the naive process."""

    def __init__(self, naive: NaiveBounded, now: float) -> None:
        self.naive = naive
        self.now = now
        self.released = naive.released
        self.permits = Counter(naive.permits_due)
        self.acks = dict(naive.acks)
        self.acked: dict[int, Ack] = {}
        self.asked = naive.asked
        naive.released = {}
        naive.permits_due = []
        naive.acks = {}
        naive.asked = None

    def check(self, transmits: list[Transmit]) -> None:
        """Check all frames of the step."""
        assert not self.naive.choice.deliveries, f"{self.naive.choice} must wait"
        for transmit in transmits:
            self.check_frame(transmit.target, transmit.frame, transmit.is_retransmission)
        assert not self.released, f"not released: {self.released}"
        assert not self.acks, f"not acked: {self.acks}"
        assert not +self.permits, f"not permitted: {+self.permits}"
        if self.asked is not None:
            self.check_answer(*self.asked, Notes(0, [], [], []))
        self.check_owed()

    def check_frame(self, peer: ProcessId, frame: Frame, is_retransmission: bool) -> None:
        if isinstance(frame, MessageFrame):
            content = Content.of(self.naive.id, frame)
            if is_retransmission:
                self.check_retransmission(peer, content)
            else:
                expected = self.released.pop((peer, content.number), None)
                assert expected is not None, f"{content} to {peer} must wait"
                assert content == expected, f"{content} is not {expected}"
            counted = self.naive.counted(content.listing)
            assert size_of(counted, content.number) <= self.naive.budget_bytes
        elif isinstance(frame, Ack):
            self.check_ack(peer, frame)
        elif isinstance(frame, Permit):
            if self.permits[peer, frame.number] > 0:
                self.permits[peer, frame.number] -= 1
            else:
                self.check_notes(peer, Notes(frame.number, [], [], []))
        elif isinstance(frame, PermitRequest):
            numbers = [n for source, n in self.naive.missing if source == peer]
            assert frame.number == min(numbers)
        elif isinstance(frame, Query):
            self.check_query(peer, frame.notes)
        elif self.asked is not None and is_retransmission:
            assert isinstance(frame, Settled)
            assert peer == self.asked[0]
            self.check_answer(*self.asked, frame.notes)
            self.asked = None
        else:
            assert isinstance(frame, Settled)
            self.check_notes(peer, frame.notes)

    def check_retransmission(self, peer: ProcessId, content: Content) -> None:
        naive = self.naive
        copy = self.find_copy(peer, content.number)
        assert copy.listing is not None, "the retransmission of a queued copy"
        assert not copy.is_acked, "the retransmission of an acked copy"
        expected = naive.content(copy)
        unsure = {kept.entry for kept in naive.entries if kept.may_be_settled}
        if not content.listing.inherited & unsure:
            left = expected.listing.inherited - unsure
            expected = expected._replace(listing=expected.listing._replace(inherited=left))
        assert content == expected, f"{content} is not {expected}"
        copy.is_retransmitted = True
        copy.transmitted_at = self.now
        naive.note_grant(copy)

    def find_copy(self, peer: ProcessId, number: int) -> Copy:
        (found,) = [
            copy
            for copy in self.naive.copies
            if (copy.target, copy.number) == (peer, number)
        ]
        return found

    def check_ack(self, peer: ProcessId, ack: Ack) -> None:
        expected = self.acks.get(peer) or self.acked.get(peer)
        assert expected is not None, f"{ack} to {peer} acks nothing"
        if (ack.delivered, ack.arrived) == (expected.delivered, expected.arrived):
            self.acked[peer] = expected
            self.acks.pop(peer, None)
        else:  # A message that was delivered in this step, before another one.
            assert ack.arrived == ack.delivered <= self.naive.delivered[peer]
        if isinstance(ack, SettledAck):
            self.check_notes(peer, ack.notes)

    # Notes and queries (rules 6 to 8).

    def check_notes(self, peer: ProcessId, notes: Notes) -> None:
        naive = self.naive
        facts = [Entry(naive.id, each.target, each.number) for each in notes.targets]
        facts += [Entry(e.source, e.target, e.number) for e in notes.entries]
        for fact in facts:
            # A process that is gone does not use it.
            is_allowed = naive.is_settled(fact) or peer in naive.gone
            assert is_allowed, f"{fact} is not settled"
        if notes.number > 0:
            assert notes.number <= naive.frontier(peer), "a permit above the frontier"
            granted = naive.granted.get(peer, 0)
            naive.granted[peer] = max(granted, notes.number)
        for each in notes.wildcards:
            self.check_clear(peer, each.target, each.number)
        for to, entry in list(naive.owed):
            is_told = any(
                fact[:2] == entry[:2] and fact.number >= entry.number for fact in facts
            )
            if to == peer and is_told:
                del naive.owed[to, entry]
        for sent in list(naive.owed_clears):
            if sent.peer == peer and any(
                each.target == sent.target and each.number >= sent.number
                for each in notes.wildcards
            ):
                del naive.owed_clears[sent]

    def check_owed(self) -> None:
        """Check that no note is later than a round trip, unless a permit stands for it.

        Before the first sample of a round trip, a note may leave later at the same time.
        """
        naive = self.naive
        limit = min(self.now - naive.longest_round_trip_s, self.now - TINY_S)
        for (peer, entry), since in naive.owed.items():
            is_permitted = entry.source == naive.id and entry.number <= naive.granted.get(
                peer, 0
            )
            assert since > limit or is_permitted, f"{peer} has no note on {entry}"
        for sent, since in naive.owed_clears.items():
            assert since > limit, f"{sent} is not cleared"

    def check_clear(self, peer: ProcessId, target: int, number: int) -> None:
        naive = self.naive
        open_ = [s for s in naive.sent_wildcards if (s.peer, s.target) == (peer, target)]
        assert all(sent.number > number for sent in open_), "a clear of an open wildcard"
        released = [
            copy.number
            for copy in naive.copies
            if copy.target == peer and copy.listing is not None
        ]
        assert number <= max(released), "a clear of a queued message"

    def check_answer(self, peer: ProcessId, question: Notes, answer: Notes) -> None:
        naive = self.naive
        has = {kept.entry for kept in naive.entries}
        own = [Entry(naive.id, each.target, each.number) for each in question.targets]
        asked = [Entry(e.source, e.target, e.number) for e in question.entries]
        assert {(each.target, each.number) for each in answer.targets} == {
            (entry.target, entry.number) for entry in own if naive.is_settled(entry)
        }
        assert {(e.source, e.target, e.number) for e in answer.entries} == {
            entry
            for entry in asked
            if (naive.is_settled(entry) if entry.target == naive.id else entry not in has)
        }
        cleared = {each.target: each.number for each in answer.wildcards}
        for each in question.wildcards:
            is_open = any(
                (sent.peer, sent.target) == (peer, each.target)
                and sent.number <= each.number
                for sent in naive.sent_wildcards
            )
            assert (each.target in cleared) == (not is_open)
            assert is_open or cleared[each.target] >= each.number
        for target, number in cleared.items():
            self.check_clear(peer, target, number)
        assert answer.number == 0

    def check_query(self, peer: ProcessId, question: Notes) -> None:
        naive = self.naive
        asked = {Entry(peer, each.target, each.number) for each in question.targets}
        asked |= {Entry(e.source, e.target, e.number) for e in question.entries}
        assert asked <= {
            k.entry
            for k in naive.entries
            if peer in (k.reporters[0], k.entry.source, k.entry.target)
        }
        assert {(each.target, each.number) for each in question.wildcards} <= {
            (kept.target, kept.number) for kept in naive.wildcards if kept.reporter == peer
        }
        assert question.number == 0 or question.number in naive.awaited(peer)
