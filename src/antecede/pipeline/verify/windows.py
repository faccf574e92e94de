"""Verify one long run on Spark, exactly, in windows of its linear extension.

The run's rows are in a linear extension of happened-before. They are divided into windows
of equal length. One task verifies each window (:mod:`antecede.pipeline.verify.window`): it
gets a path and row numbers, and reads the window's own rows and a margin on either side
that is at most as long as a window. Let window i begin at row v(i).

**Near messages and stragglers.** A message sent at row s in window j is *near* if each of
its deliveries d is in the same window, d < v(j+1), or if both are close to the next
window's start: s in the margin left of v(j+1), and d in the margin right of it. All other
messages are *stragglers*. A task recognizes the deliveries of stragglers in its own rows:
the message was sent in an earlier window, or never, and is not near. So if no task reports
any, there are none.

**Without stragglers** the results of the windows add up to that of the run:

* The task of window j reads all deliveries of the messages sent there. So it verifies
  each of these messages for no-duplication, no-creation and liveness as a pass over the
  whole run would.
* A message in flight at v(i) was sent in the margin left of it, so a forward pass that
  begins with that margin is exact from v(i) on
  (:mod:`antecede.verify.kernels.delivery_order`, *Where it may begin*); it knows the
  deliveries of all messages that it passes, since these are near.
* The order of each history, its gaps, increasing numbers and unique sends are checked
  within windows, and between the last and the first event of a process in successive
  windows.

**With stragglers**, tasks first collect all rows of these messages
(:mod:`antecede.pipeline.verify.stragglers`). A message without a send was never sent, and
all its deliveries are known. A send after a delivery shows that the rows are not a linear
extension. Otherwise, a window that reads the send but not all deliveries gets the others;
it then knows all deliveries of the messages that it passes. Where a copy is in flight at
v(i) but was sent before all rows that window i reads, the window gets the processes that
have the message in their causal past, and from which row on; that makes its forward pass
exact again (*Where it may begin*). Only windows that get something are verified again.

A forward pass skips a delivery whose send it has not read, although that message extends
the causal past of its target. That is correct: only copies in flight at v(i) matter; these
were sent even earlier, so they are stragglers, and their propagation includes the target.

**Fallbacks.** If the rows are not in a linear extension, Spark sorts them by step or time.
If that is none either, further jobs find one
(:mod:`antecede.pipeline.records.ordered_events`). If there are many stragglers, the windows
become longer. If there are still many, one task verifies the whole run, with memory for the
messages in flight. Each fallback calls ``on_notice``.
"""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from antecede.errors import ConfigError, TraceError
from antecede.pipeline.records.ordered_events import EventOrder, OrderOptions
from antecede.pipeline.spark.batches import Batches, map_batches
from antecede.pipeline.spark.stage import spark_stage
from antecede.pipeline.verify.packed_rows import read_blob
from antecede.pipeline.verify.runs import parallelism
from antecede.pipeline.verify.window_config import choose_config
from antecede.pipeline.verify.windowed_run import OnNotice, WindowedVerification
from antecede.trace.event import Kind
from antecede.trace.reader import Trace, read_trace
from antecede.trace.schema import EVENTS_NAME, INFO_NAME, SCHEMA
from antecede.verify.kernels.stream import NotLinearExtensionError
from antecede.verify.oracle import MessageId
from antecede.verify.process_names import with_names
from antecede.verify.verdict import TraceVerdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["verify_windows"]

BLOCK_BYTES = 8 << 20
"""Row groups of a sorted copy are small, since a task reads whole ones."""


