"""Summaries of the violations of a table, as DataFrames."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["violation_paths"]


def violation_paths(violations: "DataFrame") -> "DataFrame":
    """Return the number of listed violations by run, property and processes of the path.

    A process that sent several messages of a path in a row counts once.
    """
    from pyspark.sql import functions as F

    sources = violations.where("size(path) > 0").selectExpr(
        "run", "property", "process", "text", "size(path) AS messages",
        "transform(path, each -> each.source) AS sources",
    )  # fmt: skip
    paths = sources.selectExpr(
        "run",
        "property",
        "filter(sources, (each, i) -> i = 0 OR each != sources[i - 1]) AS processes",
        "process",
        "messages",
        "text",
    )
    return paths.groupBy("run", "property", "processes", "process").agg(
        F.count("*").alias("violations"),
        F.max("messages").alias("messages"),
        F.min("text").alias("example"),
    )
