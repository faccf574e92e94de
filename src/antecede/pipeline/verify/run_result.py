"""The result of the verification of one run in a table, as one row.

The row has the verdict on each property, and the violations. It is small, so that Spark can
keep it and make several tables of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import pyarrow as pa

from antecede.pipeline.verify.breakdown_rows import (
    PAIR,
    PART,
    pair_rows,
    timeline_rows,
)
from antecede.pipeline.verify.violation_rows import ViolationRows
from antecede.verify.oracle import MessageId, Property, Violation
from antecede.verify.verdict import Status, TraceVerdict

__all__ = ["CLOCKS", "RESULT", "MessageRecord", "clocks_row", "error_row", "result_row"]

CLOCKS = "clocks"
"""The property of a table with vector clocks that they are consistent."""

_MESSAGE = [
    # The process that sent the message, and the message's number among all that it sent.
    pa.field("source", pa.string()),
    pa.field("number", pa.int64()),
    # The name of the message in a table of messages.
    pa.field("name", pa.string()),
    # The span that sent it, and the trace of the span, in a table of spans.
    pa.field("trace", pa.string()),
    pa.field("span", pa.string()),
    # Seconds by the clock of the source.
    pa.field("sent_time", pa.float64()),
]
_DELIVERED = pa.struct(
    [
        *_MESSAGE,
        # Seconds by the clock of the process that delivered it.
        pa.field("delivered_time", pa.float64()),
    ]
)
_VERDICT = pa.struct(
    [
        pa.field("property", pa.string()),
        pa.field("status", pa.string()),
        pa.field("judged", pa.int64()),
        pa.field("violated", pa.int64()),
        pa.field("unknown", pa.int64()),
        pa.field("listed", pa.int64()),
    ]
)
_VIOLATION = pa.struct(
    [
        pa.field("property", pa.string()),
        pa.field("process", pa.string()),
        pa.field("message", _DELIVERED),
        pa.field("earlier", _DELIVERED),
        pa.field("path", pa.list_(pa.struct(_MESSAGE))),
        pa.field("text", pa.string()),
    ]
)
RESULT: pa.Schema = pa.schema(
    [
        pa.field("run", pa.string()),
        pa.field("error", pa.string()),
        pa.field("events", pa.int64()),
        pa.field("messages", pa.int64()),
        pa.field("deliveries", pa.int64()),
        pa.field("reasons", pa.list_(pa.string())),
        pa.field("notes", pa.list_(pa.string())),
        pa.field("properties", pa.list_(_VERDICT)),
        pa.field("violations", pa.list_(_VIOLATION)),
        # The numbers of all violations, by processes and by time.
        pa.field("pairs", pa.list_(PAIR)),
        pa.field("timeline", pa.list_(PART)),
    ]
)
"""One row for each run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRecord:
    """The record of the caller's table that a message was inferred from."""

    name: str | None = None
    trace: str | None = None
    span: str | None = None
    file: str | None = None
    line: int | None = None


def _no_record(row: int) -> MessageRecord:
    return MessageRecord()


def result_row(
    run: str | None,
    verdict: TraceVerdict,
    *,
    events: int,
    found: ViolationRows,
    record_of_send: Callable[[int], MessageRecord] = _no_record,
    time_zero: float = 0.0,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Return a row of :data:`RESULT`.

    Args:
        run: The name of the run.
        verdict: The verdict on its events.
        events: The number of its events.
        found: The rows of the messages of the violations.
        record_of_send: Returns the record of the send in this row.
        time_zero: Is added to all times.
        notes: Further lines about the run.
    """
    names = verdict.names

    def name(process: int) -> str:
        return names.get(process, str(process))

    def time(value: float) -> float | None:
        return None if isnan(value) else value + time_zero

    def message(which: MessageId) -> dict[str, Any]:
        row: dict[str, Any] = {"source": name(which.source), "number": which.number}
        if which in found.sends:
            sent, sent_time = found.sends[which]
            record = record_of_send(sent)
            row.update(name=record.name, trace=record.trace, span=record.span)
            row["sent_time"] = time(sent_time)
        return row

    def delivered(which: MessageId, violation: Violation) -> dict[str, Any]:
        rows = found.deliveries.get((violation.process, which), [])
        is_surplus = violation.property is Property.NO_DUPLICATION
        times = [each for _, each in rows[int(is_surplus) : int(is_surplus) + 1]]
        return {**message(which), "delivered_time": time(times[0]) if times else None}

    violations = [
        {
            "property": each.property.value,
            "process": name(each.process),
            "message": delivered(each.message, each),
            "earlier": delivered(each.chain[0], each) if each.chain else None,
            "path": [message(which) for which in each.chain],
            "text": each.format(names),
        }
        for each in verdict.violations
    ]
    return {
        "run": run,
        "events": events,
        "messages": verdict.messages,
        "deliveries": verdict.deliveries,
        "reasons": list(verdict.reasons),
        "notes": list(notes),
        "properties": _property_rows(verdict),
        "violations": violations,
        "pairs": pair_rows(verdict.breakdown, name),
        "timeline": timeline_rows(verdict.breakdown, time_zero),
    }


def error_row(run: str | None, error: Exception) -> dict[str, Any]:
    """Return a row of :data:`RESULT` for a run that cannot be verified."""
    properties = [{"property": which.value} for which in Property]
    return {"run": run, "error": str(error), "properties": properties, "violations": []}


def clocks_row(records: int, errors: int) -> dict[str, Any]:
    """Return the verdict on the vector clocks of a run."""
    return {
        "property": CLOCKS,
        "status": (Status.VIOLATED if errors else Status.HELD).value,
        "judged": records,
        "violated": errors,
        "unknown": 0,
        "listed": 0,
    }


def _property_rows(verdict: TraceVerdict) -> list[dict[str, Any]]:
    """Return the verdict on each property, with the number of deliveries."""
    return [
        {
            "property": which.value,
            "status": verdict.statuses[which].value,
            **verdict.delivery_counts(which)._asdict(),
            "listed": sum(each.property is which for each in verdict.violations),
        }
        for which in Property
    ]
