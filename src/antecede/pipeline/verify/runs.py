"""Verify many runs on Spark, and return one row per run.

Spark gets paths. A task opens its traces with pyarrow and verifies them with
:func:`antecede.verify.verifier.verify_trace`, one after the other. No row of a trace passes
between Java and Python, which would take several times as long as its verification.

Starting a task takes about as long as verifying a hundred thousand events, so there are a
few tasks per core and not one per run. The runs are assigned in order of decreasing size,
each to the task with the least work, so that tasks are about equal; the task with the most
work starts first, so that no core waits long at the end.
"""

import heapq
import json
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from antecede.errors import AntecedeError, ConfigError, TraceError
from antecede.pipeline.spark.batches import map_batches
from antecede.pipeline.spark.transient import attempt_number, attempts_max, is_transient
from antecede.trace.reader import RecordedRun, read_trace
from antecede.trace.run_table import find_run
from antecede.trace.schema import EVENTS_NAME
from antecede.trace.store import open_store
from antecede.verify.oracle import MessageId, Property, Violation
from antecede.verify.verdict import Status, TraceVerdict
from antecede.verify.verifier import verify_trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "BREAKDOWNS",
    "TASKS_PER_CORE",
    "SizedRun",
    "VERDICTS",
    "balanced",
    "parallelism",
    "verdict_from_row",
    "verify_run",
    "verify_runs",
]

TASKS_PER_CORE = 4
"""Enough to even out errors of the estimated sizes, few enough for a low overhead."""
CORES_ASSUMED = 8
"""Assumed for a Connect server, which does not report its cores."""

