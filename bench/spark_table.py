"""Compare the verification of a DataFrame with Spark: ``python -m bench.spark_table``.

The table has many runs of about 20,000 events, by default 4 million events, in Parquet
files of some runs each. The benchmark measures two ways to use it in one warm session:

* *identity*: ``mapInArrow`` with a function that yields its input, for all columns;
* *verify*: ``antecede.spark.verify``, and all verdicts collected.

``shuffled`` verifies the same rows in random order, so that each task sorts its runs, and
``identity_shuffled`` passes these. ``long`` verifies as many events in one run, in windows,
and ``identity_long`` passes these.
The measurements alternate, and the fastest round of each counts.
"""

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from antecede.spark import read_traces, verify
from antecede.trace.schema import EVENTS_NAME
from bench.measure import fastest
from bench.spark_session import make_parser, plain_session
from bench.spark_verify import (
    EVENTS,
    EVENTS_PER_RUN,
    long_run,
    simulated_runs,
    worker_peak_mib,
)

RUNS_PER_FILE = 50
ROUNDS = 3
PAIRS = {
    "verify": "identity",
    "shuffled": "identity_shuffled",
    "long": "identity_long",
}
"""Each measurement, and the one that it is compared with."""


def table_of_runs(directory: Path, events: int) -> Path:
    """Return the directory of a table with runs of about 20,000 events each."""
    path = directory / f"table-{events}"
    if (path / "_SUCCESS").exists():
        return path
    path.mkdir(parents=True, exist_ok=True)
    tables = [pq.read_table(each / EVENTS_NAME) for each in simulated_runs(directory)]
    index = tables[0].schema.get_field_index("run")
    count = events // EVENTS_PER_RUN
    for first in range(0, count, RUNS_PER_FILE):
        runs = []
        for i in range(first, min(first + RUNS_PER_FILE, count)):
            table = tables[i % len(tables)]
            name = pa.repeat(pa.scalar(f"run-{i:06}"), len(table))
            runs.append(table.set_column(index, table.schema.field(index), name))
        pq.write_table(pa.concat_tables(runs), path / f"part-{first:06}.parquet")
    (path / "_SUCCESS").touch()
    return path


def identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def pass_through(table: DataFrame) -> None:
    """Send all rows to Python and back, and discard them."""
    table.mapInArrow(identity, table.schema).write.format("noop").mode("overwrite").save()


def verify_all(table: DataFrame, runs: int) -> None:
    """Verify all runs, and assert that causal order held in each."""
    result = verify(table, complete=True)
    rows = result.verdicts.where("property = 'causal'").collect()
    result.unpersist()
    assert len(rows) == runs
    assert {row.status for row in rows} == {"held"}, [row.error for row in rows][:1]


def main() -> int:
    """Print the measurements as JSON, and then the ratio with its bound."""
    parser = make_parser(__doc__, events=EVENTS, rounds=ROUNDS)
    options = parser.parse_args()
    path = table_of_runs(options.directory, options.events)
    runs = options.events // EVENTS_PER_RUN
    with plain_session() as spark:
        table = spark.read.parquet(str(path))
        shuffled = table.repartition(8).sortWithinPartitions(F.rand(1)).localCheckpoint()
        long = read_traces(spark, long_run(options.directory, options.events))
        seconds = fastest(
            {
                "identity": partial(pass_through, table),
                "verify": partial(verify_all, table, runs),
                "identity_shuffled": partial(pass_through, shuffled),
                "shuffled": partial(verify_all, shuffled, runs),
                "identity_long": partial(pass_through, long),
                "long": partial(verify_all, long, 1),
            },
            options.rounds,
        )
        result: dict[str, object] = {"events": table.count(), "runs": runs}
        result |= {f"{name}_s": round(value, 2) for name, value in seconds.items()}
        for name, base in PAIRS.items():
            result[f"{name}_per_identity"] = round(seconds[name] / seconds[base], 2)
        result["worker_peak_mib"] = worker_peak_mib(spark)
    print(json.dumps(result, indent=2))
    for name, text in (
        ("verify", "many runs"),
        ("shuffled", "many runs in random order"),
        ("long", "one run"),
    ):
        line = f"time, verify a DataFrame to identity, {text}"
        print(f"{line:64}{result[f'{name}_per_identity']:>8}   (at most 1.5)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
