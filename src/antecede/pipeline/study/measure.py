"""Measure the runs of a study: the tables that the report reads.

:func:`write_measures` writes the tables ``measures`` and ``summary``;
:mod:`antecede.pipeline.study.measure_schema` describes them. It reads the results of the
single runs, and for comparisons the table ``copies``, but no events.

This module needs the extra ``antecede[spark]``.
"""

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from antecede.errors import ConfigError, StorageError, TraceError
from antecede.pipeline.study.compare_runs import COMPARISON_SCHEMA, RunRows, compare_runs
from antecede.pipeline.study.comparison import speedups
from antecede.pipeline.study.directory import StudyDirectory
from antecede.pipeline.study.measure_schema import COPIES_SCHEMA, MEASURES, MEASURES_SCHEMA
from antecede.pipeline.study.results import (
    Parts,
    missing_results,
    parts_to_measure,
    read_results,
    write_missing_results,
)
from antecede.pipeline.study.summary import summarize
from antecede.trace.run_table import RunRows as TableRows
from antecede.trace.run_table import list_parts, read_part
from antecede.trace.schema import SCHEMA
from antecede.trace.store import StorePath, open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

__all__ = [
    "TABLES",
    "address",
    "read_cells",
    "read_events",
    "spark_schema",
    "write_measures",
]

TABLES = ("copies", "measures", "summary")
COPIES_PLACE = ("part", "copies_first", "copies_rows")
EMPTY = "empty.parquet"
"""The file of the table ``copies`` if there are no runs."""


def spark_schema(schema: pa.Schema = SCHEMA) -> "StructType":
    """Return an Arrow schema as a Spark schema in which every column is nullable."""
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [StructField(field.name, _spark_type(field.type)) for field in schema]
    )


def read_events(spark: "SparkSession", directory: Path) -> "DataFrame":
    """Read the events of all finished cells of a study, of each run once."""
    reader = spark.read.schema(spark_schema())
    whole: list[str] = []
    tables: list[DataFrame] = []
    known: set[str] = set()
    for path in list_parts(open_store(directory / "events")):
        runs = set(_read_runs(path))
        file = directory / "events" / path.name
        if known.isdisjoint(runs):
            whole.append(address(file))
        elif runs - known:
            rows = reader.parquet(address(file))
            tables.append(rows.where(rows["run"].isin(runs - known)))
        known |= runs
    if whole:
        tables.append(reader.parquet(*whole))
    if not tables:
        return spark.createDataFrame([], spark_schema())
    found = tables[0]
    for table in tables[1:]:
        found = found.union(table)
    return found


def _read_runs(path: StorePath) -> Mapping[str, TableRows]:
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


def write_measures(
    spark: "SparkSession | Callable[[], SparkSession]", directory: Path
) -> None:
    """Write or replace the tables ``measures`` and ``summary``, and tidy ``copies``.

    The results of the single runs are those of :mod:`antecede.pipeline.study.results`;
    missing ones are written first.

    Args:
        spark: The session, or a function that returns one, which is called only if results
            are missing, or many copies are compared.
        directory: The directory of the study, which the workers must reach under the same
            path.

    Raises:
        ConfigError: The directory is not a study directory.
        StorageError: A trace is damaged, or the directory is not writable.
    """

    def session() -> "SparkSession":
        return spark() if callable(spark) else spark

    directory = directory.resolve()
    where = StudyDirectory(directory)
    cells = _read_cells(directory)
    protocols = _column_by_cell(cells, "protocol")
    parts = parts_to_measure(where, protocols)
    try:
        missing = missing_results(where, parts)
        if missing:
            write_missing_results(session(), where, missing)
        results = read_results(where, parts)
        errors = [
            error
            for name in ("error", "measure_error")
            for error in results.column(name).drop_null().to_pylist()
        ]
        if errors:
            raise StorageError(f"cannot measure {directory}: {errors[0]}")
        results = results.filter(pc.field("events") > 0)
        _tidy_copies(where, parts)
        measured = cells.take(
            pc.index_in(results.column("cell"), cells.column("cell").combine_chunks())
        )
        compared = _compare(session, where, measured, results)
        values = _values(measured, results, compared)
        _write(_measures_table(measured, values), directory / "measures")
        _write(summarize(measured, values), directory / "summary")
        for name in ("measures", "summary"):
            _replace(directory / name)
    except OSError as error:
        raise StorageError(f"cannot write to {directory}: {error.strerror}") from error
    finally:
        for name in ("measures", "summary"):
            shutil.rmtree(_partial(directory / name), ignore_errors=True)


