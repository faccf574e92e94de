"""Compare the verification on Spark with a scan by Spark: ``python -m bench.spark_verify``.

By default, the benchmark verifies 4 million events: 200 runs of 20,000 events, and one long
run of 4 million events. This takes a few minutes, including the creation of the traces.
The bounds apply to ``--events 20000000``. ``--growth`` also verifies one run of a quarter
of the events and one of 5 times the events.

The benchmark simulates a few runs. The many runs are copies of the simulated runs, and the
long run is a repeated sequence of them. The traces stay in a temporary directory, and later
benchmarks use them again. The measurements alternate in one warm session, and the fastest
round of each counts, because noise can only add time.
"""

import json
import resource
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from antecede.pipeline.spark.stage import spark_stage
from antecede.pipeline.verify.runs import verify_runs
from antecede.pipeline.verify.windows import verify_windows
from antecede.sim.simulate import Scenario, simulate_to
from antecede.trace.run_info import RunInfo
from antecede.trace.schema import EVENTS_NAME, INFO_NAME, SCHEMA
from antecede.verify.kernels.stream import MATCHING_COLUMNS
from bench.measure import fastest
from bench.spark_session import make_parser, plain_session

EVENTS = 4_000_000
EVENTS_PER_RUN = 20_000
SIMULATED_RUNS = 10
"""The number of simulated runs, of which all other runs consist."""
PROCESSES = 20
ROW_GROUP_ROWS = 1 << 17
ROUNDS = 3


def simulated_runs(directory: Path) -> list[Path]:
    """Simulate runs of about 20,000 events, unless they exist, and return their paths."""
    paths = []
    for seed in range(SIMULATED_RUNS):
        path = directory / f"simulated-{seed}"
        if not (path / INFO_NAME).exists():
            scenario = Scenario(processes=PROCESSES, messages=160, seed=seed, loss=0.01)
            simulate_to(path, scenario)
        paths.append(path)
    return paths


