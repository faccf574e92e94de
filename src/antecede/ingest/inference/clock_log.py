"""The events of one run of a log with vector clocks."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from antecede.ingest.diagnostics import Diagnostics, SourceLocation
from antecede.ingest.event_table import NONE

__all__ = ["ClockEvent", "ClockLog"]


@dataclass(slots=True)
class ClockEvent:
    """An event with a vector clock."""

    process: int
    own: int
    """The entry of the event's process."""
    clock: dict[int, int]
    file: int
    line: int
    time_ns: int | None
    token: str | None
    is_receive: bool | None
    causes: "list[ClockEvent]" = field(default_factory=list)
    """The events that sent the messages that this event received."""
    receivers: int = 0
    """The number of events that received the message that this event sent."""
    is_send: bool = False


class ClockLog:
    """Collects the events of one run from all its files."""

    def __init__(self, format_name: str) -> None:
        self.format_name = format_name
        self.records = 0
        """The number of records, with those that could not be read."""
        self.files: list[str] = []
        self.names: dict[str, int] = {}
        """By name, the number of the process."""
        self.events: list[ClockEvent] = []
        self.missing = Diagnostics()
        self.clock_errors = Diagnostics()
        self.notes = Diagnostics()
        self.unknown: set[tuple[int, int]] = set()
        """The file and line of each event that is incomplete or could not be read."""
        self.marks_receives = False
        """Whether the records say which events receive, but not which message."""

    def add(self, file: str, batch: pa.RecordBatch) -> None:
        """Add records of a file; each unreadable one adds a diagnostic to ``missing``."""
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
            at = NONE if process is None else self._number(process)
            if problem is None and at not in clock:
                problem = "the clock has no entry for its own process"
            if problem is not None:
                self.unknown.add((index, line))
                self.missing.add(f"unread: {problem}", SourceLocation(file, line, process))
                continue
            self.marks_receives |= is_receive is not None and token is None
            self.events.append(
                ClockEvent(at, clock[at], clock, index, line, time_ns, token, is_receive)
            )

    @property
    def read(self) -> int:
        """The number of records that could be read."""
        return len(self.events)

    def add_unread(self, other: "ClockLog") -> None:
        """Add the records of another log, none of which could be read."""
        self.records += other.records
        for each in other.missing.collected():
            self.missing.add_many(each.description, each.count, each.locations)
        for file, line in other.unknown:
            self.unknown.add((-1 - file, line))  # Distinct from the files of this log.

    def location(self, event: ClockEvent) -> SourceLocation:
        """Return the location of an event."""
        return SourceLocation(self.files[event.file], event.line, self.name(event.process))

    def name(self, process: int) -> str:
        """Return the name of a process."""
        return list(self.names)[process]

    def add_missing(self, description: str, event: ClockEvent) -> None:
        """Add a diagnostic to ``missing``, and mark the event as unknown."""
        self.unknown.add((event.file, event.line))
        self.missing.add(description, self.location(event))

    def _clocks(self, column: pa.MapArray) -> Iterator[dict[int, int]]:
        """Yield the clocks with process numbers as keys; null is an empty clock."""
        names = column.keys.dictionary_encode()
        numbers = [self._number(name) for name in names.dictionary.to_pylist()]
        indices = names.indices.to_numpy(zero_copy_only=False)
        keys = np.array(numbers, np.int64)[indices].tolist()
        counts = column.items.to_pylist()
        for start, stop in pairwise(column.offsets.to_pylist()):
            yield dict(zip(keys[start:stop], counts[start:stop], strict=True))

    def _number(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))
