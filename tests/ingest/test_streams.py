"""The data sources as streams: a new file becomes new rows, exactly once."""

import shutil
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from antecede.errors import TraceError
from antecede.pipeline.spark.data_sources import register
from antecede.pipeline.spark.file_stream import FileStreamReader
from tests.ingest.foreign_samples import as_tracechecker, random_log, write_sample


class Stream:
    """A streaming query that appends the rows of a directory to Parquet files."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.spark = spark
        self.source = path / "in"
        self.source.mkdir()
        self.table = path / "out"
        self.checkpoint = path / "checkpoint"

    def add(self, name: str, steps: int) -> None:
        """Add a complete file, as a program should: by renaming it."""
        hidden = self.source / f".{name}"
        write_sample(hidden, as_tracechecker(random_log(len(name), steps=steps)))
        hidden.rename(self.source / name)

    def run(self) -> None:
        """Start the query, or start it again; it ends when all files are read."""
        frame = self.spark.readStream.format("antecede.tracechecker").load(str(self.source))
        writer = frame.select("file", "line", "process").writeStream.format("parquet")
        query = (
            writer.option("path", str(self.table))
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)

    def counts(self) -> dict[str, int]:
        rows = self.spark.read.parquet(str(self.table)).groupBy("file").count().collect()
        return {Path(row.file).name: row["count"] for row in rows}


def test_each_file_becomes_rows_once_across_restarts(
    spark: SparkSession, tmp_path: Path
) -> None:
    register(spark)
    stream = Stream(spark, tmp_path)
    stream.add("b", 30)
    stream.run()
    assert stream.counts() == {"b": 30}
    # The second file has an earlier name than the first.
    stream.add("a", 20)
    (stream.source / "_marker").touch()
    stream.run()
    assert stream.counts() == {"a": 20, "b": 30}
    # Without the commit of the second batch, the query has failed before its end.
    for commit in (stream.checkpoint / "commits").glob("*1*"):
        commit.unlink()
    stream.run()
    assert stream.counts() == {"a": 20, "b": 30}
    (stream.source / "a").write_text("grown\n" * 1000)
    with pytest.raises(PySparkException, match="a has changed since the stream listed it"):
        stream.run()
    assert stream.counts() == {"a": 20, "b": 30}


class Names:
    """A reader whose partitions are the names of files."""

    def file_partitions(self, files: list[str]) -> list[str]:
        return [Path(file).name for file in files]


def test_the_offset_has_the_files_that_are_there(tmp_path: Path) -> None:
    reader = FileStreamReader(Names(), [str(tmp_path / "in")])  # type: ignore[arg-type]
    with pytest.raises(TraceError, match="no such file"):
        reader.latestOffset()
    source = tmp_path / "in"
    source.mkdir()
    assert reader.initialOffset() == reader.latestOffset() == {}
    (source / "x").write_text("123")
    first = reader.latestOffset()
    assert first == {str(source / "x"): 3}
    (source / "y").write_text("1")
    (source / "x").unlink()
    second = reader.latestOffset()
    assert second == {str(source / "y"): 1}
    assert list(map(str, reader.partitions(first, second))) == ["y"]
    assert not reader.partitions(second, second)
    with pytest.raises(TraceError, match="x: no such file, but the checkpoint lists it"):
        reader.partitions({}, first)
    (source / "y").write_text("12")
    with pytest.raises(TraceError, match="y has changed since"):
        reader.partitions(second, reader.latestOffset())
    with pytest.raises(TraceError, match="y has changed since"):
        reader.partitions({}, second)
    shutil.rmtree(source)
    pattern = FileStreamReader(Names(), [f"{source}/*.log"])  # type: ignore[arg-type]
    assert pattern.latestOffset() == {}
