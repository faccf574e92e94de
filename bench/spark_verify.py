"""``python -m bench.spark_verify``: the verification on Spark, as ratios in one run.

By default 4 million events (200 runs of 20,000, and one run of 4 million), which takes a
few minutes with the making of the traces; the bounds are meant for ``--events 20000000``.
``--growth`` adds one run of 5 times and one of a quarter as many events.

A few runs are simulated. The many runs are copies of these, and the one long run is them
again and again, one after the other. The traces are kept in a temporary directory, for
other rounds. All measurements are made in one warm session, in turns, and the best of each
counts, since noise only ever adds. The session has Java's defaults: with the options of
ours, which start faster, Spark's own scan takes three times as long.
"""

import argparse
import json
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from antecede.pipeline.spark.java import java_home
from antecede.pipeline.spark.stage import spark_stage
from antecede.pipeline.verify.runs import verify_runs
from antecede.pipeline.verify.windows import verify_windows
from antecede.sim.simulate import Scenario, simulate_to
from antecede.trace.run_info import RunInfo
from antecede.trace.schema import EVENTS_NAME, INFO_NAME, SCHEMA
from antecede.verify.kernels.stream import MATCHING_COLUMNS

EVENTS = 4_000_000
EVENTS_PER_RUN = 20_000
MODELS = 10
"""How many runs are simulated."""
PROCESSES = 20
GROUP_ROWS = 1 << 17
ROUNDS = 3


def models(place: Path) -> list[Path]:
    """Simulate a few runs of about 20,000 events."""
    made = []
    for seed in range(MODELS):
        path = place / f"model-{seed}"
        if not (path / INFO_NAME).exists():
            scenario = Scenario(processes=PROCESSES, messages=160, seed=seed, loss=0.01)
            simulate_to(path, scenario)
        made.append(path)
    return made


