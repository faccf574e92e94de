"""Spans in a Parquet file have the verdict of the same spans in a CSV file."""

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

from antecede.cli.main import main
from antecede.errors import ConfigError
from antecede.ingest.formats.records import ReadOptions
from antecede.ingest.formats.registry import detect_format
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


def test_a_column_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "spans.parquet"
    pq.write_table(pa.table({"trace": ["t"], "span": ["s"], "parent": ["p"]}), path)
    options = ReadOptions()
    assert detect_format(path, options).name == "spancsv"
    with pytest.raises(ConfigError, match="no column for the process"):
        list(detect_format(path, options).read(
            detect_format(path, options).splits(path)[0], options
        ))  # fmt: skip
