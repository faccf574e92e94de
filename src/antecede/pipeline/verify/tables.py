"""Verify the runs of a DataFrame: one row of :data:`RESULT` for each run.

Every partition packs the rows of each run (:mod:`antecede.pipeline.verify.packed_rows`),
Spark shuffles the packed rows by run, and one task verifies a run
(:mod:`antecede.pipeline.verify.table_run`), when the result is used.

A task would have to hold a long run. So if the table may have one, jobs at the call count
the rows of every run, and verify the long runs in windows
(:mod:`antecede.pipeline.verify.long_runs`). Spark's estimate of the size of the table
decides, which needs no job.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from antecede.errors import ConfigError
from antecede.pipeline.records.long_records import verify_long_records
from antecede.pipeline.spark.batches import map_batches, map_groups
from antecede.pipeline.spark.jobs import described, explained
from antecede.pipeline.spark.task_files import task_files
from antecede.pipeline.verify.long_runs import verify_long_runs
from antecede.pipeline.verify.packed_rows import PACKED, row_packer
from antecede.pipeline.verify.run_result import RESULT
from antecede.pipeline.verify.run_sizes import find_long_runs, may_be_long
from antecede.pipeline.verify.runs import TASKS_PER_CORE, parallelism
from antecede.pipeline.verify.table_columns import NOT_VERIFIED, Rows, select_columns
from antecede.pipeline.verify.table_run import TableOptions, run_verifier

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["RUN_NAME", "select_runs", "verify_table"]

RUN_NAME = "table"
"""The name of the run of a table that has no column for the run."""


def verify_table(
    df: "DataFrame",
    *,
    columns: "Mapping[str, str | Column]",
    rows: Rows | None,
    complete: bool,
    violations_max: int,
    tasks: int | None,
    windows: bool | None = None,
    window_rows: int | None = None,
    with_breakdown: bool = False,
) -> "DataFrame":
    """Return a row of :data:`RESULT` for each run of a table.

    The arguments are those of :func:`antecede.spark.verify`; ``window_rows`` is the length
    of windows, None to choose it.
    """
    if violations_max < 0:
        raise ConfigError(f"violations_max must be at least 0, got {violations_max}")
    if tasks is not None and tasks < 1:
        raise ConfigError(f"tasks must be at least 1, got {tasks}")
    kind, selected = select_runs(df, columns, rows)
    count = tasks if tasks is not None else TASKS_PER_CORE * parallelism(df.sparkSession)
    options = TableOptions(
        rows=kind,
        complete=complete,
        violations_max=violations_max,
        with_breakdown=with_breakdown,
    )
    if kind == "clocks" or df.isStreaming:
        windows = False
    if windows or (windows is None and may_be_long(selected)):
        return _verify_by_size(selected, options, count, window_rows)
    return _verify_short(selected, options, count)


def select_runs(
    df: "DataFrame", columns: "Mapping[str, str | Column]", rows: Rows | None
) -> "tuple[Rows, DataFrame]":
    """Return the kind of the rows, and the columns to verify; the first one is ``run``.

    Raises:
        ConfigError: A column is missing, unknown, ambiguous, or has a wrong type.
    """
    kind, selected = select_columns(df, columns, rows)
    unused = ("run", *(NOT_VERIFIED if kind == "events" else ()))
    others = [f"`{name}`" for name in selected.columns if name not in unused]
    run = "CAST(run AS STRING)" if "run" in selected.columns else f"'{RUN_NAME}'"
    if kind != "events":
        # In the records of a data source, null stands for the only run of a file.
        run = f"coalesce({run}, '{RUN_NAME}')"
    return kind, selected.selectExpr(f"{run} AS run", *others)


def _verify_by_size(
    selected: "DataFrame", options: TableOptions, count: int, window_rows: int | None
) -> "DataFrame":
    """Verify the long runs now, in windows, and the others lazily."""
    from pyspark.sql import functions as F

    with described(selected, "antecede: count the rows of each run"), explained():
        long, has_others = find_long_runs(selected, count)
    if not long:
        return _verify_short(selected, options, count)
    with (
        described(selected, "antecede: verify long runs in windows"),
        explained(),
        task_files(selected.sparkSession),
    ):
        if options.rows == "events":
            found = verify_long_runs(selected, long, options, window_rows=window_rows)
        else:
            found = verify_long_records(selected, long, options, window_rows=window_rows)
    rows = pa.Table.from_pylist(found, schema=RESULT)
    verified = selected.sparkSession.createDataFrame(rows)
    if not has_others:
        return verified
    is_short = F.col("run").isNull() | ~F.col("run").isin(list(long))
    return _verify_short(selected.where(is_short), options, count).unionAll(verified)


def _verify_short(selected: "DataFrame", options: TableOptions, count: int) -> "DataFrame":
    """Verify each run in one task, lazily."""
    packed = map_batches(selected, row_packer(), PACKED)
    # Spark keeps a number of partitions that is given, and merges others into few.
    by_run = packed.repartition(count, "run")
    return map_groups(by_run, "run", run_verifier(options), RESULT)
