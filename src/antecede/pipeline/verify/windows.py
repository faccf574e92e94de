"""Verify one huge run on Spark: in windows of its linear extension, and exactly.

The run's rows stand in a linear extension of happened-before. They are cut into windows of
equal length, and each is judged by one task (:mod:`antecede.pipeline.verify.window`) that is
told a path and row numbers and reads, beside the window's own rows, a margin on either side
that is no longer than a window. Let window i begin at row v(i).

**Near and far.** A message sent at s, in window j, is *near* if each of its deliveries d
lies in the same window, d < v(j+1), or if both lie close to the next edge: s within the
margin left of v(j+1), and d within the margin right of it. All others are *stragglers*. A
task recognizes the deliveries of stragglers among its own: sent in an earlier window, or
never, and not near. So if no task reports any, there are none.

**Without stragglers** the windows' findings add up to the run's:

* The task of window j reads all deliveries of what is sent there. So it judges each of
  these messages by itself (once, genuine, live), as a pass over the whole run would.
* What is in flight at v(i) was sent within the margin left of it, so a walk that begins
  with that margin is exact from v(i) on (:mod:`antecede.verify.kernels.walk`, *Where it may
  begin*); it knows the deliveries of all that it walks, since these are near.
* The order of each history, its gaps, and that numbers rise and no message is sent twice,
  show within the windows and between the last and the first event of a process in windows
  that follow each other.

**With stragglers**, all rows about these messages are gathered first
(:mod:`antecede.pipeline.verify.stragglers`). A message without a send was invented, and all
its deliveries are known. A send after a delivery shows that the rows are in disorder. Else,
a window that reads the send but not all deliveries is told of the others; then it knows all
deliveries of what it walks. And where a copy is in flight at v(i), but was sent before all
that window i reads, it is told which processes know of that message, and from which row on;
that makes its walk exact again (*Where it may begin*). Only windows that are told something
are judged once more.

A walk passes over a delivery whose send it has not read, though that message carried the
past of its sender. That is right: of what it carried, only copies that are in flight at
v(i) matter; these were sent even earlier, so they are stragglers, and their spread includes
whoever learned of them in this way.

**When that does not pay.** If stragglers are many, the windows are made longer. If they are
still many, or no sort puts the rows in order, one task judges the whole run, with memory
for what is in flight; ``say`` tells.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

from antecede.errors import ConfigError
from antecede.pipeline.spark.stage import Stage, spark_stage
from antecede.pipeline.verify.chains import ChainTask, find_window_chains
from antecede.pipeline.verify.runs import parallelism
from antecede.pipeline.verify.stragglers import (
    SpreadTask,
    StoryTask,
    Stragglers,
    gather,
    spread,
    tell_stories,
)
from antecede.pipeline.verify.window import (
    Overtaking,
    Spread,
    Window,
    WindowResult,
    WindowTask,
    cut,
    judge_window,
)
from antecede.trace.event import Kind
from antecede.trace.reader import Trace, read_trace
from antecede.trace.schema import EVENTS_NAME, INFO_NAME
from antecede.verify.delivery_errors import Fault
from antecede.verify.kernels.stream import Disordered
from antecede.verify.oracle import MessageId, Property, Violation
from antecede.verify.verdict import Report, Status
from antecede.verify.verifier import fault_findings, statuses_of, verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Sizes", "judge_in_windows", "verify_windows"]

WINDOWS_PER_CORE = 4
WINDOW_ROWS_MIN = 1 << 19
"""A shorter window would be mostly margin."""
WINDOW_ROWS_MAX = 1 << 21
"""A longer window would take a task more than some 200 MiB."""
MARGINS_PER_WINDOW = 16
BLOCK_BYTES = 8 << 20
"""Row groups of a sorted copy: small ones, since a task reads whole ones."""
GROWTH = 4
"""How much longer windows are made if stragglers are many."""

Say = Callable[[str], None]
SentTwice = Callable[[Trace], MessageId | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How a run is cut, and what is too much."""

    window_rows: int
    margin_rows: int
    window_rows_max: int = 4 * WINDOW_ROWS_MAX
    """How long windows may be made if stragglers are many."""
    far_max: int = 1 << 18
    """The most deliveries of stragglers to gather; some 100 bytes each."""
    spreads_max: int = 1 << 9
    """The most stragglers to follow from window to window."""
    spread_tasks: int = 2
    """How many tasks follow them."""

    def longer(self) -> "Sizes":
        """Return the same with longer windows."""
        return replace(
            self,
            window_rows=GROWTH * self.window_rows,
            margin_rows=GROWTH * self.margin_rows,
        )


