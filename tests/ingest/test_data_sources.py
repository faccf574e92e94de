"""The readers as data sources of Spark."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql.functions import spark_partition_id

from antecede.ingest import FORMATS, ReadOptions
from antecede.ingest.formats.registry import get_format, read_file
from antecede.pipeline.spark.data_sources import PREFIX, register
from antecede.pipeline.spark.source_paths import expand_braces
from tests.ingest.foreign_samples import (
    SHOP_SPANS,
    as_tracechecker,
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
    frame = spark.read.format(PREFIX + name).load(str(file))
    assert frame.schema.names == ["file", *get_format(name).schema.names]
    rows = sorted((row.asDict() for row in frame.collect()), key=lambda row: row["line"])
    wanted = sorted(read_locally(file, name), key=lambda row: row["line"])  # type: ignore[arg-type, return-value]
    assert rows == wanted


def test_a_large_file_of_lines_is_read_by_several_tasks(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = write_sample(tmp_path / "log", as_tracechecker(random_log(3, steps=500)))
    reader = spark.read.format("antecede.tracechecker").option("splitBytes", "9000")
    frame = reader.load(str(file))
    rows = frame.select("line", spark_partition_id().alias("task")).sort("line").collect()
    assert len({row.task for row in rows}) > 5
    assert [row.line for row in rows] == list(range(1, 501))


def test_options_reach_the_reader(spark: SparkSession, tmp_path: Path) -> None:
    file = write_sample(tmp_path / "log", BRACKETS)
    reader = spark.read.format("antecede.shiviz").option("regex", EXPRESSION)
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
    reader = spark.read.format("antecede.spancsv").option("columns", "process=wo")
    assert reader.load(str(tmp_path)).count() == 2 * len(SHOP_SPANS)
    found = reader.load(f"{tmp_path}/*.csv").select("file").distinct().collect()
    assert [row.file for row in found] == [str(tmp_path / "one.csv")]


def test_lists_of_paths_and_braces_name_each_file_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name in ("one.csv", "two.csv", "three.csv"):
        write_sample(tmp_path / name, span_csv(SHOP_SPANS))
    reader = spark.read.format("antecede.spancsv")

    def names(path: str | list[str]) -> list[str]:
        found = reader.load(path).select("file").distinct().collect()
        return sorted(Path(row.file).name for row in found)

    assert names(f"{tmp_path}/{{one,t*}}.csv") == ["one.csv", "three.csv", "two.csv"]
    assert names([f"{tmp_path}/one.csv", f"file://{tmp_path}/two.csv"]) == [
        "one.csv", "two.csv",
    ]  # fmt: skip
    twice = reader.load([f"{tmp_path}/one.csv", f"{tmp_path}/o*.csv"])
    assert twice.count() == len(SHOP_SPANS)


def test_nested_braces_are_expanded() -> None:
    assert expand_braces("a{b,c{d,e}}f") == ["abf", "acdf", "abf", "acef"]


def test_columns_are_selected_by_the_option_and_by_a_schema(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = write_sample(tmp_path / "one.csv", span_csv(SHOP_SPANS).replace("PodName", "wo"))
    reader = spark.read.format("antecede.spancsv")
    chosen = reader.option("columns", "span,process=wo,process").load(str(file))
    assert chosen.columns == ["span", "process"]
    wanted = {(span.id, span.process) for span in SHOP_SPANS}
    assert {tuple(row) for row in chosen.collect()} == wanted
    fields = "process string, span string"
    other = spark.read.format("antecede.spancsv").schema(fields)
    rows = other.option("columns", "process=wo").load(str(file)).collect()
    assert {(row.span, row.process) for row in rows} == wanted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": "sapn"}, "has no column 'sapn': select some of file, line"),
        ({"columns": "process="}, "use OURS=THEIRS"),
        ({"columns": "process=pod"}, "no column 'pod' among TraceID"),
        ({"columns": "colour=wo"}, 'invalid option("columns", "colour=...")'),
        ({"splitBytes": "many"}, 'invalid option("splitBytes", "many")'),
        ({"column": "process=wo"}, 'unknown option("column", ...)'),
        ({}, 'give it with option("columns", "process=NAME")'),
    ],
)
def test_an_error_names_the_option(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    file = write_sample(tmp_path / "one.csv", span_csv(SHOP_SPANS).replace("PodName", "wo"))
    with pytest.raises(PySparkException) as caught:
        spark.read.format("antecede.spancsv").options(**options).load(str(file)).count()
    assert message in str(caught.value)
    assert "--columns" not in str(caught.value)


def test_filters_are_pushed_only_where_the_session_allows_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name in ("one.csv", "two.csv"):
        write_sample(tmp_path / name, span_csv(SHOP_SPANS))
    session = spark.newSession()
    query = f"process = 'shop' AND line > 2 AND file = '{tmp_path}/one.csv'"

    def rows() -> tuple[int, list[Row]]:
        frame = session.read.format("antecede.spancsv").load(str(tmp_path))
        found = frame.where(f"{query} AND kind LIKE 'cl%'")
        return found.rdd.getNumPartitions(), sorted(found.collect())

    register(session)
    tasks, expected = rows()
    assert (tasks, len(expected)) == (2, 2)
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    register(session)
    assert rows() == (1, expected)  # No task reads the other file.


def test_a_path_that_is_not_there_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="nowhere: no such file"):
        spark.read.format("antecede.jaeger").load(str(tmp_path / "nowhere")).count()
    with pytest.raises(PySparkException, match="not s3a:; read the files with Spark"):
        spark.read.format("antecede.jaeger").load("s3a://bucket/spans.json").count()
