"""Units of times by column, fractions of seconds, and durations that are not numbers."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecede.ingest.formats.records import ReadOptions
from antecede.ingest.formats.registry import get_format
from antecede.ingest.timestamps import TimeUnit, TimeUnits
from tests.ingest.foreign_samples import (
    MS,
    SHOP_SPANS,
    SPAN_FORMATS,
    START,
    histories,
    ingest_file,
    span_csv,
    verify_file,
    write_sample,
)

S = 10**9


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1700000000", 1_700_000_000 * S),
        ("1700000000123", 1_700_000_000_123 * 10**6),
        ("1700000000123456", 1_700_000_000_123_456 * 10**3),
        ("1700000000123456789", 1_700_000_000_123_456_789),
        ("0.5", 500_000_000),
        ("1700000000.123456789", 1_700_000_000_123_456_789),
        ("8999999999", 8_999_999_999 * S),
        ("9000000000", 9_000_000_000 * 10**6),
        ("-3", -3 * S),
        ("0", 0),
        ("2023-11-14T22:13:20Z", 1_700_000_000 * S),
        ("2023-11-14 22:13:20.25", 1_700_000_000 * S + 250_000_000),
        ("2024-01-01T00:00:00.123456789Z", 1_704_067_200 * S + 123_456_789),
        ("2024-01-01T01:00:00.123456789+01:00", 1_704_067_200 * S + 123_456_789),
        ("2024-01-01T00:00:00.1234567891", 1_704_067_200 * S + 123_456_789),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("99999999999999999999", None),
    ],
)
def test_timestamps_of_all_units_and_iso_8601_are_parsed(
    text: str, wanted: int | None
) -> None:
    assert TimeUnit().parse(text) == wanted
    assert TimeUnit().parse_column(pa.array([text, None])).to_pylist() == [wanted, None]


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.string()])
def test_the_largest_number_of_a_column_decides_the_unit_of_all(kind: pa.DataType) -> None:
    """The times of the column are 0, 5 and 20 * 10**9 milliseconds."""
    unit = TimeUnit()
    column = pa.array([0, 5, 20 * 10**9]).cast(kind)
    assert unit.parse_column(column).to_pylist() == [0, 5 * MS, 20 * 10**9 * MS]
    # The next batch has the same unit; a number of a finer unit is not valid.
    later = pa.array([7, 9 * 10**12 - 1, 9 * 10**12, None]).cast(kind)
    assert unit.parse_column(later).to_pylist() == [
        7 * MS,
        (9 * 10**12 - 1) * MS,
        None,
        None,
    ]


def test_a_batch_without_numbers_decides_nothing() -> None:
    unit = TimeUnit()
    assert unit.parse_column(pa.array(["0", None, "later"])).to_pylist() == [0, None, None]
    assert unit.parse_column(pa.array(["9000000001"])).to_pylist() == [9_000_000_001 * MS]


def test_columns_with_similar_numbers_have_one_unit() -> None:
    units = TimeUnits()
    found = units.parse({"sent": pa.array([8_999_999_999]), "received": pa.array([9 * S])})
    assert [each.to_pylist() for each in found.values()] == [
        [8_999_999_999 * MS], [9 * S * MS],
    ]  # fmt: skip
    apart = TimeUnits().parse(
        {"sent": pa.array([1_700_000_000]), "received": pa.array([1_700_000_000 * S])}
    )
    assert [each.to_pylist() for each in apart.values()] == [[1_700_000_000 * S]] * 2


def test_a_small_time_among_large_ones_has_their_unit(tmp_path: Path) -> None:
    """Shop's first message is sent at 8999999999 ms, before the second."""
    text = "source,target,sent,received\nshop,stock,8999999999,{0}\nshop,stock,{1},{2}\n"
    text = text.format(9 * S + 5, 9 * S + 1, 9 * S + 6)
    verdict = verify_file(write_sample(tmp_path / "file", text), tmp_path / "out")
    assert histories(verdict.ingested)["stock"] == [
        ("deliver", "shop:1"), ("deliver", "shop:2"),
    ]  # fmt: skip


def test_all_splits_of_a_file_have_the_unit_of_its_first_block(tmp_path: Path) -> None:
    lines = [f"a,b,{9 * S + n},{9 * S + n + 1}" for n in range(50)]
    lines += [f"a,b,{n},{n + 1}" for n in range(1, 50)]
    text = "\n".join(["source,target,sent,received", *lines])
    file = write_sample(tmp_path / "file", text)
    reader = get_format("messages")
    splits = reader.splits(file, 200)
    assert len(splits) > 3
    sent = [
        each
        for split in splits
        for batch in reader.read(split, ReadOptions())
        for each in batch.column("sent_ns").to_pylist()
    ]
    assert sent == [int(line.split(",")[2]) * MS for line in lines]


