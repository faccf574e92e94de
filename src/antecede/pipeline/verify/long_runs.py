"""Verify the long runs of a DataFrame of events in windows.

The windows are those of :mod:`antecede.pipeline.verify.windows`. The rows of the run are
packed into blobs, which Spark keeps on the disks of the executors
(:mod:`antecede.pipeline.verify.packed_trace`), and every task gets the blobs of its window.
The driver gets one row for each blob, without its data, and the results of the windows.

If the steps of the rows ascend within the partitions of the table, and no two partitions
overlap, the rows need not be sorted. Otherwise Spark sorts them by ``step``. If steps are
unknown, or the rows are not in a linear extension of happened-before, further jobs find one
(:mod:`antecede.pipeline.records.ordered_events`).
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from antecede.errors import AntecedeError, StorageError, TraceError
from antecede.pipeline.records.ordered_events import EventOrder, OrderOptions
from antecede.pipeline.spark.batches import map_batches
from antecede.pipeline.spark.kept_table import kept_on_disk
from antecede.pipeline.verify.event_rows import repeated_event, repeated_step
from antecede.pipeline.verify.packed_run import PackedVerification
from antecede.pipeline.verify.packed_trace import BLOB_ROWS, PackedTrace, blob_packer
from antecede.pipeline.verify.run_result import error_row, result_row
from antecede.pipeline.verify.runs import parallelism
from antecede.pipeline.verify.table_run import TableOptions
from antecede.pipeline.verify.window_task import LongRun
from antecede.pipeline.verify.windowed_run import RepeatedEventError
from antecede.trace.event import Kind
from antecede.trace.run_info import RunInfo
from antecede.verify.kernels.stream import NotLinearExtensionError
from antecede.verify.oracle import MessageId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

__all__ = ["verify_long_runs"]

LOG = logging.getLogger("antecede")
INTEGERS = {"tinyint", "smallint", "int", "bigint"}
SORTED_ROWS = 1 << 20
"""Rows that one task sorts, if the rows are not in order."""


def verify_long_runs(
    selected: "DataFrame",
    runs: Mapping[str, int],
    options: TableOptions,
    *,
    window_rows: int | None = None,
) -> list[dict[str, Any]]:
    """Return a row of :data:`RESULT` for each of these runs; starts several jobs.

    Args:
        selected: The table of events, with our names of columns; ``run`` is the first.
        runs: By the name of a run, its number of rows.
        options: How to verify them.
        window_rows: The length of windows; None to choose it by run and cluster.
    """
    from pyspark.sql import functions as F

    blob_rows = BLOB_ROWS if window_rows is None else max(1, window_rows // 4)
    chosen = selected.where(F.col("run").isin(list(runs)))
    found = []
    with _packed(chosen, blob_rows, options) as blobs:
        for run, rows in runs.items():
            is_run = F.col("run") == run
            long_run = _LongTableRun(run, chosen.where(is_run), rows, options, blob_rows)
            try:
                found.append(long_run.verify(blobs.where(is_run), window_rows))
            except StorageError:
                raise
            except AntecedeError as error:
                found.append(error_row(run, error))
    return found


def _packed(
    table: "DataFrame", blob_rows: int, options: TableOptions
) -> "AbstractContextManager[DataFrame]":
    """Pack the rows of a table into blobs, which Spark keeps in the block."""
    from antecede.pipeline.verify.packed_trace import BLOBS

    pack = blob_packer(rows_max=blob_rows)
    return kept_on_disk(map_batches(table, pack, BLOBS))


class _LongTableRun:
    """One long run of a table."""

    def __init__(
        self,
        run: str,
        rows: "DataFrame",
        count: int,
        options: TableOptions,
        blob_rows: int,
    ) -> None:
        self._run = run
        self._rows = rows
        self._count = count
        self._options = options
        self._blob_rows = blob_rows
        self._location = f"run {run!r}"
        self._has_seq = "seq" in rows.columns
        self._names: dict[int, str] = {}

    def verify(self, blobs: "DataFrame", window_rows: int | None) -> dict[str, Any]:
        """Return the row of the run, from its blobs in the order of the table.

        The blobs of a table without steps are not used, so that Spark does not make them.
        """
        try:
            if "step" not in self._rows.columns:
                self._notice("steps are unknown: finding an order")
                if self._has_names():
                    self._names = _names_in_rows(self._rows)
                return self._order_and_verify(window_rows)
            return self._verify_steps(blobs, window_rows)
        except RepeatedEventError as error:
            name = self._names.get(error.process, str(error.process))
            raise repeated_event(self._location, name, error.seq) from None
        except TraceError:
            self._reject_repeated()
            raise

    def _verify_steps(self, blobs: "DataFrame", window_rows: int | None) -> dict[str, Any]:
        """Return the row of the run, whose steps may put it in order."""
        if self._has_names():
            self._names = _names_in_blobs(blobs)
        listed = blobs.select("id", "rows", "first", "last").collect()
        if _is_in_order(listed):
            listed.sort(key=lambda row: int(row["first"]))
            return self._verify_blobs(blobs, listed, window_rows)
        if not self._has_steps():
            self._notice("steps are unknown: finding an order")
            return self._order_and_verify(window_rows)
        parts = max(parallelism(blobs.sparkSession), -(-self._count // SORTED_ROWS))
        # Spark's own number of partitions is too high for tasks of Python.
        ordered = self._rows.repartitionByRange(parts, "step")
        ordered = ordered.sortWithinPartitions("step")
        with _packed(ordered, self._blob_rows, self._options) as blobs:
            listed = blobs.select("id", "rows", "first", "last").collect()
            listed.sort(key=lambda row: int(row["id"]))
            if not self._has_seq and not _is_in_order(listed):
                raise self._repeated_step()
            return self._verify_blobs(blobs, listed, window_rows)

    def _has_names(self) -> bool:
        """Return whether processes are not integers."""
        types = dict(self._rows.dtypes)
        return not {types["process"], types["source"]} <= INTEGERS

    def _has_steps(self) -> bool:
        """Return whether the steps of all rows are known."""
        if not self._rows.where("step IS NULL").limit(1).collect():
            return True
        if self._has_seq:
            return False
        raise TraceError(
            f"{self._location}: column 'step' is null in some rows: remove them, for"
            " example with df.dropna(subset=['step'])"
        )

    def _verify_blobs(
        self, blobs: "DataFrame", listed: "Sequence[Row]", window_rows: int | None
    ) -> dict[str, Any]:
        """Return the row of the run, from blobs that may be in a linear extension."""
        try:
            return self._verify_ordered(blobs, listed, window_rows)
        except NotLinearExtensionError:
            self._notice("the order is not a linear extension: finding one")
            return self._order_and_verify(window_rows)

    def _order_and_verify(self, window_rows: int | None) -> dict[str, Any]:
        """Return the row of the run, whose order is found first."""
        options = OrderOptions(blob_rows=self._blob_rows)
        if window_rows is not None:
            options = replace(
                options, bucket_rows=window_rows, slice_events=max(1, window_rows // 2)
            )
        names = tuple(self._names[i] for i in range(len(self._names)))
        order = EventOrder(
            self._location, self._rows, self._count, names, options, is_unique=True
        )
        with ExitStack() as stack:
            found = order.find(stack, self._reject_sent_twice)
            return self._verify_ordered(found.blobs, found.listed, window_rows)

    def _verify_ordered(
        self, blobs: "DataFrame", listed: "Sequence[Row]", window_rows: int | None
    ) -> dict[str, Any]:
        info = RunInfo(run=self._run, complete=self._options.complete, names=self._names)
        trace = PackedTrace(
            info, [row["id"] for row in listed], [r["rows"] for r in listed]
        )
        verification = PackedVerification(
            blobs=blobs,
            trace=trace,
            blob_rows=self._blob_rows,
            violations_max=self._options.violations_max,
            on_notice=self._notice,
            has_seq=self._has_seq,
            find_duplicate_send=self._find_duplicate_send,
            window_rows=window_rows,
            with_breakdown=self._options.with_breakdown,
        )
        verdict = verification.verify()
        found = verification.find_rows(verdict)
        return result_row(self._run, verdict, events=trace.rows, found=found)

    def _reject_sent_twice(self) -> None:
        """Raise TraceError if a message is sent twice; one job."""
        message = self._find_duplicate_send()
        if message is not None:
            source = self._names.get(message.source, str(message.source))
            raise TraceError(
                f"{self._location}: message {source}:{message.number} is sent twice"
            )

    def _reject_repeated(self) -> None:
        """Raise TraceError if two rows have the same process and seq; one job."""
        if not self._has_seq:
            return
        pairs = self._rows.groupBy("process", "seq").count().where("count > 1")
        found = pairs.orderBy("process", "seq").limit(1).collect()
        if found and found[0]["process"] is not None and found[0]["seq"] is not None:
            name, seq = str(found[0]["process"]), int(found[0]["seq"])
            raise repeated_event(self._location, name, seq)

    def _repeated_step(self) -> TraceError:
        steps = self._rows.groupBy("step").count().where("count > 1")
        (found,) = steps.orderBy("step").limit(1).collect()
        return repeated_step(self._location, int(found["step"]))

    def _find_duplicate_send(self, _: LongRun | None = None) -> MessageId | None:
        """Return a message that is sent twice, if there is one."""
        sends = self._rows.where(self._rows["kind"] == Kind.SEND.value)
        twice = sends.groupBy("source", "number").count().where("count > 1")
        found = twice.orderBy("source", "number").limit(1).collect()
        if not found:
            return None
        numbers = {name: number for number, name in self._names.items()}
        source = found[0]["source"]
        return MessageId(int(numbers.get(source, source)), int(found[0]["number"]))

    def _notice(self, line: str) -> None:
        LOG.info("%s: %s", self._location, line)


def _is_in_order(blobs: "Sequence[Row]") -> bool:
    """Return whether the steps ascend within all blobs, and no two blobs overlap."""
    if any(row["first"] is None for row in blobs):
        return False
    ranges = sorted((int(row["first"]), int(row["last"])) for row in blobs)
    return all(
        first > last for (first, _), (_, last) in zip(ranges[1:], ranges, strict=False)
    )


def _names_in_blobs(blobs: "DataFrame") -> dict[int, str]:
    """Return the names of the processes by number, in the order of the names."""
    rows = blobs.selectExpr("explode(names) AS name").distinct().collect()
    return dict(enumerate(sorted((row["name"] for row in rows), key=str.encode)))


def _names_in_rows(rows: "DataFrame") -> dict[int, str]:
    """Return the same from the rows of a table."""
    from pyspark.sql import functions as F

    every = F.array(F.col("process").cast("string"), F.col("source").cast("string"))
    if "targets" in rows.columns:
        targets = F.col("targets").cast("array<string>")
        every = F.concat(every, F.coalesce(targets, F.array().cast("array<string>")))
    found = rows.select(F.explode(every).alias("name")).distinct().collect()
    names = {row["name"] for row in found} - {None}
    return dict(enumerate(sorted(names, key=str.encode)))