def _read_cells(directory: Path) -> pa.Table:
    path = directory / "cells.parquet"
    if not path.exists():
        raise ConfigError(f"no cells.parquet in {directory}: not a study directory")
    return pq.read_table(path)


def _column_by_cell(cells: pa.Table, name: str) -> dict[str, str]:
    names = cells.column("cell").to_pylist()
    return dict(zip(names, cells.column(name).to_pylist(), strict=True))


def _tidy_copies(directory: StudyDirectory, parts: Parts) -> None:
    """Remove copies of other parts; without any parts, write an empty file."""
    names = {part.path.name for part, _ in parts}
    directory.copies.mkdir(exist_ok=True)
    for path in directory.copies.iterdir():
        if path.name not in names:
            path.unlink()
    if not names:
        pq.write_table(COPIES_SCHEMA.empty_table(), directory.copies / EMPTY)


def _compare(
    spark: "Callable[[], SparkSession]",
    directory: StudyDirectory,
    cells: pa.Table,
    results: pa.Table,
) -> pa.Table:
    """Return the comparisons of the runs that have a reference."""
    comparables: dict[str, list[RunRows]] = {}
    for comparable, *run in zip(
        cells.column("comparable").to_pylist(),
        cells.column("cell").to_pylist(),
        cells.column("protocol").to_pylist(),
        *(results.column(f"{name}").to_pylist() for name in COPIES_PLACE),
        strict=True,
    ):
        comparables.setdefault(comparable, []).append(RunRows(*run))
    return compare_runs(spark, directory.copies, comparables)


def _values(cells: pa.Table, results: pa.Table, compared: pa.Table) -> np.ndarray:
    """Return a row for each cell, and a column for each measure; NaN for null."""
    columns = {name: results.column(name) for name in MEASURES}
    place = pc.index_in(results.column("cell"), compared.column("cell").combine_chunks())
    for name in COMPARISON_SCHEMA.names[1:]:
        columns[name] = compared.column(name).take(place)
    columns |= speedups(
        cells.column("comparable").to_pylist(),
        cells.column("protocol").to_pylist(),
        {name: columns[name].to_pylist() for name in ("execution_time", "job_start_mean")},
    )
    listed = [
        np.array(column, np.float64) if isinstance(column, list) else column.to_numpy()
        for column in (columns[name] for name in MEASURES)
    ]
    return np.stack(listed, axis=1)


def _measures_table(cells: pa.Table, values: np.ndarray) -> pa.Table:
    rows, count = values.shape
    every = pa.array(np.repeat(np.arange(rows), count))
    names = pa.array(np.tile(np.arange(count), rows))
    return pa.table(
        [
            cells.column("cell").take(every),
            pa.array(list(MEASURES)).take(names),
            pa.array(values.ravel(), from_pandas=True),
        ],
        MEASURES_SCHEMA,
    )


def _spark_type(arrow: pa.DataType) -> "DataType":
    from pyspark.sql import types

    if pa.types.is_list(arrow):
        return types.ArrayType(_spark_type(arrow.value_type))
    return {
        pa.string(): types.StringType(),
        pa.int32(): types.IntegerType(),
        pa.int64(): types.LongType(),
        pa.float64(): types.DoubleType(),
        pa.bool_(): types.BooleanType(),
    }[arrow]


def address(path: Path) -> str:
    """Return a URL for Spark to read, with the characters of patterns escaped."""
    return "file://" + re.sub(r"([*?\[\]{}\\])", r"\\\1", str(path.resolve()))


def _partial(table: Path) -> Path:
    return table.with_name(f".{table.name}.partial")


def _write(rows: pa.Table, table: Path) -> None:
    """Write a table to its temporary directory."""
    partial = _partial(table)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    pq.write_table(rows, partial / "part-0.parquet")


def _replace(table: Path) -> None:
    """Move a table from its temporary directory to its final one."""
    old = table.with_name(f".{table.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if table.exists():
        table.rename(old)
    _partial(table).rename(table)
    shutil.rmtree(old, ignore_errors=True)