def verify_windows(
    spark: "SparkSession",
    path: Path,
    *,
    rows_per_window: int | None = None,
    violations_max: int = 10,
    with_breakdown: bool = False,
    on_notice: OnNotice | None = None,
) -> TraceVerdict:
    """Verify the trace of one run in windows.

    The verdict is that of :func:`antecede.verify.verifier.verify_trace` except for
    ``limits_max``, and for the choice of the earliest violations if the rows had to be
    sorted. The path must be valid on every machine of the cluster, and so must the driver's
    directory for temporary files if the rows have to be sorted.

    Args:
        spark: The session; classic or Connect.
        path: The directory of the run.
        rows_per_window: The length of windows; None to choose it by trace and cluster.
        violations_max: The most violations of each property to name.
        with_breakdown: As for :func:`antecede.verify.verifier.verify_trace`.
        on_notice: Is called with a line about every fallback.

    Raises:
        ConfigError: As :func:`antecede.verify.verifier.verify_trace`.
    """
    if violations_max < 0:
        raise ConfigError(f"violations_max must be at least 0, got {violations_max}")
    if rows_per_window is not None and rows_per_window < 1:
        raise ConfigError(f"rows_per_window must be at least 1, got {rows_per_window}")
    on_notice = on_notice if on_notice is not None else lambda line: None
    # Workers may have another working directory.
    trace = read_trace(Path(path).absolute())
    verification = WindowedVerification(
        stage=spark_stage(spark),
        find_duplicate_send=lambda _: _find_duplicate_send(spark, trace),
        config=choose_config(
            trace.rows, max(1, trace.first_group_rows), parallelism(spark), rows_per_window
        ),
        violations_max=violations_max,
        on_notice=on_notice,
        with_breakdown=with_breakdown,
    )
    try:
        return verification.verify(trace)
    except NotLinearExtensionError:
        on_notice("the rows are not in a linear extension: sorting them")
    with tempfile.TemporaryDirectory(prefix="antecede-sorted-") as scratch:
        try:
            return verification.verify(_sorted_copy(spark, trace, Path(scratch)))
        except NotLinearExtensionError:
            on_notice("no sort puts the rows in order: finding an order")
    with tempfile.TemporaryDirectory(prefix="antecede-ordered-") as scratch:
        options = OrderOptions()
        if rows_per_window is not None:
            options = OrderOptions(
                bucket_rows=rows_per_window, slice_events=max(1, rows_per_window // 2)
            )
        return verification.verify(_ordered_copy(spark, trace, Path(scratch), options))


def _read_events(spark: "SparkSession", trace: Trace) -> "DataFrame":
    """Return the rows of a trace."""
    if trace.part is None:
        return spark.read.parquet(str(trace.path / EVENTS_NAME))
    rows = spark.read.parquet(str(trace.part))
    return rows.where(rows["run"] == trace.info.run)


def _find_duplicate_send(spark: "SparkSession", trace: Trace) -> MessageId | None:
    """Return a message that is sent twice, if there is one."""
    events = _read_events(spark, trace)
    sends = events.filter(events["kind"] == Kind.SEND.value)
    twice = sends.groupBy("source", "number").count().filter("count > 1")
    found = twice.orderBy("source", "number").limit(1).collect()
    return MessageId(found[0]["source"], found[0]["number"]) if found else None


def _sorted_copy(spark: "SparkSession", trace: Trace, scratch: Path) -> Trace:
    """Return a copy of a trace that Spark sorted by step, or by time if steps are unknown.

    The copy need not be a linear extension; its verification checks that.
    """
    events = _read_events(spark, trace)
    has_steps = not events.filter("step is null").limit(1).collect()
    keys = ["step"] if has_steps else ["time", "process", "seq"]
    return _write_copy(events.orderBy(*keys), trace, scratch)


def _ordered_copy(
    spark: "SparkSession", trace: Trace, scratch: Path, options: OrderOptions
) -> Trace:
    """Return a copy of a trace in a linear extension, whatever its clocks show.

    Raises:
        TraceError: There is none, or a message is sent twice.
    """

    def reject_sent_twice() -> None:
        message = _find_duplicate_send(spark, trace)
        if message is not None:
            raise TraceError(f"{trace.location}: message {message} is sent twice")

    location = str(trace.location)
    order = EventOrder(location, _read_events(spark, trace), trace.rows, (), options)
    with ExitStack() as stack:
        try:
            blobs = order.find(stack, reject_sent_twice).blobs
        except TraceError as error:
            raise with_names(error, trace) from error
        unpack = _row_reader(trace.info.run)
        rows = blobs.select("id", "data").orderBy("id")
        return _write_copy(map_batches(rows, unpack, SCHEMA), trace, scratch)


def _row_reader(run: str) -> Callable[[Batches], Batches]:
    """Return the function of a task that unpacks blobs into rows of a trace."""

    def unpack(batches: Batches) -> Batches:
        for batch in batches:
            for data in batch.column(1):
                table = read_blob(data.as_buffer())
                columns = {name: table[name] for name in table.schema.names}
                columns["run"] = pa.repeat(pa.scalar(run), table.num_rows)
                rows = pa.table(
                    [
                        columns[field.name].cast(field.type)
                        if field.name in columns
                        else pa.nulls(table.num_rows, field.type)
                        for field in SCHEMA
                    ],
                    names=SCHEMA.names,
                )
                yield from rows.to_batches()

    return unpack


def _write_copy(rows: "DataFrame", trace: Trace, scratch: Path) -> Trace:
    """Write a copy of a trace with its rows in another order."""
    directory = scratch / "run"
    directory.mkdir()
    (directory / INFO_NAME).write_text(trace.info.to_json(), encoding="utf-8")
    writer = rows.write.option("parquet.block.size", BLOCK_BYTES)
    writer.parquet(str(directory / EVENTS_NAME))
    return read_trace(directory)
