"""The readers as data sources of Spark."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id
from pyspark.sql.pandas.types import from_arrow_schema

from antecede.ingest import FORMATS, ReadOptions
from antecede.ingest.formats.registry import get_format, read_file
from antecede.pipeline.spark.data_sources import register
from antecede.trace.reader import read_trace
from antecede.trace.schema import SCHEMA
from tests.ingest.foreign_samples import (
    SHOP_SPANS,
    as_tracechecker,
    ingest_file,
    random_log,
    span_csv,
    write_sample,
)
from tests.ingest.test_readers import BRACKETS, EXPRESSION, FILES


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> SparkSession:
    """Return the session of all tests, with the formats registered."""
    register(spark)
    return spark


def read_locally(path: Path, name: str, **options: object) -> list[dict[str, object]]:
    """Return the records that the reader yields without Spark."""
    read_options = ReadOptions(**options)  # type: ignore[arg-type]
    batches = read_file(path, get_format(name), read_options)
    rows = [row for batch in batches for row in batch.to_pylist()]
    for row in rows:
        if row.get("clock") is not None:
            row["clock"] = dict(row["clock"])
    return [{"file": str(path), **row} for row in rows]


@pytest.mark.parametrize("name", [each.name for each in FORMATS])
def test_spark_reads_what_the_reader_yields(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    file = write_sample(tmp_path / "file", FILES[name])
    frame = spark.read.format(name).load(str(file))
    assert frame.schema.names == ["file", *get_format(name).schema.names]
    rows = sorted((row.asDict() for row in frame.collect()), key=lambda row: row["line"])
    wanted = sorted(read_locally(file, name), key=lambda row: row["line"])  # type: ignore[arg-type, return-value]
    assert rows == wanted


def test_a_large_file_of_lines_is_read_by_several_tasks(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = write_sample(tmp_path / "log", as_tracechecker(random_log(3, steps=500)))
    reader = spark.read.format("tracechecker").option("splitBytes", "9000")
    frame = reader.load(str(file))
    rows = frame.select("line", spark_partition_id().alias("task")).sort("line").collect()
    assert len({row.task for row in rows}) > 5
    assert [row.line for row in rows] == list(range(1, 501))


def test_options_reach_the_reader(spark: SparkSession, tmp_path: Path) -> None:
    file = write_sample(tmp_path / "log", BRACKETS)
    reader = spark.read.format("shiviz").option("regex", EXPRESSION)
    frame = reader.option("delimiter", "^=== (?<run>.*) ===$").load(str(file))
    rows = frame.sort("line").collect()
    assert [(row.line, row.run, row.process) for row in rows] == [
        (2, "first", "alice"), (3, "first", None), (4, "first", "bob"),
        (6, "second", "alice"),
    ]  # fmt: skip
    assert [row.line for row in rows if row.problem] == [3]


def test_a_directory_and_a_pattern_are_many_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    text = span_csv(SHOP_SPANS).replace("PodName", "wo")
    for name in ("one.csv", "two.csv.gz", "_SUCCESS"):
        write_sample(tmp_path / name, text)
    reader = spark.read.format("spancsv").option("columns", "process=wo")
    assert reader.load(str(tmp_path)).count() == 2 * len(SHOP_SPANS)
    found = reader.load(f"{tmp_path}/*.csv").select("file").distinct().collect()
    assert [row.file for row in found] == [str(tmp_path / "one.csv")]


def test_our_own_traces_are_a_source_like_the_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    ingested = ingest_file(
        write_sample(tmp_path / "file", span_csv(SHOP_SPANS)), tmp_path / "run"
    )
    frame = spark.read.format("antecede").load(str(tmp_path / "run"))
    assert frame.schema == from_arrow_schema(SCHEMA)
    rows = [row.asDict() for row in frame.sort("step").collect()]
    batches = read_trace(ingested.directory).batches()
    assert rows == [row for batch in batches for row in batch.to_pylist()]


def test_a_path_that_is_not_there_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="nowhere: no such file"):
        spark.read.format("jaeger").load(str(tmp_path / "nowhere")).count()
