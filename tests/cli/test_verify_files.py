"""``antecede verify`` prints the same about foreign files in one process and on Spark."""

import argparse
import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from antecede.cli import main as cli
from antecede.cli import spark_files
from antecede.cli.file_groups import FileGroup, file_group, find_parts
from antecede.cli.foreign import ForeignFiles
from antecede.cli.spark_files import SparkFiles
from antecede.errors import ConfigError
from tests.ingest.foreign_samples import (
    MESSAGES_CSV,
    SHIVIZ,
    SHOP_SPANS,
    changed,
    span_csv,
    write_sample,
)
from tests.pipeline.span_runs import SpanRun
from tests.report.test_verification_page import charts

MS = 1_000_000


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, so that the workers must resolve relative paths."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shop_table(directory: Path) -> pa.Table:
    (directory / "shop.csv").write_text(span_csv(SHOP_SPANS), encoding="utf-8")
    return arrow_csv.read_csv(directory / "shop.csv")


def write_parts(directory: Path, tables: dict[str, pa.Table]) -> Path:
    """Write a directory as Spark writes a table."""
    for name, table in tables.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, directory / name)
    (directory / "_SUCCESS").touch()
    return directory


def verify(
    capsys: pytest.CaptureFixture[str], spark: str, *words: str
) -> tuple[int, str, list[str]]:
    """Return the exit code, the output, and the errors without notices."""
    code = cli.main(["verify", *words, "--spark", spark])
    shown = capsys.readouterr()
    errors = [line for line in shown.err.splitlines() if line.startswith("antecede: ")]
    return code, shown.out, sorted(errors)


