"""Compare the verification of streams and of tables: ``python -m bench.spark_stream``.

The events are one long run, by default 1 million events, in Parquet files. Causality is
sequential over a run, so that one task, hence one core, verifies it in each case:

* *stream*: ``antecede.spark.verify_stream`` over the files, in micro-batches of some files;
* *batch*: ``antecede.spark.verify`` of the same files, without windows;
* *online*: the online verifier alone, in this process, without Spark.

The same is measured for a run of spans of 60 services, by default 500,000 spans, which
arrive in the order of their ends, 20,000 in a second of their time. The watermark is 5 s:
*span_stream*, *span_batch* and *span_online*, which is the inference and the verification
in this process, without Spark. The size of the state is that after each micro-batch.

The benchmark also feeds the run to the online verifier with times that are spread over an
hour, and prints the size of its state in bytes after each ten seconds, from the time on at
which the first messages expire.
"""

import json
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from antecede.pipeline.study.measure import spark_schema
from antecede.pipeline.verify.event_rows import ProcessNames
from antecede.pipeline.verify.packed_rows import write_blob
from antecede.pipeline.verify.record_stream import RecordStream
from antecede.spark import verify, verify_stream
from antecede.trace.reader import read_trace
from antecede.trace.schema import EVENTS_NAME, SCHEMA
from antecede.verify.online.checker import RETENTION
from antecede.verify.online.state import save_state
from antecede.verify.online.verifier import OnlineVerifier
from bench.generate_spans import generate_spans
from bench.measure import fastest, seconds_of
from bench.spark_session import make_parser, plain_session
from bench.spark_verify import long_run

EVENTS = 1_000_000
ROUNDS = 2
FILE_ROWS = 50_000
FILES_PER_BATCH = 5
DELAY_S = 600.0
HOUR_S = 3600.0
STEP_S = 10.0
SPANS = 500_000
SPAN_DELAY_S = 5.0


def _write_files(table: pa.Table, path: Path) -> Path:
    """Write a table in files, and return their directory."""
    written = path.with_name(path.name + ".partial")
    shutil.rmtree(written, ignore_errors=True)
    written.mkdir(parents=True)
    for index, start in enumerate(range(0, table.num_rows, FILE_ROWS)):
        pq.write_table(table.slice(start, FILE_ROWS), written / f"{index:05}.parquet")
    written.rename(path)
    return path


def stream_files(directory: Path, events: int) -> Path:
    """Return a directory with the events of one run in files, in their order."""
    path = directory / f"stream-{events}"
    if path.exists():
        return path
    table = pq.read_table(long_run(directory, events) / EVENTS_NAME)
    return _write_files(table, path)


def run_stream(spark: SparkSession, files: Path) -> None:
    """Verify the files as a stream, and assert that nothing is violated."""
    reader = spark.readStream.schema(spark_schema(SCHEMA))
    stream = reader.option("maxFilesPerTrigger", FILES_PER_BATCH).parquet(str(files))
    with tempfile.TemporaryDirectory() as scratch:
        writer = verify_stream(stream, expire_quiet=False).writeStream.format("parquet")
        writer = writer.option("path", f"{scratch}/out")
        writer = writer.option("checkpointLocation", f"{scratch}/checkpoint")
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        rows = spark.read.parquet(f"{scratch}/out").groupBy("record").count().collect()
    assert [row.record for row in rows] == ["status"], rows


def run_batch(spark: SparkSession, files: Path) -> None:
    """Verify the files as a table, in one task."""
    result = verify(spark.read.parquet(str(files)), windows=False)
    assert result.verdicts.where("violated > 0").count() == 0
    result.unpersist()


def run_online(batches: list[pa.RecordBatch], delay: float) -> None:
    """Verify the events in this process."""
    verifier = OnlineVerifier(delay)
    for batch in batches:
        now = batch.column("time")[-1].as_py()
        assert not verifier.add([batch], now)
        assert not verifier.advance(now)


def span_files(directory: Path, spans: int) -> Path:
    """Return a directory with the spans of one run in files, in the order of their ends."""
    path = directory / f"span-stream-{spans}"
    if path.exists():
        return path
    generated = directory / f"generated-spans-{spans}"
    generate_spans(generated, spans)
    table = pq.read_table(generated).sort_by("end_ns")
    return _write_files(table, path)


