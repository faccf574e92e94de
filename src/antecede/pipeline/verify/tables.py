"""Verify the runs of a DataFrame: one row of :data:`RESULT` for each run, lazily.

Every partition packs the rows of each run (:mod:`antecede.pipeline.verify.packed_rows`),
Spark shuffles the packed rows by run, and one task verifies a run
(:mod:`antecede.pipeline.verify.table_run`). No job starts before the result is used.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from antecede.errors import ConfigError
from antecede.pipeline.verify.packed_rows import PACKED, row_packer
from antecede.pipeline.verify.run_result import RESULT
from antecede.pipeline.verify.runs import TASKS_PER_CORE, parallelism
from antecede.pipeline.verify.table_columns import NOT_VERIFIED, Rows, select_columns
from antecede.pipeline.verify.table_run import TableOptions, run_verifier

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["RUN_NAME", "verify_table"]

LARGE_TYPES = "spark.sql.execution.arrow.useLargeVarTypes"
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
) -> "DataFrame":
    """Return a row of :data:`RESULT` for each run of a table.

    The arguments are those of :func:`antecede.spark.verify`.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    if violations_max < 0:
        raise ConfigError(f"violations_max must be at least 0, got {violations_max}")
    if tasks is not None and tasks < 1:
        raise ConfigError(f"tasks must be at least 1, got {tasks}")
    kind, selected = select_columns(df, columns, rows)
    unused = ("run", *(NOT_VERIFIED if kind == "events" else ()))
    others = [f"`{name}`" for name in selected.columns if name not in unused]
    run = "CAST(run AS STRING)" if "run" in selected.columns else f"'{RUN_NAME}'"
    if kind != "events":
        # In the records of a data source, null stands for the only run of a file.
        run = f"coalesce({run}, '{RUN_NAME}')"
    selected = selected.selectExpr(f"{run} AS run", *others)
    large = df.sparkSession.conf.get(LARGE_TYPES, "false") == "true"
    packed = selected.mapInArrow(row_packer(large=large), from_arrow_schema(PACKED))
    count = tasks if tasks is not None else TASKS_PER_CORE * parallelism(df.sparkSession)
    options = TableOptions(
        rows=kind, complete=complete, violations_max=violations_max, large=large
    )
    # Spark keeps a number of partitions that is given, and merges others into few.
    return (
        packed.repartition(count, "run")
        .groupBy("run")
        .applyInArrow(run_verifier(options), from_arrow_schema(RESULT))
    )
