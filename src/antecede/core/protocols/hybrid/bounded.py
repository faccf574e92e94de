"""``bounded``: hybrid buffering in which a few bytes on a message replace waiting.

Under ``hybrid``, a copy waits at its sender until the permits of all messages delivered
before its send have arrived. Under ``bounded``, it may leave earlier if it lists the copies
in its past that may not be delivered yet, and the list fits into a budget of bytes.

An *entry* names a source, a target and a number n: the copy of the source's message n to
the target, and earlier copies of this pair, may not be delivered. It is *settled* when they
are delivered, or never will be. That fact about two processes never changes, so every
process may report it. A *wildcard* names a target only.

Rules, beside rules 1 and 2 of :mod:`antecede.core.protocols.hybrid.algorithm`:

1. *Past.* A process keeps the unsettled entries of the messages that it delivered, except
   those of which it is itself the source or the target.
2. *Release.* A copy to r lists its *own* entries: for each target other than r, the last
   unacked copy of the sender up to this message. It lists the *inherited* entries: those
   that were delivered before its send, except those that r itself reported or is the
   source of. It lists the wildcards that were delivered before its send, except those that
   r reported, and omits the entries for their targets. It leaves if all of this fits into
   the budget.
   If it has own entries only, and they do not fit, it leaves *opaque*: without own entries,
   as under ``hybrid``, and its target needs a permit. Otherwise it is queued. It is also
   queued while a permit for an opaque message of another process than r is missing, or a
   wildcard for r is in its past. Inherited entries whose reporter is gone do not count.
3. *Wildcards.* If a copy does not fit, a wildcard may replace two or more entries for one
   target other than r, if no entry for this target was settled for some timeouts.
4. *Delivery.* A message to r is delivered after its predecessor, and after r has delivered
   the entries for r on it.
5. *Settling.* A process learns that entries are settled from acks of its own copies, from
   permits, from notes, from the ack of a copy that carried an entry for the acking process,
   and from the absence of an entry or a wildcard on a later message of the process that
   reported it. Absence says nothing of what this process itself has reported to that
   process, of targets with a wildcard, and, on an opaque message, of own entries.
6. *Notes.* When an entry is settled that a process has put on a message to a peer, the peer
   gets a note, unless a later message stands for it.
7. *Clearing.* A wildcard on message k to a peer is cleared when the sender has no unsettled
   entry and no wildcard for its target that was delivered before the send of k, and its
   own copies to the target up to k are acked. Then the peer gets a note.
8. *Loss.* A process asks, with increasing intervals, whether entries and wildcards are
   settled. It asks the process that reported them. That process had them, so what it no
   longer has is settled. A copy is retransmitted with its entries that are unsettled now.
9. *Repair.* A process that holds a message for a copy that does not arrive within a round
   trip asks the sender of that copy to transmit it again.

With a budget of 0, no entry fits: this is ``hybrid``. With an unlimited budget, no copy
waits at its sender, and messages are delivered as early as causal order allows.
docs/explanation/bounded.md proves that the rules keep causal order, and that every wait
ends.

A release takes time proportional to the budget and to the entries that the target itself
reported. When an entry is settled or an own copy is acked, the first queued copy of each
target is examined.
"""

from typing import Final

from antecede.core.codec import varint_width
from antecede.core.config import DEFAULT_BUDGET_BYTES
from antecede.core.process import NO_PROCESS, UNBOUNDED, ProcessId
from antecede.core.protocols.hybrid.entry import Entry
from antecede.core.protocols.hybrid.hybrid import SpsRule
from antecede.core.protocols.hybrid.ledger import Ledger
from antecede.core.protocols.hybrid.peer import Copy, MissingPermit, PeerState
from antecede.core.protocols.hybrid.peer_ledger import DependentCopy
from antecede.core.protocols.hybrid.process import HybridProcess
from antecede.core.protocols.hybrid.rule import PermitRule
from antecede.core.protocols.hybrid.state import HybridState
from antecede.core.support.retransmission import RetransmissionPolicy

__all__ = ["BoundedRule", "make_bounded"]

COUNTS_SIZE: Final = 2
"""The fewest bytes of the two counts of entries on a message."""
WILDCARD_AGE: Final = 4.0
"""For how many initial timeouts, and how many round trips, no entry for a target may have
been settled before a wildcard stands for them. A lost copy is settled after a timeout."""