def test_a_time_of_another_unit_is_a_bad_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antecede.ingest.formats.csv_columns.BLOCK_BYTES", 60)
    lines = [f"a,b,{n},{n + 1}" for n in range(1, 10)]
    text = "\n".join(["source,target,sent,received", *lines, f"a,b,20,{1_700_000_000 * S}"])
    verdict = verify_file(write_sample(tmp_path / "file", text), tmp_path / "out")
    (diagnostic,) = verdict.ingested.summary.missing
    assert diagnostic.description == "unread: 'received' is not a valid time"
    assert [each.line for each in diagnostic.locations] == [11]


def test_parquet_times_have_one_unit_in_all_batches(tmp_path: Path) -> None:
    count = 70_000  # More than a batch.
    times = np.concatenate((9 * S + np.arange(count), np.arange(1, count)))
    names = pa.array(["a"] * len(times))
    table = pa.table({"source": names, "target": names, "sent": times, "received": times})
    pq.write_table(table, tmp_path / "file.parquet")
    reader = get_format("messages")
    (split,) = reader.splits(tmp_path / "file.parquet")
    batches = list(reader.read(split, ReadOptions()))
    assert len(batches) > 1
    found = np.concatenate([batch.column("sent_ns").to_numpy() for batch in batches])
    assert np.array_equal(found, times * MS)


def csv_with_durations(durations: list[str]) -> str:
    header, *rows = span_csv(SHOP_SPANS).replace("EndTimeUnixNano", "x").splitlines()
    rows = [f"{row.rsplit(',', 1)[0]},{d}" for row, d in zip(rows, durations, strict=True)]
    return "\n".join([header, *rows])


@pytest.mark.parametrize("bad", ["fast", "nan", "inf", "1e300", "1 ms"])
def test_a_csv_duration_that_is_not_a_number_is_a_bad_row(bad: str, tmp_path: Path) -> None:
    text = csv_with_durations(["90000", "70000", bad, "40000.5", "10000"])
    verdict = verify_file(write_sample(tmp_path / "file", text), tmp_path / "out")
    summary = verdict.ingested.summary
    (diagnostic, *_) = summary.missing
    assert diagnostic.description == "unread: no valid duration"
    assert [(each.line, each.process) for each in diagnostic.locations] == [(4, "stöck")]
    assert summary.records == 5
    assert "file:4" in str(verdict)


def test_a_duration_has_fractions_of_microseconds(tmp_path: Path) -> None:
    text = csv_with_durations(["90000", "70000.25", "20000", "40000", "10000"])
    ingested = ingest_file(write_sample(tmp_path / "file", text), tmp_path / "out")
    table = ingested.written.table
    assert table.time_ns is not None
    assert START + 10 * MS + 70_000_250 in table.time_ns


@pytest.mark.parametrize("name", ["jaeger", "zipkin"])
@pytest.mark.parametrize("bad", ['"fast"', "1.5", "null", "[]", "true", str(10**30)])
def test_a_json_duration_that_is_not_an_integer_is_a_bad_row(
    name: str, bad: str, tmp_path: Path
) -> None:
    text = SPAN_FORMATS[name](SHOP_SPANS).replace('"duration": 20000', f'"duration": {bad}')
    ingested = ingest_file(write_sample(tmp_path / "file", text), tmp_path / "out")
    (diagnostic, *_) = ingested.summary.missing
    assert "duration is" in diagnostic.description
    assert (diagnostic.count, diagnostic.locations[0].process) == (1, "stöck")
    assert diagnostic.locations[0].line > 1


@pytest.mark.parametrize("bad", ['"later"', "1.5", "null", '"²"', f'"{10**19}"'])
def test_an_otlp_time_that_is_not_an_integer_is_a_bad_row(bad: str, tmp_path: Path) -> None:
    end = f'"endTimeUnixNano": "{START + 70 * MS}"'
    text = SPAN_FORMATS["otlp"](SHOP_SPANS)
    assert end in text
    text = text.replace(end, f'"endTimeUnixNano": {bad}')
    ingested = ingest_file(write_sample(tmp_path / "file", text), tmp_path / "out")
    (diagnostic, *_) = ingested.summary.missing
    assert "endTimeUnixNano is" in diagnostic.description
    assert (diagnostic.locations[0].line, diagnostic.locations[0].process) == (2, "stöck")
