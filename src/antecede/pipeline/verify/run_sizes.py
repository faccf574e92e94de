"""Find the long runs of a table, which one task should not hold.

Spark's estimate of the size of a table tells without a job whether it may have a long run.
If so, a job counts the rows of every run.
"""

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["find_long_runs", "may_be_long"]

LONG_ROWS = 1 << 21
"""A run with more rows is long: one task would need up to 500 MiB to sort them."""
LONG_ROWS_OF_MANY = 1 << 23
"""The same, if there are more long runs than tasks: these then keep all cores busy."""
LONG_BYTES = 8 << 20
"""The least estimated size of a table that may have a long run."""
STATISTICS = re.compile(r"sizeInBytes=([\d.]+(?:E[+-]?\d+)?) ([BKMGTPE])")
"""The first of these in a plan is that of the whole table."""


def may_be_long(table: "DataFrame") -> bool:
    """Return whether a table may have a long run, by Spark's estimate of its size.

    A table without an estimate may have one.
    """
    return _estimated_bytes(table) >= LONG_BYTES


def _estimated_bytes(table: "DataFrame") -> float:
    try:
        if hasattr(table, "_jdf"):
            plan = table._jdf.queryExecution().optimizedPlan()
            return float(str(plan.stats().sizeInBytes()))
        text = table._explain_string(mode="cost")  # type: ignore[operator]
        found = STATISTICS.search(text)
    except Exception:  # No public function returns it; the exception type varies.
        return math.inf
    if found is None:
        return math.inf
    return float(found[1]) * 1024.0 ** "BKMGTPE".index(found[2])


def find_long_runs(selected: "DataFrame", tasks: int) -> tuple[dict[str, int], bool]:
    """Count the rows of every run, in one job.

    Args:
        selected: The table, with a column ``run``.
        tasks: The number of tasks that verify runs.

    Returns:
        The long runs with their numbers of rows, and whether there are other runs.
    """
    from pyspark.sql import functions as F

    sizes = selected.groupBy("run").count()
    is_long = (F.col("count") > LONG_ROWS) & F.col("run").isNotNull()
    (row,) = sizes.agg(
        F.count("*").alias("runs"),
        F.collect_list(F.when(is_long, F.struct("run", "count"))).alias("long"),
    ).collect()
    long = {each["run"]: int(each["count"]) for each in row["long"]}
    if len(long) > tasks:
        long = {run: rows for run, rows in long.items() if rows > LONG_ROWS_OF_MANY}
    return dict(sorted(long.items())), len(long) < row["runs"]
