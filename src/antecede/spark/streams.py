"""Verify a stream of events, spans or messages while the system runs."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from antecede.errors import ConfigError
from antecede.pipeline.verify.event_stream import verify_event_stream
from antecede.pipeline.verify.table_columns import Rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["verify_stream"]

WATERMARK = "10 minutes"
UNITS_S = {
    "millisecond": 0.001,
    "second": 1.0,
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86400.0,
}


def verify_stream(
    stream: "DataFrame",
    *,
    watermark: str = WATERMARK,
    columns: "Mapping[str, str | Column] | None" = None,
    run: "str | Column | None" = None,
    rows: Rows | None = None,
    expire_quiet: bool = True,
) -> "DataFrame":
    """Verify the runs of a streaming DataFrame while they happen.

    The rows are events with the schema of a trace, spans, or messages, in any order; events
    need ``seq``. :func:`read_trace_stream` reads the traces of live nodes. The result is a
    streaming DataFrame for a sink in append mode. Its column ``record`` is ``violation``,
    with the columns of :attr:`Verification.violations`; or ``status``, once per run and
    micro-batch, with the struct ``status``: what was counted so far, and what was given up.
    A violation is one row, as soon as it is known; it is never false, as far as the
    messages are known. Nothing is ever *held*, and liveness is
    not judged, because the run has not ended. The sums of the counts over all runs are the
    observed metrics ``antecede`` of the query.

    The state of a run is bounded by the watermark. An event that waits for another one for
    that time stops waiting, and a message is kept for twice that time. The spans of a
    trace, and the rows of a message, are used when no other one has come for that time; a
    row that comes later is late. The deliveries that this leaves undecided are counted as
    unknown.

    All rows of a run are verified by one task, because causality is sequential.

    Args:
        stream: The streaming DataFrame, of a classic or a Connect session.
        watermark: How long to wait for an event, such as ``10 minutes``, by the highest
            time of the run; by the arrival of the micro-batches if events have no column
            ``time``. Spans need a watermark that is longer than the longest span.
        columns: By our name of a column, its name in the stream, or an expression.
        run: The column that distinguishes runs, by name or as an expression. By default
            the column ``run``; without one, the whole stream is one run.
        rows: ``events``, ``messages`` or ``spans``; None to find it out from the columns.
        expire_quiet: Give up a run that had no row for twice the watermark by the wall
            clock, and remove its state. With it, a query with
            ``trigger(availableNow=True)`` does not end: pass False. A checkpoint keeps the
            value with which it was started.

    Raises:
        ConfigError: The DataFrame is not a stream, its rows are of another kind, a column
            is missing, unknown, ambiguous, or has a wrong type, or the watermark is
            invalid.
    """
    mapped = dict(columns or {})
    if run is not None:
        mapped["run"] = run
    return verify_event_stream(
        stream,
        columns=mapped,
        rows=rows,
        delay_s=_parse_seconds(watermark),
        expire_quiet=expire_quiet,
    )


def _parse_seconds(text: str) -> float:
    """Return the seconds of an interval, such as ``10 minutes``."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+?)s?\s*", str(text).lower())
    if found is None or found[2] not in UNITS_S or not float(found[1]):
        raise ConfigError(
            f"watermark must be a number and a unit, such as '10 minutes', got {text!r};"
            f" units are {', '.join(UNITS_S)}"
        )
    return float(found[1]) * UNITS_S[found[2]]
