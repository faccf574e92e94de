"""Restores a process and the sessions of a node from the records of its journal."""

from antecede.core.process import PeerRecovery, ProcessId
from antecede.engine.journal import MET, SavedState
from antecede.engine.journal_recorder import ALL_PERMITTED
from antecede.engine.membership import Membership

__all__ = ["restore"]


def restore(
    recovery: PeerRecovery,
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
            ids[key] = table.new_id()
            table.report_history(ids[key], delivery.source, delivery.history)
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
    recovery.restore(saved.clock, _with_last_sent(numbers, unacked), missing, unacked, now)


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
