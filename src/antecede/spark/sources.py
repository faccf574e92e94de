"""Register the data sources, and read our own traces."""

import json
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from antecede.errors import TraceError
from antecede.pipeline.spark.data_sources import register as register_sources
from antecede.pipeline.study.measure import address, spark_schema
from antecede.trace.run_table import list_parts
from antecede.trace.schema import EVENTS_NAME, SCHEMA
from antecede.trace.store import open_store
from antecede.trace.uri import local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_trace_stream", "read_traces", "register", "register_active"]


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
        *paths: Directories of runs, as paths or URIs, with the patterns of Spark; or tables
            of runs on this machine, such as the directory of a study or its ``events``.
    """
    files = [file for path in paths for file in _event_files(path)]
    return session.read.schema(spark_schema(SCHEMA)).parquet(*files)


def read_trace_stream(
    session: "SparkSession", *paths: "str | PathLike[str]"
) -> "DataFrame":
    """Read the traces of live nodes while they grow, for :func:`verify_stream`.

    The result is a streaming DataFrame with every event that a node has flushed, once, also
    if the query is started again from its checkpoint. The processes have their names, and
    the column ``run`` has the name of the run.

    If a node is restarted with its journal, the rows of its run end with an error, which is
    the last status of the run: events of the node before the restart may not count.

    Args:
        session: The session, classic or Connect. The source ``antecede.nodes`` is
            registered in it.
        *paths: Directories that all workers can read: traces of nodes, or directories in
            which the nodes create their traces, now or later.

    Raises:
        TraceError: A directory does not exist.
    """
    register(session)
    reader = session.readStream.format("antecede.nodes")
    for path in paths:
        if not Path(path).is_dir():
            raise TraceError(f"no such directory: {path}: create it, then read it")
    return reader.option("paths", json.dumps([fspath(path) for path in paths])).load()


def _event_files(path: "str | PathLike[str]") -> list[str]:
    """Return the Parquet files of a path, as addresses or patterns for Spark."""
    local = local_path(path if isinstance(path, Path) else fspath(path))
    for events in () if local is None else (local, local / "events"):
        parts = list_parts(open_store(events)) if events.is_dir() else ()
        if parts:
            return [address(events / part.name) for part in parts]
    return [f"{fspath(path).rstrip('/')}/{EVENTS_NAME}"]
