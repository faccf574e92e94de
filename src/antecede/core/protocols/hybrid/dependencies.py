"""The entries of a process of ``bounded``, for drivers that name processes or keep them."""

from collections.abc import Sequence

from antecede.core.codec import Frame
from antecede.core.dependencies import (
    EntryChange,
    IdTranslation,
    PeerDependencies,
    SavedEntry,
)
from antecede.core.process import NO_PROCESS, ProcessId
from antecede.core.protocols.hybrid.algorithm import HybridAlgorithm
from antecede.core.protocols.hybrid.dependency_frames import DependentMessage
from antecede.core.protocols.hybrid.entry import Entry
from antecede.core.protocols.hybrid.gone_peers import (
    choose_answerer,
    give_up,
    mark_all_settled,
)
from antecede.core.protocols.hybrid.ledger import Ledger
from antecede.core.protocols.hybrid.named_frames import named_ids, translate
from antecede.core.protocols.hybrid.pair_table import Unsettled
from antecede.core.protocols.hybrid.wildcards import SentWildcard, Wildcard

__all__ = ["HybridDependencies"]


class HybridDependencies(PeerDependencies):
    """The entries of one process."""

    __slots__ = ("_algorithm", "_ledger")

    def __init__(self, algorithm: HybridAlgorithm, ledger: Ledger) -> None:
        self._algorithm = algorithm
        self._ledger = ledger

    def enable(self, hold_s: float) -> None:
        self._ledger.hold_s = hold_s

    def identify(self, peer: ProcessId, source: int, target: int) -> None:
        ledger = self._ledger
        ledger.identify(peer, source, target)
        for pair in ledger.open:
            for unsettled in pair.unsettled:
                if unsettled.answerer == NO_PROCESS:  # Perhaps this peer can answer.
                    choose_answerer(ledger, unsettled, pair)

    def end_source(self, source: int, now: float) -> None:
        ledger = self._ledger
        mark_all_settled(ledger, source, now)
        self._algorithm.deliver_ready(ledger, give_up(ledger, source), None, now)
        self._algorithm.release(now)

    def used_ids(self) -> set[int]:
        ledger = self._ledger
        used = ledger.table.used_ids()
        used.update(ledger.wildcards.received, ledger.wildcards.sent, ledger.unacked)
        used.update(ledger.channels.ended)
        for part in ledger.peers.values():
            used.update((part.source, part.target))
            used.update(part.cleared, part.pending_clears)
        for peer in ledger.state.peers.values():
            for message in peer.held.values() if peer.is_receiving else ():
                if isinstance(message, DependentMessage):
                    used.update(message.wildcards)
                    for entry in (*message.own, *message.inherited):
                        used.update((entry.source, entry.target))
        return used

    def unsettled(self) -> list[tuple[int, int]]:
        ledger = self._ledger
        found = [(pair.source, pair.target) for pair in ledger.open for _ in pair.unsettled]
        for target, wildcards in ledger.wildcards.received.items():
            found += [(NO_PROCESS, target) for _ in wildcards]
        return found

    def awaited_targets(self) -> list[ProcessId]:
        ledger = self._ledger
        targets = {pair.target: None for pair in ledger.open}
        targets.update(dict.fromkeys(ledger.wildcards.received))
        found = [ledger.channels.find(target) for target in targets]
        return [peer for peer in found if peer != NO_PROCESS]

    def awaited(self, peer: ProcessId) -> tuple[ProcessId, int] | None:
        for source, waiting in self._ledger.waiting.items():
            if peer in waiting:
                sender = self._ledger.channels.sender(source)
                if sender != NO_PROCESS:
                    return sender, waiting[peer]
        return None

    def count_lost_wildcards(self) -> int:
        channels = self._ledger.channels
        lost = 0
        for wildcards in self._ledger.wildcards.received.values():
            for wildcard in wildcards:
                source = channels.source_of(ProcessId(wildcard.reporter))
                lost += source == NO_PROCESS or source in channels.ended
        return lost

    def named_ids(self, frame: Frame) -> list[int]:
        return named_ids(frame)

    def translate(self, frame: Frame, ids: IdTranslation) -> None:
        translate(frame, ids)

    def record_changes(self) -> None:
        self._ledger.changes = []

    def take_changes(self) -> list[EntryChange]:
        changes = self._ledger.changes
        if not changes:
            return []
        self._ledger.changes = []
        return changes

    def needs_permit(self, peer: ProcessId, number: int) -> bool:
        known = self._ledger.state.peers.get(peer)
        if known is None or not known.is_receiving:
            return False
        missing = known.missing
        index = missing.next - 1
        while index >= missing.first and missing[index].number > number:
            index -= 1
        return index >= missing.first and missing[index].number == number

    def restore(self, entries: Sequence[SavedEntry], now: float) -> None:
        ledger = self._ledger
        for source, target, number, reporter in entries:
            if source != NO_PROCESS:
                self._restore_entry(Entry(source, target, number), reporter, now)
            else:
                self._restore_wildcard(target, number, reporter, now)
            ledger.position += 1
        ledger.restored_position = ledger.position

    def restore_sent(self, wildcards: Sequence[SavedEntry]) -> None:
        ledger = self._ledger
        for position, target, number, id in wildcards:  # noqa: A001 (the word for it)
            peer = ledger.unacked.get(target)
            last = ledger.last_unacked(peer, number) if peer is not None else 0
            ledger.wildcards.add_sent(target, SentWildcard(position, number, id, last))

    def _restore_entry(self, entry: Entry, reporter: ProcessId, now: float) -> None:
        ledger = self._ledger
        pair = ledger.table.pair(entry.source, entry.target)
        if not pair.unsettled:
            ledger.open[pair] = None
        unsettled = Unsettled(entry, ledger.position, reporter, now, now)
        pair.unsettled.append(unsettled)
        if reporter == NO_PROCESS:
            choose_answerer(ledger, unsettled, pair)
        else:
            part = ledger.peer(reporter)
            part.unsettled[unsettled] = pair
            ledger.schedule_query(part, now)

    def _restore_wildcard(
        self, target: int, number: int, reporter: ProcessId, now: float
    ) -> None:
        ledger = self._ledger
        wildcard = Wildcard(target, reporter, number, ledger.position, now)
        ledger.wildcards.add(wildcard)
        if reporter != NO_PROCESS:
            part = ledger.peer(reporter)
            part.received[wildcard] = None
            ledger.schedule_query(part, now)
