"""Read the events that prove a violation from a trace of any size.

This module needs the extra ``antecede[trace]``.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from antecede.diagram.evidence import evidence_copies
from antecede.trace.event import Event, Kind
from antecede.trace.reader import Trace
from antecede.trace.table import events_from_table
from antecede.verify.kernels.slot_map import SlotMap
from antecede.verify.oracle import MessageId, Property, Violation

__all__ = ["LocatedEvent", "MessageEvents", "evidence_events", "read_messages"]

AT_TARGET = (Kind.ARRIVE, Kind.DELIVER)
"""The kinds of events of a copy that happen at its target."""
AT_SOURCE = (Kind.RELEASE, Kind.TRANSMIT, Kind.DROP)
"""The kinds of events of a copy that happen elsewhere, and name the target."""


@dataclass(frozen=True, slots=True)
class LocatedEvent:
    """An event, its row in the trace, and its position in the history of its process."""

    row: int
    seq: int
    event: Event


MessageEvents = Mapping[MessageId, Sequence[LocatedEvent]]
"""By message, its events; such as :func:`read_messages` returns."""


def read_messages(trace: Trace, messages: Iterable[MessageId]) -> MessageEvents:
    """Read the events of some messages; only these are in memory."""
    wanted = SlotMap()
    keys = sorted(set(messages))
    wanted.add(
        np.array([each.source for each in keys], np.int64),
        np.array([each.number for each in keys], np.int64),
    )
    rows: list[int] = []
    for first, batch in trace.numbered_batches(("source", "number")):
        source = np.array(batch.column("source").fill_null(0).to_numpy(), np.int64)
        number = np.array(batch.column("number").fill_null(0).to_numpy(), np.int64)
        hits = np.flatnonzero(wanted.find(source, number) >= 0) + first
        rows += hits.tolist()
    found: dict[MessageId, list[LocatedEvent]] = {}
    while rows:
        batches = trace.numbered_batches(first=rows[0], last=rows[0])
        start, batch = next(iter(batches))
        inside = [row for row in rows if row < start + batch.num_rows]
        rows = rows[len(inside) :]
        taken = batch.take(pa.array([row - start for row in inside]))
        seqs = taken.column("seq").to_pylist()
        for row, seq, event in zip(inside, seqs, events_from_table(taken), strict=True):
            if event.source is not None and event.number is not None:
                message = MessageId(event.source, event.number)
                found.setdefault(message, []).append(LocatedEvent(row, seq, event))
    return found


def evidence_events(violation: Violation, messages: MessageEvents) -> list[Event]:
    """Return the events of the copies that prove a violation, in a linear extension.

    The targets of a send are those of the copies, so that a diagram draws no others.

    Args:
        violation: The violation.
        messages: The events of its messages, and perhaps of others.
    """
    targets: dict[MessageId, set[int]] = {each: set() for each in violation.chain}
    for message, target in evidence_copies(violation):
        targets.setdefault(message, set()).add(target)
    was_sent = violation.property is not Property.NO_CREATION
    chosen = []
    for message, own in targets.items():
        for located in messages.get(message, ()):
            event = located.event
            if event.kind is Kind.SEND:
                shown = own if event.targets is None else own & {*event.targets}
                shown = shown if was_sent or event.targets is not None else set()
                event = replace(event, targets=tuple(sorted(shown)))
                chosen.append(replace(located, event=event))
            elif (event.kind in AT_TARGET and event.process in own) or (
                event.kind in AT_SOURCE and event.target in own
            ):
                chosen.append(located)
    return [located.event for located in _in_order(chosen)]


def _in_order(events: Sequence[LocatedEvent]) -> list[LocatedEvent]:
    """Return the events in a linear extension: the order of the rows if that is one."""
    histories: dict[int, list[LocatedEvent]] = {}
    for located in sorted(events, key=lambda each: (each.seq, each.row)):
        histories.setdefault(located.event.process, []).append(located)
    unsent = {_message(each) for each in events if each.event.kind is Kind.SEND}
    ready = [(history[0].row, process) for process, history in histories.items()]
    heapq.heapify(ready)
    waiting: list[tuple[int, int]] = []
    ordered: list[LocatedEvent] = []
    taken = dict.fromkeys(histories, 0)
    while ready:
        row, process = heapq.heappop(ready)
        located = histories[process][taken[process]]
        is_send = located.event.kind is Kind.SEND
        if not is_send and _message(located) in unsent:
            waiting.append((row, process))
            continue
        ordered.append(located)
        taken[process] += 1
        if taken[process] < len(histories[process]):
            following = histories[process][taken[process]]
            heapq.heappush(ready, (following.row, process))
        if is_send:
            unsent.discard(_message(located))
            for each in waiting:
                heapq.heappush(ready, each)
            waiting = []
    return ordered


def _message(located: LocatedEvent) -> tuple[int | None, int | None]:
    return located.event.source, located.event.number
