"""A trace is plain Parquet: pandas, Polars, DuckDB and Spark read and write it."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from pyspark.sql import SparkSession

from antecede.sim import Scenario, simulate, simulate_to
from antecede.trace.event import Event, Kind
from antecede.trace.reader import read_trace
from antecede.verify.verifier import verify_trace

SCENARIOS = {
    "conversation": Scenario(
        processes=5,
        messages=6,
        workload="conversation",
        payload_bytes="uniform:0,300",
        service_time="0.01",
        service_share=0.3,
        loss=0.1,
        seed=1,
    ),
    "multicast": Scenario(processes=6, messages=4, workload="uniform:fan_out=3", seed=2),
    "broadcast": Scenario(protocol="vector", processes=4, messages=4, workload="broadcast"),
}
"""Together they have nulls in every nullable column, and lists of different lengths."""

TYPES = {
    "run": "string",
    "process": "int32",
    "seq": "int64",
    "step": "int64",
    "time": "float64",
    "kind": "string",
    "source": "int32",
    "number": "int64",
    "target": "int32",
    "targets": "list of int32",
    "payload_bytes": "int32",
    "metadata_bytes": "int32",
}
Row = dict[str, object]


def rows_of(run: str, events: tuple[Event, ...]) -> list[Row]:
    """Return the expected rows, by the comments of the schema."""
    seen: Counter[int] = Counter()
    rows: list[Row] = []
    for step, event in enumerate(events):
        rows.append(
            {
                "run": run,
                "process": event.process,
                "seq": seen[event.process],
                "step": step,
                "time": event.time,
                "kind": event.kind.value,
                "source": event.source,
                "number": event.number,
                "target": event.target,
                "targets": None if event.targets is None else list(event.targets),
                "payload_bytes": event.payload_bytes,
                "metadata_bytes": event.metadata_bytes,
            }
        )
        seen[event.process] += 1
    return rows


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the traces, one directory each."""
    path: Path = tmp_path_factory.mktemp("traces")
    for name, scenario in SCENARIOS.items():
        simulate_to(path / name, scenario)
    return path


@pytest.fixture(params=SCENARIOS)
def trace(request: pytest.FixtureRequest, directory: Path) -> Path:
    """Return the directory of each trace in turn."""
    name: str = request.param
    return directory / name


def expected_rows(trace: Path) -> list[Row]:
    scenario = SCENARIOS[trace.name]
    return rows_of(f"{scenario.protocol}-{scenario.seed}", simulate(scenario).history)


def types(names: dict[str, Any]) -> dict[str, Any]:
    """Return the type of each column by the names that a tool has for types."""
    return {name: names[kind] for name, kind in TYPES.items()}


def is_same(rows: list[Row], trace: Path) -> bool:
    """Return whether rows are those of the trace, with the same Python types."""
    expected = expected_rows(trace)
    for row, other in zip(rows, expected, strict=True):
        for name, value in other.items():
            if type(row[name]) is not type(value):
                return False
    return rows == expected


def test_the_traces_have_every_kind_of_null_and_list() -> None:
    rows = [row for name in SCENARIOS for row in expected_rows(Path(name))]
    for name in ("source", "number", "target", "targets", "payload_bytes"):
        assert {row[name] is None for row in rows} == {True, False}
    sends = [row["targets"] for row in rows if row["kind"] == "send"]
    assert {0 if named is None else len(str(named)) for named in sends} == {0, 3, 9}
    assert {row["kind"] for row in rows} >= {
        kind.value
        for kind in Kind
        if kind not in (Kind.FAULT, Kind.JOIN, Kind.LEAVE, Kind.CRASH, Kind.LOCAL)
        and kind is not Kind.MISSING
    }


# pandas.

PANDAS_TYPES = {
    "string": pd.StringDtype(),
    "int32": pd.Int32Dtype(),
    "int64": pd.Int64Dtype(),
    "float64": pd.Float64Dtype(),
    "list of int32": "object",
}


