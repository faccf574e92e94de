"""Queries of ``bounded``: which entries and wildcards are settled?

Notes may be lost. A process therefore asks the process that reported an entry, at
increasing intervals.
"""

from typing import Final

from antecede.core.process import NEVER, NO_PROCESS, UNBOUNDED, ProcessId
from antecede.core.protocols.hybrid.dependency_frames import Notes
from antecede.core.protocols.hybrid.entry import Entry
from antecede.core.protocols.hybrid.ledger import Ledger
from antecede.core.protocols.hybrid.peer_ledger import PeerLedger
from antecede.core.support.retransmission import RetransmissionTimer

__all__ = ["answer", "due_queries"]

QUERIES_MAX: Final = 32
"""How many entries, and how many wildcards, one query has at most."""
ASKED_ALONE: Final = 2
"""How often the process that reported an entry is asked before others are asked, too."""
DOUBLINGS_MAX: Final = 5
"""The number of doublings of an interval, which the policy's maximum bounds, too."""


def due_queries(ledger: Ledger, part: PeerLedger, now: float) -> dict[ProcessId, Notes]:
    """Return the questions that are due, by the process to ask, and restart a timer.

    The timer is that of a peer that has reported entries. If it does not answer, the source
    or the target of an entry is asked, too.
    """
    others: dict[ProcessId, Notes] = {}
    targets: list[Entry] = []
    entries: list[Entry] = []
    wildcards: list[Entry] = []
    timer = part.query_timer
    next_ask = NEVER
    for unsettled in part.unsettled:
        if unsettled.next_ask <= now and len(targets) + len(entries) < QUERIES_MAX:
            unsettled.asked += 1
            unsettled.next_ask = _next_ask(ledger, timer, unsettled.asked, now)
            entry = unsettled.entry
            if unsettled.asked > ASKED_ALONE:
                _ask_another(ledger, part, entry, others)
            if entry.source == part.source:
                targets.append(entry)
            else:
                entries.append(entry)
        next_ask = min(next_ask, unsettled.next_ask)
    seen: set[int] = set()
    for wildcard in part.received:
        if wildcard.target in seen:
            continue  # Wildcards are cleared in the order of their messages.
        seen.add(wildcard.target)
        if wildcard.next_ask <= now and len(wildcards) < QUERIES_MAX:
            wildcard.asked += 1
            wildcard.next_ask = _next_ask(ledger, timer, wildcard.asked, now)
            wildcards.append(Entry(NO_PROCESS, wildcard.target, wildcard.number))
        next_ask = min(next_ask, wildcard.next_ask)
    timer.deadline = next_ask
    ledger.state.timers.schedule(timer)
    if targets or entries or wildcards:
        others[part.id] = Notes(0, targets, entries, wildcards)
    return others


def _ask_another(
    ledger: Ledger, part: PeerLedger, entry: Entry, others: dict[ProcessId, Notes]
) -> None:
    """Add the question about an entry to those for its source, or for its target."""
    asked = ledger.channels.find(entry.source)
    if asked in (part.id, NO_PROCESS):
        asked = ledger.channels.find(entry.target)
    if asked not in (part.id, NO_PROCESS):
        notes = others.setdefault(asked, Notes(0, [], [], []))
        is_source = ledger.channels.source_of(asked) == entry.source
        (notes.targets if is_source else notes.entries).append(entry)


def _next_ask(ledger: Ledger, timer: RetransmissionTimer, asked: int, now: float) -> float:
    longest_s = ledger.state.permit_rtt.policy.maximum_s
    return now + min(timer.timeout_s * (1 << min(asked, DOUBLINGS_MAX)), longest_s)


def answer(ledger: Ledger, asking: ProcessId, question: Notes) -> Notes | None:
    """Return the part of a question that is settled, or None."""
    targets = [
        Entry(ledger.id, entry.target, entry.number)
        for entry in question.targets
        if not ledger.is_unacked(entry)
    ]
    entries = [entry for entry in question.entries if _knows_settled(ledger, entry)]
    wildcards: list[Entry] = []
    for entry in question.wildcards:
        first = ledger.wildcards.first_sent(entry.target, asking)
        if first > entry.number:
            # A queued copy may still get a wildcard, whatever its number.
            last = ledger.last_released(asking) if first == UNBOUNDED else first - 1
            number = max(entry.number, last)
            wildcards.append(Entry(NO_PROCESS, entry.target, number))
    if not targets and not entries and not wildcards:
        return None
    return Notes(0, targets, entries, wildcards)


def _knows_settled(ledger: Ledger, entry: Entry) -> bool:
    if entry.target == ledger.id:
        return entry.number <= ledger.delivered(entry.source)
    return ledger.is_settled(entry)