def test_spark_prints_what_one_process_prints(
    spark: SparkSession, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = shop_table(directory)
    write_parts(directory / "parts", {"a.parquet": table[:3], "b/c.parquet": table[3:]})
    unread = "t,q,,shop,client,s,a,b,c\nx,y\n"
    spans = changed(changed(SHOP_SPANS, "c", begin=5), "e", parent="x")
    write_sample(directory / "spans.csv", span_csv(spans) + unread)
    named = MESSAGES_CSV.replace("source,target", "sender,wem")
    write_sample(directory / "named.csv", named)
    files = ["parts", "spans.csv"]
    expected = verify(capsys, "off", *files)
    assert expected[0] == 1
    assert "(parts/b/c.parquet:1)" in expected[1]
    assert "parent is not in the files: spans.csv:6 (stöck)\n" in expected[1]
    assert "no valid start: spans.csv:7 " in expected[1]
    assert "columns, not 9: spans.csv:8\n" in expected[1]
    assert "skew: 1 of " in expected[1]
    assert verify(capsys, "on", *files) == expected
    words = ["named.csv", "--columns", "target=wem", "--json", "--one-run"]
    expected = verify(capsys, "off", *words)
    assert json.loads(expected[1])["properties"]["causal"]["violated"] == 1
    assert verify(capsys, "on", *words) == expected


def test_spark_reports_files_that_cannot_be_verified_in_the_same_lines(
    spark: SparkSession, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = shop_table(directory)
    parts = {"a.parquet": table, "b.parquet": table.drop_columns(["PodName"])}
    write_parts(directory / "column", parts)
    pq.write_table(table[:0], directory / "empty.parquet")
    whole = (directory / "column" / "a.parquet").read_bytes()
    (directory / "short.parquet").write_bytes(whole[:300])
    header = span_csv(SHOP_SPANS).splitlines()[0]
    write_sample(directory / "rows.csv", f"{header}\nx,y\n")
    files = ["column", "empty.parquet", "short.parquet", "rows.csv"]
    expected = verify(capsys, "off", *files)
    assert expected[0] == 2
    assert len(expected[2]) == len(files)
    assert verify(capsys, "on", *files) == expected


def test_the_pages_of_spark_and_of_one_process_have_the_same_counts(
    spark: SparkSession, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spans = SpanRun(Random(5), 4, 3 * MS, drift=0.001)
    spans.add_traces(60, duration_ns=40 * MS)
    write_parts(directory / "spans", {"part-0.parquet": spans.table()})
    write_sample(directory / "messages.csv", MESSAGES_CSV)
    texts = []
    for name in ("off", "on"):
        page = directory / f"{name}.html"
        words = ["spans", "messages.csv", "--report", str(page)]
        code, _, _ = verify(capsys, name, *words)
        assert code == 1
        texts.append(page.read_text(encoding="utf-8"))
    expected, found = map(charts, texts)
    assert found.keys() == expected.keys()
    assert sum(total(chart, "violations") for chart in expected.values()) > 100
    for name, chart in expected.items():
        if name.endswith("-pairs"):
            assert by_fields(found[name]) == by_fields(chart)
        # One process also has the starts and ends of spans that are no messages, so it may
        # begin earlier.
        for field in ("violations", "deliveries"):
            assert total(found[name], field) == total(chart, field)
    # All events of the file are messages, so its section is the same.
    sections = [text.partition('<section id="run-2')[2] for text in texts]
    sections = [each.partition("</section>")[0] for each in sections]
    assert 'antecede-diagram"' in sections[0]
    assert "stock delivered shop:2 (line 3) before shop:1 (line 2)" in sections[0]
    assert sections[1] == sections[0]


def total(chart: dict[str, Any], field: str) -> int:
    return sum(each.get(field, 0) for each in chart["data"]["values"])


def by_fields(chart: dict[str, Any]) -> list[str]:
    return sorted(json.dumps(each, sort_keys=True) for each in chart["data"]["values"])


def arguments(**options: object) -> argparse.Namespace:
    usual = {
        "format": None, "columns": None, "regex": None, "delimiter": None, "ignore": None,
        "receives": None, "out": None, "spark": "auto", "master": None,
    }  # fmt: skip
    return argparse.Namespace(**{**usual, **options})


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with more records than one process verifies."""
    path = tmp_path / "spans.parquet"
    pq.write_table(shop_table(tmp_path), path)
    monkeypatch.setattr(spark_files, "RECORDS_MAX", len(SHOP_SPANS) - 1)
    return path


def test_large_files_of_spans_are_left_to_spark(large: Path) -> None:
    group = file_group(large)
    notices: list[str] = []
    for options, is_taken in (
        ({}, True),
        ({"spark": "off"}, False),
        ({"spark": "off", "out": large.parent}, False),
    ):
        files = SparkFiles(arguments(**options), notices.append)
        assert files.choose([group]) == ([] if is_taken else [group])
        assert bool(files) is is_taken
    assert notices == []


def test_a_large_file_in_a_store_is_read_in_one_process(large: Path) -> None:
    # A URI stands for a file of a store, which no worker may be able to read.
    stored = FileGroup(title="stored", name="stored", paths=(f"file://{large}",))
    notices: list[str] = []
    for options in ({}, {"out": large.parent / "out"}):
        files = SparkFiles(arguments(**options), notices.append)
        assert files.choose([stored]) == [stored]
    assert len(notices) == 2
    assert notices[0].startswith("stored: about 5 spans")
    assert "Spark does not read files in a store" in notices[0]


def test_logs_with_vector_clocks_are_read_in_one_process(large: Path) -> None:
    log = file_group(write_sample(large.parent / "run.log", SHIVIZ * 20))
    notices: list[str] = []
    files = SparkFiles(arguments(spark="on"), notices.append)
    assert files.choose([log]) == [log]
    (line,) = notices
    assert line.endswith("Spark does not read vector clocks")


def test_a_small_file_is_left_to_spark_only_on_request(tmp_path: Path) -> None:
    small = file_group(write_sample(tmp_path / "small.csv", span_csv(SHOP_SPANS)))
    for options, is_taken in (
        ({}, False),
        ({"spark": "on"}, True),
        ({"master": "local[2]"}, True),
        ({"spark": "on", "out": tmp_path}, False),
    ):
        files = SparkFiles(arguments(**options), lambda line: None)
        assert files.choose([small]) == ([] if is_taken else [small])


def test_a_large_file_is_read_in_one_process_where_spark_is_not_installed(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_files, "find_spec", lambda name: None)
    notices: list[str] = []
    group = file_group(large)
    assert SparkFiles(arguments(), notices.append).choose([group]) == [group]
    (line,) = notices
    assert line.startswith(f"{large}: about 5 spans")
    assert "pip install 'antecede[spark]'" in line


def test_a_large_file_cannot_be_converted(large: Path) -> None:
    files = SparkFiles(arguments(out=large.parent / "out"), lambda line: None)
    with pytest.raises(ConfigError, match=r"omit --out .* or pass --spark off"):
        files.choose([file_group(large)])


def test_the_parts_of_a_table_are_its_parquet_files(tmp_path: Path) -> None:
    for name in ("a.parquet", "day=1/b.parquet", "_old/c.parquet", ".d.parquet", "e.crc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = find_parts(tmp_path)
    assert found == [tmp_path / "a.parquet", tmp_path / "day=1" / "b.parquet"]
    (tmp_path / "none").mkdir()
    assert find_parts(tmp_path / "none") is None
    (tmp_path / "none" / "_SUCCESS").touch()
    assert find_parts(tmp_path / "none") == []


def test_a_table_of_spans_is_drawn_as_one_run(directory: Path) -> None:
    table = shop_table(directory)
    write_parts(directory / "parts", {"a.parquet": table[:3], "b.parquet": table[3:]})
    assert cli.main(["show", "parts", "--violation", "1", "--svg", "shop.svg"]) == 0
    assert "process 1 delivered 0:2 before 0:1" in Path("shop.svg").read_text(
        encoding="utf-8"
    )


def test_a_large_table_is_copied_for_spark(large: Path) -> None:
    """The live rows of a Delta or Iceberg table are not all rows of its files."""
    taken: list[FileGroup] = []
    files = SparkFiles(arguments(), lambda line: None)

    def take(group: FileGroup) -> bool:
        taken.append(group)
        return files.take(group)

    with ForeignFiles(arguments()) as foreign:
        assert foreign.add_tables([large], take) == []
        assert files
        (group,) = taken
        (copy,) = group.paths
        assert group.title == str(large)
        assert pq.read_table(copy) == pq.read_table(large)
        assert len(foreign.add_tables([large], lambda group: False)) == 1


def test_a_table_without_rows_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "_SUCCESS").touch()
    code, _, errors = verify(capsys, "off", str(tmp_path))
    assert (code, errors) == (
        2,
        [f"antecede: {tmp_path} has no Parquet files: nothing to verify"],
    )
