"""What a process of ``bounded`` does with the entries of a message that it receives."""

from typing import Final

from antecede.core.process import NO_PROCESS, ProcessId
from antecede.core.protocols.hybrid.dependency_frames import DependentMessage
from antecede.core.protocols.hybrid.entry import Entry
from antecede.core.protocols.hybrid.frames import MessageFrame
from antecede.core.protocols.hybrid.ledger import Ledger
from antecede.core.protocols.hybrid.pair_table import PAIR_BITS, Pair, Unsettled
from antecede.core.protocols.hybrid.peer import PeerState
from antecede.core.protocols.hybrid.peer_ledger import PeerLedger
from antecede.core.protocols.hybrid.wildcards import Wildcard
from antecede.errors import PeerError

__all__ = [
    "add_entries",
    "awaited",
    "check_entries",
    "next_message",
    "stop_waiting",
    "waits_for_nothing",
    "woken",
]

UNSETTLED_MAX: Final = 8192
"""How many unsettled entries and wildcards one peer may report. Further messages of the
peer are refused until some are settled."""
FIRST_ASK_TIMEOUTS: Final = 2
"""How many timeouts pass before the first question. Notes that wait for others to the same
peer take longer than the timeout under a high load, and a question costs two frames."""


def check_entries(ledger: Ledger, source: ProcessId, message: DependentMessage) -> None:
    """Raise PeerError if a message lists an entry that no process can have."""
    part = ledger.peers.get(source)
    if part is not None and len(part.unsettled) + len(part.received) > UNSETTLED_MAX:
        raise PeerError(f"{source} has reported more than {UNSETTLED_MAX} entries")
    own_target = ledger.channels.target_of(source)
    for entry in message.own:
        if entry.target == ledger.id or entry.target == own_target:
            raise PeerError(f"invalid {message}: own entry for {entry.target}")
    own_source = ledger.channels.source_of(source)
    for entry in message.inherited:
        if entry.source == own_source or (
            entry.source == ledger.id and entry.number > ledger.state.clock
        ):
            raise PeerError(f"invalid {message}: {entry} was not sent")
    if ledger.id in message.wildcards:
        raise PeerError(f"invalid {message}: wildcard for its own target")


def waits_for_nothing(ledger: Ledger, peer: PeerState, message: MessageFrame) -> bool:
    """Return whether a message is delivered at once, and no other message after it.

    This is the usual case. Return False if it takes longer to find out.
    """
    return (
        message.predecessor == peer.delivered
        and not isinstance(message, DependentMessage)
        and not peer.held
        and not ledger.waiting
    )


def next_message(ledger: Ledger, peer: PeerState, now: float) -> MessageFrame | None:
    """Remove and return the next message of a peer, or None if it must wait.

    A peer that was silent for too long may have abandoned its messages.
    """
    message = peer.held.get(peer.delivered)
    if message is None or ledger.is_silent(peer.id, now):
        return None
    if isinstance(message, DependentMessage):
        for entry in message.inherited:
            if entry.target == ledger.id and entry.number > ledger.delivered(entry.source):
                waiting = ledger.waiting.setdefault(entry.source, {})
                waiting[peer.id] = entry.number
                sender = ledger.channels.sender(entry.source)
                if sender != NO_PROCESS:
                    ledger.expect(sender, entry.number, now)
                return None
    del peer.held[peer.delivered]
    return message


def woken(ledger: Ledger, source: int, number: int) -> list[PeerState]:
    """Return the peers whose next message waited for a delivery."""
    peers: list[PeerState] = []
    waiting = ledger.waiting.get(source)
    if waiting is not None:
        for id, needed in list(waiting.items()):  # noqa: A001 (the word for it)
            if needed <= number:
                del waiting[id]
                peers.append(ledger.state.peers[ProcessId(id)])
        if not waiting:
            stop_waiting(ledger, source)
    return peers


def stop_waiting(ledger: Ledger, source: int) -> None:
    """Forget a source for which no message waits any more."""
    del ledger.waiting[source]
    ledger.repairs.forget(ledger.channels.sender(source))


def awaited(ledger: Ledger, sender: ProcessId) -> int:
    """Return the last copy of a process that held messages wait for, or 0."""
    number = 0
    waiting = ledger.waiting.get(ledger.channels.source_of(sender))
    if waiting is not None:
        number = max(waiting.values())
    peer = ledger.state.peers.get(sender)
    if peer is not None and peer.is_receiving and peer.held:
        first = min(peer.held)
        if first > peer.delivered:  # Its predecessor is missing.
            number = max(number, first)
    return number


