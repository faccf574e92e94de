"""What a process of ``bounded`` does when a peer leaves, stops or is removed."""

from antecede.core.process import NO_PROCESS, ProcessId
from antecede.core.protocols.hybrid.frames import MessageFrame
from antecede.core.protocols.hybrid.ledger import Ledger
from antecede.core.protocols.hybrid.pair_table import Pair, Unsettled
from antecede.core.protocols.hybrid.peer import Copy, PeerState
from antecede.core.protocols.hybrid.peer_ledger import DependentCopy, PeerLedger
from antecede.core.protocols.hybrid.received_entries import stop_waiting, woken

__all__ = [
    "choose_answerer",
    "drop_waiting",
    "forget_held",
    "forget_peer",
    "give_up",
    "hold",
    "is_held_in_vain",
    "mark_all_settled",
    "replace_reporter",
    "reset_channel",
]


def reset_channel(ledger: Ledger, peer: PeerState) -> None:
    """Remember what was delivered from a peer, whose numbers start anew."""
    source = ledger.channels.source_of(peer.id)
    ledger.floors[source] = ledger.delivered(source)
    forget_held(ledger, peer.id)


def drop_waiting(ledger: Ledger, peer: ProcessId) -> None:
    """Forget that the next message of a peer waits."""
    for source, waiting in list(ledger.waiting.items()):
        if waiting.pop(peer, None) is not None and not waiting:
            stop_waiting(ledger, source)


def forget_held(ledger: Ledger, peer: ProcessId) -> None:
    """Forget what the messages of a peer wait for: they are no longer held."""
    ledger.repairs.forget(peer)
    drop_waiting(ledger, peer)


def hold(ledger: Ledger, peer: PeerState, message: MessageFrame) -> None:
    """Hold a message of a peer, until it need not wait.

    If it was held before, it may list fewer entries now, because their copies were
    abandoned; then it no longer waits for these.
    """
    if ledger.waiting and message.predecessor in peer.held:
        drop_waiting(ledger, peer.id)
    peer.hold(message)


def mark_all_settled(ledger: Ledger, source: int, now: float) -> None:
    """Settle all entries of a source: its copies are delivered, or never will be."""
    ledger.channels.end(source)
    targets = ledger.table.sources.get(source)
    if targets is not None:
        for pair in list(targets.values()):
            last = pair.unsettled[-1].entry.number if pair.unsettled else 0
            for numbers in pair.reported.values():
                last = max(last, numbers[-1])
            ledger.mark_pair_settled(pair, last, now)


def replace_reporter(ledger: Ledger, reporter: ProcessId) -> None:
    """Ask others about the entries that a peer reported, because it is gone."""
    ledger.copies.check_all()  # Also because its permits are no longer missing.
    part = ledger.peers.get(reporter)
    if part is not None:
        _replace_answerer(ledger, part, NO_PROCESS)


def _replace_answerer(ledger: Ledger, part: PeerLedger, forgotten: int) -> None:
    """Ask others about the entries about which a peer was to be asked."""
    for unsettled, pair in list(part.unsettled.items()):
        ledger.detach(unsettled)
        choose_answerer(ledger, unsettled, pair, forgotten)


def choose_answerer(
    ledger: Ledger, unsettled: Unsettled, pair: Pair, forgotten: int = NO_PROCESS
) -> None:
    """Ask the source or the target about an entry, because its reporter is gone.

    Do not ask the peer ``forgotten``.
    """
    unsettled.is_reporter_gone = True
    unsettled.answerer = NO_PROCESS
    for process in (pair.source, pair.target):
        candidate = ledger.channels.find(process)
        if candidate not in (unsettled.reporter, forgotten, NO_PROCESS):
            unsettled.answerer = candidate
            other = ledger.peer(candidate)
            other.unsettled[unsettled] = pair
            ledger.schedule_query(other, unsettled.next_ask)
            break


def is_held_in_vain(ledger: Ledger | None, copy: Copy) -> bool:
    """Return whether a copy has arrived and lists an entry for its target that is settled.

    The target may hold the copy for a copy that was abandoned.
    """
    if ledger is not None and isinstance(copy, DependentCopy) and copy.arrived:
        target = ledger.channels.target_of(copy.peer.id)
        for entry in copy.inherited:
            if entry.target == target and ledger.is_settled(entry):
                return True
    return False


def give_up(ledger: Ledger, source: int) -> list[PeerState]:
    """Return the peers whose next message waits for a source that is gone."""
    waiting = ledger.waiting.get(source)
    if waiting is None:
        return []
    last = max(waiting.values())
    ledger.floors[source] = max(last, ledger.floors.get(source, 0))
    return woken(ledger, source, last)


def forget_peer(ledger: Ledger, peer: ProcessId) -> bool:
    """Delete the part of a peer, and return True; return False if it is needed."""
    forget_held(ledger, peer)
    part = ledger.peers.get(peer)
    if part is None:
        return True
    if part.received or len(part.queue) > 0:
        return False
    for unsettled in part.unsettled:
        if not unsettled.is_reporter_gone:
            return False
    _replace_answerer(ledger, part, peer)
    for targets in list(ledger.table.sources.values()):
        for pair in list(targets.values()):
            if pair.reported.pop(peer, None) and not pair.reported and not pair.unsettled:
                ledger.table.discard(pair)
    ledger.notes.forget(part)
    ledger.channels.forget(part)
    ledger.wildcards.forget(peer)
    del ledger.peers[peer]
    ledger.floors.pop(part.source, None)
    return True
