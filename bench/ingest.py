"""``python -m bench.ingest``: span CSVs made into traces, beside Spark reading them.

The files are those of ``../shared/data/nezha`` beside the repository if they are there, or
else gzipped CSVs of the same shape, made in a temporary directory. Ours reads them, finds
who called whom and what happened before what, and writes a trace for each, in one process.
Spark reads them with the schema given, on all cores, and throws the rows away. Both take
turns in one warm session, and the best of each counts. The aim is a ratio of at most 3.
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
from bench.spark_verify import best, plain_session

DATA = Path(__file__).parents[2] / "shared" / "data" / "nezha"
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
"""Of one trace: each is a span of the caller and one of whom it called."""
SERVICES = 10
START_NS = 1_661_140_374_000_000_000
AIM = 3.0


def spans(seed: int, count: int) -> Iterator[str]:
    """Yield the lines of a CSV of about so many spans: a front that calls services."""
    chance = random.Random(seed)
    yield HEADER

    def line(trace: str, parent: str, pod: int, begin: int, end: int) -> tuple[str, str]:
        span = f"{chance.getrandbits(64):016x}"
        words = (trace, span, parent, f"service-{pod}-{pod:010x}", "shop.Service/Get")
        return span, ",".join((*words, str(begin), str(end), str((end - begin) // 1000)))

    for number in range(count // (2 * CALLS + 1)):
        trace = f"{chance.getrandbits(128):032x}"
        begin = START_NS + number * 3_000_017 + chance.randrange(1_000_000)
        root, text = line(trace, "root", 0, begin, begin + CALLS * 5_000_000)
        yield text
        for call in range(CALLS):
            at = begin + 1 + call * 4_900_000
            forth, work, back = (chance.randrange(300_000, 1_500_000) for _ in range(3))
            caller, text = line(trace, root, 0, at, at + forth + work + back)
            yield text
            pod = chance.randrange(1, SERVICES)
            _, text = line(trace, caller, pod, at + forth, at + forth + work)
            yield text


def make_files(place: Path) -> list[Path]:
    """Write CSVs of the shape of the real ones."""
    paths = []
    for seed in range(FILES):
        path = place / f"spans-{seed:02}.csv.gz"
        text = "\n".join(spans(seed, SPANS_PER_FILE)) + "\n"
        path.write_bytes(gzip.compress(text.encode()))
        paths.append(path)
    return paths


def by_spark(spark: SparkSession, paths: list[Path]) -> None:
    """Let Spark read every row, and throw it away."""
    table = spark.read.schema(SCHEMA).csv([str(path) for path in paths], header=True)
    table.write.format("noop").mode("overwrite").save()


def by_us(paths: list[Path], place: Path) -> None:
    """Make a trace of each file."""
    shutil.rmtree(place, ignore_errors=True)
    for path in paths:
        ingest([path], place / path.name)


def count_spans(paths: list[Path], place: Path) -> int:
    """Return how many spans the files have."""
    return sum(
        run.summary.records for path in paths for run in ingest([path], place / path.name)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each")
    parser.add_argument("--made", action="store_true", help="files of our own, in any case")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, plain_session() as spark:
        place = Path(scratch)
        paths = sorted(DATA.glob("*.csv.gz"))
        real = bool(paths) and not options.made
        if not real:
            paths = make_files(place)
        count = count_spans(paths, place / "out")
        size = sum(path.stat().st_size for path in paths)
        kind = "Nezha's files" if real else "files of our own making"
        print(f"{kind}: {len(paths)}, {size / 1e6:.1f} MB gzipped, {count:,} spans")
        seconds = best(
            {
                "ours": lambda: by_us(paths, place / "out"),
                "Spark": lambda: by_spark(spark, paths),
            },
            options.rounds,
        )
        for name, least in seconds.items():
            print(f"{name:8} {least:6.2f} s  {count / least:12,.0f} spans/s")
        ratio = seconds["ours"] / seconds["Spark"]
        print(f"ours over Spark {ratio:.2f} (aim: at most {AIM:g})")


if __name__ == "__main__":
    main()
