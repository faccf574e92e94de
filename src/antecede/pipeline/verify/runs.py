"""Verify many runs on Spark: one group each, and only verdicts come back.

What Spark is given are paths. A task opens the traces of its share with pyarrow and judges
them with :func:`antecede.verify.verifier.verify`, one after the other; no row of a trace ever
passes between Java and Python, which would cost several times what judging it does.

A task costs about as much as judging a hundred thousand events, so there are a few per core
and not one per run. The longest run goes first, to the task that has least to do, so that
tasks are about equal; and the task with most to do starts first, so that no core waits long
at the end.
"""

import heapq
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from antecede.errors import ConfigError
from antecede.trace.reader import read_trace
from antecede.trace.schema import EVENTS_NAME
from antecede.verify.oracle import MessageId, Property, Violation
from antecede.verify.verdict import Report, Status
from antecede.verify.verifier import verify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "TASKS_PER_CORE",
    "VERDICTS",
    "balanced",
    "parallelism",
    "report_of",
    "verdict_of",
    "verify_runs",
]

TASKS_PER_CORE = 4
"""Enough to even out what sizes do not tell, few enough for their cost to vanish."""
CORES_ASSUMED = 8
"""What a server that does not tell its cores is taken to have."""

VERDICTS: pa.Schema = pa.schema(
    [
        # Which run, by its own name; its path if it cannot be read.
        pa.field("run", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        # Of each property "held", "violated" or "unknown"; null if there is no verdict.
        *(pa.field(which.value, pa.string()) for which in Property),
        # Of each property, how often it is broken.
        *(pa.field(f"{which.value}_count", pa.int64()) for which in Property),
        pa.field("events", pa.int64()),
        pa.field("messages", pa.int64()),
        pa.field("deliveries", pa.int64()),
        # Some violations with their chains, as in the JSON of a report.
        pa.field("violations", pa.string()),
        # Why something is unknown.
        pa.field("reasons", pa.list_(pa.string())),
        # How long the verdict took.
        pa.field("seconds", pa.float64(), nullable=False),
        # Why there is no verdict, in one line; null if there is one.
        pa.field("error", pa.string()),
    ]
)
"""One row for each run."""


def verify_runs(
    spark: "SparkSession",
    paths: Sequence[Path],
    *,
    violations_max: int = 10,
    tasks: int | None = None,
) -> "DataFrame":
    """Judge the trace in each of these directories; a row of VERDICTS tells of each.

    The result is lazy and in no order: collect it, or write it to a table. A trace that
    cannot be judged is a row with its error, and the others go on. The paths must lead to
    the traces on every machine of the cluster.

    Args:
        spark: Where to run; classic or Connect.
        paths: The directories of the runs.
        violations_max: The most violations of each property to name, for each run.
        tasks: How many tasks to make of it; None for a few per core.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    if violations_max < 0:
        raise ConfigError(f"violations_max must be at least 0, got {violations_max}")
    count = tasks if tasks is not None else TASKS_PER_CORE * parallelism(spark)
    # Workers may stand in another directory than the driver.
    names = [str(Path(path).absolute()) for path in paths]
    groups = balanced([_size(path) for path in paths], count)
    shares = [[names[i] for i in group] for group in groups]
    indices = spark.range(0, len(shares), 1, max(1, len(shares)))
    schema = from_arrow_schema(VERDICTS)
    return indices.mapInArrow(_judge_shares(shares, violations_max), schema)


def balanced(sizes: Sequence[int], groups_max: int) -> list[list[int]]:
    """Share things of these sizes out among groups of about equal sums.

    Each goes to the group with the smallest sum so far, the largest first. Return the
    places of what is in each group, the group with the largest sum first; none is empty.
    """
    sums = [(0, group) for group in range(min(groups_max, len(sizes)))]
    groups: list[list[int]] = [[] for _ in sums]
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        total, group = heapq.heappop(sums)
        groups[group].append(place)
        # What is empty takes some time too, and must not all go to one group.
        heapq.heappush(sums, (total + max(1, sizes[place]), group))
    return [groups[group] for _, group in sorted(sums, key=lambda each: -each[0])]


def parallelism(spark: "SparkSession") -> int:
    """Return how many tasks the cluster runs at once; a guess under Connect."""
    try:
        return max(1, spark.sparkContext.defaultParallelism)
    except Exception:  # A Connect session has no context, and raises one of several.
        return CORES_ASSUMED


def verdict_of(path: str, violations_max: int) -> dict[str, object]:
    """Judge one run; return a row of VERDICTS, whatever comes."""
    start = perf_counter()
    row: dict[str, object] = dict.fromkeys(VERDICTS.names)
    row.update(run=path, path=path)
    try:
        trace = read_trace(path)
        row.update(run=trace.info.run, events=trace.rows)
        report = verify(trace, violations_max=violations_max)
    except ConfigError as error:
        row["error"] = str(error)
    except Exception as error:  # Of one run; it must not take the others down.
        first = str(error).strip().partition("\n")[0]
        row["error"] = f"{path}: {type(error).__name__}: {first}"
    else:
        for which in Property:
            row[which.value] = report.statuses[which].value
            row[f"{which.value}_count"] = report.counts[which]
        row.update(messages=report.messages, deliveries=report.deliveries)
        row["violations"] = json.dumps(json.loads(report.to_json())["violations"])
        row["reasons"] = list(report.reasons)
    row["seconds"] = perf_counter() - start
    return row


def report_of(row: Mapping[str, Any]) -> Report:
    """Return the report that a row of VERDICTS tells of, but for ``kept_max``.

    Raise ConfigError if it has no verdict, with the reason.
    """
    if row["error"] is not None:
        raise ConfigError(row["error"])
    return Report(
        run=row["run"],
        messages=row["messages"],
        deliveries=row["deliveries"],
        statuses={which: Status(row[which.value]) for which in Property},
        counts={which: row[f"{which.value}_count"] for which in Property},
        violations=tuple(
            Violation(
                property=Property(found["property"]),
                process=found["process"],
                message=_message(found["message"]),
                chain=tuple(_message(each) for each in found["chain"]),
            )
            for found in json.loads(row["violations"])
        ),
        reasons=tuple(row["reasons"]),
    )


def _message(text: str) -> MessageId:
    source, _, number = text.partition(":")
    return MessageId(int(source), int(number))


def _judge_shares(
    shares: list[list[str]], violations_max: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what a task does: it gets numbers of shares, and yields verdicts."""

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for share in batch.column("id").to_pylist():
                for path in shares[share]:
                    row = verdict_of(path, violations_max)
                    yield pa.RecordBatch.from_pylist([row], schema=VERDICTS)

    return judge


def _size(path: Path) -> int:
    """Return the bytes of a trace, 0 if there is none: whoever opens it will tell."""
    events = Path(path) / EVENTS_NAME
    try:
        files = events.iterdir() if events.is_dir() else [events]
        return sum(file.stat().st_size for file in files)
    except OSError:
        return 0
