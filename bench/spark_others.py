"""Compare the pipeline with programs without it: ``python -m bench.spark_others``.

* *Simulation*: the cells of a study, simulated on Spark in a warm session, and in a process
  pool without Spark.
* *First result*: the command ``antecede verify`` for a small trace, and a PySpark script
  that only counts its rows, both with the start of the program.
* *Alternatives*: happened-before as a table of pairs, joined with itself on Spark until no
  row is added, as in SQL or with a graph package; and a verifier in plain Python with a
  vector clock for each message. Each alternative gets longer and longer runs, until the
  next run would take more than ``--time-limit`` seconds. ``antecede verify`` gets the
  longest of these runs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from antecede.pipeline.study.directory import StudyDirectory
from antecede.pipeline.study.simulate import simulate_cells
from antecede.pipeline.study.study import Study, parse_study
from antecede.sim.simulate import Scenario, simulate_to
from antecede.trace.event import Event, Kind
from antecede.trace.reader import read_trace
from antecede.trace.schema import EVENTS_NAME
from antecede.verify.verifier import verify_trace
from bench.measure import seconds_of
from bench.spark_session import plain_session

COUNT_SCRIPT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").getOrCreate()
print(spark.read.parquet(sys.argv[1]).count())
spark.stop()
"""
EVENTS_PER_MESSAGE = 6
GROWTH = 4
"""The expected ratio of the time of the next run to the time of a run, at least."""
PROCESSES = 20


