"""Spans that were packed as rows are the spans of the file."""

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from antecede.ingest.formats.records import ReadOptions
from antecede.ingest.formats.source import whole_file
from antecede.ingest.formats.span_csv import read_span_csv
from antecede.ingest.text_hash import hash_texts
from antecede.pipeline.records.bucket_events import infer_bucket
from antecede.pipeline.records.file_source import pack_records
from antecede.pipeline.records.span_rows import bucket_of, unpack_spans
from antecede.pipeline.records.stages import unpack_records
from antecede.pipeline.records.table_spans import span_packer
from tests.pipeline.span_runs import SpanRun

FILES = 3
HEADER = "trace,span,parent,process,kind,start_ns,end_ns"


def write_files(directory: Path, *, bad_lines: int = 0) -> list[Path]:
    """Write spans to three files, of which the first has lines that cannot be read."""
    spans = SpanRun(Random(1), 5, 1_000_000)
    spans.add_traces(60, duration_ns=10**8)
    spans.rows.append(dict(spans.rows[0], trace="alone", process="alone"))
    rows = [
        ",".join("" if value is None else str(value) for value in row.values())
        for row in spans.table().to_pylist()
    ]
    found = []
    for number in range(FILES):
        own = rows[number::FILES]
        if number == 0:
            bad = [f"t{i},s{i},,service-1,server,never,never" for i in range(bad_lines)]
            own[10:10] = bad
        found.append(directory / f"{number}.csv")
        found[-1].write_text("\n".join([HEADER, *own]) + "\n")
    return found


def records_of(files: list[Path]) -> list[list[pa.RecordBatch]]:
    return [list(read_span_csv(whole_file(file), ReadOptions())) for file in files]


def pack(records: list[list[pa.RecordBatch]], buckets: int) -> pa.Table:
    """Return the packed records; those of the last file come first."""
    packed = [
        batch
        for number, batches in reversed(list(enumerate(records)))
        for batch in pack_records(iter(batches), number, buckets)
    ]
    return pa.Table.from_batches(packed)


def test_a_bucket_has_its_spans_in_the_order_of_files_and_lines(tmp_path: Path) -> None:
    records = records_of(write_files(tmp_path))
    packed = pack(records, 4)
    texts = pa.concat_tables(pa.Table.from_batches(each) for each in records)
    texts = texts.combine_chunks()
    trace = hash_texts(texts["trace"].chunk(0))
    span = hash_texts(texts["span"].chunk(0), trace)
    parent = hash_texts(texts["parent"].chunk(0), trace)
    bucket = bucket_of(trace, 4)
    assert len(np.unique(bucket)) == 4
    for number in range(4):
        own = packed.filter(pc.equal(packed["run"], str(number)))
        spans, others = unpack_spans([each.as_buffer() for each in own["data"]])
        assert not others
        chosen = pa.array(np.flatnonzero(bucket == number))
        expected = texts.take(chosen)
        for name in ("process", "kind", "start_ns", "end_ns"):
            assert spans[name].to_pylist() == expected[name].to_pylist(), name
        assert spans["span"].to_numpy().tolist() == span[chosen].tolist()
        has_parent = np.asarray(pc.is_valid(expected["parent"]))
        assert has_parent.any()
        assert not has_parent.all()
        hashes = zip(has_parent.tolist(), parent[chosen].tolist(), strict=True)
        wanted = [each if has else None for has, each in hashes]
        assert spans["parent"].to_pylist() == wanted
        assert set(spans["process"].chunk(0).dictionary.to_pylist()) == set(
            expected["process"].to_pylist()
        )


@pytest.mark.parametrize("bad_lines", [0, 5])
def test_spans_are_inferred_from_the_packed_records_of_all_kinds(
    tmp_path: Path, bad_lines: int
) -> None:
    records = records_of(write_files(tmp_path, bad_lines=bad_lines))
    count = sum(batch.num_rows for batches in records for batch in batches)
    found = unpack_records(pack(records, 1))
    assert found.num_rows == count
    events, names, summary = infer_bucket(found, "spans")
    assert sorted(names) == ["alone", *(f"service-{i}" for i in range(5))]
    assert (summary.records, summary.unknown) == (count, bad_lines)
    # Of each message, the oracle of the run knows a send and a delivery.
    spans = SpanRun(Random(1), 5, 1_000_000)
    spans.add_traces(60, duration_ns=10**8)
    assert events.num_rows == len(spans.events())


def test_spans_of_a_table_that_lack_a_value_are_packed_with_the_others() -> None:
    rows = [
        {
            "run": 0, "has_trace": True, "span": 2 * index, "parent": None,
            "process": f"p{index % 3}", "kind": "server",
            "start_ns": 100 - index // 2, "end_ns": 100,
        }
        for index in range(9)
    ]  # fmt: skip
    schema = pa.Table.from_pylist(rows).schema
    index = schema.get_field_index("parent")
    schema = schema.set(index, pa.field("parent", pa.int64()))
    schema = schema.set(0, pa.field("run", pa.int32()))
    complete = pa.RecordBatch.from_pylist(rows[:4], schema=schema)
    lacking = [dict(row) for row in rows[4:]]
    lacking[0]["has_trace"] = False
    lacking[1]["start_ns"] = None
    lacking[2]["process"] = None
    others = pa.RecordBatch.from_pylist(lacking, schema=schema)
    packed = list(span_packer(1)(iter([complete, others])))
    assert len(packed) == 2
    found = unpack_records(pa.Table.from_batches(packed))
    assert "location" not in found.column_names
    _, names, summary = infer_bucket(found, "spans")
    assert sorted(names) == ["p0", "p1", "p2"]
    assert (summary.records, summary.unknown) == (9, 3)
    assert summary.missing == {
        "unread: no valid trace": 1,
        "unread: no valid start": 1,
        "unread: no valid process": 1,
    }
