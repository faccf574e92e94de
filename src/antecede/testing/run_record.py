"""The record of a simulated run: the events of all its nodes as one trace."""

from dataclasses import replace
from typing import Final

from antecede.trace import Event, Kind
from antecede.trace.live.names import base_name, display_names, qualified_name
from antecede.trace.recorders import EventCounter, MemoryRecorder

__all__ = ["NodeRecord", "RunRecord"]

NO_ID: Final = -1
"""Stands for a process that the recording node has never met."""


class NodeRecord:
    """The events of one incarnation of a node, with the node's own process ids."""

    def __init__(self, name: str, incarnation: int) -> None:
        self.name = name
        """The name of the process: the name of the node, qualified with its history."""
        self.incarnation = incarnation
        self.collected = 0
        """How many events the run has taken over."""
        self.names: dict[int, str] = {0: name}
        self.rows_kept: int | None = None
        """How many events count; None for all. The others were lost when the node was
        killed before it had committed them, and nobody has seen their effects."""
        self.successor: NodeRecord | None = None
        """The incarnation that was restored from the journal of this one."""
        self._named_at: dict[int, int] = {}
        self._recorder = MemoryRecorder()
        self.observer = EventCounter(self._recorder)

    @property
    def events(self) -> list[Event]:
        """The events so far."""
        return self._recorder.events

    @property
    def rows(self) -> int:
        """The number of events so far."""
        return len(self._recorder.events)

    def set_name(self, process_id: int, name: str) -> None:
        """Name a process that events refer to."""
        self.names[process_id] = name
        self._named_at[process_id] = self.rows

    def committed_names(self) -> dict[int, str]:
        """Return the names by process id, without the histories that were not committed.

        A node that meets a peer for the first time, and is killed before it has committed
        that, has transmitted nothing to this history of the peer. After its restart, the
        messages that it sent before go to the history that it meets then. The history was
        not committed if no event that counts is later, and the successor does not know it.
        """
        if self.rows_kept is None or self.successor is None:
            return self.names
        known = self.successor.names.values()
        return {
            own: base_name(name)
            if self._named_at.get(own, -1) >= self.rows_kept and name not in known
            else name
            for own, name in self.names.items()
        }

    def flush(self) -> None:
        """Do nothing: every event is in memory."""

    def close(self, *, complete: bool) -> None:
        """Do nothing: the simulation reads the events later."""


class RunRecord:
    """The records of all nodes of a run, in the order of their events."""

    def __init__(self) -> None:
        self.nodes: list[NodeRecord] = []
        self._order: list[tuple[NodeRecord, int, int]] = []  # Record, first row, end.

    def open(
        self,
        name: str,
        history: int,
        incarnation: int,
        continues: tuple[int, int] | None,
    ) -> NodeRecord:
        """Open the record of an incarnation.

        Args:
            name: the name of the node.
            history: the history of the node.
            incarnation: the number of this start.
            continues: for a node with a journal, the earlier incarnation that committed
                last, and how many events it had committed.
        """
        process = qualified_name(name, history)
        record = NodeRecord(process, incarnation)
        if continues is not None:
            for earlier in self.nodes:
                if earlier.name == process and earlier.rows_kept is None:
                    is_last = continues[0] == earlier.incarnation
                    earlier.rows_kept = continues[1] if is_last else 0
                    earlier.successor = record
        self.nodes.append(record)
        return record

    def collect(self, record: NodeRecord) -> None:
        """Take over the events that a node has recorded since the last call.

        Call it whenever the node has run, so that the order is that of the run.
        """
        end = record.rows
        if end > record.collected:
            self._order.append((record, record.collected, end))
            record.collected = end

    def names(self) -> list[str]:
        """Return the names of the processes by id, as recorded.

        A name without a history belongs to a process that no node has met.
        """
        found = {name for record in self.nodes for name in record.names.values()}
        met = {base_name(name) for name in found if base_name(name) != name}
        return sorted(name for name in found if name not in met)

    def display_names(self) -> dict[int, str]:
        """Return the names of the processes by id, for people."""
        names = self.names()
        displayed = display_names(names)
        return {index: displayed[name] for index, name in enumerate(names)}

    def events(self) -> list[Event]:
        """Return all events that count, in order, with the ids of :meth:`names`."""
        ids = {name: index for index, name in enumerate(self.names())}
        events: list[Event] = []
        unmet: list[tuple[int, set[int]]] = []
        for record, first, end in self._order:
            own_names = record.committed_names()
            mapped = {own: ids.get(name, NO_ID) for own, name in own_names.items()}
            kept = end if record.rows_kept is None else min(end, record.rows_kept)
            for event in record.events[first:kept]:
                translated = _translated(event, mapped)
                if NO_ID in (translated.targets or ()):
                    names = [own_names[own] for own in event.targets or ()]
                    unmet.append((len(events), _candidates(names, ids)))
                events.append(translated)
        if unmet:
            _resolve_unmet(events, unmet)
        return events


def _candidates(names: list[str], ids: dict[str, int]) -> set[int]:
    """Return the ids of all histories of the names that have no id of their own."""
    bare = {name for name in names if name not in ids}
    return {ids[name] for name in ids if base_name(name) in bare}


def _resolve_unmet(events: list[Event], unmet: list[tuple[int, set[int]]]) -> None:
    """Replace targets that their source had not met by those that delivered the message."""
    deliveries = {
        (event.source, event.number, event.process)
        for event in events
        if event.kind is Kind.DELIVER
    }
    for index, candidates in unmet:
        event = events[index]
        met = [target for target in event.targets or () if target != NO_ID]
        met += sorted(
            each for each in candidates if (event.source, event.number, each) in deliveries
        )
        events[index] = replace(event, targets=tuple(met))


def _translated(event: Event, ids: dict[int, int]) -> Event:
    return replace(
        event,
        process=ids[event.process],
        source=None if event.source is None else ids[event.source],
        target=None if event.target is None else ids[event.target],
        targets=(
            None if event.targets is None else tuple(ids[each] for each in event.targets)
        ),
    )