def verify_windows(
    spark: "SparkSession",
    path: Path,
    *,
    rows_per_window: int | None = None,
    violations_max: int = 10,
    say: Say | None = None,
) -> Report:
    """Judge the trace of one run as :func:`antecede.verify.verifier.verify` does.

    In the report only ``kept_max`` may differ, and which violations are the earliest if the
    rows had to be put in order. The path must lead to the trace on every machine of the
    cluster, and so must the driver's directory for temporary files if it has to be sorted.

    Args:
        spark: Where to run; classic or Connect.
        path: The directory of the run.
        rows_per_window: How long windows are; None for what suits trace and cluster.
        violations_max: The most violations of each property to name.
        say: Is called with a line if the run is not simply judged in windows.

    Raises:
        ConfigError: As :func:`antecede.verify.verifier.verify` does.
    """
    if violations_max < 0:
        raise ConfigError(f"violations_max must be at least 0, got {violations_max}")
    if rows_per_window is not None and rows_per_window < 1:
        raise ConfigError(f"rows_per_window must be at least 1, got {rows_per_window}")
    say = say if say is not None else lambda line: None
    trace = read_trace(Path(path).absolute())  # Workers may stand in another directory.
    cores = parallelism(spark)
    sizes = _sizes(trace, cores, rows_per_window)
    stage = spark_stage(spark)

    def judge(trace: Trace) -> Report:
        return judge_in_windows(
            trace,
            stage,
            lambda trace: _sent_twice(spark, trace),
            sizes=sizes,
            violations_max=violations_max,
            say=say,
        )

    try:
        return judge(trace)
    except Disordered:
        say("the rows do not stand in a linear extension: sorting them")
    with tempfile.TemporaryDirectory(prefix="antecede-sorted-") as scratch:
        try:
            return judge(_sorted_copy(spark, trace, Path(scratch)))
        except Disordered:
            say("no sort puts the rows in order: one task judges the whole run")
    return stage(_judge_whole, [(trace, violations_max)])[0]


def judge_in_windows(
    trace: Trace,
    stage: Stage,
    sent_twice: SentTwice,
    *,
    sizes: Sizes,
    violations_max: int,
    say: Say,
) -> Report:
    """Judge a run in windows, by stages of tasks wherever these may run.

    Args:
        trace: The run.
        stage: Runs tasks.
        sent_twice: Returns a message that is sent twice, if any; asked if numbers do not
            rise.
        sizes: How to cut it.
        violations_max: The most violations of each property to name.
        say: Is called with a line if windows do not pay.

    Raises:
        Disordered: The rows do not stand in a linear extension of happened-before.
        ConfigError: The rows are those of no run.
    """
    while sizes.window_rows < trace.rows:
        attempt = _Attempt(trace, stage, sizes, violations_max)
        if not attempt.judge_near(sent_twice) or attempt.judge_far():
            return attempt.report()
        sizes = sizes.longer()
        if not attempt.numbers_rise or sizes.window_rows > sizes.window_rows_max:
            say("too many stragglers: one task judges the whole run")
            break
        say(f"many stragglers: windows of {sizes.window_rows} rows")
    return stage(_judge_whole, [(trace, violations_max)])[0]


def _judge_whole(task: tuple[Trace, int]) -> Report:
    trace, violations_max = task
    return verify(trace, violations_max=violations_max)


