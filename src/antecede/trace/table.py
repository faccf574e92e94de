"""Convert events to an Arrow table and back.

This module needs the extra ``antecede[trace]``.
"""

from collections.abc import Iterable, Iterator
from dataclasses import fields

import pyarrow as pa

from antecede.errors import TraceError
from antecede.trace.event import Event, Kind
from antecede.trace.schema import SCHEMA

__all__ = ["events_from_table", "events_to_table", "missing_row"]

_KINDS = {kind.value: kind for kind in Kind}
_FIELDS = tuple(field.name for field in fields(Event) if field.name != "kind")
"""The columns that are fields of an event with the same name and value."""


def events_to_table(
    events: Iterable[Event],
    run: str,
    *,
    first_step: int = 0,
    next_seq: dict[int, int] | None = None,
) -> pa.Table:
    """Return events as rows of :data:`antecede.trace.schema.SCHEMA`.

    To convert a long run in parts, pass as ``first_step`` the number of events of the parts
    before, and the same ``next_seq`` to all calls.

    Args:
        events: The events, in a linear extension of happened-before.
        run: The name of the run.
        first_step: The step of the first event.
        next_seq: By process, the ``seq`` of its next event; updated.
    """
    counts = {} if next_seq is None else next_seq
    rows = list(events)
    seqs = []
    for event in rows:
        seq = counts.get(event.process, 0)
        seqs.append(seq)
        counts[event.process] = seq + 1
    columns: dict[str, object] = {
        "run": [run] * len(rows),
        "seq": seqs,
        "step": range(first_step, first_step + len(rows)),
        "kind": [event.kind.value for event in rows],
    }
    for name in _FIELDS:
        columns[name] = [getattr(event, name) for event in rows]
    return pa.table({name: columns[name] for name in SCHEMA.names}, schema=SCHEMA)


def events_from_table(table: pa.Table | pa.RecordBatch) -> Iterator[Event]:
    """Yield the rows as events, in their order.

    Raise TraceError at a row whose kind is not a value of :class:`antecede.trace.Kind`.
    """
    kinds = table.column("kind").to_pylist()
    columns = [table.column(name).to_pylist() for name in _FIELDS]
    for kind, *values in zip(kinds, *columns, strict=True):
        if kind not in _KINDS:
            raise TraceError(f"unknown kind of event: {kind!r}")
        event = dict(zip(_FIELDS, values, strict=True))
        if event["targets"] is not None:
            event["targets"] = tuple(event["targets"])
        yield Event(kind=_KINDS[kind], **event)


def missing_row(last: pa.RecordBatch) -> pa.RecordBatch:
    """Return an event after the last row of a trace: unknown deliveries are missing.

    Args:
        last: The last batch of a trace in a linear extension of happened-before.
    """
    row = last.slice(last.num_rows - 1).select(["run", "process", "seq", "step", "time"])
    (before,) = row.to_pylist()
    after = {"seq": before["seq"] + 1, "kind": Kind.MISSING.value}
    if before["step"] is not None:
        after["step"] = before["step"] + 1
    return pa.RecordBatch.from_pylist([{**before, **after}], schema=SCHEMA)
