"""Restores a process and the sessions of a node from the records of its journal."""

from bisect import bisect_left

from antecede.core.dependencies import SavedEntry
from antecede.core.process import NO_PROCESS, PeerRecovery, ProcessId
from antecede.engine.entry_names import EntryNames
from antecede.engine.journal import MET, WILDCARD, SavedState
from antecede.engine.journal_recorder import ALL_PERMITTED
from antecede.engine.membership import Membership
from antecede.engine.peer_session import PeerSession

__all__ = ["restore"]


def restore(
    recovery: PeerRecovery,
    entry_names: EntryNames | None,
    membership: Membership,
    own: tuple[str, int],
    saved: SavedState,
    now: float,
) -> None:
    """Restore the process of ``recovery``, whose node has the name and history ``own``."""
    table = membership.table
    table.generation = saved.generation
    table.forgotten_number = saved.forgotten_number
    numbers: list[tuple[ProcessId, int, int, int]] = []
    # A node's own messages need no permit.
    permitted: dict[tuple[str, int], int] = {own: ALL_PERMITTED}
    ids: dict[tuple[str, int], ProcessId] = {}
    for peer in saved.peers:
        session = membership.restore_session(peer, now)
        is_met = peer.number_before == MET
        session.number_before = saved.clock if is_met else peer.number_before
        numbers.append((session.id, peer.sent, peer.delivered, peer.permitted))
        permitted[peer.name, peer.history] = peer.permitted
        ids[peer.name, peer.history] = session.id
    missing: list[tuple[ProcessId, int]] = []
    seqs: list[int] = []
    for delivery in saved.deliveries:
        key = (delivery.source, delivery.history)
        if not delivery.needs_permit or delivery.number <= permitted.get(key, 0):
            continue
        if key not in ids:  # A former history of a peer, whose lease may not have ended.
            ids[key] = table.add_former(delivery.source, delivery.history)
            numbers.append((ids[key], 0, delivery.number, 0))
            membership.departures.start_permit_lease(
                ids[key], delivery.source, delivery.history, now
            )
        missing.append((ids[key], delivery.number))
        seqs.append(delivery.seq)
    unacked: list[tuple[ProcessId, int, int, int, bytes]] = []
    for copy in saved.copies:
        dependencies = sum(1 for seq in seqs if seq < copy.seq)
        target = table.sessions[copy.target]
        unacked.append(
            (target.id, copy.number, copy.predecessor, dependencies, copy.payload)
        )
    if entry_names is not None:
        _restore_entries(entry_names, ids, saved, now)
    entry_seqs = [entry.seq for entry in saved.entries]
    positions = [bisect_left(entry_seqs, copy.seq) for copy in saved.copies]
    channels = _with_last_sent(numbers, unacked)
    recovery.restore(saved.clock, channels, missing, unacked, now, positions)
    if entry_names is not None:
        _restore_wildcards(entry_names, table.sessions, ids, saved, entry_seqs)


def _restore_entries(
    entry_names: EntryNames,
    ids: dict[tuple[str, int], ProcessId],
    saved: SavedState,
    now: float,
) -> None:
    """Restore the entries of a process; a reporter without an id is gone."""
    names = entry_names.names
    entries: list[SavedEntry] = []
    for entry in saved.entries:
        source = NO_PROCESS if entry.source == WILDCARD else names.id_of(entry.source)
        reporter = ids.get(entry.reporter, ProcessId(NO_PROCESS))
        entries.append((source, names.target(entry.target), entry.number, reporter))
    entry_names.dependencies.restore(entries, now)


def _restore_wildcards(
    entry_names: EntryNames,
    sessions: dict[str, PeerSession],
    ids: dict[tuple[str, int], ProcessId],
    saved: SavedState,
    entry_seqs: list[int],
) -> None:
    """Restore the wildcards on messages; a peer without an id was forgotten."""
    wildcards: list[SavedEntry] = []
    for wildcard in saved.wildcards:
        name, history = wildcard.reporter
        peer = ids.get((name, history), ProcessId(NO_PROCESS))
        if history == 0 and name in sessions:  # Sent before the peer was met.
            peer = sessions[name].id
        position = bisect_left(entry_seqs, wildcard.seq)
        target = entry_names.names.target(wildcard.target)
        wildcards.append((position, target, wildcard.number, peer))
    entry_names.dependencies.restore_sent(wildcards)


def _with_last_sent(
    numbers: list[tuple[ProcessId, int, int, int]],
    copies: list[tuple[ProcessId, int, int, int, bytes]],
) -> list[tuple[ProcessId, int, int, int]]:
    """Raise the numbers last sent to those of the copies, which are recorded earlier."""
    last = {target: number for target, number, _, _, _ in copies}
    with_numbers = {entry[0] for entry in numbers}
    corrected = [
        (peer, max(sent, last.get(peer, 0)), delivered, permitted)
        for peer, sent, delivered, permitted in numbers
    ]
    added = [(peer, sent, 0, 0) for peer, sent in last.items() if peer not in with_numbers]
    return corrected + added