class BoundedRule(PermitRule):
    """The permit rule of ``bounded``.

    The frontier is that of ``hybrid``. A copy may leave when no permit that it would wait
    for under ``hybrid`` is missing, and its entries and wildcards fit into the budget.
    """

    __slots__ = ("_id", "_ledger", "_room", "_sps")

    def __init__(self, id: ProcessId, ledger: Ledger, budget_bytes: int) -> None:
        self._id = id
        self._ledger = ledger
        # An entry takes two bytes or more, an inherited one three.
        counts_size = varint_width(budget_bytes // 2) + varint_width(budget_bytes // 3)
        self._room = budget_bytes - counts_size
        self._sps = SpsRule()

    def frontier(self, state: HybridState, peer: PeerState) -> int:
        return self._sps.frontier(state, peer)

    def waits_for(self, copy: Copy, missing: MissingPermit) -> bool:
        return missing.peer is not copy.peer

    def next_in_order(self, state: HybridState, now: float) -> Copy | None:
        ledger = self._ledger
        copies = ledger.copies
        part = copies.next_candidate()
        while part is not None:
            copy = part.queue.peek()
            excess = self._excess(state, copy, now)
            if excess == 0:
                copies.remove_candidate()
                ledger.report(part, copy)
                return copy
            copies.drop_candidate(excess)
            part = copies.next_candidate()
        return None

    def _excess(self, state: HybridState, copy: DependentCopy, now: float) -> int:
        """Choose the entries of a copy; return 0 if it may leave with them.

        Otherwise return by how many bytes the list must become shorter, at least;
        UNBOUNDED if its size does not matter.
        """
        ledger = self._ledger
        peer = copy.peer
        if copy.permits_before > self._sps.first_missing(state, peer):
            return UNBOUNDED
        copy.wildcards = []
        left = self._room
        if ledger.wildcards.received:
            if ledger.wildcards.is_before(
                ledger.channels.target_of(peer.id), copy.position, peer.id
            ):
                return UNBOUNDED
            copy.wildcards = ledger.wildcards.before(copy.position, peer.id)
            for target in copy.wildcards:
                left -= self._wildcard_size(copy, target)
        inherited_size = self._choose_inherited(copy, 2 * self._room)
        size = inherited_size
        if size <= left:
            size += self._choose_own(copy, left - size, copy.number == state.clock)
        if size <= left:
            copy.needs_permit = False
            return 0
        if inherited_size == 0 and not copy.wildcards:
            copy.needs_permit = True
            copy.own = []
            return 0
        if self._draw_wildcards(copy, now):
            return 0
        return min(size - left, max(inherited_size, 1))

    def _wildcard_size(self, copy: DependentCopy, target: int) -> int:
        return varint_width(target) + varint_width(copy.number)

    def _choose_inherited(self, copy: DependentCopy, limit: int) -> int:
        """Set the inherited entries of a copy, and return their size.

        Stop as soon as the size exceeds ``limit``.
        """
        size = 0
        inherited: list[Entry] = []
        copy.inherited = inherited
        if not self._ledger.open:
            return size
        target = copy.peer.id
        source = self._ledger.channels.source_of(target)
        for pair in self._ledger.open:
            if pair.source == source or pair.target in copy.wildcards:
                continue
            found = pair.unsettled_before(copy.position)
            if found is not None and not found.is_reported_by(target):
                inherited.append(found.entry)
                if not found.is_reporter_gone:
                    size += found.entry.size
                    if size > limit:
                        break
        return size

    def _choose_own(self, copy: DependentCopy, left: int, is_newest: bool) -> int:
        """Set the own entries of a copy, and return their size.

        Stop as soon as the size exceeds ``left``.
        """
        ledger = self._ledger
        number = copy.number
        own: list[Entry] = []
        size = 0
        unacked = ledger.unacked
        if len(unacked) > 1:  # The copy itself is unacked.
            least = 2 * (len(unacked) - 1 - len(copy.wildcards))
            if is_newest and least > left:
                return least
            for target, peer in unacked.items():
                if peer is copy.peer or target in copy.wildcards:
                    continue
                last = ledger.last_unacked(peer, number)
                if last > 0:
                    own.append(Entry(self._id, target, last))
                    size += varint_width(target) + varint_width(number - last)
                    if size > left:
                        break
        copy.own = own
        return size

    def _draw_wildcards(self, copy: DependentCopy, now: float) -> bool:
        """Replace old entries by wildcards, and return whether the copy may leave."""
        ledger = self._ledger
        timeout_s = ledger.state.ack_rtt.policy.initial_s
        age_s = WILDCARD_AGE * max(ledger.notes.round_trip_s, timeout_s)
        oldest = next(iter(ledger.open)).unsettled[0].since if ledger.open else now
        if self._room <= 1:
            return False
        if oldest + age_s > now:
            ledger.copies.schedule_retry(oldest + age_s)
            return False
        while self._size(copy) > self._room:
            target = self._most_entries(copy, age_s, now)
            if target == NO_PROCESS:
                return False
            copy.wildcards = [*copy.wildcards, target]
        copy.needs_permit = False
        return True

    def _size(self, copy: DependentCopy) -> int:
        """Choose all entries that a copy needs with its wildcards; return their size."""
        size = self._choose_inherited(copy, UNBOUNDED)
        size += self._choose_own(copy, UNBOUNDED, False)
        for target in copy.wildcards:
            size += self._wildcard_size(copy, target)
        return size

    def _most_entries(self, copy: DependentCopy, age_s: float, now: float) -> int:
        """Return the target with the most entries that a wildcard may replace, if any."""
        counts: dict[int, int] = {}
        for entry in copy.own + copy.inherited:
            counts[entry.target] = counts.get(entry.target, 0) + 1
        best = NO_PROCESS
        most = 1
        counts.pop(self._ledger.channels.target_of(copy.peer.id), None)
        for target, count in counts.items():
            if count > most and self._is_silent(target, age_s, now):
                best = target
                most = count
        return best

    def _is_silent(self, target: int, age_s: float, now: float) -> bool:
        """Return whether the entries for a target made no progress for a time.

        The sum is the one that is compared with the time when the timer expires: with
        another rounding, the timer could expire at the same time again and again.
        """
        at = self._ledger.table.progress_at(target) + age_s
        if at <= now:
            return True
        self._ledger.copies.schedule_retry(at)
        return False


def make_bounded(
    id: ProcessId,
    policy: RetransmissionPolicy | None = None,
    reorder_buffer_max: int = UNBOUNDED,
    budget_bytes: int = DEFAULT_BUDGET_BYTES,
) -> HybridProcess:
    """Create a process of ``bounded``."""
    state = HybridState(policy)
    ledger = Ledger(id, state, budget_bytes > COUNTS_SIZE + 1)
    rule = BoundedRule(id, ledger, budget_bytes)
    return HybridProcess(id, rule, state, reorder_buffer_max, ledger)