class _Attempt:
    """One way to cut a run, and what the windows told."""

    numbers_rise: bool

    def __init__(
        self, trace: Trace, stage: Stage, sizes: Sizes, violations_max: int
    ) -> None:
        self._trace = trace
        self._stage = stage
        self._sizes = sizes
        self._violations_max = violations_max
        self._windows = cut(trace.rows, sizes.window_rows, sizes.margin_rows)
        self._results: list[WindowResult] = []
        self._invented: list[Fault] = []
        self._known_first = [window.read_first for window in self._windows]
        """By window, the row from which on everything was sent that its walk knows."""
        self.numbers_rise = True
        self._gaps = 0
        self._members = 0

    def judge_near(self, sent_twice: SentTwice) -> bool:
        """Judge every window by what it reads; return whether there are stragglers."""
        tasks = [self._task(window) for window in self._windows]
        self._results = self._stage(judge_window, tasks)
        if any(result.disordered for result in self._results):
            raise Disordered
        runs = sorted({run for result in self._results for run in result.runs})
        if len(runs) > 1:
            raise ConfigError(
                f"{self._trace.path}: rows of several runs, such as {runs[0]!r} and"
                f" {runs[1]!r}; give each run a directory of its own"
            )
        self._check_histories()
        self._check_numbers()
        if not self.numbers_rise:
            message = sent_twice(self._trace)
            if message is not None:
                raise ConfigError(f"{self._trace.path}: message {message} is sent twice")
        return any(result.far_count for result in self._results)

    def judge_far(self) -> bool:
        """Judge stragglers, and again the windows they touch; return False if too many."""
        far = np.concatenate([result.far for result in self._results], axis=1)
        if sum(result.far_count for result in self._results) > self._sizes.far_max:
            return False
        _, _, source, number = far
        tasks = [
            StoryTask(trace=self._trace, window=window, source=source, number=number)
            for window, result in zip(self._windows, self._results, strict=True)
            if np.any((number >= result.number_min) & (number <= result.number_max))
        ]
        stories = gather(self._stage(tell_stories, tasks))
        stragglers = Stragglers(stories, self._windows)
        if stragglers.spanning and not self.numbers_rise:
            return False
        if len(stragglers.spanning) > self._sizes.spreads_max:
            return False
        self._invented = stragglers.faults(stories)
        self._judge_again(stragglers, self._spreads(stragglers))
        return True

    def _spreads(self, stragglers: Stragglers) -> list[Spread]:
        """Follow the stragglers, those together that were sent together."""
        count = len(stragglers.spanning)
        parts = np.array_split(np.arange(count), min(count, self._sizes.spread_tasks) or 1)
        tasks = [
            SpreadTask(
                trace=self._trace,
                stories=stragglers.spanning[part[0] : part[-1] + 1],
                members=self._members,
                invented=stragglers.invented,
            )
            for part in parts
            if len(part)
        ]
        return [each for found in self._stage(spread, tasks) for each in found]

    def _judge_again(self, stragglers: Stragglers, spreads: Sequence[Spread]) -> None:
        places = []
        tasks = []
        for place, window in enumerate(self._windows):
            later = stragglers.later(window)
            known = tuple(spreads[i] for i in stragglers.spanning_at(window))
            if later.shape[1] or known:
                places.append(place)
                tasks.append(replace(self._task(window), later=later, spreads=known))
                first = min([window.read_first, *(each.sent for each in known)])
                self._known_first[place] = first
        results = self._stage(judge_window, tasks)
        for place, result in zip(places, results, strict=True):
            if result.disordered:
                raise Disordered
            self._results[place] = result

    def _task(self, window: Window) -> WindowTask:
        return WindowTask(
            trace=self._trace,
            window=window,
            violations_max=self._violations_max,
            far_max=self._sizes.far_max,
        )

    def _check_histories(self) -> None:
        """Check every history from window to window, and count its gaps."""
        process, first, last = _in_order([result.histories for result in self._results])
        is_next = process[1:] == process[:-1]
        steps = first[1:] - last[:-1]
        if np.any(steps[is_next] < 0):
            raise Disordered
        starts = first[np.concatenate([[True], ~is_next])[: len(first)]]
        self._members = len(starts)
        self._gaps = sum(result.gaps for result in self._results)
        self._gaps += int(np.count_nonzero(steps[is_next] > 1))
        self._gaps += int(np.count_nonzero(starts > 0))

    def _check_numbers(self) -> None:
        """Check that the numbers of each source rise, from window to window too."""
        source, lowest, highest = _in_order([result.numbers for result in self._results])
        is_next = source[1:] == source[:-1]
        self.numbers_rise = all(result.numbers_rise for result in self._results) and bool(
            np.all(lowest[1:][is_next] > highest[:-1][is_next])
        )

    def report(self) -> Report:
        """Put together what the windows told."""
        results, info = self._results, self._trace.info
        faults = fault_findings(self._violations_max)
        for fault in faults:
            fault.count = sum(result.counts[fault.which] for result in results)
            for result in results:
                fault.keep(result.faults[fault.which])
            if fault.which is Property.GENUINE:
                fault.count += len(self._invented)
                fault.keep(self._invented)
        orders = (Property.CAUSAL, Property.FIFO)
        counts = {
            which: sum(result.counts[which] for result in results) for which in orders
        }
        counts.update({fault.which: fault.count for fault in faults})
        reaches = [result.reach_min for result in results if result.reach_min is not None]
        statuses, reasons = statuses_of(
            counts,
            info,
            gaps=self._gaps,
            members=self._members,
            reach_min=min(reaches, default=None),
        )
        violations = [each for which in orders for each in self._order_violations(which)]
        for fault in faults:
            if statuses[fault.which] is Status.VIOLATED:
                violations += fault.violations()
        return Report(
            run=info.run,
            messages=sum(result.messages for result in results),
            deliveries=sum(result.deliveries for result in results),
            statuses=statuses,
            counts=counts,
            violations=tuple(violations),
            reasons=reasons,
            names=info.names,
            kept_max=max(result.kept_max for result in results),
        )

    def _order_violations(self, which: Property) -> list[Violation]:
        """Return the earliest breaches of order, each with its chain."""
        left = self._violations_max
        tasks: list[ChainTask] = []
        for place, result in enumerate(self._results):
            found: list[Overtaking] = result.overtakings[which][:left]
            left -= len(found)
            if found:
                first = self._known_first[place]
                tasks.append(ChainTask(trace=self._trace, first=first, found=tuple(found)))
        chains = [
            chain for part in self._stage(find_window_chains, tasks) for chain in part
        ]
        places = [overtaking.process for task in tasks for overtaking in task.found]
        return [
            Violation(property=which, process=process, message=chain[-1], chain=chain)
            for process, chain in zip(places, chains, strict=True)
        ]


