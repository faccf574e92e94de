"""Register the data sources, and read our own traces."""

from os import PathLike, fspath
from typing import TYPE_CHECKING

from antecede.pipeline.spark.data_sources import register as register_sources
from antecede.pipeline.study.measure import spark_schema
from antecede.trace.schema import EVENTS_NAME, SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_traces", "register", "register_active"]


def register(session: "SparkSession") -> None:
    """Register the data sources ``antecede.jaeger``, ``antecede.shiviz`` and others.

    A session needs its own call; a new session does not take over the sources of another.
    If ``spark.sql.python.filterPushdown.enabled`` is true in the session, the sources apply
    filters of queries themselves; after a change of this setting, register them again.
    :mod:`antecede.pipeline.spark.data_sources` describes paths and options.

    Args:
        session: The session, classic or Connect.
    """
    register_sources(session)


def register_active() -> None:
    """Register the data sources in the active session, if there is one."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None:
        register_sources(session)


def read_traces(session: "SparkSession", *paths: "str | PathLike[str]") -> "DataFrame":
    """Return the events of recorded runs, for :func:`antecede.spark.verify`.

    Spark reads the Parquet files itself, and only the columns that a query uses.

    Args:
        session: The session.
        *paths: Directories of runs, as paths or URIs. Patterns are those of Spark: all runs
            of a study are ``STUDY/events/*``.
    """
    files = [f"{fspath(path).rstrip('/')}/{EVENTS_NAME}" for path in paths]
    return session.read.schema(spark_schema(SCHEMA)).parquet(*files)