def test_pandas_reads_the_rows(trace: Path) -> None:
    frame = pd.read_parquet(trace / "events.parquet", dtype_backend="numpy_nullable")
    assert dict(frame.dtypes) == types(PANDAS_TYPES)
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    for row in rows:
        if row["targets"] is not None:
            assert row["targets"].dtype == "int32"
            row["targets"] = row["targets"].tolist()
    assert is_same(rows, trace)


def test_pandas_keeps_the_types_of_columns_without_nulls(trace: Path) -> None:
    """By default pandas converts integer columns to floats only if they have nulls."""
    frame = pd.read_parquet(trace / "events.parquet")
    assert str(frame["process"].dtype) == "int32"
    assert str(frame["seq"].dtype) == str(frame["step"].dtype) == "int64"
    assert str(frame["time"].dtype) == "float64"


# Polars.

POLARS_TYPES: dict[str, pl.DataType] = {
    "string": pl.String(),
    "int32": pl.Int32(),
    "int64": pl.Int64(),
    "float64": pl.Float64(),
    "list of int32": pl.List(pl.Int32),
}


def test_polars_reads_the_rows(trace: Path) -> None:
    frame = pl.read_parquet(trace / "events.parquet")
    assert dict(frame.schema) == types(POLARS_TYPES)
    assert is_same(frame.to_dicts(), trace)


def test_a_trace_written_by_polars_is_read(trace: Path, tmp_path: Path) -> None:
    frame = pl.read_parquet(trace / "events.parquet")
    frame.write_parquet(tmp_path / "events.parquet")
    check_copy(tmp_path, trace)


# DuckDB.

DUCKDB_TYPES = {
    "string": "VARCHAR",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "float64": "DOUBLE",
    "list of int32": "INTEGER[]",
}


DUCKDB_SCRIPT = """
import json, sys
import duckdb

source, copy = sys.argv[1:]
with duckdb.connect() as database:
    found = database.read_parquet(source)
    found.write_parquet(copy)
    types = dict(zip(found.columns, map(str, found.types), strict=True))
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
json.dump([types, rows], sys.stdout)
"""


def test_duckdb_reads_the_rows_and_writes_a_trace(trace: Path, tmp_path: Path) -> None:
    """DuckDB runs in a process of its own: after Hypothesis it reports leaks at exit."""
    files = [str(directory / "events.parquet") for directory in (trace, tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", DUCKDB_SCRIPT, *files], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    found, rows = json.loads(done.stdout)
    assert found == types(DUCKDB_TYPES)
    assert is_same(rows, trace)
    check_copy(tmp_path, trace)


def check_copy(directory: Path, trace: Path) -> None:
    """Check that the directory holds the same trace, and gets the same verdict."""
    copy = read_trace(directory)
    assert tuple(copy.events()) == simulate(SCENARIOS[trace.name]).history
    assert verify_trace(copy).messages == verify_trace(read_trace(trace)).messages > 0


# Spark.

SPARK_TYPES = {
    "string": "string",
    "int32": "int",
    "int64": "bigint",
    "float64": "double",
    "list of int32": "array<int>",
}


def test_spark_reads_the_rows(trace: Path, spark: SparkSession) -> None:
    frame = spark.read.parquet(str(trace / "events.parquet"))
    assert dict(frame.dtypes) == types(SPARK_TYPES)
    assert is_same([row.asDict() for row in frame.orderBy("step").collect()], trace)


def test_a_trace_written_by_spark_is_read(
    trace: Path, tmp_path: Path, spark: SparkSession
) -> None:
    """Spark writes several parts, and other files beside them."""
    frame = spark.read.parquet(str(trace / "events.parquet"))
    parts = frame.repartitionByRange(3, "step").sortWithinPartitions("step")
    parts.write.parquet(str(tmp_path / "events.parquet"))
    assert len(list((tmp_path / "events.parquet").glob("*.parquet"))) == 3
    assert (tmp_path / "events.parquet" / "_SUCCESS").exists()
    check_copy(tmp_path, trace)
