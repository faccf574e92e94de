"""The notes that a process of ``bounded`` has for its peers, and when they leave.

A note says that entries or wildcards on earlier messages to a peer are settled. Notes ride
on acks, and a message without an entry stands for the note. Otherwise the notes to a peer
leave together, in a frame of their own, a part of a round trip after the first of them.
Under a high load, a longer delay means fewer frames, and a longer wait of queued copies.
"""

from typing import Final

from antecede.core.process import NEVER, NO_PROCESS, ProcessId
from antecede.core.protocols.hybrid.dependency_frames import Notes
from antecede.core.protocols.hybrid.entry import Entry
from antecede.core.protocols.hybrid.pair_table import PAIR_BITS, Pair
from antecede.core.protocols.hybrid.peer_ledger import DependentCopy, PeerLedger

__all__ = ["NoteQueue"]

NOTES_MAX: Final = 32
"""How many entries one frame of notes has at most."""
DELAY_ROUND_TRIPS: Final = 0.8
"""How many round trips a note waits for further notes to the same peer."""
GAIN: Final = 0.125
"""The weight of a sample in the smoothed round trip."""


class NoteQueue:
    """The notes of one process that have not left."""

    __slots__ = ("_id", "_peers", "due", "round_trip_s")

    due: float
    """When the next notes leave, or earlier; infinite without notes."""
    round_trip_s: float
    """The smoothed round trip to all peers; 0 before the first sample."""

    def __init__(self, id: ProcessId) -> None:
        self._id = id
        self._peers: dict[int, PeerLedger] = {}  # In the order of their times.
        self.due = NEVER
        self.round_trip_s = 0.0

    def sample(self, round_trip_s: float) -> None:
        """Use a measured round trip."""
        if self.round_trip_s == 0:
            self.round_trip_s = round_trip_s
        else:
            self.round_trip_s += GAIN * (round_trip_s - self.round_trip_s)

    def add_pair(self, peer: PeerLedger, pair: Pair, number: int, now: float) -> None:
        """Add a note that a reported number of a pair is settled."""
        peer.pending_pairs[pair] = number
        self._schedule(peer, now)

    def add_clear(self, peer: PeerLedger, target: int, number: int, now: float) -> None:
        """Add a note that the wildcards of messages up to ``number`` are cleared."""
        peer.pending_clears[target] = max(number, peer.pending_clears.get(target, 0))
        self._schedule(peer, now)

    def _schedule(self, peer: PeerLedger, now: float) -> None:
        if peer.id not in self._peers:
            self._peers[peer.id] = peer
            peer.noted_at = now
            if self.due == NEVER:
                self.due = now + DELAY_ROUND_TRIPS * self.round_trip_s

    def has_notes(self, peer: ProcessId) -> bool:
        """Return whether there are notes for a peer."""
        return self.due < NEVER and peer in self._peers

    def next_peer(self, now: float) -> PeerLedger | None:
        """Return a peer to which a frame of notes must leave, or None."""
        if now < self.due or not self._peers:
            return None
        peer = next(iter(self._peers.values()))
        self.due = peer.noted_at + DELAY_ROUND_TRIPS * self.round_trip_s
        return peer if self.due <= now else None

    def drop_implied(self, peer: PeerLedger, copy: DependentCopy) -> None:
        """Drop the notes that a message stands for, because it lacks the entries."""
        listed = {
            entry.source << PAIR_BITS | entry.target for entry in copy.own + copy.inherited
        }
        peer.pending_pairs = {
            pair: number
            for pair, number in peer.pending_pairs.items()
            if pair.target in copy.wildcards
            or (copy.needs_permit and pair.source == self._id)
            or pair.source << PAIR_BITS | pair.target in listed
        }
        self._check(peer)

    def take(self, peer: PeerLedger, frontier: int, granted: int) -> Notes | None:
        """Remove and return notes to a peer; None if it needs none.

        A permit up to the frontier covers own entries up to its number; the peer has a
        permit up to ``granted``.
        """
        targets: list[Entry] = []
        entries: list[Entry] = []
        wildcards: list[Entry] = []
        pairs = peer.pending_pairs
        permit = 0
        while pairs and len(targets) + len(entries) < NOTES_MAX:
            pair = next(iter(pairs))
            number = pairs.pop(pair)
            if pair.source != self._id:
                entries.append(Entry(pair.source, pair.target, pair.settled))
            elif number > frontier:
                targets.append(Entry(self._id, pair.target, pair.settled))
            elif number > granted:
                permit = frontier
        while peer.pending_clears and len(wildcards) < NOTES_MAX:
            target, number = peer.pending_clears.popitem()
            wildcards.append(Entry(NO_PROCESS, target, number))
        self._check(peer)
        if permit == 0 and not targets and not entries and not wildcards:
            return None
        return Notes(permit, targets, entries, wildcards)

    def forget(self, peer: PeerLedger) -> None:
        """Remove the notes to a peer."""
        peer.pending_pairs = {}
        peer.pending_clears = {}
        self._check(peer)

    def _check(self, peer: PeerLedger) -> None:
        if not peer.pending_pairs and not peer.pending_clears and peer.id in self._peers:
            del self._peers[peer.id]
            if not self._peers:
                self.due = NEVER
