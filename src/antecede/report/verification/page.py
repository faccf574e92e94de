"""Write the page about the violations of some runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from antecede.diagram.message_events import read_messages
from antecede.errors import ConfigError
from antecede.report.charts.spec import CONFIG, Spec
from antecede.report.rendering import package_text, render_template, write_atomically
from antecede.report.verification.charts import heat_map, timeline_chart
from antecede.report.verification.examples import (
    Example,
    ReadMessages,
    draw_examples,
)
from antecede.report.verification.paths import name_of, worst_paths
from antecede.trace.reader import Trace
from antecede.trace.run_info import RunInfo
from antecede.verify.breakdown import Buckets, ViolationBreakdown
from antecede.verify.oracle import Property
from antecede.verify.verdict import Status, TraceVerdict

__all__ = ["VIOLATIONS_LISTED", "VerificationPage"]

VIOLATIONS_LISTED = 50
"""The violations of each property to find chains for, unless more are wanted."""
SECTIONS_MAX = 50
"""The most runs with charts: a page with more is slow to open."""
PAIRS_MAX = 50
"""The most pairs of a property in a table."""
WALL_CLOCK_S = 1e8
"""Times above this are seconds since 1970."""
MEANINGS = {
    Property.CAUSAL: "a message was delivered before another one that happened before it",
    Property.FIFO: "a message was delivered before an earlier one of the same source",
    Property.NO_DUPLICATION: "a message was delivered again",
    Property.NO_CREATION: "a message was delivered that was not sent to the process",
    Property.LIVENESS: "a message was never delivered",
}
ROW_TITLES = {
    Property.CAUSAL: "source of the late message",
    Property.FIFO: "source of the late message",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A line of the table of runs, and the section of the run if it has one."""

    name: str
    status: str
    verdict: TraceVerdict | None
    error: str | None
    section: Mapping[str, Any] | None