VERDICTS: pa.Schema = pa.schema(
    [
        # The name of the run; its path if the trace cannot be read.
        pa.field("run", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        # Per property "held", "violated" or "unknown"; null if there is no verdict.
        *(pa.field(which.column, pa.string()) for which in Property),
        # Per property, the number of violations.
        *(pa.field(f"{which.column}_count", pa.int64()) for which in Property),
        pa.field("events", pa.int64()),
        pa.field("messages", pa.int64()),
        pa.field("deliveries", pa.int64()),
        # Deliveries that are missing in the trace; null if their number is not known.
        pa.field("unverified", pa.int64()),
        # Some violations with their chains, in JSON; processes have their numbers.
        pa.field("violations", pa.string()),
        # Why a status is unknown.
        pa.field("reasons", pa.list_(pa.string())),
        # The time of the verification.
        pa.field("seconds", pa.float64(), nullable=False),
        # Why there is no verdict, in one line; otherwise null.
        pa.field("error", pa.string()),
    ]
)
"""One row for each run."""
BREAKDOWNS: pa.Schema = VERDICTS.append(pa.field("breakdown", pa.binary()))
"""The same with the breakdown of the violations, pickled; null if there is no verdict."""


class SizedRun(RecordedRun, Protocol):
    """A run whose number of rows is known."""

    @property
    def rows(self) -> int:
        """The number of events of all kinds."""


def verify_runs(
    spark: "SparkSession",
    paths: Sequence[Path],
    *,
    violations_max: int = 10,
    with_breakdown: bool = False,
    tasks: int | None = None,
) -> "DataFrame":
    """Verify the trace in each of these directories; return a table of VERDICTS.

    The table is lazy and unordered: collect it, or write it. A trace that cannot be
    verified is a row with its error, and the others continue. The paths must be valid on
    every machine of the cluster.

    Args:
        spark: The session; classic or Connect.
        paths: The directories of the runs, or their paths in a table of runs.
        violations_max: The most violations of each property to name, for each run.
        with_breakdown: Add the column of :data:`BREAKDOWNS`.
        tasks: The number of tasks; None for a few per core.
    """
    if violations_max < 0:
        raise ConfigError(f"violations_max must be at least 0, got {violations_max}")
    count = tasks if tasks is not None else TASKS_PER_CORE * parallelism(spark)
    # Workers may have another working directory than the driver.
    names = [str(Path(path).absolute()) for path in paths]
    groups = balanced([_size(path) for path in paths], count)
    path_groups = [[names[i] for i in group] for group in groups]
    indices = spark.range(0, len(groups), 1, max(1, len(groups)))
    schema = BREAKDOWNS if with_breakdown else VERDICTS
    work = _task(path_groups, violations_max, attempts_max(spark), schema)
    return map_batches(indices, work, schema)


def balanced(sizes: Sequence[int], groups_max: int) -> list[list[int]]:
    """Divide items of these sizes into groups of about equal sums.

    In order of decreasing size, each item joins the group with the smallest sum so far.
    Return the indices of the items of each group, the group with the largest sum first; no
    group is empty.
    """
    sums = [(0, group) for group in range(min(groups_max, len(sizes)))]
    groups: list[list[int]] = [[] for _ in sums]
    for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
        total, group = heapq.heappop(sums)
        groups[group].append(index)
        # Items of size 0 take some time too, and must not all join one group.
        heapq.heappush(sums, (total + max(1, sizes[index]), group))
    return [groups[group] for _, group in sorted(sums, key=lambda each: -each[0])]


def parallelism(spark: "SparkSession") -> int:
    """Return the number of tasks that the cluster runs at once; a guess under Connect."""
    try:
        return max(1, spark.sparkContext.defaultParallelism)
    except Exception:  # Connect sessions have no context; the exception type varies.
        return CORES_ASSUMED


def verify_run(
    path: str,
    violations_max: int,
    attempts: int = 1,
    schema: pa.Schema = VERDICTS,
    read: Callable[[str], SizedRun] = read_trace,
) -> dict[str, object]:
    """Verify one run; return a row of ``schema``, with an error if verification fails.

    Raise a transient error unless Spark has run the task ``attempts`` times. ``read``
    returns the run at the path.
    """
    start = perf_counter()
    row: dict[str, object] = dict.fromkeys(schema.names)
    with_breakdown = "breakdown" in row
    row.update(run=path, path=path)
    try:
        trace = read(path)
        row.update(run=trace.info.run, events=trace.rows)
        verdict = verify_trace(
            trace, violations_max=violations_max, with_breakdown=with_breakdown
        )
    except Exception as error:  # The other runs of the task continue.
        if is_transient(error) and attempt_number() < attempts:
            raise
        first = str(error).strip().partition("\n")[0]
        row["error"] = f"{path}: {type(error).__name__}: {first}"
        if isinstance(error, AntecedeError):
            row["error"] = str(error)
    else:
        for which in Property:
            row[which.column] = verdict.statuses[which].value
            row[f"{which.column}_count"] = verdict.counts[which]
        row.update(messages=verdict.messages, deliveries=verdict.deliveries)
        row["unverified"] = verdict.unverified
        row["violations"] = json.dumps([_fields(v, verdict) for v in verdict.violations])
        row["reasons"] = list(verdict.reasons)
        if with_breakdown:
            row["breakdown"] = pickle.dumps(verdict.breakdown)
    row["seconds"] = perf_counter() - start
    return row


def verdict_from_row(row: Mapping[str, Any]) -> TraceVerdict:
    """Return the verdict of a row of VERDICTS or BREAKDOWNS, without ``limits_max``.

    Raises:
        TraceError: The row has an error instead of a verdict.
    """
    if row["error"] is not None:
        raise TraceError(row["error"])
    return TraceVerdict(
        run=row["run"],
        messages=row["messages"],
        deliveries=row["deliveries"],
        statuses={which: Status(row[which.column]) for which in Property},
        counts={which: row[f"{which.column}_count"] for which in Property},
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
        unverified=row["unverified"],
        breakdown=pickle.loads(row["breakdown"]) if row.get("breakdown") else None,
    )


def _fields(violation: Violation, verdict: TraceVerdict) -> dict[str, object]:
    return {
        "property": violation.property.value,
        "process": violation.process,
        "message": str(violation.message),
        "chain": [str(message) for message in violation.chain],
        "text": violation.format(verdict.names),
    }


def _message(text: str) -> MessageId:
    source, _, number = text.partition(":")
    return MessageId(int(source), int(number))


def _task(
    groups: list[list[str]], violations_max: int, attempts: int, schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of a task: it gets indices of groups, and yields verdicts."""

    def verify_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column("id").to_pylist():
                for path in groups[index]:
                    row = verify_run(path, violations_max, attempts, schema)
                    yield pa.RecordBatch.from_pylist([row], schema=schema)

    return verify_groups


def _size(path: Path) -> int:
    """Return the bytes of a trace; 0 if it cannot be read, which the task reports."""
    if not Path(path).is_dir():
        return _size_in_table(path)
    events = Path(path) / EVENTS_NAME
    try:
        files = events.iterdir() if events.is_dir() else [events]
        return sum(file.stat().st_size for file in files)
    except OSError:
        return 0


def _size_in_table(path: Path) -> int:
    """Return the bytes of a run in a table of runs; 0 if it cannot be read."""
    where = open_store(Path(path))
    try:
        part = find_run(where)
    except TraceError:
        return 0
    return 0 if part is None else part.runs[where.name].size
