"""Infer a run from a log with vector clocks, and verify the clocks.

The own entry of an event's clock is the position of the event in the history of its
process, for any order of lines. The entry of another process is the number of its events
that happened before.

**Messages by token.** If the log names its messages, the event that generated a token sent
a message, and the events that received the token received it.

**Messages by clock.** Otherwise messages are inferred. Let ``e`` be an event and ``d`` the
previous event of the same process. An entry of ``e`` that is larger than that of ``d`` was
raised by a message that ``e`` received. The entry names an event: the last event of that
process that happened before ``e``. Of these events, the *maximal* ones, which did not
happen before another one of them, sent the messages that ``e`` received. Usually there is
one.

A message that raises no entry cannot be distinguished from a local event. This is a message
that was overtaken, that arrived twice, or that a process sent to itself. Therefore clocks
alone never show a violation, and the properties of such a run are unknown. They can hold if
the option ``receives`` marks the events that receive, and all of these raise an entry.

**Consistency of the clocks.** From one event of a process to the next, no entry decreases
and the own entry increases by one. The clock of a receive is at least that of the send. No
entry exceeds the maximum of the previous event and of the received messages.
"""

from collections import defaultdict

import numpy as np

from antecede.ingest.diagnostics import IngestSummary
from antecede.ingest.event_table import DELIVER, LOCAL, NONE, SEND, EventTable
from antecede.ingest.inference.clock_log import ClockEvent, ClockLog

__all__ = ["ClockLog", "infer_from_clocks"]

INFERRED = (
    "messages are inferred from the clocks, which do not show a message that was overtaken"
    " or arrived twice; mark the events that receive with --receives"
)
PREDECESSOR_MISSING = "events whose predecessor in their process is missing"

Histories = dict[int, list[ClockEvent]]


def infer_from_clocks(log: ClockLog) -> tuple[EventTable, IngestSummary]:
    """Order the events by their clocks, find the messages, and verify the clocks."""
    histories = _histories(log)
    by_token = any(event.token is not None for event in log.events)
    if by_token:
        _match_tokens(log, [event for events in histories.values() for event in events])
    else:
        _infer_messages(log, histories)
    for events in histories.values():
        for before, event in zip([None, *events[:-1]], events, strict=True):
            _verify_clock(log, before, event)
    table = _event_table(log, histories)
    summary = IngestSummary(
        format_name=log.format_name,
        files=tuple(log.files),
        unit="events",
        records=log.records,
        unknown=len(log.unknown),
        processes=len(histories),
        missing=log.missing.collected(),
        reasons=() if by_token or log.marks_receives else (INFERRED,),
        clock_errors=log.clock_errors.collected(),
        notes=log.notes.collected(),
    )
    return table, summary


def _histories(log: ClockLog) -> Histories:
    """Return the events of each process in the order of their own entry."""
    histories: Histories = defaultdict(list)
    highest: dict[int, int] = {}
    for event in log.events:
        if event.own < highest.get(event.process, event.own):
            log.notes.add("lines after a later event of their process", log.location(event))
        highest[event.process] = max(event.own, highest.get(event.process, event.own))
        histories[event.process].append(event)
    for events in histories.values():
        # The sort is stable: of events with equal own entries, the first line is kept.
        events.sort(key=lambda event: event.own)
        kept = events[:1]
        if kept[0].own > 1:
            log.add_missing(PREDECESSOR_MISSING, kept[0])
        for event in events[1:]:
            if event.own == kept[-1].own:
                log.add_missing("events with the own entry of another event", event)
                continue
            if event.own > kept[-1].own + 1:
                log.add_missing(PREDECESSOR_MISSING, event)
            kept.append(event)
        events[:] = kept
    return dict(sorted(histories.items()))


