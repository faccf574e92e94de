"""The Spark session that the benchmarks of Spark share."""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from antecede.pipeline.spark.java import java_home

__all__ = ["make_parser", "plain_session"]


def make_parser(
    description: str | None, *, events: int, rounds: int
) -> argparse.ArgumentParser:
    """Return a parser of the options that the benchmarks of Spark share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--events", type=int, default=events, help=f"number of events; default: {events}"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=rounds,
        help=f"number of rounds that count; default: {rounds}",
    )
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path(tempfile.gettempdir()) / "antecede-bench",
        help="directory for the traces; default: %(default)s",
    )
    return parser


@contextmanager
def plain_session() -> Iterator[SparkSession]:
    """Start Spark on all cores of this machine, with the default options of Java.

    The session of antecede has other options of Java, which start faster, but with which
    Spark's own scan takes three times as long.
    """
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["JAVA_HOME"] = str(java_home(Path(scratch)))
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        spark = (
            SparkSession.builder.master("local[*]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.local.dir", scratch)
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        try:
            yield spark
        finally:
            spark.stop()
