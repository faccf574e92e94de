"""Tasks hand data to later tasks in files, where they share a disk with the driver."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, Popen

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from antecede.errors import StorageError
from antecede.pipeline.spark.task_files import (
    MARK,
    PROPERTY,
    VALUES,
    _remove_abandoned,
    get,
    put,
    remove_group,
    task_files,
)
from antecede.pipeline.verify.packed_rows import read_blob, write_blob

ROWS = 1000


def written(spark: SparkSession, group: str = VALUES) -> list[bytes]:
    """Return the blobs that two tasks wrote."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for first in batch.column(0).to_pylist():
                table = pa.table({"x": range(first, first + ROWS), "y": ["text"] * ROWS})
                blob = pa.array([write_blob(table, group)], pa.binary())
                yield pa.record_batch([blob], names=["data"])

    rows = spark.range(0, 4 * ROWS, ROWS, 2).mapInArrow(write, "data binary").collect()
    return [bytes(row["data"]) for row in rows]


def test_blobs_of_tasks_are_read_from_files_and_removed(spark: SparkSession) -> None:
    with task_files(spark):
        directory = str(spark.sparkContext.getLocalProperty(PROPERTY))
        blobs = written(spark)
        assert all(blob.startswith(MARK) for blob in blobs)
        assert max(map(len, blobs)) < 200
        tables = [read_blob(pa.py_buffer(blob), ["x"]) for blob in blobs]
        assert os.listdir(directory)
    assert not Path(directory).exists()
    found = [value for table in tables for value in table["x"].to_pylist()]
    assert sorted(found) == list(range(4 * ROWS))


def test_a_group_is_removed_before_the_other_values(spark: SparkSession) -> None:
    with task_files(spark):
        directory = Path(str(spark.sparkContext.getLocalProperty(PROPERTY)))
        parts, others = written(spark, "parts"), written(spark)
        remove_group(spark, "parts")
        assert {each.name.split("-")[0] for each in directory.glob("*-*")} == {VALUES}
        assert read_blob(pa.py_buffer(others[0])).num_rows == ROWS
        with pytest.raises(StorageError, match="cannot read rows from disk"):
            read_blob(pa.py_buffer(parts[0]))


KILLED = """
import sys
from antecede.pipeline.spark.task_files import _make_directory
print(_make_directory(sys.argv[1])[0], flush=True)
sys.stdin.read()
"""


def test_the_directory_of_a_killed_driver_is_removed_and_no_other(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    (tmp_path / "antecede-tasks-without-lock").mkdir()
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with (
        Popen(command, stdin=PIPE, stdout=PIPE, text=True) as killed,
        Popen(command, stdin=PIPE, stdout=PIPE, text=True) as running,
    ):
        assert killed.stdout is not None
        assert running.stdout is not None
        left, kept = (
            Path(each.readline().strip()) for each in (killed.stdout, running.stdout)
        )
        (left / "values-1").write_bytes(b"value")
        killed.kill()
        killed.wait()
        with task_files(spark):
            own = Path(str(spark.sparkContext.getLocalProperty(PROPERTY)))
            _remove_abandoned(str(tmp_path))
            assert own.exists()
            assert not left.exists()
            assert kept.exists()
            assert (tmp_path / "antecede-tasks-without-lock").exists()
        assert not own.exists()


def test_without_files_no_group_is_removed(spark: SparkSession) -> None:
    remove_group(spark, "parts")


def test_without_files_rows_have_the_blobs(spark: SparkSession) -> None:
    blobs = written(spark)
    assert not any(blob.startswith(MARK) for blob in blobs)
    tables = [read_blob(pa.py_buffer(blob)) for blob in blobs]
    found = [value for table in tables for value in table["x"].to_pylist()]
    assert sorted(found) == list(range(4 * ROWS))


def test_a_lost_file_is_a_storage_error(spark: SparkSession) -> None:
    with task_files(spark):
        blobs = written(spark)
    with pytest.raises(StorageError, match="cannot read rows from disk"):
        read_blob(pa.py_buffer(blobs[0]))


def test_outside_of_a_task_a_value_stays_as_it_is() -> None:
    value = put(pa.py_buffer(b"value"))
    assert value == b"value"
    assert get(pa.py_buffer(value)) == pa.py_buffer(b"value")


def test_a_directory_that_cannot_be_made_is_a_storage_error(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "file" / "below"))
    with pytest.raises(StorageError, match=r"set spark\.local\.dir"), task_files(spark):
        pass
