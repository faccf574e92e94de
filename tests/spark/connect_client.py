"""A program that uses antecede.spark in a Connect session; prints its results as JSON.

It runs in a process of its own, because PySpark allows one kind of session in a process.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from antecede.pipeline.spark.java import java_home
from antecede.trace.table import events_to_table
from tests.verify.test_verifier import FIGURE, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(file: str) -> None:
    """Verify tables, read a file of spans, and simulate, on a local Connect server."""
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["JAVA_HOME"] = str(java_home(Path(scratch)))
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        os.environ["JAVA_TOOL_OPTIONS"] = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
        from pyspark.sql import SparkSession

        spark = (
            SparkSession.builder.remote("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.local.dir", scratch)
            .getOrCreate()
        )
        try:
            print(json.dumps(use(spark, file)))
        finally:
            spark.stop()


def use(spark: "SparkSession", file: str) -> dict[str, object]:
    from antecede.errors import TraceError
    from antecede.pipeline.verify.run_sizes import may_be_long
    from antecede.spark import register, simulate, verify

    assert type(spark).__module__ == "pyspark.sql.connect.session"
    df = spark.createDataFrame(events_to_table(FIGURE, "figure"))
    broken = spark.createDataFrame(events_to_table([send(0, 1, 1)] * 2, "broken"))
    result = verify(df.union(broken), tasks=2)
    try:
        result.check()
        error = ""
    except TraceError as caught:
        error = str(caught)
    register(spark)
    spans = verify(spark.read.format("antecede.spancsv").load(file), tasks=2)
    runs = simulate({"protocols": ["fifo"], "processes": [3], "seeds": 1}, session=spark)
    is_small = not may_be_long(df)
    with patch("antecede.pipeline.verify.run_sizes.LONG_ROWS", len(FIGURE) - 1):
        windows = verify(df, tasks=2, windows=True)
    return {
        "small": is_small,
        "windows": [row.text for row in windows.violations.collect()],
        "texts": [row.text for row in result.violations.collect()],
        "error": error,
        "page": result._repr_html_(),
        "deliveries": len(result.chart().spec["data"]["values"]),
        "spans": [row.message.span for row in spans.violations.collect()],
        "simulated": runs.events.count(),
        "tags": sorted(spark.getTags()),
    }


if __name__ == "__main__":
    main(sys.argv[1])