def many_runs(place: Path, events: int) -> list[Path]:
    """Return so many events in runs of 20,000."""
    paths = []
    for i in range(events // EVENTS_PER_RUN):
        path = place / f"runs-{events}" / f"run-{i:05}"
        if not path.exists():
            shutil.copytree(models(place)[i % MODELS], path)
        paths.append(path)
    return paths


def long_run(place: Path, events: int) -> Path:
    """Return one run of so many events."""
    directory = place / f"long-{events}"
    if (directory / INFO_NAME).exists():
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    tables = [pq.read_table(path / EVENTS_NAME) for path in models(place)]
    next_seq, next_number = np.zeros((2, PROCESSES), np.int64)
    rows, time = 0, 0.0
    waiting: list[pa.Table] = []
    with pq.ParquetWriter(directory / EVENTS_NAME, SCHEMA, compression="zstd") as writer:
        while rows < events:
            table = tables[len(waiting) % MODELS]
            process = table.column("process").to_numpy()
            source = table.column("source").fill_null(0).to_numpy()
            is_send = np.array(table.column("kind").to_pylist()) == "send"
            columns = {name: table.column(name) for name in SCHEMA.names}
            columns["run"] = pa.repeat("long", len(table))
            columns["seq"] = pa.array(table.column("seq").to_numpy() + next_seq[process])
            columns["step"] = pa.array(np.arange(rows, rows + len(table)))
            columns["time"] = pa.array(table.column("time").to_numpy() + time)
            number = table.column("number")
            has_number = number.is_valid().to_numpy()
            numbers = number.fill_null(0).to_numpy() + next_number[source]
            columns["number"] = pa.array(numbers, mask=~has_number)
            waiting.append(pa.table(columns, schema=SCHEMA))
            rows += len(table)
            time = columns["time"][-1].as_py()
            next_seq += np.bincount(process, minlength=PROCESSES)
            next_number += np.bincount(source[is_send], minlength=PROCESSES)
            if len(waiting) == 8 * MODELS or rows >= events:
                together = pa.concat_tables(waiting)
                writer.write_table(together, row_group_size=GROUP_ROWS)
                waiting = []
    info = RunInfo(run="long", complete=True, processes=PROCESSES)
    (directory / INFO_NAME).write_text(info.to_json())
    return directory


@contextmanager
def plain_session() -> Iterator[SparkSession]:
    """Start Spark with Java's defaults."""
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["JAVA_HOME"] = str(java_home(Path(scratch)))
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        spark = (
            SparkSession.builder.master("local[*]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.local.dir", scratch)
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        try:
            yield spark
        finally:
            spark.stop()


def scan(spark: SparkSession, files: list[str]) -> Callable[[], None]:
    """Let Spark read the columns that a verdict needs, and throw them away."""
    table = spark.read.parquet(*files).select(*MATCHING_COLUMNS)
    return lambda: table.write.format("noop").mode("overwrite").save()


def judge_runs(spark: SparkSession, paths: list[Path]) -> None:
    rows = verify_runs(spark, paths).collect()
    assert len(rows) == len(paths)
    assert {row.causal for row in rows} == {"held"}, [row.error for row in rows][:1]


def judge_long(spark: SparkSession, path: Path) -> None:
    said: list[str] = []
    report = verify_windows(spark, path, on_notice=said.append)
    assert report.held, str(report)
    assert not said, said


def best(measures: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Take turns, and return the least seconds of each."""
    seconds: dict[str, float] = {}
    for turn in range(rounds + 1):
        for name, work in measures.items():
            start = perf_counter()
            work()
            elapsed = perf_counter() - start
            if turn:  # The first turn is to get warm.
                seconds[name] = min(elapsed, seconds.get(name, elapsed))
    return seconds


def peak_mib(_: int) -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def rows_of(paths: list[Path]) -> int:
    return sum(pq.read_metadata(path / EVENTS_NAME).num_rows for path in paths)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--growth", action="store_true", help="also of other lengths")
    parser.add_argument("--place", type=Path, help="where to keep the traces")
    options = parser.parse_args()
    place = options.place or Path(tempfile.gettempdir()) / "antecede-bench"
    runs = many_runs(place, options.events)
    long = long_run(place, options.events)
    result: dict[str, object] = {"events": options.events, "runs": len(runs)}
    with plain_session() as spark:
        files = [str(path / EVENTS_NAME) for path in runs]
        seconds = best(
            {
                "scan": scan(spark, files),
                "scan_long": scan(spark, [str(long / EVENTS_NAME)]),
                "runs": lambda: judge_runs(spark, runs),
                "long": lambda: judge_long(spark, long),
            },
            options.rounds,
        )
        runs_rate = rows_of(runs) / seconds["runs"]
        long_rate = rows_of([long]) / seconds["long"]
        result |= {f"{name}_s": round(value, 2) for name, value in seconds.items()}
        result["runs_per_scan"] = round(seconds["runs"] / seconds["scan"], 2)
        result["long_per_runs"] = round(runs_rate / long_rate, 2)
        result["runs_events_per_s"] = round(runs_rate)
        result["long_events_per_s"] = round(long_rate)
        peaks = spark_stage(spark)(peak_mib, list(range(16)))
        result["worker_peak_mib"] = round(max(peaks))
        if options.growth:
            small, large = options.events // 4, 5 * options.events
            paths = {n: long_run(place, n) for n in (small, large)}
            work: dict[str, Callable[[], None]] = {
                str(n): partial(judge_long, spark, path) for n, path in paths.items()
            }
            seconds = best(work, 1)
            rates = {n: rows_of([paths[n]]) / seconds[str(n)] for n in paths}
            result["growth"] = round(rates[large] / rates[small], 2)
            peaks = spark_stage(spark)(peak_mib, list(range(16)))
            result["worker_peak_mib_large"] = round(max(peaks))
    print(json.dumps(result, indent=2))
    bounds = {
        "runs_per_scan": ("many runs, times Spark's scan", "at most 2"),
        "long_per_runs": ("one long run, times many, per event", "at most 1.5"),
        "growth": ("events per second, longest to shortest", "at least 0.8"),
    }
    for key, (name, bound) in bounds.items():
        if key in result:
            print(f"{name:40}{result[key]:>8}   ({bound})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
