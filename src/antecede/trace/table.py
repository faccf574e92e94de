"""Events as rows of an Arrow table, and back.

This module needs the extra ``antecede[trace]``.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from antecede.errors import ConfigError
from antecede.trace.event import Event, Kind
from antecede.trace.schema import SCHEMA

__all__ = ["events_of", "table_of"]

_KINDS = {kind.value: kind for kind in Kind}
_AS_THEY_ARE = (
    "process", "time", "source", "number", "target", "targets", "payload_bytes",
    "metadata_bytes",
)  # fmt: skip
"""The columns that are fields of an event, under the same name and with the same value."""


def table_of(
    events: Iterable[Event],
    run: str,
    *,
    first_step: int = 0,
    next_seq: dict[int, int] | None = None,
) -> pa.Table:
    """Make rows of :data:`antecede.trace.schema.SCHEMA` from events.

    To write a long run in parts, call it for each part with the ``first_step`` that is the
    number of events before it, and with the same ``next_seq``.

    Args:
        events: What happened, in a linear extension of happened-before.
        run: Which run it was.
        first_step: The step of the first of these events.
        next_seq: By process, the ``seq`` of its next event; brought up to date.
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
    for name in _AS_THEY_ARE:
        columns[name] = [getattr(event, name) for event in rows]
    return pa.table({name: columns[name] for name in SCHEMA.names}, schema=SCHEMA)


def events_of(table: pa.Table | pa.RecordBatch) -> Iterator[Event]:
    """Make an event from each row, in the order of the rows.

    Raise ConfigError at a row whose kind is none of :class:`antecede.trace.Kind`.
    """
    kinds = table.column("kind").to_pylist()
    columns = [table.column(name).to_pylist() for name in _AS_THEY_ARE]
    for kind, *fields in zip(kinds, *columns, strict=True):
        if kind not in _KINDS:
            raise ConfigError(f"unknown kind of event: {kind!r}")
        event = dict(zip(_AS_THEY_ARE, fields, strict=True))
        if event["targets"] is not None:
            event["targets"] = tuple(event["targets"])
        yield Event(kind=_KINDS[kind], **event)