def add_entries(ledger: Ledger, peer: PeerState, message: MessageFrame, now: float) -> None:
    """Add the entries of a delivered message, and use the absence of others."""
    part = ledger.peers.get(peer.id)
    if isinstance(message, DependentMessage):
        entries = message.inherited
        if message.own:
            source = ledger.channels.source_of(peer.id)
            entries = [Entry(source, e.target, e.number) for e in message.own]
            entries += message.inherited
        if part is not None:
            _mark_absent_settled(
                ledger, part, entries, message.wildcards, not message.is_opaque, now
            )
        else:
            part = ledger.peer(peer.id)
        for entry in entries:
            _add_entry(ledger, part, entry, now)
        for target in message.wildcards:
            _add_wildcard(ledger, part, target, message.number, now)
        ledger.position += 1
    elif part is not None and (part.unsettled or part.received):
        _mark_absent_settled(ledger, part, [], [], message.permitted, now)
    if part is not None and part.cleared:
        part.cleared = {t: n for t, n in part.cleared.items() if n > message.number}


def _mark_absent_settled(
    ledger: Ledger,
    part: PeerLedger,
    entries: list[Entry],
    wildcards: list[int],
    lists_own: bool,
    now: float,
) -> None:
    """Mark as settled what earlier messages of a peer list and a later one does not.

    A message lists every unsettled entry in its past, except those that its target has
    reported to its sender and those that a wildcard stands for.
    """
    covered = set(wildcards)
    if part.unsettled:
        present = {entry.source << PAIR_BITS | entry.target for entry in entries}
        for unsettled, pair in list(part.unsettled.items()):
            if pair.source << PAIR_BITS | pair.target in present:
                continue
            if pair.target in covered or unsettled.is_reporter_gone:
                continue
            if unsettled.position < ledger.restored_position:
                continue  # This process may have reported the pair before it was restored.
            if lists_own if pair.source == part.source else part.id not in pair.reported:
                ledger.mark_settled(pair.source, pair.target, unsettled.entry.number, now)
    if part.received and lists_own:
        targets = {entry.target for entry in entries}
        for wildcard in list(part.received):
            target = wildcard.target
            if target in covered or target in targets:
                continue
            if wildcard.position < ledger.restored_position:
                continue
            # The peer omits entries that this process has reported to it. It may have done
            # so after the delivery of the wildcard, which precedes copies that are queued.
            if not ledger.table.is_reported(target, part.id):
                ledger.remove_wildcard(part, wildcard, now)


def _add_entry(ledger: Ledger, part: PeerLedger, entry: Entry, now: float) -> None:
    source = entry.source
    target = entry.target
    number = entry.number
    if source == ledger.id or target == ledger.id:
        return
    if source in ledger.channels.ended:  # The peer may have nobody to ask.
        ledger.notes.add_pair(part, Pair(source, target, number), number, now)
        return
    known = ledger.state.peers.get(ledger.channels.find(source))
    if known is not None and number <= known.permitted:
        return
    if number <= ledger.table.settled(source, target):
        return
    pair = ledger.table.pair(source, target)
    if pair.unsettled:
        last = pair.unsettled[-1]
        if number <= last.entry.number:
            _add_reporter(ledger, part, pair, number)
            return
        if (
            not pair.reported
            and last.position >= ledger.barrier(target)
            and not ledger.is_in_flight(target)
        ):
            # No copy that waits was sent between the two deliveries, and the target does
            # not wait for the entry, which its source may have abandoned since.
            pair.unsettled.pop()
            ledger.record_change(False, last.entry, last.reporter)
            ledger.detach(last)
    else:
        ledger.open[pair] = None
    next_ask = _first_ask(part, now)
    unsettled = Unsettled(entry, ledger.position, part.id, now, next_ask)
    pair.unsettled.append(unsettled)
    part.unsettled[unsettled] = pair
    ledger.record_change(True, entry, part.id)
    ledger.schedule_query(part, next_ask)


def _first_ask(part: PeerLedger, now: float) -> float:
    """Return when to ask a peer about an entry or a wildcard that it has just reported."""
    return now + FIRST_ASK_TIMEOUTS * part.query_timer.timeout_s


def _add_reporter(ledger: Ledger, part: PeerLedger, pair: Pair, number: int) -> None:
    """Record that a peer has an entry itself, so that copies to it omit the entry."""
    for unsettled in pair.unsettled:
        if unsettled.entry.number == number and not unsettled.is_reported_by(part.id):
            unsettled.others.append(part.id)
            ledger.copies.free_for(part, unsettled.entry.size)


def _add_wildcard(
    ledger: Ledger, part: PeerLedger, target: int, number: int, now: float
) -> None:
    if target == ledger.id or number <= part.cleared.get(target, 0):
        return
    next_ask = _first_ask(part, now)
    wildcard = Wildcard(target, part.id, number, ledger.position, next_ask)
    ledger.wildcards.add(wildcard)
    part.received[wildcard] = None
    ledger.record_change(True, Entry(NO_PROCESS, target, number), part.id)
    ledger.schedule_query(part, next_ask)