class VerificationPage:
    """Collects the verdicts on some runs, and writes them as one page that works offline.

    It needs the extras ``antecede[report,trace]``.
    """

    def __init__(self) -> None:
        """Start an empty page.

        Raises:
            ModuleNotFoundError: A package of the extra ``report`` is not installed.
        """
        import jinja2  # noqa: F401
        import vl_convert  # noqa: F401

        self._runs: list[_Run] = []
        self._charts: dict[str, Spec] = {}
        self._sections = 0

    def add(
        self,
        name: str,
        trace: Trace,
        verdict: TraceVerdict,
        *,
        texts: Sequence[str] | None = None,
        status: Status | None = None,
        more_statuses: Mapping[str, str] | None = None,
    ) -> None:
        """Add a verified run; reads the messages of its examples from the trace.

        Args:
            name: The heading of the run.
            trace: Its trace.
            verdict: The verdict, with a breakdown.
            texts: The line of each listed violation; by default, with names of processes.
            status: The status of the run, if it is not that of the verdict.
            more_statuses: The status of further properties.
        """
        self.add_run(
            name,
            trace.info,
            verdict,
            partial(read_messages, trace),
            texts=texts,
            status=status,
            more_statuses=more_statuses,
        )

    def add_run(
        self,
        name: str,
        info: RunInfo,
        verdict: TraceVerdict,
        read: ReadMessages,
        *,
        texts: Sequence[str] | None = None,
        status: Status | None = None,
        more_statuses: Mapping[str, str] | None = None,
    ) -> None:
        """Add a verified run that has no trace on disk.

        Args:
            name: The heading of the run.
            info: The names of its processes, and the origin of its times.
            verdict: The verdict, with a breakdown.
            read: Returns the events of the messages of violations.
            texts: The line of each listed violation; by default, with names of processes.
            status: The status of the run, if it is not that of the verdict.
            more_statuses: The status of further properties.
        """
        if verdict.breakdown is None:
            raise ConfigError("a page needs a verdict with a breakdown")
        found = verdict.status if status is None else status
        section = None
        if found is not Status.HELD and self._sections < SECTIONS_MAX:
            self._sections += 1
            if texts is None:
                texts = [each.format(info.names) for each in verdict.violations]
            examples = draw_examples(read, verdict.violations, info.names)
            section = self._section(info, verdict, verdict.breakdown, texts, examples)
            section["more_statuses"] = dict(more_statuses or {})
        self._runs.append(
            _Run(
                name=name, status=found.value, verdict=verdict, error=None, section=section
            )
        )

    def add_error(self, name: str, error: str) -> None:
        """Add a run that could not be verified."""
        self._runs.append(
            _Run(name=name, status="error", verdict=None, error=error, section=None)
        )

    def write(self, out: Path) -> None:
        """Write the page; a file of this name is replaced.

        Raises:
            StorageError: The file cannot be written.
        """
        write_atomically(out, self.render())

    def render(self) -> str:
        """Return the page as HTML."""
        counts = {
            status: sum(run.status == status for run in self._runs)
            for status in ("violated", "unknown", "held", "error")
        }
        without = sum(
            run.status in ("violated", "unknown") and run.section is None
            for run in self._runs
        )
        context = {
            "title": "Where order was violated" if counts["violated"] else "Verdicts",
            "runs": self._runs,
            "counts": counts,
            "without_section": without,
            "sections_max": SECTIONS_MAX,
            "properties": list(Property),
            "charts": {"config": CONFIG, "charts": self._charts},
            "script": package_text("verification.js"),
        }
        return render_template("verification.html.jinja", context)

    def _section(
        self,
        info: RunInfo,
        verdict: TraceVerdict,
        breakdown: ViolationBreakdown,
        texts: Sequence[str],
        examples: Mapping[Property, Example],
    ) -> dict[str, Any]:
        name = name_of(info.names)
        zero = _zero(breakdown.buckets)
        violated = [
            which for which in Property if verdict.statuses[which] is Status.VIOLATED
        ]
        parts = []
        for which in violated:
            part = self._part(which, breakdown, name, zero)
            example = examples.get(which)
            if example is not None:
                part["example"] = example
                part["example_text"] = texts[verdict.violations.index(example.violation)]
            parts.append({**part, "count": verdict.counts[which]})
        return {
            "id": f"run-{self._sections}",
            "messages": verdict.messages,
            "deliveries": verdict.deliveries,
            "reasons": verdict.reasons,
            "parts": parts,
            "paths": worst_paths(verdict.violations, texts, name),
            "listed": len(verdict.violations),
            "total": sum(verdict.counts[which] for which in violated),
            "origin": _origin(info, breakdown.buckets, zero),
        }

    def _part(
        self,
        which: Property,
        breakdown: ViolationBreakdown,
        name: Callable[[int], str],
        zero: float,
    ) -> dict[str, Any]:
        """Return the tables of one property, and add its charts to the page."""
        pairs = [pair for pair in breakdown.pairs if pair.property is which]
        key = f"run-{self._sections}-{which.value}"
        heat = heat_map(pairs, name, row_title=ROW_TITLES.get(which, "source"))
        self._charts[f"{key}-pairs"] = heat.spec
        self._charts[f"{key}-time"] = timeline_chart(breakdown, which, zero)
        return {
            "property": which,
            "is_order": which in ROW_TITLES,
            "key": key,
            "meaning": MEANINGS[which],
            "left_out": heat.left_out,
            "pairs": [
                {
                    "source": name(pair.source),
                    "process": name(pair.process),
                    "count": pair.count,
                }
                for pair in pairs[:PAIRS_MAX]
            ],
            "more_pairs": max(0, len(pairs) - PAIRS_MAX),
            "overtakings": [
                {
                    "late_source": name(each.late_source),
                    "source": name(each.source),
                    "process": name(each.process),
                    "count": each.count,
                }
                for each in breakdown.overtakings
                if each.property is which
            ][:PAIRS_MAX],
            "peak": _peak(breakdown, which, zero),
            "example": None,
        }


def _zero(buckets: Buckets) -> float:
    """Return the time that charts show as 0: the first, of times since 1970."""
    first = buckets.start(0)
    return first if buckets.by_time and abs(first) > WALL_CLOCK_S else 0.0


def _origin(info: RunInfo, buckets: Buckets, zero: float) -> str | None:
    """Return the time of day of second 0, if it is known."""
    since_1970 = zero
    if not buckets.by_time:
        return None
    time_zero_ns = info.parameters.get("time_zero_ns")
    if isinstance(time_zero_ns, int):
        since_1970 += time_zero_ns / 1e9
    if since_1970 < WALL_CLOCK_S:
        return None
    moment = datetime.fromtimestamp(since_1970, UTC)
    return moment.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", " UTC")


def _peak(breakdown: ViolationBreakdown, which: Property, zero: float) -> str:
    """Return in words when most violations happened."""
    counts, buckets = breakdown.timeline[which], breakdown.buckets
    index = max(range(len(counts)), key=lambda each: counts[each])
    start, end = (buckets.start(i) - zero for i in (index, index + 1))
    unit = "s" if buckets.by_time else ""
    period = f"{start:,.6g} to {end:,.6g} {unit}".rstrip()
    kind = "from" if buckets.by_time else "at events"
    return f"most {kind} {period}: {counts[index]:,} of {sum(counts):,}"
