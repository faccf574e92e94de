"""Measure the runs of a study: from their events to the tables that the report reads.

:func:`write_measures` writes the tables ``copies``, ``measures`` and ``summary`` beside the
events; :mod:`antecede.pipeline.study.measure_schema` describes them.

This module needs the extra ``antecede[spark]``.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from antecede.core.registry import protocols
from antecede.errors import ConfigError, InternalError, StorageError, TraceError
from antecede.pipeline.study import copies_sql, measure_sql
from antecede.pipeline.study.intervals import student_t
from antecede.pipeline.study.measure_schema import (
    COPIES_SCHEMA,
    MEASURES,
    MEASURES_SCHEMA,
    SUMMARY_SCHEMA,
)
from antecede.trace.run_table import RunRows, list_parts, read_part
from antecede.trace.schema import SAMPLES_SCHEMA, SCHEMA
from antecede.trace.store import StorePath, open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

__all__ = [
    "address",
    "copies",
    "ledger",
    "measures",
    "plan_tables",
    "read_cells",
    "read_events",
    "read_samples",
    "spark_schema",
    "summary",
    "write_measures",
]

TABLES = ("copies", "measures", "summary")


def spark_schema(schema: pa.Schema = SCHEMA) -> "StructType":
    """Return an Arrow schema as a Spark schema in which every column is nullable."""
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [StructField(field.name, _spark_type(field.type)) for field in schema]
    )


def read_events(spark: "SparkSession", directory: Path) -> "DataFrame":
    """Read the events of all finished cells of a study."""
    return _read_parts(spark, directory, "events", SCHEMA)


def read_samples(spark: "SparkSession", directory: Path) -> "DataFrame":
    """Read the probe samples of all finished cells of a study."""
    return _read_parts(spark, directory, "samples", SAMPLES_SCHEMA)


def _read_parts(
    spark: "SparkSession", directory: Path, folder: str, schema: pa.Schema
) -> "DataFrame":
    """Read the rows of all runs of a study's table of runs, of each run once."""
    reader = spark.read.schema(spark_schema(schema))
    whole: list[str] = []
    tables: list[DataFrame] = []
    known: set[str] = set()
    for path in list_parts(open_store(directory / "events")):
        runs = set(_read_runs(path))
        file = directory / folder / path.name
        if not file.exists():  # Its runs have no samples.
            continue
        if known.isdisjoint(runs):
            whole.append(address(file))
        elif runs - known:
            rows = reader.parquet(address(file))
            tables.append(rows.where(rows["run"].isin(runs - known)))
        known |= runs
    if whole:
        tables.append(reader.parquet(*whole))
    if not tables:
        return spark.createDataFrame([], spark_schema(schema))
    found = tables[0]
    for table in tables[1:]:
        found = found.union(table)
    return found


def _read_runs(path: StorePath) -> Mapping[str, RunRows]:
    """Return the runs of a part; raise StorageError if it is damaged."""
    try:
        return read_part(path).runs
    except TraceError as error:
        raise StorageError(f"cannot measure {path}: {error}") from error


def read_cells(spark: "SparkSession", directory: Path) -> "DataFrame":
    """Read a study's table of cells; raise ConfigError if it does not exist."""
    path = directory / "cells.parquet"
    if not path.exists():
        raise ConfigError(f"no cells.parquet in {directory}: not a study directory")
    return spark.read.parquet(address(path))


def ledger(spark: "SparkSession", events: "DataFrame", cells: "DataFrame") -> "DataFrame":
    """Return the table that all others are made from; :func:`plan_tables` persists it."""
    relaying = [info.name for info in protocols() if info.capabilities.relays]
    names = ", ".join(f"'{name}'" for name in relaying)
    relays = cells.selectExpr(
        "cell", "comparable", "protocol", f"protocol IN ({names}) AS relays"
    )
    # Three queries, because Spark does not recognize a persisted table that has a WITH.
    keyed_events = spark.sql(copies_sql.KEYED_EVENTS, events=events, cells=relays)
    lifecycles = spark.sql(copies_sql.MESSAGE_LIFECYCLES, keyed_events=keyed_events)
    return spark.sql(copies_sql.LEDGER, lifecycles=lifecycles)


def copies(spark: "SparkSession", ledger: "DataFrame") -> "DataFrame":
    """Return the table ``copies``."""
    found = spark.sql(copies_sql.COPIES, ledger=ledger)
    return found.select(*COPIES_SCHEMA.names)


