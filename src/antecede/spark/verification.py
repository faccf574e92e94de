"""Verify the runs of a DataFrame."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from antecede.errors import TraceError
from antecede.pipeline.spark.jobs import described, explained
from antecede.pipeline.verify.table_columns import Rows
from antecede.pipeline.verify.tables import verify_table
from antecede.spark.display import Chart, verdict_chart, verdicts_html
from antecede.spark.summaries import violation_paths
from antecede.verify.verdict import Status

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["VIOLATIONS_MAX", "Verification", "verify"]

VIOLATIONS_MAX = 1000
"""The most violations of each property of a run that are listed."""
ERRORS_SHOWN = 3
ROWS_SHOWN = 200
"""The most runs of a displayed result."""


def verify(
    df: "DataFrame",
    *,
    columns: "Mapping[str, str | Column] | None" = None,
    run: "str | Column | None" = None,
    rows: Rows | None = None,
    complete: bool = False,
    violations_max: int = VIOLATIONS_MAX,
    tasks: int | None = None,
    windows: bool | None = None,
    with_breakdown: bool = True,
) -> "Verification":
    """Verify every run of a table: was delivery causal, and each message delivered once?

    The rows are events with the schema of a trace, messages, spans, or the records of one
    of the data sources of antecede. Unless a run of events is long, nothing is computed at
    the call. The result is computed when a table of it is used for the first time, and
    Spark keeps it until :meth:`Verification.unpersist`.

    One task verifies one run, and holds its rows in compressed form, about 20 bytes per
    event. It streams these if they have steps and no two partitions of the table overlap in
    their steps. Otherwise it sorts the rows of the run in memory, which takes about 250
    bytes per event.

    A run of more than two million events is verified at the call, in windows that many
    tasks verify, so that no task holds the run. For this, a job at the call counts the rows
    of every run, if Spark estimates the table at 8 MiB or more. A run that no column puts
    in order is ordered first, by further jobs.

    Args:
        df: The table, of a classic or a Connect session.
        columns: By the name of a column in antecede, its name in the table or an
            expression, for columns whose names differ.
        run: The column that distinguishes runs, by name or as an expression. By default
            the column ``run``; without one, the whole table is one run.
        rows: ``events``, ``messages``, ``spans`` or ``clocks``; None to find it out from
            the columns.
        complete: All runs continued until nothing was left to do, so a message that was
            not delivered will never be. Otherwise it may be in flight.
        violations_max: The most violations to list of each property of a run. The numbers
            of violations in the verdicts are exact in any case.
        tasks: The number of tasks that verify runs; None for a few per core.
        windows: Count the rows of every run at the call, and verify the long runs there,
            in windows. False verifies every run in one task, and starts no job. None
            decides by Spark's estimate of the size of the table.
        with_breakdown: Count all violations by pair of processes and by time. False leaves
            :attr:`Verification.pairs` and :attr:`Verification.timeline` empty, and does not
            read the times of all events.

    Raises:
        ConfigError: A column is missing, unknown, ambiguous, or has a wrong type.
    """
    mapped = dict(columns or {})
    if run is not None:
        mapped["run"] = run
    table = verify_table(
        df,
        columns=mapped,
        rows=rows,
        complete=complete,
        violations_max=violations_max,
        tasks=tasks,
        windows=windows,
        with_breakdown=with_breakdown,
    )
    return Verification(table.persist())


class Verification:
    """The verdicts and the violations of all runs of a table; from :func:`verify`."""

    verdicts: "DataFrame"
    """One row per run and property: ``run``, ``property``, ``status``, the number of
    deliveries ``judged``, ``violated`` and ``unknown``, how many violations are ``listed``,
    the numbers of ``events``, ``messages`` and ``deliveries`` of the run, ``reasons`` for
    an unknown status, ``notes``, and the ``error`` of a run that has no verdict."""
    violations: "DataFrame"
    """One row per violation: ``run``, ``property``, ``process``, the ``message``, the
    ``earlier`` message that should have been delivered first, the ``path`` of messages that
    proves it, and the ``text`` in one line."""
    pairs: "DataFrame"
    """The number of all ``violations`` by ``run``, ``property``, ``process``, the
    ``source`` of the message, and the ``earlier_source`` of the message that should have
    been delivered first."""
    timeline: "DataFrame"
    """The number of all ``violations`` by ``run``, ``property``, and the ``start`` and
    ``end`` of a part of the time."""
    paths: "DataFrame"
    """The number of listed ``violations`` by ``run``, ``property``, the ``processes`` whose
    messages are the path, and the ``process`` that delivered the last one first; the most
    ``messages`` of such a path, and an ``example``."""
    errors: "DataFrame"
    """One row per run that could not be verified: ``run`` and ``error``."""

    def __init__(self, table: "DataFrame") -> None:
        """Take a table with one row per run."""
        self._table = table
        self.verdicts = table.selectExpr(
            "run", "inline(properties)", "events", "messages", "deliveries", "reasons",
            "notes", "error",
        )  # fmt: skip
        self.violations = table.selectExpr("run", "inline(violations)")
        self.pairs = table.selectExpr("run", "inline(pairs)")
        self.timeline = table.selectExpr("run", "inline(timeline)")
        self.paths = violation_paths(self.violations)
        self.errors = table.where("error IS NOT NULL").select("run", "error")

    def check(self) -> "Verification":
        """Verify all runs now; return this result if every run has a verdict.

        A violated property is a verdict. Without this call, a run that cannot be verified
        is a row of :attr:`errors` and has no row in :attr:`violations`.

        Raises:
            TraceError: Some run could not be verified; the message has the first errors.
        """
        with described(self._table, "antecede: verify the runs of a table"), explained():
            found = self.errors.orderBy("run").limit(ERRORS_SHOWN + 1).collect()
        if found:
            lines = [row["error"] for row in found[:ERRORS_SHOWN]]
            more = "; and more" if len(found) > ERRORS_SHOWN else ""
            raise TraceError("; ".join(lines) + more)
        return self

    def status(self) -> Status:
        """Verify all runs now; return the worst status of any property of any run.

        Raises:
            TraceError: Some run could not be verified.
        """
        self.check()
        with described(self._table, "antecede: collect the statuses"), explained():
            found = {row["status"] for row in self.verdicts.select("status").collect()}
        for status in (Status.VIOLATED, Status.UNKNOWN):
            if status.value in found:
                return status
        return Status.HELD

    def chart(self) -> Chart:
        """Verify all runs now; return a chart of the deliveries by property and status."""
        sums = self.verdicts.groupBy("property").agg(
            {"judged": "sum", "violated": "sum", "unknown": "sum"}
        )
        with described(self._table, "antecede: count deliveries for a chart"), explained():
            return verdict_chart(sums.collect())

    def unpersist(self) -> None:
        """Free the memory of the result; the tables stay usable, and are computed again."""
        self._table.unpersist()

    def _repr_html_(self) -> str:
        """Verify all runs now; return a table of the verdicts, worst first."""
        ordered = self._table.selectExpr(
            "run", "error", "properties", "reasons",
            "aggregate(properties, 0L, (sum, each) -> sum + coalesce(each.violated, 0L))"
            " AS violated",
        ).orderBy("error", "violated", ascending=[False, False])  # fmt: skip
        with described(self._table, "antecede: verify the runs of a table"), explained():
            rows = ordered.limit(ROWS_SHOWN + 1).collect()
        return verdicts_html(rows, ROWS_SHOWN)
