"""``python -m bench.spark_others``: the pipeline beside what a user would write without it.

* *Fan-out*: the same cells simulated by the study's stage, in a warm session, and by a bare
  pool of processes.
* *First result*: the command ``antecede verify`` on a small trace, from nothing, and a
  plain PySpark script that only counts its rows.
* *Closures*: happened-before as a table of pairs, made by joining it with itself on Spark
  until nothing is added, as one does with SQL or a graph package; and a checker in plain
  Python with a vector clock for each message. Both get longer runs, until the next would
  take more than ``--patience`` seconds; ours gets the longest that either finished.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import perf_counter

from pyspark.sql import SparkSession

from antecede.pipeline.study.directory import StudyDirectory
from antecede.pipeline.study.simulate import simulate_cells
from antecede.pipeline.study.study import Study, parse_study
from antecede.sim.simulate import Scenario, simulate_to
from antecede.trace.event import Event, Kind
from antecede.trace.reader import read_trace
from antecede.trace.schema import EVENTS_NAME
from antecede.verify.verifier import verify_trace
from bench.spark_verify import plain_session

COUNT_SCRIPT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").getOrCreate()
print(spark.read.parquet(sys.argv[1]).count())
spark.stop()
"""
EVENTS_PER_MESSAGE = 6
GROWTH = 4
"""How much longer the next run takes, at the least."""
PROCESSES = 20


def trace_of(place: Path, events: int) -> Path:
    """Simulate a run of about so many events."""
    path = place / f"run-{events}"
    if not path.exists():
        messages = max(1, events // (EVENTS_PER_MESSAGE * PROCESSES))
        simulate_to(path, Scenario(processes=PROCESSES, messages=messages, seed=1))
    return path


def seconds_of(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


# Fan-out.


def cells(seeds: int, messages: int) -> Study:
    return parse_study(
        {
            "name": "fan-out",
            "protocols": ["hybrid", "cykas", "optimal"],
            "processes": [20, 40],
            "seeds": seeds,
            "messages": messages,
        }
    )


def by_pool(study: Study, place: Path) -> None:
    """Simulate every cell in a process of a pool, the heaviest first."""
    ordered = sorted(study.cells, key=lambda cell: -cell.weight)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        futures = [
            pool.submit(simulate_to, place / cell.id, cell.scenario) for cell in ordered
        ]
        for future in futures:
            future.result()


def by_spark(spark: SparkSession, study: Study, directory: Path) -> None:
    place = StudyDirectory(directory)
    place.open(study)
    cores = spark.sparkContext.defaultParallelism
    assert simulate_cells(spark, place, study.cells, cores=cores) == 0


def measure_fan_out(spark: SparkSession, scratch: Path, seeds: int) -> float:
    """Return how many times as fast as the bare pool the stage is."""
    by_spark(spark, cells(1, 5), scratch / "warm")
    ratios = []
    for turn in range(2):
        study = cells(seeds, 100)
        pool = seconds_of(lambda: by_pool(study, scratch / f"pool-{turn}"))  # noqa: B023
        ours = seconds_of(lambda: by_spark(spark, study, scratch / f"spark-{turn}"))  # noqa: B023
        ratios.append(pool / ours)
    return max(ratios)


# First result.


def measure_first_result(place: Path) -> tuple[float, float]:
    """Return the seconds of our command and of a plain count, each the best of three."""
    trace = trace_of(place, 20_000)
    ours = [sys.executable, "-m", "antecede", "verify", str(trace)]
    plain = [sys.executable, "-c", COUNT_SCRIPT, str(trace / EVENTS_NAME)]

    def best(command: list[str]) -> float:
        return min(
            seconds_of(lambda: subprocess.run(command, check=True, capture_output=True))
            for _ in range(3)
        )

    return best(ours), best(plain)


# What a user would write.


def by_closure(spark: SparkSession, path: Path) -> int:
    """Count the breaches of causal order by joining happened-before with itself."""
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
        found = spark.sql(
            "select a.before, b.after from pairs a join pairs b on a.after = b.before"
        )
        pairs = pairs.union(found).distinct().localCheckpoint()
    pairs.createOrReplaceTempView("pairs")
    breaches = spark.sql(
        """
        select count(*) as found from pairs
          join events s on s.step = pairs.before and s.kind = 'send'
          join events t on t.step = pairs.after and t.kind = 'send'
          join events d on d.source = s.source and d.number = s.number
          join events e on e.source = t.source and e.number = t.number
          where d.kind = 'deliver' and e.kind = 'deliver'
          and d.process = e.process and d.seq > e.seq
        """
    )
    return int(breaches.collect()[0][0])


def by_vector_clocks(path: Path) -> int:
    """Count the breaches with a vector clock for each message, in plain Python."""
    clocks: dict[int, dict[int, int]] = {}
    sent: dict[tuple[int | None, int | None], dict[int, int]] = {}
    pending: dict[int, dict[tuple[int | None, int | None], dict[int, int]]] = {}
    found = 0

    def step(event: Event) -> dict[int, int]:
        clock = clocks.setdefault(event.process, {})
        clock[event.process] = clock.get(event.process, 0) + 1
        return clock

    for event in read_trace(path).events():
        if event.kind is Kind.SEND:
            clock = dict(step(event))
            message = (event.source, event.number)
            sent[message] = clock
            for target in event.targets or ():
                pending.setdefault(target, {})[message] = clock
        elif event.kind is Kind.DELIVER:
            message = (event.source, event.number)
            waiting = pending[event.process]
            waiting.pop(message, None)
            past = sent[message]
            for (source, _), clock in waiting.items():
                assert source is not None
                found += clock[source] <= past.get(source, 0)
            clock = step(event)
            for process, count in past.items():
                clock[process] = max(count, clock.get(process, 0))
    return found


def measure_rival(
    work: Callable[[Path], int], place: Path, sizes: list[int], timeout_s: float
) -> list[dict[str, float]]:
    """Give it longer and longer runs, until the next would take too long."""
    table = []
    for events in sizes:
        path = trace_of(place, events)
        rows = read_trace(path).rows
        seconds = seconds_of(lambda: work(path))  # noqa: B023
        table.append({"events": rows, "seconds": round(seconds, 2)})
        print(json.dumps(table[-1]), file=sys.stderr, flush=True)
        if GROWTH * seconds > timeout_s:
            break
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=24, help="cells of the fan-out, by 6")
    parser.add_argument("--patience", type=float, default=120.0)
    options = parser.parse_args()
    result: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        verify_trace(trace_of(place, 1_000))  # So that nothing is compiled later on.
        ours_s, plain_s = measure_first_result(place)
        result["first_result"] = {
            "verify_s": round(ours_s, 2),
            "count_s": round(plain_s, 2),
            "ratio": round(ours_s / plain_s, 2),
        }
        sizes = [20_000 * 5**k for k in range(5)]
        clocks = measure_rival(by_vector_clocks, place, sizes, options.patience)
        with plain_session() as spark:
            result["fan_out"] = round(measure_fan_out(spark, place, options.seeds), 2)
            sizes = [500 * 2**k for k in range(9)]
            closure = measure_rival(
                lambda path: by_closure(spark, path), place, sizes, options.patience
            )
        for rival, table in (("clocks", clocks), ("closure", closure)):
            events = int(table[-1]["events"])
            path = next(
                each for each in place.glob("run-*") if read_trace(each).rows == events
            )
            ours = seconds_of(lambda: verify_trace(path))  # noqa: B023
            result[rival] = {"table": table, "ours_s": round(ours, 2)}
            result[f"{rival}_ratio"] = round(table[-1]["seconds"] / ours)
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