def trace_of(directory: Path, events: int) -> Path:
    """Return the path of a simulated run of about ``events`` events."""
    path = directory / f"run-{events}"
    if not path.exists():
        messages = max(1, events // (EVENTS_PER_MESSAGE * PROCESSES))
        simulate_to(path, Scenario(processes=PROCESSES, messages=messages, seed=1))
    return path


# Simulation.


def make_study(seeds: int, messages: int) -> Study:
    """Return a study of six cells for each seed."""
    return parse_study(
        {
            "name": "fan-out",
            "protocols": ["hybrid", "cykas", "optimal"],
            "processes": [20, 40],
            "seeds": seeds,
            "messages": messages,
        }
    )


def simulate_by_pool(study: Study, directory: Path) -> None:
    """Simulate every cell in a process pool, the cells of the largest weight first."""
    ordered = sorted(study.cells, key=lambda cell: -cell.weight)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        futures = [
            pool.submit(simulate_to, directory / cell.id, cell.scenario) for cell in ordered
        ]
        for future in futures:
            future.result()


def simulate_by_spark(spark: SparkSession, study: Study, path: Path) -> None:
    """Simulate every cell as a task on Spark."""
    directory = StudyDirectory(path)
    directory.open(study)
    cores = spark.sparkContext.defaultParallelism
    assert simulate_cells(spark, directory, study.cells, cores=cores) == 0


def measure_simulation(spark: SparkSession, scratch: Path, seeds: int) -> float:
    """Return the ratio of the speed on Spark to the speed of the process pool."""
    simulate_by_spark(spark, make_study(1, 5), scratch / "warm")
    study = make_study(seeds, 100)
    ratios = []
    for turn in range(2):
        pool_s = seconds_of(partial(simulate_by_pool, study, scratch / f"pool-{turn}"))
        spark_s = seconds_of(
            partial(simulate_by_spark, spark, study, scratch / f"spark-{turn}")
        )
        ratios.append(pool_s / spark_s)
    return max(ratios)


# First result.


def measure_first_result(directory: Path) -> tuple[float, float]:
    """Return the least seconds of ``antecede verify`` and of the script, in three runs."""
    trace = trace_of(directory, 20_000)
    verify = [sys.executable, "-m", "antecede", "verify", str(trace)]
    count = [sys.executable, "-c", COUNT_SCRIPT, str(trace / EVENTS_NAME)]

    def least_seconds(command: list[str]) -> float:
        return min(
            seconds_of(lambda: subprocess.run(command, check=True, capture_output=True))
            for _ in range(3)
        )

    return least_seconds(verify), least_seconds(count)


# Alternatives.


def count_by_closure(spark: SparkSession, path: Path) -> int:
    """Return the number of violations of causal order; join happened-before with itself."""
    events = spark.read.parquet(str(path / EVENTS_NAME)).filter(
        f"kind in ('{Kind.SEND.value}', '{Kind.DELIVER.value}')"
    )
    events.createOrReplaceTempView("events")
    pairs = spark.sql(
        """
        select a.step as before, min(b.step) as after from events a join events b
          on a.process = b.process and a.seq < b.seq group by a.step
        union
        select a.step, b.step from events a join events b
          on a.source = b.source and a.number = b.number
          and a.kind = 'send' and b.kind = 'deliver'
        """
    ).localCheckpoint()
    count = 0
    while pairs.count() > count:
        count = pairs.count()
        pairs.createOrReplaceTempView("pairs")
        longer = spark.sql(
            "select a.before, b.after from pairs a join pairs b on a.after = b.before"
        )
        pairs = pairs.union(longer).distinct().localCheckpoint()
    pairs.createOrReplaceTempView("pairs")
    violations = spark.sql(
        """
        select count(*) from pairs
          join events s on s.step = pairs.before and s.kind = 'send'
          join events t on t.step = pairs.after and t.kind = 'send'
          join events d on d.source = s.source and d.number = s.number
          join events e on e.source = t.source and e.number = t.number
          where d.kind = 'deliver' and e.kind = 'deliver'
          and d.process = e.process and d.seq > e.seq
        """
    )
    return int(violations.collect()[0][0])


def count_by_vector_clocks(path: Path) -> int:
    """Return the number of violations of causal order; use a vector clock per message."""
    clocks: dict[int, dict[int, int]] = {}
    sent: dict[tuple[int | None, int | None], dict[int, int]] = {}
    undelivered: dict[int, dict[tuple[int | None, int | None], dict[int, int]]] = {}
    violations = 0

    def advance(event: Event) -> dict[int, int]:
        clock = clocks.setdefault(event.process, {})
        clock[event.process] = clock.get(event.process, 0) + 1
        return clock

    for event in read_trace(path).events():
        if event.kind is Kind.SEND:
            clock = dict(advance(event))
            message = (event.source, event.number)
            sent[message] = clock
            for target in event.targets or ():
                undelivered.setdefault(target, {})[message] = clock
        elif event.kind is Kind.DELIVER:
            message = (event.source, event.number)
            others = undelivered[event.process]
            others.pop(message, None)
            past = sent[message]
            for (source, _), clock in others.items():
                assert source is not None
                violations += clock[source] <= past.get(source, 0)
            clock = advance(event)
            for process, count in past.items():
                clock[process] = max(count, clock.get(process, 0))
    return violations


def measure_alternative(
    count_violations: Callable[[Path], int],
    directory: Path,
    sizes: list[int],
    time_limit_s: float,
) -> list[dict[str, float]]:
    """Return the events and seconds of each run, until the next would exceed the limit."""
    measurements = []
    for events in sizes:
        path = trace_of(directory, events)
        rows = read_trace(path).rows
        seconds = seconds_of(partial(count_violations, path))
        measurements.append({"events": rows, "seconds": round(seconds, 2)})
        print(json.dumps(measurements[-1]), file=sys.stderr, flush=True)
        if GROWTH * seconds > time_limit_s:
            break
    return measurements


def main() -> int:
    """Print the measurements as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seeds",
        type=int,
        default=24,
        help="number of seeds of the simulation, with 6 cells each; default: 24",
    )
    parser.add_argument(
        "--time-limit",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="maximum expected time of a run of an alternative; default: 120",
    )
    options = parser.parse_args()
    result: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        verify_trace(trace_of(directory, 1_000))  # Compiles the kernels.
        verify_s, count_s = measure_first_result(directory)
        result["first_result"] = {
            "verify_s": round(verify_s, 2),
            "count_s": round(count_s, 2),
            "ratio": round(verify_s / count_s, 2),
        }
        vector_clocks = measure_alternative(
            count_by_vector_clocks,
            directory,
            [20_000 * 5**k for k in range(5)],
            options.time_limit,
        )
        with plain_session() as spark:
            ratio = measure_simulation(spark, directory, options.seeds)
            result["simulation_ratio"] = round(ratio, 2)
            closure = measure_alternative(
                partial(count_by_closure, spark),
                directory,
                [500 * 2**k for k in range(9)],
                options.time_limit,
            )
        for name, table in (("vector_clocks", vector_clocks), ("closure", closure)):
            events = int(table[-1]["events"])
            path = next(
                each for each in directory.glob("run-*") if read_trace(each).rows == events
            )
            verify_s = seconds_of(partial(verify_trace, path))
            result[name] = {"runs": table, "verify_s": round(verify_s, 2)}
            result[f"{name}_ratio"] = round(table[-1]["seconds"] / verify_s)
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
