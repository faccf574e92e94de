"""Logs with vector clocks: what happened before what, and whether the clocks make sense.

The own entry of an event's clock is its place in its process's history, whatever the order
of lines. An entry of another process says how many of its events had happened before.

**Messages by token.** Where the log names its messages, the event that made a token sent a
message, and those that took it received it.

**Messages by clock.** Else they are inferred. Let ``e`` be an event and ``d`` the one
before it at the same process. Entries of ``e`` that are above those of ``d`` were raised by
what ``e`` received. Each names an event: the last of that process that ``e`` knows of. Of
these, one that happened before another came with it; the others, the *maximal* ones, sent a
message that ``e`` received. Usually there is just one.

A message that brings nothing new raises nothing, and cannot be told from something local:
one that was overtaken, or came twice, or was sent by the process to itself. So clocks alone
never show a violation, and a run without one is unknown, not held; unless it is told which
events receive (``receives``), and all of these raise something.

**The clocks themselves.** From one event of a process to the next, no entry falls, and the
own entry rises by one; an event that receives knows all that the event that sent knew, and
no event knows what neither its process nor a message can have told it.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from antecede.ingest.diagnostics import Collector, Findings, Place
from antecede.ingest.event_table import DELIVER, LOCAL, NONE, SEND, Draft, skew_of

__all__ = ["ClockedLog", "draft_clocked"]

INFERRED = (
    "messages are inferred from the clocks, in which one that was overtaken, or came twice,"
    " leaves no mark; tell which events receive with --receives"
)
MISSING = "events before which others of their process are missing"


@dataclass(slots=True)
class _Event:
    """An event whose clock was read."""

    process: int
    own: int
    clock: dict[int, int]
    file: int
    line: int
    time_ns: int | None
    token: str | None
    is_receive: bool | None
    causes: "list[_Event]" = field(default_factory=list)
    """The events that sent what it received."""
    targets: int = 0
    """How many events received what it sent."""
    is_send: bool = False


class ClockedLog:
    """The events of one run; add the records of all its files, then draft it."""

    records: int
    """How many records there were."""

    def __init__(self, format_name: str) -> None:
        """Start with no events."""
        self.format_name = format_name
        self.records = 0
        self.files: list[str] = []
        self.names: dict[str, int] = {}
        self.events: list[_Event] = []
        self.holes = Collector()
        self.faults = Collector()
        self.notes = Collector()
        self.unknown: set[tuple[int, int]] = set()
        self.is_told = False
        """It is told which events receive a message, though not which."""

    def add(self, file: str, batch: pa.RecordBatch) -> None:
        """Take in records of :data:`antecede.ingest.formats.records.CLOCKED` of a file."""
        if not self.files or self.files[-1] != file:
            self.files.append(file)
        index = len(self.files) - 1
        self.records += batch.num_rows
        columns = ("line", "problem", "process", "time_ns", "token", "is_receive")
        for (line, problem, process, time_ns, token, is_receive), clock in zip(
            zip(*(batch.column(name).to_pylist() for name in columns), strict=True),
            self._clocks(batch.column("clock")),
            strict=True,
        ):
            at = NONE if process is None else self._id(process)
            if problem is None and at not in clock:
                problem = "its clock has no entry of its own process"
            if problem is not None:
                self.unknown.add((index, line))
                self.holes.add(f"unread: {problem}", Place(file, line, process))
                continue
            event = _Event(at, clock[at], clock, index, line, time_ns, token, is_receive)
            self.is_told |= is_receive is not None and token is None
            self.events.append(event)

    def _clocks(self, column: pa.MapArray) -> Iterator[dict[int, int]]:
        """Yield the clocks, with our numbers for the processes; what is null is empty."""
        names = column.keys.dictionary_encode()
        ids = np.array([self._id(name) for name in names.dictionary.to_pylist()], np.int64)
        keys = ids[names.indices.to_numpy(zero_copy_only=False)].tolist()
        counts = column.items.to_pylist()
        for start, stop in pairwise(column.offsets.to_pylist()):
            yield dict(zip(keys[start:stop], counts[start:stop], strict=True))

    @property
    def read(self) -> int:
        """How many records could be read."""
        return len(self.events)

    def take_unread(self, other: "ClockedLog") -> None:
        """Count to this run what could not be read of another, of which nothing could."""
        self.records += other.records
        for finding in other.holes.findings():
            self.holes.add_all(finding.what, finding.count, finding.places)
        for file, line in other.unknown:
            self.unknown.add((-1 - file, line))  # Files of another log have no place here.

    def _id(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    def place(self, event: _Event) -> Place:
        """Return where an event stands."""
        name = self.name(event.process)
        return Place(self.files[event.file], event.line, name)

    def name(self, process: int) -> str:
        """Return the name of a process."""
        return list(self.names)[process]

    def hole(self, what: str, event: _Event) -> None:
        """Note that something about an event is missing: it is not judged."""
        self.unknown.add((event.file, event.line))
        self.holes.add(what, self.place(event))


def draft_clocked(log: ClockedLog) -> tuple[Draft, Findings]:
    """Order the events by their clocks, find the messages, and check the clocks."""
    histories = _histories(log)
    by_token = any(event.token is not None for event in log.events)
    if by_token:
        _match_tokens(log, [event for events in histories.values() for event in events])
    else:
        _infer_messages(log, histories)
    _check_clocks(log, histories)
    draft = _draft(log, histories)
    findings = Findings(
        format_name=log.format_name,
        files=tuple(log.files),
        unit="events",
        records=log.records,
        unknown=len(log.unknown),
        processes=len(histories),
        holes=log.holes.findings(),
        reasons=() if by_token or log.is_told else (INFERRED,),
        faults=log.faults.findings(),
        notes=log.notes.findings(),
        skew=skew_of(draft),
    )
    return draft, findings


def _histories(log: ClockedLog) -> dict[int, list[_Event]]:
    """Return the events of each process in the order of its own entry."""
    histories: dict[int, list[_Event]] = defaultdict(list)
    highest: dict[int, int] = {}
    for event in log.events:
        if event.own < highest.get(event.process, event.own):
            log.notes.add(
                "lines that stand after a later event of their process", log.place(event)
            )
        highest[event.process] = max(event.own, highest.get(event.process, event.own))
        histories[event.process].append(event)
    for events in histories.values():
        # Stable: of several events in one place, the first in the file is kept.
        events.sort(key=lambda event: event.own)
        kept = events[:1]
        if kept[0].own > 1:
            log.hole(MISSING, kept[0])
        for event in events[1:]:
            if event.own == kept[-1].own:
                log.hole("events in a place that another event of their process has", event)
                continue
            if event.own > kept[-1].own + 1:
                log.hole(MISSING, event)
            kept.append(event)
        events[:] = kept
    return dict(sorted(histories.items()))


def _match_tokens(log: ClockedLog, events: list[_Event]) -> None:
    sends: dict[str, _Event] = {}
    for event in events:
        if event.token is not None and not event.is_receive:
            if event.token in sends:
                log.hole("sends of a token that another event has sent already", event)
            else:
                sends[event.token] = event
                event.is_send = True
    for event in events:
        if event.token is not None and event.is_receive:
            send = sends.get(event.token)
            if send is None:
                log.hole("receives without a send", event)
            else:
                event.causes.append(send)
                send.targets += 1
    for send in sends.values():
        if not send.targets:
            log.notes.add("messages that nobody received", log.place(send))


def _infer_messages(log: ClockedLog, histories: dict[int, list[_Event]]) -> None:
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
                log.hole("receives whose clock shows nothing new", event)
            found = [index[each] for each in raised if each in index]
            if len(found) < len(raised):
                missing = next(each for each in raised if each not in index)
                who = log.name(missing[0])
                if missing[0] not in histories:
                    who = f"the unknown process {who}"
                log.hole(f"clocks that know of events of {who} that are not there", event)
            event.causes = [
                cause
                for cause in found
                if not any(
                    other is not cause and other.clock.get(cause.process, 0) >= cause.own
                    for other in found
                )
            ] or found[:1]
            for cause in event.causes:
                cause.is_send = True
                cause.targets += 1


def _check_clocks(log: ClockedLog, histories: dict[int, list[_Event]]) -> None:
    """Hold each clock against that of the event before it and those of its messages."""
    for events in histories.values():
        for before, event in pairwise([None, *events]):
            assert event is not None
            _check_clock(log, before, event)


def _check_clock(log: ClockedLog, before: _Event | None, event: _Event) -> None:
    told = dict(before.clock) if before is not None else {}
    if not event.causes and event.clock == {**told, event.process: event.own}:
        return  # So it is with most events.
    if any(event.clock.get(process, 0) < count for process, count in told.items()):
        log.faults.add("clocks that go backwards", log.place(event))
        return
    for cause in event.causes:
        for process, count in cause.clock.items():
            told[process] = max(count, told.get(process, 0))
    told[event.process] = max(event.own, told.get(event.process, 0))
    if any(event.clock.get(process, 0) < count for process, count in told.items()):
        log.faults.add(
            "clocks that do not know what the message received was sent with",
            log.place(event),
        )
    elif event.clock != told and (event.file, event.line) not in log.unknown:
        log.faults.add("clocks that know more than messages told", log.place(event))


def _draft(log: ClockedLog, histories: dict[int, list[_Event]]) -> Draft:
    messages: dict[int, int] = {}
    is_known: list[bool] = []
    rows: list[tuple[int, int, int]] = []
    sources: list[_Event] = []
    for events in histories.values():
        for event in events:
            if event.is_send:
                messages[id(event)] = len(is_known)
                is_known.append(event.targets > 0)
    for process, events in histories.items():
        for event in events:
            # What an event sends carries its clock, so that it received before it sent.
            received = [(process, DELIVER, messages[id(cause)]) for cause in event.causes]
            done = received
            if event.is_send:
                done = [*received, (process, SEND, messages[id(event)])]
            done = done or [(process, LOCAL, NONE)]
            rows += done
            sources += [event] * len(done)
    is_timed = bool(sources) and all(event.time_ns is not None for event in sources)
    table = np.array(rows, np.int64).reshape(-1, 3)
    return Draft(
        names=list(log.names),
        files=log.files,
        process=table[:, 0].astype(np.int32),
        kind=table[:, 1].astype(np.int32),
        message=table[:, 2].copy(),
        time_ns=np.array([e.time_ns for e in sources], np.int64) if is_timed else None,
        hint=np.array([e.line for e in sources], np.int64),
        file=np.array([e.file for e in sources], np.int32),
        line=np.array([e.line for e in sources], np.int64),
        is_known=np.array(is_known, np.bool_),
    )