def _in_order(spans: Sequence[np.ndarray]) -> np.ndarray:
    """Put what windows tell of processes together, by process and then by window."""
    every = np.concatenate(spans, axis=1)
    result: np.ndarray = every[:, np.argsort(every[0], kind="stable")]
    return result


def _sizes(trace: Trace, cores: int, window_rows: int | None) -> Sizes:
    """Cut a run for so many cores, at the ends of row groups where that is possible."""
    group = _group_rows(trace)
    if window_rows is None:
        even = -(-trace.rows // (WINDOWS_PER_CORE * cores))
        window_rows = min(max(even, WINDOW_ROWS_MIN), WINDOW_ROWS_MAX)
        window_rows = -(-window_rows // group) * group
    margin_rows = max(1, window_rows // MARGINS_PER_WINDOW)
    if group <= window_rows // 4:
        margin_rows = -(-margin_rows // group) * group
    return Sizes(window_rows=window_rows, margin_rows=margin_rows, spread_tasks=cores)


def _group_rows(trace: Trace) -> int:
    """Return the rows of the trace's first row group: what must be read at once."""
    events = trace.path / EVENTS_NAME
    files = [events]
    if events.is_dir():
        files = sorted(file for file in events.iterdir() if file.name[0] not in "_.")
    metadata = pq.read_metadata(files[0])
    return max(1, metadata.row_group(0).num_rows if metadata.num_row_groups else 1)


def _sent_twice(spark: "SparkSession", trace: Trace) -> MessageId | None:
    """Let Spark look for a message that is sent twice; no row leaves it but one."""
    events = spark.read.parquet(str(trace.path / EVENTS_NAME))
    sends = events.filter(events["kind"] == Kind.SEND.value)
    twice = sends.groupBy("source", "number").count().filter("count > 1")
    found = twice.orderBy("source", "number").limit(1).collect()
    return MessageId(found[0]["source"], found[0]["number"]) if found else None


def _sorted_copy(spark: "SparkSession", trace: Trace, scratch: Path) -> Trace:
    """Let Spark sort a trace by step, or by time where that is not known.

    Neither is trusted: whoever walks the copy finds out whether it is in order.
    """
    events = spark.read.parquet(str(trace.path / EVENTS_NAME))
    has_steps = not events.filter("step is null").limit(1).collect()
    keys = ["step"] if has_steps else ["time", "process", "seq"]
    directory = scratch / "run"
    directory.mkdir()
    (directory / INFO_NAME).write_text(trace.info.to_json(), encoding="utf-8")
    writer = events.orderBy(*keys).write.option("parquet.block.size", BLOCK_BYTES)
    writer.parquet(str(directory / EVENTS_NAME))
    return read_trace(directory)
