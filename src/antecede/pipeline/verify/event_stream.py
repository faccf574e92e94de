"""Verify the runs of a streaming DataFrame, with state that Spark checkpoints.

Every partition of a micro-batch packs its rows
(:mod:`antecede.pipeline.verify.packed_rows`), and one task per run passes them to an
:class:`antecede.verify.online.verifier.OnlineVerifier`, or through a
:class:`antecede.pipeline.verify.record_stream.RecordStream` if they are spans or messages.
The state of a run is one row of Spark's state store. The output is in the same micro-batch
as its input, so a sink that writes each micro-batch once has each violation once.

Spark refuses a second ``applyInPandasWithState`` in a query, so the inference of messages
and the verification are one operator.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from antecede.errors import AntecedeError, ConfigError
from antecede.pipeline.spark.batches import map_batches
from antecede.pipeline.verify.event_rows import EventLoader, ProcessNames
from antecede.pipeline.verify.packed_rows import PACKED, read_blob, row_packer
from antecede.pipeline.verify.record_stream import RecordStream
from antecede.pipeline.verify.stream_rows import (
    FLAT,
    METRICS,
    OUTPUT,
    messages_of,
    status_of,
    to_frame,
)
from antecede.pipeline.verify.table_columns import Rows
from antecede.pipeline.verify.tables import select_runs
from antecede.verify.online.state import load_state, save_state
from antecede.verify.online.status import OnlineViolation
from antecede.verify.online.verifier import OnlineVerifier

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.state import GroupState

__all__ = ["verify_event_stream"]

STATE = "state binary, records binary, names string, error string"
"""The state of a run: that of the verifier, that of the records, the names of the processes
as JSON, and the error after which the rows of the run are ignored."""
METRICS_NAME = "antecede"


def verify_event_stream(
    stream: "DataFrame",
    *,
    columns: "Mapping[str, str | Column]",
    rows: Rows | None,
    delay_s: float,
    expire_quiet: bool,
) -> "DataFrame":
    """Return the violations and statuses of the runs of a stream, as they become known.

    The arguments are those of :func:`antecede.spark.verify_stream`.
    """
    if not stream.isStreaming:
        raise ConfigError(
            "verify_stream needs a streaming DataFrame, from spark.readStream: verify a"
            " table with antecede.spark.verify"
        )
    kind, selected = select_runs(stream, columns, rows)
    if kind == "clocks":
        raise ConfigError(
            "verify_stream takes events, spans or messages, and this stream has clocks:"
            " write it to a table, and verify that with antecede.spark.verify"
        )
    if kind == "events" and "seq" not in selected.columns:
        raise ConfigError(
            "a stream of events needs the column 'seq', because its rows have no order:"
            " name yours with columns={'seq': 'NAME'}"
        )
    from pyspark.sql import functions as F
    from pyspark.sql.streaming.state import GroupStateTimeout

    timeouts = GroupStateTimeout
    found = (
        map_batches(selected, row_packer(), PACKED)
        .groupBy("run")
        .applyInPandasWithState(
            _run_verifier(kind, delay_s, has_timeout=expire_quiet),
            FLAT,
            STATE,
            "append",
            timeouts.ProcessingTimeTimeout if expire_quiet else timeouts.NoTimeout,
        )
        .selectExpr(*OUTPUT)
        .select("record", "run", "data.*")
    )
    metrics = [F.expr(value).alias(name) for name, value in METRICS.items()]
    return found.observe(METRICS_NAME, *metrics)


def _run_verifier(
    kind: Rows, delay_s: float, *, has_timeout: bool
) -> "Callable[[tuple[Any, ...], Iterator[pd.DataFrame], GroupState], Any]":
    """Return the function of a task, for one run and one micro-batch."""
    timeout_ms = max(1, round(2 * delay_s * 1000))

    def verify_run(
        key: tuple[Any, ...], rows: "Iterator[pd.DataFrame]", state: "GroupState"
    ) -> "Iterator[pd.DataFrame]":
        name = key[0]
        blobs = [pa.py_buffer(blob) for frame in rows for blob in frame["data"]]
        stored = state.get if state.exists else (None, None, "[]", None)
        if stored[3] is not None:  # A row has reported that the run is invalid.
            if state.hasTimedOut:
                state.remove()
            elif has_timeout:
                state.setTimeoutDuration(timeout_ms)
            return
        run = _Run(name, kind, delay_s, stored)
        if state.hasTimedOut:
            state.remove()
            yield run.give_up()
            return
        frame, changed = run.add(blobs, state.getCurrentProcessingTimeMs() / 1000)
        state.update(changed)
        if has_timeout:
            state.setTimeoutDuration(timeout_ms)
        yield frame

    return verify_run


class _Run:
    """A run during one micro-batch."""

    def __init__(
        self, run: str, kind: Rows, delay_s: float, stored: tuple[Any, ...]
    ) -> None:
        """Restore the run from its state, with the fields of :data:`STATE`."""
        state, records, names, _ = stored
        self._run, self._location = run, f"run {run!r}"
        self._names = ProcessNames(json.loads(names))
        self._verifier = (
            OnlineVerifier(delay_s, location=self._location)
            if state is None
            else load_state(bytes(state))
        )
        self._stream: RecordStream | None = None
        if kind != "events":
            self._stream = (
                RecordStream(kind, delay_s)
                if records is None
                else RecordStream.load(bytes(records))
            )

    def add(
        self, blobs: Sequence[pa.Buffer], processing_time: float
    ) -> "tuple[pd.DataFrame, tuple[Any, ...]]":
        """Verify the rows of a micro-batch; return the output and the new state."""
        error: str | None = None
        found: list[OnlineViolation] = []
        state, records = b"", None
        try:
            if self._stream is not None:
                found = self._stream.add(blobs, self._names, self._verifier)
                now = self._stream.opened.now
            else:
                batches, now = self._load(blobs, processing_time)
                found = self._verifier.add(batches, now)
            found += self._verifier.advance(now)
            state = save_state(self._verifier)
        except AntecedeError as problem:
            error = str(problem)
        frame, records = self._output(found, len(state), error, is_quiet=False)
        changed = (state, records, json.dumps(list(self._names.numbers)), error)
        return frame, changed

    def give_up(self) -> "pd.DataFrame":
        """Give up everything that the run still waits for; return the output."""
        checker = self._verifier.checker
        found: list[OnlineViolation] = []
        if self._stream is not None:
            found = self._stream.give_up(self._names, self._verifier)
        found += self._verifier.advance(checker.now + 2 * checker.delay)
        found += self._verifier.advance(checker.now + 5 * checker.delay)
        return self._output(found, 0, None, is_quiet=True)[0]

    def _load(
        self, blobs: Sequence[pa.Buffer], processing_time: float
    ) -> tuple[list[pa.RecordBatch], float]:
        """Return the events of a micro-batch, and the time."""
        loader = EventLoader(self._names, self._location)
        tables = [loader.convert(read_blob(blob)) for blob in blobs]
        times = np.concatenate([table["time"].to_numpy() for table in tables])
        known = times[np.isfinite(times)]
        now = known.max() if len(known) else processing_time
        batches = [
            batch for table in tables for batch in table.combine_chunks().to_batches()
        ]
        return batches, float(now)

    def _output(
        self,
        found: Sequence[OnlineViolation],
        state_bytes: int,
        error: str | None,
        *,
        is_quiet: bool,
    ) -> "tuple[pd.DataFrame, bytes | None]":
        """Return the rows of the micro-batch, and the state of the records."""
        stream = self._stream
        records, saved = {}, None
        if stream is not None:
            records = stream.find_records(messages_of(found))
            stream.forget()
            if state_bytes:
                saved = stream.save()
                state_bytes += len(saved)
        status = status_of(
            self._verifier,
            state_bytes=state_bytes,
            error=error,
            is_quiet=is_quiet,
            records={} if stream is None else stream.to_fields(),
        )
        names = self._names.names()
        return to_frame(self._run, found, names, records, status), saved
