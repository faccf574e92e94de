"""Summaries of the violations of a table, as DataFrames."""

from typing import TYPE_CHECKING

from antecede.verify.breakdown import BUCKETS_MAX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["violation_pairs", "violation_timeline"]


def violation_pairs(violations: "DataFrame") -> "DataFrame":
    """Return the number of listed violations by run, property and processes."""
    pairs = violations.selectExpr(
        "run", "property", "process", "message.source AS source",
        "earlier.source AS earlier_source",
    )  # fmt: skip
    counted = pairs.groupBy(*pairs.columns).count()
    return counted.withColumnRenamed("count", "violations")


def violation_timeline(violations: "DataFrame") -> "DataFrame":
    """Return the number of listed violations by run, property and time.

    The buckets of a run divide the time from its first to its last listed violation. Their
    width is 1, 2 or 5 times a power of ten, so that there are about BUCKETS_MAX at most.
    """
    timed = violations.selectExpr(
        "run", "property", "coalesce(message.delivered_time, message.sent_time) AS time"
    )
    steps = timed.selectExpr(
        "*",
        "(max(time) OVER (PARTITION BY run) - min(time) OVER (PARTITION BY run))"
        f" / {BUCKETS_MAX} AS step",
    )
    # The logarithm of 0 is null: a run with violations at one time has buckets of 1 s.
    powers = steps.selectExpr("*", "power(10D, floor(log10(nullif(step, 0D)))) AS decade")
    widths = powers.selectExpr(
        "run",
        "property",
        "time",
        "coalesce(decade * CASE WHEN step <= decade THEN 1 WHEN step <= 2 * decade THEN 2"
        " WHEN step <= 5 * decade THEN 5 ELSE 10 END, 1D) AS width",
    )
    starts = widths.selectExpr(
        "run",
        "property",
        "floor(time / width) * width AS start",
        "(floor(time / width) + 1) * width AS end",
    )
    counted = starts.groupBy(*starts.columns).count()
    return counted.withColumnRenamed("count", "violations")
