"""Options that several commands share."""

import argparse
from typing import TYPE_CHECKING

from antecede.errors import ConfigError

if TYPE_CHECKING:
    # argparse gives this class no public name.
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

__all__ = ["VIOLATIONS_SHOWN", "add_conf", "add_foreign", "add_session", "check_cores"]

VIOLATIONS_SHOWN = 10
"""Default number of violations to print of each property."""


def add_foreign(parser: argparse.ArgumentParser) -> None:
    """Add the options for files of other formats."""
    foreign = parser.add_argument_group("files of other formats")
    foreign.add_argument(
        "--format",
        help="shiviz, tracechecker, jaeger, zipkin, otlp, spancsv or messages;"
        " default: detected from the content",
    )
    foreign.add_argument("--regex", help="ShiViz: regular expression of an event")
    foreign.add_argument(
        "--delimiter", help="ShiViz: expression of a line between two runs"
    )
    foreign.add_argument("--ignore", help="ShiViz: expression of lines to skip")
    foreign.add_argument(
        "--receives", help="ShiViz: expression of the text of receive events"
    )
    foreign.add_argument(
        "--columns",
        action="append",
        metavar="OURS=THEIRS,...",
        help="CSV and Parquet: names of the columns in the file",
    )
    foreign.add_argument(
        "--one-run", action="store_true", help="treat all files as parts of one run"
    )


def add_session(parser: argparse.ArgumentParser) -> None:
    """Add the options of the Spark session."""
    parser.add_argument("--master", help="URL of the Spark master; default: local Spark")
    parser.add_argument("--cores", type=int, help="cores of local Spark; default: all")
    add_conf(parser)


def add_conf(parser: argparse.ArgumentParser) -> None:
    """Add the option for settings of the Spark session."""
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="setting of Spark, such as spark.executor.memory=4g; can be repeated",
    )


def check_cores(options: argparse.Namespace) -> None:
    """Raise ConfigError if ``--cores`` is less than 1."""
    if options.cores is not None and options.cores < 1:
        raise ConfigError(f"--cores must be at least 1, got {options.cores}")