def run_span_stream(spark: SparkSession, files: Path) -> None:
    """Verify the spans as a stream."""
    reader = spark.readStream.schema(spark.read.parquet(str(files)).schema)
    stream = reader.option("maxFilesPerTrigger", FILES_PER_BATCH).parquet(str(files))
    with tempfile.TemporaryDirectory() as scratch:
        found = verify_stream(
            stream, watermark=f"{SPAN_DELAY_S:g} seconds", rows="spans", expire_quiet=False
        )
        writer = found.writeStream.format("parquet").option("path", f"{scratch}/out")
        writer = writer.option("checkpointLocation", f"{scratch}/checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()
        statuses = spark.read.parquet(f"{scratch}/out").where("record = 'status'")
        last = statuses.selectExpr("max(status.deliveries)", "max(status.late)").first()
    assert last is not None
    assert last[0] > 0
    assert last[1] == 0, last


def run_span_batch(spark: SparkSession, files: Path) -> None:
    """Verify the spans as a table, in one task."""
    result = verify(spark.read.parquet(str(files)), rows="spans", windows=False)
    assert result.errors.count() == 0
    result.unpersist()


def run_span_online(batches: list[list[pa.Buffer]], sizes: list[int]) -> None:
    """Infer and verify the spans in this process, and save the state after each batch."""
    stream = RecordStream("spans", SPAN_DELAY_S)
    verifier, names = OnlineVerifier(SPAN_DELAY_S), ProcessNames()
    for blobs in batches:
        stream.add(blobs, names, verifier)
        verifier.advance(stream.opened.now)
        stream.forget()
        sizes.append(len(stream.save()) + len(save_state(verifier)))
    assert verifier.counters.late == 0


def measure_spans(spark: SparkSession, files: Path, rounds: int) -> dict[str, object]:
    """Return the measurements of the spans."""
    tables = [pq.read_table(file) for file in sorted(files.glob("*.parquet"))]
    blobs = [pa.py_buffer(write_blob(table)) for table in tables]
    sizes: list[int] = []
    batches = [
        blobs[start : start + FILES_PER_BATCH]
        for start in range(0, len(blobs), FILES_PER_BATCH)
    ]
    seconds = fastest(
        {
            "span_stream": partial(run_span_stream, spark, files),
            "span_batch": partial(run_span_batch, spark, files),
            "span_online": partial(run_span_online, batches, sizes),
        },
        rounds,
    )
    spans = sum(table.num_rows for table in tables)
    result: dict[str, object] = {"spans": spans}
    for name, value in seconds.items():
        result[f"{name}_s"] = round(value, 2)
        result[f"{name}_spans_per_s"] = round(spans / value)
    result["span_stream_per_batch"] = round(
        seconds["span_stream"] / seconds["span_batch"], 2
    )
    result["span_state_bytes"] = {
        "min": min(sizes), "median": round(median(sizes)), "max": max(sizes),
    }  # fmt: skip
    return result


def state_sizes(table: pa.Table) -> tuple[list[int], float]:
    """Return the sizes of the state over an hour, and the seconds that this took."""
    time = table.column("time").to_numpy()
    time = (time - time[0]) * (HOUR_S / (time[-1] - time[0]))
    table = table.set_column(table.schema.get_field_index("time"), "time", pa.array(time))
    verifier = OnlineVerifier(DELAY_S)
    sizes: list[int] = []

    def feed() -> None:
        bounds = np.searchsorted(time, np.arange(0.0, HOUR_S + STEP_S, STEP_S))
        for step, start in enumerate(bounds[:-1].tolist()):
            now = (step + 1) * STEP_S
            rows = table.slice(start, int(bounds[step + 1]) - start).combine_chunks()
            verifier.add(rows.to_batches(), now)
            verifier.advance(now)
            size = len(save_state(verifier))
            if now >= (RETENTION + 1) * DELAY_S:
                sizes.append(size)

    return sizes, seconds_of(feed)


def main() -> int:
    """Print the measurements as JSON, and then the ratios."""
    parser = make_parser(__doc__, events=EVENTS, rounds=ROUNDS)
    parser.add_argument(
        "--spans", type=int, default=SPANS, help=f"number of spans; default: {SPANS}"
    )
    options = parser.parse_args()
    spans = span_files(options.directory, options.spans)
    files = stream_files(options.directory, options.events)
    trace = read_trace(long_run(options.directory, options.events))
    batches = list(trace.batches())
    slices = [
        batch.slice(start, FILE_ROWS)
        for batch in batches
        for start in range(0, batch.num_rows, FILE_ROWS)
    ]
    with plain_session() as spark:
        spark.conf.set("spark.sql.shuffle.partitions", 2)
        seconds = fastest(
            {
                "stream": partial(run_stream, spark, files),
                "batch": partial(run_batch, spark, files),
                "online": partial(run_online, slices, DELAY_S),
            },
            options.rounds,
        )
        span_result = measure_spans(spark, spans, options.rounds)
    sizes, hour = state_sizes(pa.Table.from_batches(batches).unify_dictionaries())
    result: dict[str, object] = {"events": trace.rows}
    for name, value in seconds.items():
        result[f"{name}_s"] = round(value, 2)
        result[f"{name}_events_per_s"] = round(trace.rows / value)
    result["stream_per_batch"] = round(seconds["stream"] / seconds["batch"], 2)
    result["stream_per_online"] = round(seconds["stream"] / seconds["online"], 2)
    result["hour_s"] = round(hour, 1)
    result["state_bytes"] = {
        "min": min(sizes), "median": round(median(sizes)), "max": max(sizes),
    }  # fmt: skip
    result |= span_result
    print(json.dumps(result, indent=2))
    # One run is one key of the stream, and without windows one task of the table.
    print(
        "events per second per core:"
        f" stream {result['stream_events_per_s']:,}, batch {result['batch_events_per_s']:,}"
        f" (time per event: {result['stream_per_batch']} to 1)"
    )
    print(
        "spans per second per core:"
        f" stream {result['span_stream_spans_per_s']:,},"
        f" batch {result['span_batch_spans_per_s']:,}"
    )
    print(f"state over an hour of virtual traffic, bytes: {result['state_bytes']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