def _match_tokens(log: ClockLog, events: list[ClockEvent]) -> None:
    sends: dict[str, ClockEvent] = {}
    for event in events:
        if event.token is not None and not event.is_receive:
            if event.token in sends:
                log.add_missing("sends of a token that another event sent", event)
            else:
                sends[event.token] = event
                event.is_send = True
    for event in events:
        if event.token is not None and event.is_receive:
            send = sends.get(event.token)
            if send is None:
                log.add_missing("receives without a send", event)
            else:
                event.causes.append(send)
                send.receivers += 1
    for send in sends.values():
        if not send.receivers:
            log.notes.add("messages without a receive", log.location(send))


def _infer_messages(log: ClockLog, histories: Histories) -> None:
    index = {
        (event.process, event.own): event
        for events in histories.values()
        for event in events
    }
    for events in histories.values():
        known: dict[int, int] = {}
        for event in events:
            raised = [
                (process, count)
                for process, count in event.clock.items()
                if process != event.process and count > known.get(process, 0)
            ]
            known = event.clock
            if not raised and event.is_receive:
                log.add_missing("receives that raise no entry of the clock", event)
            found = [index[each] for each in raised if each in index]
            if len(found) < len(raised):
                process, _ = next(each for each in raised if each not in index)
                name = log.name(process)
                if process not in histories:
                    name = f"the unknown process {name}"
                log.add_missing(f"clocks with missing events of {name}", event)
            event.causes = _maximal(found)
            for cause in event.causes:
                cause.is_send = True
                cause.receivers += 1


def _maximal(events: list[ClockEvent]) -> list[ClockEvent]:
    """Return the events that did not happen before another one of them."""
    maximal = [
        event
        for event in events
        if not any(
            other is not event and other.clock.get(event.process, 0) >= event.own
            for other in events
        )
    ]
    # Inconsistent clocks can order all events before each other.
    return maximal or events[:1]


def _verify_clock(log: ClockLog, before: ClockEvent | None, event: ClockEvent) -> None:
    """Compare a clock with those of the previous event and of the received messages."""
    expected = dict(before.clock) if before is not None else {}
    if not event.causes and event.clock == {**expected, event.process: event.own}:
        return  # The common case.
    if any(event.clock.get(process, 0) < count for process, count in expected.items()):
        log.clock_errors.add("clocks with a decreasing entry", log.location(event))
        return
    for cause in event.causes:
        for process, count in cause.clock.items():
            expected[process] = max(count, expected.get(process, 0))
    expected[event.process] = max(event.own, expected.get(event.process, 0))
    if any(event.clock.get(process, 0) < count for process, count in expected.items()):
        log.clock_errors.add(
            "clocks of receives below the clock of their send", log.location(event)
        )
    elif event.clock != expected and (event.file, event.line) not in log.unknown:
        log.clock_errors.add(
            "clocks with an entry that no message explains", log.location(event)
        )


def _event_table(log: ClockLog, histories: Histories) -> EventTable:
    messages: dict[int, int] = {}
    is_known: list[bool] = []
    rows: list[tuple[int, int, int]] = []
    sources: list[ClockEvent] = []
    for events in histories.values():
        for event in events:
            if event.is_send:
                messages[id(event)] = len(is_known)
                is_known.append(event.receivers > 0)
    for process, events in histories.items():
        for event in events:
            # A message carries the clock of its send, so an event receives before it sends.
            own = [(process, DELIVER, messages[id(cause)]) for cause in event.causes]
            if event.is_send:
                own.append((process, SEND, messages[id(event)]))
            own = own or [(process, LOCAL, NONE)]
            rows += own
            sources += [event] * len(own)
    is_timed = bool(sources) and all(event.time_ns is not None for event in sources)
    columns = np.array(rows, np.int64).reshape(-1, 3)
    return EventTable(
        names=list(log.names),
        files=log.files,
        process=columns[:, 0].astype(np.int32),
        kind=columns[:, 1].astype(np.int32),
        message=columns[:, 2].copy(),
        time_ns=np.array([e.time_ns for e in sources], np.int64) if is_timed else None,
        hint=np.array([e.line for e in sources], np.int64),
        file=np.array([e.file for e in sources], np.int32),
        line=np.array([e.line for e in sources], np.int64),
        is_known=np.array(is_known, np.bool_),
    )
