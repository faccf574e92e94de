"""Long runs of spans and messages on Spark have the result of one task."""

from contextlib import ExitStack, nullcontext
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from antecede.ingest import ingest
from antecede.ingest.formats.records import ReadOptions
from antecede.ingest.formats.registry import get_format
from antecede.ingest.text_hash import hash_texts
from antecede.pipeline.records.arrangement import arrange_run
from antecede.pipeline.records.file_source import FileSource
from antecede.pipeline.records.long_records import verify_long_records, verify_long_run
from antecede.pipeline.records.record_source import TableSource
from antecede.pipeline.records.slices import read_events
from antecede.pipeline.spark.task_files import task_files
from antecede.pipeline.verify.packed_rows import read_blob
from antecede.pipeline.verify.table_run import TableOptions
from antecede.spark import verify
from antecede.verify.oracle import Property
from antecede.verify.verdict import TraceVerdict
from antecede.verify.verifier import verify_trace
from tests.pipeline.span_runs import START, SpanRun
from tests.pipeline.test_records import LocalRun

MS = 1_000_000


def span_table(seed: int, run: str, traces: int) -> pa.Table:
    spans = SpanRun(Random(seed), 5, 3 * MS, drift=0.001)
    spans.add_traces(traces, duration_ns=100 * MS)
    table = spans.table()
    return table.append_column("run", pa.repeat(pa.scalar(run), table.num_rows))