def measures(
    spark: "SparkSession", ledger: "DataFrame", samples: "DataFrame | None" = None
) -> "DataFrame":
    """Return the table ``measures``; ``samples`` is the table of :func:`read_samples`."""
    if samples is None:
        samples = spark.createDataFrame([], spark_schema(SAMPLES_SCHEMA))
    found = spark.sql(copies_sql.COPIES, ledger=ledger)
    compared = spark.sql(measure_sql.COMPARED, copies=found)
    run_measures = spark.sql(
        measure_sql.RUN_MEASURES,
        statistics=spark.sql(measure_sql.STATISTICS, compared=compared),
        peaks=spark.sql(measure_sql.PEAKS, copies=found),
        totals=spark.sql(measure_sql.TOTALS, ledger=ledger),
        living=spark.sql(measure_sql.LIVING, ledger=ledger, copies=found),
        sampled=spark.sql(measure_sql.SAMPLES, samples=samples),
    )
    values = [f"CAST({name} AS DOUBLE) AS {name}" for name in MEASURES]
    table = run_measures.selectExpr("cell", *values)
    return table.unpivot("cell", None, "measure", "value")


def plan_tables(
    spark: "SparkSession", directory: Path, cells: "DataFrame"
) -> "tuple[DataFrame, DataFrame, DataFrame]":
    """Return the persisted ledger, and the tables ``copies`` and ``measures``.

    Unpersist the ledger when both tables are written.
    """
    from pyspark import StorageLevel

    rows = ledger(spark, read_events(spark, directory), cells)
    found = copies(spark, rows)
    measured = measures(spark, rows, read_samples(spark, directory))
    # Persist last: an SQL query creates temporary views of its inputs, and dropping a view
    # unpersists its table.
    return rows.persist(StorageLevel.DISK_ONLY), found, measured


def summary(
    spark: "SparkSession", measures: "DataFrame", cells: "DataFrame"
) -> "DataFrame":
    """Return the table ``summary``."""
    row = spark.sql(measure_sql.SEEDS_MAX, cells=cells).first()
    seeds_max = (row[0] if row is not None else None) or 0
    quantiles = spark.createDataFrame(
        [(seeds, student_t(seeds - 1)) for seeds in range(2, seeds_max + 1)],
        "runs long, t double",
    )
    return spark.sql(
        measure_sql.SUMMARY,
        measures=measures,
        cells=cells,
        quantiles=quantiles,
    )


def write_measures(spark: "SparkSession", directory: Path) -> None:
    """Measure the finished cells of a study, and write or replace its three tables.

    The tables are directories of Parquet files, ``copies``, ``measures`` and ``summary``,
    in the study's directory, which the workers must reach under the same path. The old
    tables are replaced when all new ones are written and have the expected schema.

    Raises:
        ConfigError: The directory is not a study directory, contains an invalid trace, or
            is not writable.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    directory = directory.resolve()
    try:
        cells = read_cells(spark, directory)
        rows, all_copies, all_measures = plan_tables(spark, directory, cells)
        try:
            _write(all_copies, directory / "copies", COPIES_SCHEMA)
            _write(all_measures.repartition(1), directory / "measures", MEASURES_SCHEMA)
        finally:
            rows.unpersist()
        written = spark.read.parquet(address(_partial(directory / "measures")))
        _write(
            summary(spark, written, cells).repartition(1),
            directory / "summary",
            SUMMARY_SCHEMA,
        )
        for name in TABLES:
            _replace(directory / name)
    except (Py4JJavaError, PySparkException) as error:
        # Only these errors are the user's to repair.
        found = re.search(r"\[FAILED_READ_FILE.*|No space left on device", str(error))
        if found is None:
            raise
        raise StorageError(f"cannot measure {directory}: {found[0]}") from error
    except OSError as error:
        raise StorageError(f"cannot write to {directory}: {error.strerror}") from error
    finally:
        for name in TABLES:
            shutil.rmtree(_partial(directory / name), ignore_errors=True)


def _spark_type(arrow: pa.DataType) -> "DataType":
    from pyspark.sql import types

    if pa.types.is_list(arrow):
        return types.ArrayType(_spark_type(arrow.value_type))
    return {
        pa.string(): types.StringType(),
        pa.int32(): types.IntegerType(),
        pa.int64(): types.LongType(),
        pa.float64(): types.DoubleType(),
    }[arrow]


def address(path: Path) -> str:
    """Return a URL for Spark to read, with the characters of patterns escaped."""
    return "file://" + re.sub(r"([*?\[\]{}\\])", r"\\\1", str(path.resolve()))


def _partial(table: Path) -> Path:
    return table.with_name(f".{table.name}.partial")


def _write(frame: "DataFrame", table: Path, schema: pa.Schema) -> None:
    """Write a table to its temporary directory, and check its schema."""
    partial = _partial(table)
    frame.write.mode("overwrite").parquet(f"file://{partial}")
    for part in sorted(partial.glob("*.parquet")):
        found = pq.read_schema(part)
        if (found.names, found.types) != (schema.names, schema.types):
            raise InternalError(f"table {table.name} has an unexpected schema: {found}")


def _replace(table: Path) -> None:
    """Move a table from its temporary directory to its final one."""
    old = table.with_name(f".{table.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if table.exists():
        table.rename(old)
    _partial(table).rename(table)
    shutil.rmtree(old, ignore_errors=True)
