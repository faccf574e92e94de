"""Verify the runs of a streaming DataFrame of events, with state that Spark checkpoints.

Every partition of a micro-batch packs its rows
(:mod:`antecede.pipeline.verify.packed_rows`), and one task per run passes them to an
:class:`antecede.verify.online.verifier.OnlineVerifier`, whose state is one value of Spark's
state store. The output is in the same micro-batch as its input, so a sink that writes each
micro-batch once has each violation once.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from antecede.errors import AntecedeError, ConfigError
from antecede.pipeline.verify.event_rows import EventLoader, ProcessNames
from antecede.pipeline.verify.packed_rows import PACKED, read_blob, row_packer
from antecede.pipeline.verify.tables import has_large_types, select_runs
from antecede.verify.online.state import load_state, save_state
from antecede.verify.online.status import OnlineViolation
from antecede.verify.online.verifier import OnlineVerifier
from antecede.verify.oracle import MessageId

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.state import GroupState

__all__ = ["verify_event_stream"]

STATE = "state binary, names string, error string"
"""The state of a run: that of the verifier, the names of the processes as JSON, and the
error after which the events of the run are ignored."""
FLAT = (
    "record string, run string, property string, process string, source string,"
    " number bigint, sent_time double, delivered_time double, earlier_source string,"
    " earlier_number bigint, earlier_sent_time double, earlier_delivered_time double,"
    " text string, status string"
)
"""The rows that a task returns; the struct ``status`` is JSON."""
FLAT_NAMES = [field.split()[0] for field in FLAT.split(", ")]
STATUS = (
    "struct<time: double, is_quiet: boolean, events: bigint, messages: bigint,"
    " deliveries: bigint, violated: map<string, bigint>, unknown: map<string, bigint>,"
    " late: bigint, repeated: bigint, missing: bigint, unsent: bigint,"
    " lost_copies: bigint, undelivered: bigint, pending: bigint, waiting: bigint,"
    " state_bytes: bigint, error: string>"
)
MESSAGE = (
    "named_struct('source', {0}source, 'number', {0}number, 'name', CAST(NULL AS STRING),"
    " 'trace', CAST(NULL AS STRING), 'span', CAST(NULL AS STRING), 'sent_time',"
    " {0}sent_time, 'delivered_time', {0}delivered_time)"
)
PATH = (
    "array<struct<source: string, number: bigint, name: string, trace: string,"
    " span: string, sent_time: double>>"
)
OUTPUT = (
    "record",
    "run",
    "property",
    "process",
    f"IF(source IS NULL, NULL, {MESSAGE.format('')}) AS message",
    f"IF(earlier_source IS NULL, NULL, {MESSAGE.format('earlier_')}) AS earlier",
    f"CAST(NULL AS {PATH}) AS path",
    "text",
    f"from_json(status, '{STATUS}') AS status",
)


def verify_event_stream(
    stream: "DataFrame",
    *,
    columns: "Mapping[str, str | Column]",
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
    kind, selected = select_runs(stream, columns, None)
    if kind != "events":
        raise ConfigError(
            f"verify_stream takes events, and this stream has {kind}: write it to a table,"
            " and verify that with antecede.spark.verify"
        )
    if "seq" not in selected.columns:
        raise ConfigError(
            "a stream of events needs the column 'seq', because its rows have no order:"
            " name yours with columns={'seq': 'NAME'}"
        )
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.streaming.state import GroupStateTimeout

    packer = row_packer(large=has_large_types(stream))
    timeouts = GroupStateTimeout
    return (
        selected.mapInArrow(packer, from_arrow_schema(PACKED))
        .groupBy("run")
        .applyInPandasWithState(
            _run_verifier(delay_s, has_timeout=expire_quiet),
            FLAT,
            STATE,
            "append",
            timeouts.ProcessingTimeTimeout if expire_quiet else timeouts.NoTimeout,
        )
        .selectExpr(*OUTPUT)
    )


def _run_verifier(
    delay_s: float, *, has_timeout: bool
) -> "Callable[[tuple[Any, ...], Iterator[pd.DataFrame], GroupState], Any]":
    """Return the function of a task, for one run and one micro-batch."""
    timeout_ms = max(1, round(2 * delay_s * 1000))

    def verify_run(
        key: tuple[Any, ...], rows: "Iterator[pd.DataFrame]", state: "GroupState"
    ) -> "Iterator[pd.DataFrame]":
        run = key[0]
        blobs = [blob for frame in rows for blob in frame["data"]]
        data, names_text, error = state.get if state.exists else (None, "[]", None)
        if error is not None:  # A row has reported that the run is invalid.
            if state.hasTimedOut:
                state.remove()
            elif has_timeout:
                state.setTimeoutDuration(timeout_ms)
            return
        names = ProcessNames(json.loads(names_text))
        location = f"run {run!r}"
        verifier = (
            OnlineVerifier(delay_s, location=location)
            if data is None
            else load_state(bytes(data))
        )
        found: list[OnlineViolation] = []
        if state.hasTimedOut:
            found = _give_up_all(verifier)
            state.remove()
            data = b""
        else:
            try:
                found = _add(verifier, blobs, names, location, state)
                data = save_state(verifier)
            except AntecedeError as problem:
                error, data = str(problem), b""
            state.update((data, json.dumps(list(names.numbers)), error))
            if has_timeout:
                state.setTimeoutDuration(timeout_ms)
        status = _status(verifier, len(data), error, is_quiet=state.hasTimedOut)
        yield _frame(run, found, names, status)

    return verify_run


def _add(
    verifier: OnlineVerifier,
    blobs: Sequence[bytes],
    names: ProcessNames,
    location: str,
    state: "GroupState",
) -> list[OnlineViolation]:
    """Pass the rows of a micro-batch to the verifier, and the time."""
    loader = EventLoader(names, location)
    tables = [loader.convert(read_blob(pa.py_buffer(blob))) for blob in blobs]
    times = np.concatenate([table["time"].to_numpy() for table in tables])
    known = times[np.isfinite(times)]
    now = state.getCurrentProcessingTimeMs() / 1000 if not len(known) else known.max()
    batches = [batch for table in tables for batch in table.combine_chunks().to_batches()]
    found = verifier.add(batches, float(now))
    return found + verifier.advance(float(now))


def _give_up_all(verifier: OnlineVerifier) -> list[OnlineViolation]:
    """Give up everything that a run still waits for."""
    checker = verifier.checker
    found = verifier.advance(checker.now + 2 * checker.delay)
    return found + verifier.advance(checker.now + 5 * checker.delay)


def _status(
    verifier: OnlineVerifier, state_bytes: int, error: str | None, *, is_quiet: bool
) -> str:
    """Return the status of a run as JSON, with the fields of :data:`STATUS`."""
    checker = verifier.checker
    return json.dumps(
        {
            **checker.counters.to_fields(),
            "time": checker.now if np.isfinite(checker.now) else None,
            "is_quiet": is_quiet,
            "undelivered": checker.undelivered,
            "pending": checker.pending,
            "waiting": verifier.waiting,
            "state_bytes": state_bytes,
            "error": error,
        }
    )


def _frame(
    run: str, found: Sequence[OnlineViolation], names: ProcessNames, status: str
) -> "pd.DataFrame":
    """Return the rows of :data:`FLAT`: the violations, and the status."""
    import pandas as pd

    known = names.names()

    def name(process: int) -> str:
        return known.get(process, str(process))

    def message(which: MessageId | None, prefix: str) -> dict[str, object]:
        if which is None:
            return {}
        return {f"{prefix}source": name(which.source), f"{prefix}number": which.number}

    rows: list[dict[str, object]] = [
        {
            "record": "violation",
            "property": each.property.value,
            "process": name(each.process),
            **message(each.message, ""),
            "sent_time": _known(each.sent_time),
            "delivered_time": _known(each.delivered_time),
            **message(each.earlier, "earlier_"),
            "earlier_sent_time": _known(each.earlier_sent_time),
            "earlier_delivered_time": _known(each.earlier_delivered_time),
            "text": each.format(known),
        }
        for each in found
    ]
    rows.append({"record": "status", "status": status})
    return pd.DataFrame(
        {
            column: pd.Series([row.get(column) for row in rows], dtype=object)
            for column in FLAT_NAMES
        }
    ).assign(run=run)


def _known(time: float | None) -> float | None:
    return None if time is None or isnan(time) else time