def message_table(seed: int, run: str, messages: int) -> pa.Table:
    random = Random(seed)
    skew = [random.randint(-5 * MS, 5 * MS) for _ in range(4)]
    rows = []
    for number in range(messages):
        source = random.randrange(4)
        sent = random.randrange(400 * MS)
        for target in random.sample([p for p in range(4) if p != source], 2):
            got = sent + random.randint(MS // 10, 4 * MS)
            names = {"run": run, "source": f"p{source}", "target": f"p{target}"}
            times = {
                "sent_ns": 10**18 + sent + skew[source],
                "received_ns": 10**18 + got + skew[target],
            }
            rows.append({**names, "message": f"m{number}", **times})
    return pa.Table.from_pylist(random.sample(rows, len(rows)))


def by_one_task(table: DataFrame) -> dict[str, dict[str, Any]]:
    result = verify(table, complete=True, windows=False, violations_max=10_000)
    found: dict[str, dict[str, Any]] = {}
    for row in result.verdicts.collect():
        found.setdefault(row.run, {"notes": row.notes})[row.property] = (
            row.status, row.judged, row.violated, row.unknown,
        )  # fmt: skip
    for row in result.violations.collect():
        key, times = identify(row.asDict(True))
        found[row.run].setdefault("violations", {})[key] = times
    result.unpersist()
    return found


def identify(row: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
    """Return what identifies a violation, and its times."""
    early = row["message"]
    names = ("source", "number", "name", "trace", "span")
    record = tuple(early[name] for name in names)
    times = [early["sent_time"], early["delivered_time"]]
    # A double has about a quarter of a microsecond at these times.
    return (row["property"], row["process"], *record), pytest.approx(times, rel=0, abs=1e-6)


@pytest.mark.parametrize(("kind", "in_files"), [("spans", True), ("messages", False)])
def test_a_long_run_of_records_has_the_result_of_one_task(
    spark: SparkSession, kind: str, in_files: bool
) -> None:
    make = span_table if kind == "spans" else message_table
    tables = {"one": make(1, "one", 150)}
    others = make(2, "another", 5)
    df = spark.createDataFrame(pa.concat_tables([tables["one"], others])).repartition(2)
    expected = by_one_task(df)
    options = TableOptions(rows=kind, complete=True, violations_max=10_000)
    with task_files(spark) if in_files else nullcontext():
        rows = verify_long_records(
            df.select("run", *(name for name in df.columns if name != "run")),
            {run: table.num_rows for run, table in tables.items()},
            options,
            bucket_rows=300,
            slice_events=400,
            window_rows=300,
        )
    assert [row["run"] for row in rows] == ["one"]
    for row in rows:
        assert row.get("error") is None
        wanted = expected[row["run"]]
        assert len(wanted["violations"]) > 10
        for each in row["properties"]:
            assert wanted[each["property"]] == (
                each["status"], each["judged"], each["violated"], each["unknown"],
            )  # fmt: skip
        assert dict(map(identify, row["violations"])).keys() == wanted["violations"].keys()
        for each in row["violations"]:
            key, _ = identify(each)
            times = [each["message"]["sent_time"], each["message"]["delivered_time"]]
            assert times == wanted["violations"][key]
        assert sorted(row["notes"]) == sorted(
            note.replace(f"({kind})", "(table)") for note in wanted["notes"]
        )


def test_all_violations_of_a_long_run_are_counted_by_pair_and_by_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = span_table(3, "one", 100).drop_columns(["run"])
    pq.write_table(table, tmp_path / "spans.parquet")
    (run,) = ingest([tmp_path / "spans.parquet"], tmp_path / "trace")
    expected = verify_trace(run.directory, with_breakdown=True)
    found = verify_long_run(
        TableSource(spark.createDataFrame(table), "spans"),
        "one",
        table.num_rows,
        TableOptions(rows="spans", complete=False, violations_max=1, with_breakdown=True),
        bucket_rows=300,
        slice_events=400,
        window_rows=300,
    ).verdict
    assert found.counts == expected.counts
    assert found.counts[Property.CAUSAL] > 10
    assert len(found.violations) == 2
    assert by_names(found) == by_names(expected)
    assert found.breakdown is not None
    for which in (Property.CAUSAL, Property.FIFO):
        assert sum(found.breakdown.timeline[which]) == expected.counts[which]
    assert sum(found.breakdown.deliveries) == expected.deliveries


def by_names(verdict: TraceVerdict) -> list[tuple[object, ...]]:
    """Return the pairs and overtakings of a verdict, by the names of processes."""
    breakdown, names = verdict.breakdown, verdict.names
    assert breakdown is not None
    pairs = [
        (each.property.value, names[each.source], names[each.process], "", each.count)
        for each in breakdown.pairs
    ]
    more = [
        (each.property.value, names[each.source], names[each.process],
         names[each.late_source], each.count)
        for each in breakdown.overtakings
    ]  # fmt: skip
    return sorted(pairs + more)


def test_a_long_run_without_messages_is_verified(spark: SparkSession) -> None:
    spans = span_table(1, "quiet", 3).to_pylist()
    df = spark.createDataFrame(pa.Table.from_pylist(spans)).withColumn(
        "parent", F.lit(None).cast("string")
    )
    options = TableOptions(rows="spans", complete=True, violations_max=10)
    (row,) = verify_long_records(df, {"quiet": len(spans)}, options)
    assert row["deliveries"] == 0
    assert {each["status"] for each in row["properties"]} == {"held"}


def test_slices_with_events_of_dropped_messages_are_arranged_again(
    spark: SparkSession,
) -> None:
    # Coarse timestamps: some messages are dropped that have events in two slices.
    run = SpanRun(Random(1), 4, 5 * MS, resolution_ns=MS // 20)
    run.add_traces(80, duration_ns=60 * MS)
    local = LocalRun(run.table(), 6)
    plan = local.plan(40)
    expected, dropped, again = local.arrange(plan, {}, find=True)
    assert again
    while again:
        expected, dropped, again = local.arrange(plan, dropped, find=False)
    events = [read_events(blob)[0].num_rows for blob in local.blobs]
    data = [blob.to_pybytes() for blob in local.blobs]
    buckets = spark.createDataFrame(pa.table({"events": events, "data": data}))
    with ExitStack() as stack:
        found = arrange_run(buckets, plan, stack)
        assert found.ambiguous > 30
        by_id = {row.id: row.data for row in found.blobs.collect()}
    assert len(by_id) == len(found.listed)
    tables = [read_blob(pa.py_buffer(by_id[row["id"]])) for row in found.listed]
    assert [table.num_rows for table in tables] == [row["rows"] for row in found.listed]
    assert [table.to_pylist() for table in tables] == [
        each.to_pylist() for each in expected
    ]


def test_the_largest_number_of_a_long_run_decides_the_unit_of_its_times(
    spark: SparkSession,
) -> None:
    # Larger numbers than 9e12 are microseconds; the first half of the run has smaller ones,
    # which alone would be milliseconds.
    table = span_table(5, "run", 120)
    for name in ("start", "end"):
        times = np.array(table[f"{name}_ns"]) - START + 9 * 10**12 - 50 * MS
        table = table.append_column(name, pa.array(times)).drop_columns([f"{name}_ns"])
    assert np.median(np.array(table["start"])) < 9 * 10**12 < np.max(table["end"])
    df = spark.createDataFrame(table)
    expected = by_one_task(df)["run"]
    found = verify_long_run(
        TableSource(df.drop("run"), "spans"),
        "run",
        table.num_rows,
        TableOptions(rows="spans", complete=True, violations_max=10_000),
        bucket_rows=10,
    )
    assert found.verdict.counts[Property.CAUSAL] == expected["causal"][2] > 10
    assert found.summary.unknown == 0


def test_workers_hash_texts_as_spark_does(spark: SparkSession) -> None:
    texts = ["é" * (size // 2) + "x" * (size % 2) for size in range(80)]
    pairs = spark.createDataFrame(pa.table({"a": texts, "b": texts[::-1]}))
    rows = pairs.select("a", F.xxhash64("a"), F.xxhash64("a", "b")).collect()
    found = np.array(sorted(map(tuple, rows)), object).T
    first = hash_texts(pa.array(sorted(texts)))
    second = dict(zip(texts, texts[::-1], strict=True))
    both = hash_texts(pa.array([second[text] for text in sorted(texts)]), first)
    assert found[1].tolist() == first.tolist()
    assert found[2].tolist() == both.tolist()


def test_files_and_a_table_have_the_same_violations_although_times_are_equal(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = SpanRun(Random(2), 4, 5 * MS, resolution_ns=MS // 20)
    run.add_traces(80, duration_ns=60 * MS)
    table = run.table()
    file = str(tmp_path / "spans.parquet")
    pq.write_table(table, file)
    turned = table.take(list(reversed(range(table.num_rows))))
    # Each session has settings of its own.
    large = spark.newSession()
    large.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    sources = (
        FileSource(large, [file], get_format("spancsv"), ReadOptions()),
        TableSource(spark.createDataFrame(turned).repartition(3), "spans"),
    )
    options = TableOptions(rows="spans", complete=True, violations_max=10_000)
    of_files, of_table = (
        verify_long_run(source, "run", table.num_rows, options, bucket_rows=60)
        for source in sources
    )
    dropped = [each.count for each in of_files.summary.missing]
    assert sum(dropped) > 30
    assert dropped == [each.count for each in of_table.summary.missing]
    assert of_files.verdict.violations
    # The records were found in the file.
    spans = set(table["span"].to_pylist())
    assert of_files.records
    assert {each.span for each in of_files.records.values()} <= spans
    assert of_files.records.keys() == of_table.records.keys()
    assert of_files.verdict.violations == of_table.verdict.violations
    assert of_files.verdict.counts == of_table.verdict.counts
