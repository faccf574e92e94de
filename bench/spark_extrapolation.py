"""Extrapolate the time for 1 billion events: ``python -m bench.spark_extrapolation``.

The benchmark verifies one run of each of two sizes, by default 10 and 30 million events, in
windows on all cores of this machine: from its path, and with ``--table`` also as a
DataFrame. The run is a repeated sequence of simulated runs, whose numbers and times are
shifted. The time for 1 billion events is that of the larger run, plus the time per further
event that the two runs have.

The bounds apply to ``--sizes 100000000 300000000``, which needs 6 GB of disk for the
traces, and 6 GB more with ``--table``. The trace of each size stays in the directory, and
later benchmarks use it again. Worker processes stay alive from size to size, so the peak
memory after the second size shows any growth.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from antecede.spark import read_traces, verify
from bench.measure import fastest
from bench.spark_session import make_parser, plain_session
from bench.spark_verify import count_rows, long_run, verify_long, worker_peak_mib

SIZES = (10_000_000, 30_000_000)
BILLION = 1_000_000_000
ROUNDS = 1


def verify_table(spark: SparkSession, path: Path) -> None:
    """Verify one run as a DataFrame, and assert that all properties held."""
    result = verify(read_traces(spark, path), complete=True, windows=True)
    rows = result.verdicts.collect()
    result.unpersist()
    assert {row.status for row in rows} == {"held"}, [row.error for row in rows][:1]


def extrapolate(events: list[int], seconds: list[float]) -> float:
    """Return the seconds for 1 billion events, from those for two sizes."""
    slope = (seconds[1] - seconds[0]) / (events[1] - events[0])
    return seconds[1] + slope * (BILLION - events[1])


def measure(
    spark: SparkSession,
    paths: list[Path],
    work: Callable[[SparkSession, Path], None],
    rounds: int,
) -> dict[str, object]:
    """Measure both sizes, the smaller one first."""
    events, seconds, peaks = [], [], []
    for path in paths:
        events.append(count_rows([path]))
        seconds.append(fastest({"run": partial(work, spark, path)}, rounds)["run"])
        peaks.append(worker_peak_mib(spark))
        line = f"{events[-1]:,} events: {seconds[-1]:.1f} s, {peaks[-1]} MiB"
        print(line, file=sys.stderr, flush=True)
    return {
        "events": events,
        "seconds": [round(each, 1) for each in seconds],
        "worker_peak_mib": peaks,
        "memory_growth": round(peaks[1] / peaks[0], 2),
        "billion_minutes": round(extrapolate(events, seconds) / 60, 1),
    }


def main() -> int:
    """Print the measurements as JSON, and then the extrapolated time."""
    parser = make_parser(__doc__, events=SIZES[0], rounds=ROUNDS)
    parser.add_argument(
        "--sizes",
        type=int,
        nargs=2,
        default=SIZES,
        help=f"numbers of events of the two runs; default: {SIZES[0]} {SIZES[1]}",
    )
    parser.add_argument(
        "--table", action="store_true", help="also verify each run as a DataFrame"
    )
    options = parser.parse_args()
    paths = [long_run(options.directory, size) for size in sorted(options.sizes)]
    result: dict[str, dict[str, object]] = {}
    with plain_session() as spark:
        result["path"] = measure(spark, paths, verify_long, options.rounds)
        if options.table:
            result["table"] = measure(spark, paths, verify_table, options.rounds)
    print(json.dumps(result, indent=2))
    for name, found in result.items():
        print(f"{name}: minutes for 1 billion events{found['billion_minutes']:>8}")
        print(f"{name}: growth of memory{found['memory_growth']:>20}   (at most 1.1)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
