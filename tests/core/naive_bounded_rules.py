"""The naive rules of ``bounded`` for what is settled, for releases and for permits.

:mod:`tests.core.naive_bounded` has the rules for deliveries, and explains the whole.
"""

from dataclasses import dataclass, field

from antecede.core.process import ProcessId
from antecede.core.protocols.hybrid.dependency_frames import Notes
from antecede.core.protocols.hybrid.frames import Ack
from tests.core.naive_bounded_records import (
    Content,
    Copy,
    Entry,
    Kept,
    KeptWildcard,
    Listing,
    SentWildcard,
    size_of,
)

__all__ = ["Choice", "NaiveRules"]

WILDCARD_ROUND_TRIPS = 4


@dataclass
class Choice:
    """What the other process has chosen in this step."""

    deliveries: list[tuple[int, int]] = field(default_factory=list)
    """Source and number of the messages that it delivered, in order."""
    listings: dict[tuple[int, int], Listing] = field(default_factory=dict)
    """By target and number, what the copies list that it released."""


class NaiveRules:
    """The state of a process of the naive rules, and the rules that read it."""

    def __init__(self, id: ProcessId, budget_bytes: int) -> None:
        self.id = id
        self.budget_bytes = budget_bytes
        self.choice = Choice()
        # As a sender.
        self.last_number = 0
        self.copies: list[Copy] = []
        self.granted: dict[int, int] = {}  # The highest permit of each peer.
        self.reported: list[tuple[int, Entry]] = []  # Unsettled, with the peer.
        self.sent_wildcards: list[SentWildcard] = []  # Not cleared.
        self.round_trip_s = 0.0  # Smoothed, of all peers; 0 before the first sample.
        self.longest_round_trip_s = 0.0
        # As a target.
        self.arrived: dict[int, dict[int, Content]] = {}  # The last version of each.
        self.delivered: dict[int, int] = {}  # The last number of each source.
        self.deliveries = 0
        self.entries: list[Kept] = []
        self.wildcards: list[KeptWildcard] = []
        self.missing: list[tuple[int, int]] = []  # Source and number of opaque messages.
        # Facts.
        self.settled: dict[tuple[int, int], int] = {}  # By source and target.
        self.permits: dict[int, int] = {}  # The highest permit from each source.
        self.cleared: dict[tuple[int, int], int] = {}  # By reporter and target.
        # Removal of a peer.
        self.floors: dict[int, int] = {}  # What was delivered before a reset.
        self.gone: set[int] = set()  # Processes that have stopped or left.
        # Notes that are due, with the time of the fact.
        self.owed: dict[tuple[int, Entry], float] = {}
        self.owed_clears: dict[SentWildcard, float] = {}
        # What this step must transmit.
        self.released: dict[tuple[int, int], Content] = {}  # By target and number.
        self.acks: dict[int, Ack] = {}
        self.permits_due: list[tuple[int, int]] = []  # Peer and number.
        self.asked: tuple[ProcessId, Notes] | None = None

    # What is settled (rules 5 and 8).

    def unacked(self, target: int, number: int) -> list[Copy]:
        """Return the unacked copies to a target up to a number."""
        return [
            copy
            for copy in self.copies
            if copy.target == target and copy.number <= number and not copy.is_acked
        ]

    def is_settled(self, entry: Entry) -> bool:
        if entry.source == self.id:
            return not self.unacked(entry.target, entry.number)
        if entry.source in self.gone:
            return True
        if entry.target == self.id:
            delivered = self.delivered.get(entry.source, 0)
            return entry.number <= max(delivered, self.floors.get(entry.source, 0))
        pair = entry.source, entry.target
        known = max(self.settled.get(pair, 0), self.permits.get(entry.source, 0))
        return entry.number <= known

    def learn(self, entry: Entry) -> None:
        """Use the fact that an entry is settled."""
        pair = entry.source, entry.target
        self.settled[pair] = max(self.settled.get(pair, 0), entry.number)

    def is_cleared(self, sent: SentWildcard) -> bool:  # Rule 7.
        return (
            not any(
                kept.entry.target == sent.target and kept.delivered_at <= sent.sent_at
                for kept in self.entries
            )
            and not any(
                each.target == sent.target and each.delivered_at <= sent.sent_at
                for each in self.wildcards
            )
            and not self.unacked(sent.target, sent.number)
        )

    def remove_settled(self, now: float) -> None:
        """Remove all that is settled or cleared, and owe the notes (rules 5 to 7)."""
        self.entries = [kept for kept in self.entries if not self.is_settled(kept.entry)]
        for peer, entry in list(self.reported):
            if self.is_settled(entry):
                self.reported.remove((peer, entry))
                if peer not in self.gone:
                    self.owed[peer, entry] = now
        for sent in list(self.sent_wildcards):
            if self.is_cleared(sent):
                self.sent_wildcards.remove(sent)
                if sent.peer not in self.gone:
                    self.owed_clears[sent] = now

    def has_reported(self, peer: int, target: int, source: int | None = None) -> bool:
        """Return whether an unsettled entry was reported to a peer."""
        return any(
            to == peer
            and entry.target == target
            and (source is None or entry.source == source)
            for to, entry in self.reported
        )

    # Release (rules 2 and 3).

    def own_entries(self, copy: Copy) -> set[Entry]:
        others = {each.target for each in self.copies if each.target != copy.target}
        found: set[Entry] = set()
        for target in others:
            unacked = self.unacked(target, copy.number)
            if unacked:
                found.add(Entry(self.id, target, max(each.number for each in unacked)))
        return found

    def inherited_entries(self, copy: Copy) -> set[Entry]:
        before = [kept for kept in self.entries if kept.delivered_at <= copy.sent_at]
        found: set[Entry] = set()
        for source, target in {(k.entry.source, k.entry.target) for k in before}:
            same = [
                k for k in before if (k.entry.source, k.entry.target) == (source, target)
            ]
            highest = max(same, key=lambda kept: kept.entry.number)
            if source != copy.target and copy.target not in highest.reporters:
                found.add(highest.entry)
        return found

    def wildcards_before(self, copy: Copy) -> set[int]:
        return {
            each.target
            for each in self.wildcards
            if each.delivered_at <= copy.sent_at and each.reporter != copy.target
        }

    def listing(self, copy: Copy, new_wildcards: frozenset[int] = frozenset()) -> Listing:
        wildcards = self.wildcards_before(copy) | new_wildcards
        return Listing(
            frozenset(e for e in self.own_entries(copy) if e.target not in wildcards),
            frozenset(e for e in self.inherited_entries(copy) if e.target not in wildcards),
            frozenset(wildcards),
        )

    def must_wait(self, copy: Copy) -> bool:
        """Return whether a permit, a wildcard or an earlier copy delays a copy."""
        return (
            any(m in self.missing and m[0] != copy.target for m in copy.permits)
            or copy.target in self.wildcards_before(copy)
            or any(
                each.target == copy.target and each.number < copy.number and each.is_queued
                for each in self.copies
            )
        )

    def counted(self, listing: Listing) -> Listing:
        """Return what counts against the budget: no entries of reporters that are gone.

        Another process may have reported the same entry later.
        """
        of_gone = {k.entry for k in self.entries if k.reporters[0] in self.gone}
        return listing._replace(inherited=listing.inherited - of_gone)

    def fits(self, listing: Listing, copy: Copy) -> bool:
        return size_of(self.counted(listing), copy.number) <= self.budget_bytes

    def may_draw(self, copy: Copy, wildcards: frozenset[int], now: float) -> bool:
        """Return whether new wildcards are allowed on a copy (rule 3)."""
        without = self.listing(copy)
        drawn = wildcards - without.wildcards
        for target in drawn:
            listed = [e for e in without.own | without.inherited if e.target == target]
            since = [kept.since for kept in self.entries if kept.entry.target == target]
            age_s = WILDCARD_ROUND_TRIPS * self.round_trip_s
            if len(listed) < 2 or target == copy.target or min(since) + age_s > now:
                return False
        return self.fits(self.listing(copy, drawn), copy) and any(
            not self.fits(self.listing(copy, drawn - {target}), copy) for target in drawn
        )

    def release(self, now: float) -> None:
        """Release all copies that need not wait."""
        for copy in self.copies:
            if not copy.is_queued or self.must_wait(copy):
                continue
            listing = self.listing(copy)
            counted = self.counted(listing)
            if self.fits(listing, copy):
                self.release_copy(copy, listing, now)
            elif not counted.inherited and not counted.wildcards:
                copy.is_opaque = True
                self.release_copy(copy, listing._replace(own=frozenset()), now)
            else:
                told = self.choice.listings.get((copy.target, copy.number))
                if (
                    told is not None
                    and told == self.listing(copy, told.wildcards)
                    and self.may_draw(copy, told.wildcards, now)
                ):
                    self.release_copy(copy, told, now)

    def release_copy(self, copy: Copy, listing: Listing, now: float) -> None:
        copy.listing = listing
        copy.transmitted_at = now
        for peer, entry in list(self.owed):  # Rule 6: the message stands for the note.
            is_hidden = entry.target in listing.wildcards or (
                copy.is_opaque and entry.source == self.id
            )
            if peer == copy.target and not is_hidden:
                del self.owed[peer, entry]
        for entry in listing.own | listing.inherited:
            if entry.target != copy.target and (copy.target, entry) not in self.reported:
                self.reported.append((copy.target, entry))
        for target in listing.wildcards:
            sent = SentWildcard(target, copy.target, copy.number, copy.sent_at)
            self.sent_wildcards.append(sent)
        self.released[copy.target, copy.number] = self.content(copy)
        self.note_grant(copy)

    def content(self, copy: Copy) -> Content:
        """Return the content of a released copy if it is transmitted now."""
        assert copy.listing is not None
        permitted = copy.number <= self.frontier(copy.target)
        uncleared = {
            each.target
            for each in self.sent_wildcards
            if (each.peer, each.number) == (copy.target, copy.number)
        }
        listing = Listing(
            frozenset(e for e in copy.listing.own if not self.is_settled(e)),
            frozenset(e for e in copy.listing.inherited if not self.is_settled(e)),
            frozenset(copy.listing.wildcards & uncleared),
        )
        is_opaque = copy.is_opaque and not permitted
        return Content(
            copy.number, copy.predecessor, permitted, is_opaque, listing, copy.payload
        )

    # Permits (rule 2 of hybrid).

    def frontier(self, peer: int) -> int:
        """Return the highest number without an unacked copy to another process up to it."""
        others = [c.number for c in self.copies if c.target != peer and not c.is_acked]
        return min(others) - 1 if others else self.last_number

    def note_grant(self, copy: Copy) -> None:
        """Record that a transmitted copy is a permit, if it is one."""
        if copy.number <= self.frontier(copy.target):
            granted = self.granted.get(copy.target, 0)
            self.granted[copy.target] = max(granted, copy.number)

    def grant(self) -> None:
        """Decide on the permits for opaque messages that the frontiers have passed."""
        for peer in sorted({copy.target for copy in self.copies}):
            frontier = self.frontier(peer)
            if any(
                copy.target == peer
                and copy.is_opaque
                and self.granted.get(peer, 0) < copy.number <= frontier
                for copy in self.copies
            ):
                self.granted[peer] = frontier
                self.permits_due.append((peer, frontier))

    def receive_permit(self, source: ProcessId, number: int, now: float) -> None:
        self.permits[source] = max(self.permits.get(source, 0), number)
        permitted = self.permits[source]
        self.missing = [m for m in self.missing if m[0] != source or m[1] > permitted]
        self.remove_settled(now)
        self.release(now)
