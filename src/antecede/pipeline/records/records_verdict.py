"""The verdict on a long run of spans or messages, with the records of its violations."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from antecede.ingest.diagnostics import IngestSummary, SourceLocation
from antecede.pipeline.verify.run_result import MessageRecord, result_row
from antecede.pipeline.verify.violation_rows import ViolationRows
from antecede.verify.oracle import MessageId, Violation
from antecede.verify.verdict import TraceVerdict

__all__ = ["RecordsVerdict"]

NS = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsVerdict:
    """The verdict on a run; an :class:`antecede.ingest.verdict.LocatedRun`."""

    verdict: TraceVerdict
    summary: IngestSummary
    events: int
    """The number of sends and deliveries."""
    zero_ns: int
    """The time that the times of events are relative to, in nanoseconds since 1970."""
    found: ViolationRows = field(default_factory=ViolationRows)
    """The rows of the messages of the violations."""
    records: Mapping[MessageId, MessageRecord] = field(default_factory=dict)
    """The records of the sends of these messages."""

    def location_of_send(self, message: MessageId) -> SourceLocation | None:
        """Return the file and the line of the send of a message of a violation."""
        record = self.records.get(message)
        if record is None or record.file is None or record.line is None:
            return None
        return SourceLocation(record.file, record.line)

    def row(self, run: str) -> dict[str, Any]:
        """Return a row of :data:`antecede.pipeline.verify.run_result.RESULT`."""
        by_row = {row: self.records.get(m) for m, (row, _) in self.found.sends.items()}
        return result_row(
            run,
            self.verdict,
            events=self.events,
            found=self.found,
            record_of_send=lambda row: by_row.get(row) or MessageRecord(),
            time_zero=self.zero_ns / NS,
            notes=self.summary.lines(),
        )

    def with_ranks(self) -> "RecordsVerdict":
        """Return the verdict with the rank of each message instead of its number.

        The rank of a message is its position among the messages of its source, from 1. The
        number is a time (:func:`antecede.pipeline.records.slices.message_numbers`).
        """
        before = self.found.sends_before

        def ranked(message: MessageId) -> MessageId:
            return MessageId(message.source, before[message] + 1)

        found = ViolationRows(
            sends={ranked(each): row for each, row in self.found.sends.items()},
            deliveries={
                (process, ranked(each)): rows
                for (process, each), rows in self.found.deliveries.items()
            },
        )
        return replace(
            self,
            verdict=replace(
                self.verdict,
                violations=tuple(_ranked(v, ranked) for v in self.verdict.violations),
            ),
            found=found,
            records={ranked(each): record for each, record in self.records.items()},
        )


def _ranked(violation: Violation, ranked: Callable[[MessageId], MessageId]) -> Violation:
    return replace(
        violation,
        message=ranked(violation.message),
        chain=tuple(map(ranked, violation.chain)),
    )