def many_runs(directory: Path, events: int) -> list[Path]:
    """Return the paths of runs of 20,000 events, with ``events`` events in total."""
    paths = []
    for i in range(events // EVENTS_PER_RUN):
        path = directory / f"runs-{events}" / f"run-{i:05}"
        if not path.exists():
            shutil.copytree(simulated_runs(directory)[i % SIMULATED_RUNS], path)
        paths.append(path)
    return paths


def long_run(directory: Path, events: int) -> Path:
    """Return the path of one run of at least ``events`` events."""
    path = directory / f"long-{events}"
    if (path / INFO_NAME).exists():
        return path
    path.mkdir(parents=True, exist_ok=True)
    tables = [pq.read_table(each / EVENTS_NAME) for each in simulated_runs(directory)]
    seq_offsets, number_offsets = np.zeros((2, PROCESSES), np.int64)
    rows, time = 0, 0.0
    unwritten: list[pa.Table] = []
    with pq.ParquetWriter(path / EVENTS_NAME, SCHEMA, compression="zstd") as writer:
        while rows < events:
            table = tables[len(unwritten) % SIMULATED_RUNS]
            process = table.column("process").to_numpy()
            source = table.column("source").fill_null(0).to_numpy()
            is_send = np.array(table.column("kind").to_pylist()) == "send"
            columns = {name: table.column(name) for name in SCHEMA.names}
            columns["run"] = pa.repeat("long", len(table))
            columns["seq"] = pa.array(table.column("seq").to_numpy() + seq_offsets[process])
            columns["step"] = pa.array(np.arange(rows, rows + len(table)))
            columns["time"] = pa.array(table.column("time").to_numpy() + time)
            number = table.column("number")
            has_number = number.is_valid().to_numpy()
            numbers = number.fill_null(0).to_numpy() + number_offsets[source]
            columns["number"] = pa.array(numbers, mask=~has_number)
            unwritten.append(pa.table(columns, schema=SCHEMA))
            rows += len(table)
            time = columns["time"][-1].as_py()
            seq_offsets += np.bincount(process, minlength=PROCESSES)
            number_offsets += np.bincount(source[is_send], minlength=PROCESSES)
            if len(unwritten) == 8 * SIMULATED_RUNS or rows >= events:
                batch = pa.concat_tables(unwritten)
                writer.write_table(batch, row_group_size=ROW_GROUP_ROWS)
                unwritten = []
    info = RunInfo(run="long", complete=True, processes=PROCESSES)
    (path / INFO_NAME).write_text(info.to_json())
    return path


def scan(spark: SparkSession, files: list[str]) -> Callable[[], None]:
    """Return a function that reads the columns for verification and discards them."""
    table = spark.read.parquet(*files).select(*MATCHING_COLUMNS)
    return lambda: table.write.format("noop").mode("overwrite").save()


def verify_many(spark: SparkSession, paths: list[Path]) -> None:
    """Verify many runs, and assert that causal order held in each."""
    rows = verify_runs(spark, paths).collect()
    assert len(rows) == len(paths)
    assert {row.causal for row in rows} == {"held"}, [row.error for row in rows][:1]


def verify_long(spark: SparkSession, path: Path) -> None:
    """Verify one run in windows; assert that all properties held, without a fallback."""
    notices: list[str] = []
    verdict = verify_windows(spark, path, on_notice=notices.append)
    assert verdict.held, str(verdict)
    assert not notices, notices


def peak_mib(_: int) -> float:
    """Return the peak memory of this worker, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def worker_peak_mib(spark: SparkSession) -> int:
    """Return the largest peak memory of a worker, in MiB."""
    return round(max(spark_stage(spark)(peak_mib, list(range(16)))))


def count_rows(paths: list[Path]) -> int:
    """Return the number of events of the runs."""
    return sum(pq.read_metadata(path / EVENTS_NAME).num_rows for path in paths)


def main() -> int:
    """Print the measurements as JSON, and then the ratios with their bounds."""
    parser = make_parser(__doc__, events=EVENTS, rounds=ROUNDS)
    parser.add_argument(
        "--growth",
        action="store_true",
        help="also verify runs of a quarter and of 5 times the events",
    )
    options = parser.parse_args()
    runs = many_runs(options.directory, options.events)
    long = long_run(options.directory, options.events)
    result: dict[str, object] = {"events": options.events, "runs": len(runs)}
    with plain_session() as spark:
        files = [str(path / EVENTS_NAME) for path in runs]
        seconds = fastest(
            {
                "scan": scan(spark, files),
                "scan_long": scan(spark, [str(long / EVENTS_NAME)]),
                "runs": lambda: verify_many(spark, runs),
                "long": lambda: verify_long(spark, long),
            },
            options.rounds,
        )
        runs_rate = count_rows(runs) / seconds["runs"]
        long_rate = count_rows([long]) / seconds["long"]
        result |= {f"{name}_s": round(value, 2) for name, value in seconds.items()}
        result["runs_per_scan"] = round(seconds["runs"] / seconds["scan"], 2)
        result["long_per_runs"] = round(runs_rate / long_rate, 2)
        result["runs_events_per_s"] = round(runs_rate)
        result["long_events_per_s"] = round(long_rate)
        result["worker_peak_mib"] = worker_peak_mib(spark)
        if options.growth:
            small, large = options.events // 4, 5 * options.events
            paths = {n: long_run(options.directory, n) for n in (small, large)}
            seconds = fastest(
                {str(n): partial(verify_long, spark, path) for n, path in paths.items()},
                rounds=1,
            )
            rates = {n: count_rows([paths[n]]) / seconds[str(n)] for n in paths}
            result["growth"] = round(rates[large] / rates[small], 2)
            result["worker_peak_mib_large"] = worker_peak_mib(spark)
    print(json.dumps(result, indent=2))
    bounds = {
        "runs_per_scan": ("time, many runs to Spark's scan", "at most 2"),
        "long_per_runs": ("time per event, one long run to many runs", "at most 1.5"),
        "growth": ("events per second, longest to shortest run", "at least 0.8"),
    }
    for key, (name, bound) in bounds.items():
        if key in result:
            print(f"{name:44}{result[key]:>8}   ({bound})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
