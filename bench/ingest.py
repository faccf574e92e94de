"""Compare the conversion of span CSV files with Spark's reader: ``python -m bench.ingest``.

The files are those of ``../shared/data/nezha``, beside the repository, if they exist, and
otherwise synthetic gzip files of the same shape. antecede reads the files, infers messages
and happened-before, and writes one trace per file, in one process. Spark reads the same
files with a given schema, on all cores, and discards the rows. The two sides alternate in
one warm session, and the fastest round of each side counts. The aim is a ratio of at most
3.
"""

import argparse
import gzip
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from antecede.ingest import ingest
from bench.measure import fastest
from bench.spark_session import plain_session

NEZHA = Path(__file__).parents[2] / "shared" / "data" / "nezha"
HEADER = (
    "TraceID,SpanID,ParentID,PodName,OperationName,"
    "StartTimeUnixNano,EndTimeUnixNano,Duration"
)
SCHEMA = (
    "TraceID string, SpanID string, ParentID string, PodName string, OperationName string,"
    " StartTimeUnixNano long, EndTimeUnixNano long, Duration long"
)
FILES = 11
SPANS_PER_FILE = 9_000
CALLS = 6
"""The calls per TraceID. Each call has a span of the caller and a span of the service."""
SERVICES = 10
START_NS = 1_661_140_374_000_000_000
RATIO_AIM = 3.0


def csv_lines(seed: int, spans: int) -> Iterator[str]:
    """Yield the lines of a CSV file of up to ``spans`` spans.

    In each trace, service 0 calls other services, one after the other.
    """
    rng = random.Random(seed)
    yield HEADER

    def make_span(
        trace: str, parent: str, service: int, start: int, end: int
    ) -> tuple[str, str]:
        """Return the id of a new span, and its line."""
        span = f"{rng.getrandbits(64):016x}"
        pod = f"service-{service}-{service:010x}"
        duration_us = (end - start) // 1000
        fields = (trace, span, parent, pod, "shop.Service/Get", start, end, duration_us)
        return span, ",".join(map(str, fields))

    for number in range(spans // (2 * CALLS + 1)):
        trace = f"{rng.getrandbits(128):032x}"
        trace_start = START_NS + number * 3_000_017 + rng.randrange(1_000_000)
        trace_end = trace_start + CALLS * 5_000_000
        root, line = make_span(trace, "root", 0, trace_start, trace_end)
        yield line
        for call in range(CALLS):
            start = trace_start + 1 + call * 4_900_000
            request, service_time, response = (
                rng.randrange(300_000, 1_500_000) for _ in range(3)
            )
            end = start + request + service_time + response
            caller, line = make_span(trace, root, 0, start, end)
            yield line
            service = rng.randrange(1, SERVICES)
            arrival = start + request
            _, line = make_span(trace, caller, service, arrival, arrival + service_time)
            yield line


def write_synthetic_files(directory: Path) -> list[Path]:
    """Write gzip files of the shape of the Nezha files, and return their paths."""
    paths = []
    for seed in range(FILES):
        path = directory / f"spans-{seed:02}.csv.gz"
        text = "\n".join(csv_lines(seed, SPANS_PER_FILE)) + "\n"
        path.write_bytes(gzip.compress(text.encode()))
        paths.append(path)
    return paths


def read_with_spark(spark: SparkSession, paths: list[Path]) -> None:
    """Read every row with Spark, and discard it."""
    table = spark.read.schema(SCHEMA).csv([str(path) for path in paths], header=True)
    table.write.format("noop").mode("overwrite").save()


def convert(paths: list[Path], directory: Path) -> int:
    """Write a trace of each file to an empty directory; return the number of spans."""
    shutil.rmtree(directory, ignore_errors=True)
    return sum(
        run.summary.records
        for path in paths
        for run in ingest([path], directory / path.name)
    )


def main() -> None:
    """Print the speed of both sides and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=5, help="number of rounds that count; default: 5"
    )
    parser.add_argument(
        "--synthetic",
        action="store_true",
        help="use synthetic files even if the Nezha files exist",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, plain_session() as spark:
        traces = Path(scratch) / "traces"
        paths = [] if options.synthetic else sorted(NEZHA.glob("*.csv.gz"))
        kind = "Nezha" if paths else "synthetic"
        if not paths:
            paths = write_synthetic_files(Path(scratch))
        spans = convert(paths, traces)
        size_mb = sum(path.stat().st_size for path in paths) / 1e6
        print(f"{len(paths)} {kind} files: {size_mb:.1f} MB as gzip, {spans:,} spans")
        seconds = fastest(
            {
                "antecede": lambda: convert(paths, traces),
                "Spark": lambda: read_with_spark(spark, paths),
            },
            options.rounds,
        )
        for name, least in seconds.items():
            print(f"{name:9} {least:6.2f} s  {spans / least:12,.0f} spans/s")
        ratio = seconds["antecede"] / seconds["Spark"]
        print(f"time, antecede to Spark: {ratio:.2f} (aim: at most {RATIO_AIM:g})")


if __name__ == "__main__":
    main()
