"""Spans in a Parquet file have the verdict of the same spans in a CSV file."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

from antecede.cli.main import main
from antecede.errors import ConfigError
from antecede.ingest.formats.parquet_columns import parquet_columns, read_names
from antecede.ingest.formats.records import ReadOptions
from antecede.ingest.formats.registry import detect_format, get_format
from antecede.ingest.formats.source import Split, whole_file
from tests.ingest.foreign_samples import SHOP_SPANS, span_csv, verify_file


def parquet_file(directory: Path) -> Path:
    (directory / "spans.csv").write_text(span_csv(SHOP_SPANS), encoding="utf-8")
    path = directory / "spans.parquet"
    pq.write_table(arrow_csv.read_csv(directory / "spans.csv"), path)
    return path


def test_parquet_spans_have_the_verdict_of_csv_spans(tmp_path: Path) -> None:
    path = parquet_file(tmp_path)
    found = verify_file(path, tmp_path / "parquet")
    expected = verify_file(tmp_path / "spans.csv", tmp_path / "csv")
    assert found.trace_verdict.violations
    assert found.trace_verdict.violations == expected.trace_verdict.violations
    assert found.trace_verdict.counts == expected.trace_verdict.counts


def test_the_command_reads_spans_from_parquet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = parquet_file(tmp_path)
    # A table of events has the columns process and kind, too.
    names = {
        "PodName": "process",
        "SpanKind": "kind",
        "SpanID": "span",
        "ParentID": "parent",
    }
    table = pq.read_table(path)
    pq.write_table(
        table.rename_columns([names.get(n, n) for n in table.column_names]), path
    )
    assert main(["verify", str(path)]) == 1
    assert f"read {len(SHOP_SPANS)} spans" in capsys.readouterr().out


@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize("root", ["", "0000000000000000", None])
def test_a_root_may_have_an_empty_parent_or_the_invalid_id(
    root: str | None, encoded: bool, tmp_path: Path
) -> None:
    path = parquet_file(tmp_path)
    table = pq.read_table(path)
    parents = table["ParentID"].to_pylist()
    column = pa.array([root if each in (None, "root") else each for each in parents])
    assert root in column.to_pylist()
    index = table.column_names.index("ParentID")
    column = column.dictionary_encode() if encoded else column
    pq.write_table(table.set_column(index, "ParentID", column), path)
    found = verify_file(path, tmp_path / "out")
    assert found.ingested.summary.unknown == 0


def test_a_directory_may_be_partitioned_by_the_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = parquet_file(tmp_path)
    assert main(["verify", str(path), "--json"]) == 1
    expected = json.loads(capsys.readouterr().out)
    table = pq.read_table(path)
    assert "stöck" in table["PodName"].to_pylist()
    directory = tmp_path / "partitioned"
    pq.write_to_dataset(
        table.rename_columns(
            ["service" if name == "PodName" else name for name in table.column_names]
        ),
        directory,
        partition_cols=["service"],
    )
    assert any("%" in each.name for each in directory.iterdir())
    assert main(["verify", str(directory), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    for name in ("messages", "deliveries", "properties"):
        assert found[name] == expected[name]
    texts = [each["chain"] for each in found["violations"]]
    assert texts == [each["chain"] for each in expected["violations"]]


def test_the_directory_of_rows_without_a_value_has_the_value_null(tmp_path: Path) -> None:
    path = tmp_path / "service=__HIVE_DEFAULT_PARTITION__" / "part.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"span": ["s"]}), path)
    assert read_names(path)[:2] == ["span", "service"]
    names = {"process": "service", "span": "span"}
    ((_, columns, _),) = parquet_columns(whole_file(path), names)
    assert columns["process"].to_pylist() == [None]
    assert columns["span"].to_pylist() == ["s"]


def test_a_column_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "spans.parquet"
    pq.write_table(pa.table({"trace": ["t"], "span": ["s"], "parent": ["p"]}), path)
    options = ReadOptions()
    assert detect_format(path, options).name == "spancsv"
    with pytest.raises(ConfigError, match="no column for the process"):
        list(detect_format(path, options).read(
            detect_format(path, options).splits(path)[0], options
        ))  # fmt: skip


def test_a_file_is_divided_by_row_groups(tmp_path: Path) -> None:
    path = parquet_file(tmp_path)
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table] * 4), path, row_group_size=5)
    reader = get_format("spancsv")
    assert reader.splits(path) == [Split(path=str(path))]
    splits = reader.splits(path, 1)
    assert [(each.start, each.stop, each.line) for each in splits] == [
        (0, 1, 1), (1, 2, 6), (2, 3, 11), (3, 4, 16),
    ]  # fmt: skip
    found = [
        (line, span)
        for split in splits
        for batch in reader.read(split, ReadOptions())
        for line, span in zip(
            batch.column("line").to_pylist(), batch.column("span").to_pylist(), strict=True
        )
    ]
    spans = [each.id for each in SHOP_SPANS] * 4
    assert found == list(enumerate(spans, start=1))


def test_all_row_groups_have_the_unit_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "messages.parquet"
    times = [1_700_000_000_000, 5_000]  # By itself, 5,000 could have any unit.
    columns = {"source": ["a", "a"], "target": ["b", "b"], "sent": times, "received": times}
    pq.write_table(pa.table(columns), path, row_group_size=1)
    reader = get_format("messages")
    sent = [
        batch.column("sent_ns")[0].as_py()
        for split in reader.splits(path, 1)
        for batch in reader.read(split, ReadOptions())
    ]
    assert sent == [1_700_000_000_000_000_000, 5_000_000_000]
