"""Verify a run in windows, by stages of tasks.

:class:`WindowedVerification` runs the tasks through a
:class:`~antecede.pipeline.spark.stage. Stage`, on Spark or in this process.
:mod:`antecede.pipeline.verify.windows` explains the algorithm and its terms.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from antecede.errors import TraceError
from antecede.pipeline.spark.stage import Stage
from antecede.pipeline.verify.chains import ChainTask, find_window_chains
from antecede.pipeline.verify.stragglers import (
    CollectTask,
    PropagationTask,
    Stragglers,
    collect_stragglers,
    find_propagations,
    merge_stragglers,
)
from antecede.pipeline.verify.window import verify_window
from antecede.pipeline.verify.window_breakdown import combine_windows, window_buckets
from antecede.pipeline.verify.window_config import WindowConfig
from antecede.pipeline.verify.window_task import (
    LongRun,
    Propagation,
    RowRange,
    Window,
    WindowResult,
    WindowTask,
    split_into_windows,
)
from antecede.verify.breakdown import Buckets
from antecede.verify.delivery_errors import DeliveryError
from antecede.verify.kernels.slot_map import Longs
from antecede.verify.kernels.stream import (
    Bools,
    MissingDeliveries,
    NotLinearExtensionError,
)
from antecede.verify.oracle import MessageId, Property, Violation
from antecede.verify.process_names import with_names
from antecede.verify.verdict import Status, TraceVerdict
from antecede.verify.verifier import (
    count_unverified,
    delivery_error_collectors,
    determine_statuses,
    verify_trace,
)

__all__ = [
    "OnNotice",
    "RepeatedEventError",
    "WholeTask",
    "WindowedVerification",
    "verify_whole",
]

OnNotice = Callable[[str], None]


class RepeatedEventError(Exception):
    """Two rows have the same process and the same seq."""

    process: int
    """The id of the process."""
    seq: int

    def __init__(self, process: int, seq: int) -> None:
        """Name the event."""
        super().__init__(process, seq)
        self.process = process
        self.seq = seq


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeTask:
    """Verify a whole run."""

    trace: LongRun
    violations_max: int
    with_breakdown: bool = False

    def row_ranges(self) -> Sequence[RowRange]:
        """Return all rows."""
        return [(0, self.trace.rows)]


def verify_whole(task: WholeTask) -> TraceVerdict:
    """Return the verdict on a run; its memory is bounded by the messages in flight."""
    return verify_trace(
        task.trace, violations_max=task.violations_max, with_breakdown=task.with_breakdown
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowedVerification:
    """Verifies runs in windows."""

    stage: Stage
    """Runs the tasks."""
    find_duplicate_send: Callable[[LongRun], MessageId | None]
    """Returns a message that is sent twice, if any; called if numbers do not increase."""
    config: WindowConfig
    violations_max: int
    """The most violations of each property to name."""
    on_notice: OnNotice
    """Is called with a line if windows become longer, or one task verifies the run."""
    verify_whole: "Callable[[WholeTask], TraceVerdict]" = verify_whole
    """The function of a task that verifies a whole run."""
    has_seq: bool = True
    """The runs have ``seq``; otherwise tasks count the rows that they read, in order."""
    with_breakdown: bool = False
    """Also count the violations by pair of processes and by time."""
    is_unique: bool = False
    """Reject an event that is there twice; otherwise it counts as one event."""

    def verify(self, trace: LongRun) -> TraceVerdict:
        """Return the verdict on a run.

        Raises:
            NotLinearExtensionError: The rows are not a linear extension of
                happened-before.
            RepeatedEventError: An event is there twice, which ``is_unique`` excludes.
            TraceError: The rows are not those of a run.
        """
        config = self.config
        while config.window_rows < trace.rows:
            attempt = _Attempt(self, trace, config)
            try:
                if not attempt.verify_windows() or attempt.verify_stragglers():
                    return attempt.verdict()
            except TraceError as error:
                raise with_names(error, trace) from error
            config = config.longer()
            if not attempt.numbers_increase or config.window_rows > config.window_rows_max:
                self.on_notice("too many stragglers: one task verifies the whole run")
                break
            self.on_notice(f"many stragglers: windows of {config.window_rows} rows")
        return self.verify_in_one_task(trace)

    def verify_in_one_task(self, trace: LongRun) -> TraceVerdict:
        """Return the verdict on a run, by a single task."""
        task = WholeTask(
            trace=trace,
            violations_max=self.violations_max,
            with_breakdown=self.with_breakdown,
        )
        return self.stage(self.verify_whole, [task])[0]


class _Attempt:
    """One division of a run into windows, and the results of the windows."""

    numbers_increase: bool

    def __init__(
        self, verification: WindowedVerification, trace: LongRun, config: WindowConfig
    ) -> None:
        self._verification = verification
        self._stage = verification.stage
        self._trace = trace
        self._config = config
        self._windows = split_into_windows(
            trace.rows, config.window_rows, config.margin_rows
        )
        self._results: list[WindowResult] = []
        self._never_sent: list[DeliveryError] = []
        self._buckets: Buckets | None = None
        if verification.with_breakdown:
            self._buckets = window_buckets(self._stage, trace, self._windows)
        self._known_first = [window.read_first for window in self._windows]
        """By window, the row before which no message that its pass knows was sent."""
        self.numbers_increase = True
        self._gaps = 0
        self._late_starts = 0
        self._processes = 0

    def verify_windows(self) -> bool:
        """Verify every window by itself; return whether there are stragglers."""
        tasks = [self._task(window) for window in self._windows]
        self._results = self._stage(verify_window, tasks)
        if any(result.out_of_order for result in self._results):
            raise NotLinearExtensionError
        runs = sorted({run for result in self._results for run in result.runs})
        if len(runs) > 1:
            raise TraceError(
                f"{self._trace.location}: rows of several runs, such as {runs[0]!r} and"
                f" {runs[1]!r}; give each run a directory of its own"
            )
        self._check_histories()
        self._check_numbers()
        if not self.numbers_increase:
            message = self._verification.find_duplicate_send(self._trace)
            if message is not None:
                raise TraceError(f"{self._trace.location}: message {message} is sent twice")
        return any(result.straggler_delivery_count for result in self._results)

    def verify_stragglers(self) -> bool:
        """Verify the windows that stragglers affect again; return False if too many."""
        count = sum(result.straggler_delivery_count for result in self._results)
        if count > self._config.straggler_deliveries_max:
            return False
        deliveries = [result.straggler_deliveries for result in self._results]
        _, _, source, number = np.concatenate(deliveries, axis=1)
        tasks = [
            CollectTask(trace=self._trace, window=window, source=source, number=number)
            for window, result in zip(self._windows, self._results, strict=True)
            if np.any((number >= result.number_min) & (number <= result.number_max))
        ]
        rows = merge_stragglers(self._stage(collect_stragglers, tasks))
        stragglers = Stragglers(rows, self._windows)
        if stragglers.spanning and not self.numbers_increase:
            return False
        if len(stragglers.spanning) > self._config.propagations_max:
            return False
        self._never_sent = stragglers.never_sent_deliveries()
        self._verify_again(stragglers, self._find_propagations(stragglers))
        return True

    def _find_propagations(self, stragglers: Stragglers) -> list[Propagation]:
        """Find the propagations; a task gets messages that were sent near each other."""
        count = len(stragglers.spanning)
        tasks_max = self._config.propagation_tasks
        parts = np.array_split(np.arange(count), min(count, tasks_max) or 1)
        tasks = [
            PropagationTask(
                trace=self._trace,
                stragglers=stragglers.spanning[part[0] : part[-1] + 1],
                processes=self._processes,
                never_sent=stragglers.never_sent,
            )
            for part in parts
            if len(part)
        ]
        return [each for found in self._stage(find_propagations, tasks) for each in found]

    def _verify_again(
        self, stragglers: Stragglers, propagations: Sequence[Propagation]
    ) -> None:
        indices = []
        tasks = []
        for index, window in enumerate(self._windows):
            later = stragglers.later_deliveries(window)
            known = tuple(propagations[i] for i in stragglers.spanning_indices(window))
            if later.shape[1] or known:
                indices.append(index)
                task = self._task(window)
                tasks.append(replace(task, later_deliveries=later, propagations=known))
                first = min([window.read_first, *(each.sent for each in known)])
                self._known_first[index] = first
        results = self._stage(verify_window, tasks)
        for index, result in zip(indices, results, strict=True):
            if result.out_of_order:
                raise NotLinearExtensionError
            self._results[index] = result

    def _task(self, window: Window) -> WindowTask:
        return WindowTask(
            trace=self._trace,
            window=window,
            violations_max=self._verification.violations_max,
            straggler_deliveries_max=self._config.straggler_deliveries_max,
            buckets=self._buckets,
        )

    def _check_histories(self) -> None:
        """Check that every history continues from window to window; count its gaps."""
        process, first, last = _by_process([result.seq_ranges for result in self._results])
        is_next = process[1:] == process[:-1]
        steps = first[1:] - last[:-1]
        if self._verification.has_seq and np.any(steps[is_next] < 0):
            raise NotLinearExtensionError
        starts = first[np.concatenate([[True], ~is_next])[: len(first)]]
        self._processes = len(starts)
        if not self._verification.has_seq:
            return
        if self._verification.is_unique:
            self._reject_repeated(process, first, is_next, steps)
        self._gaps = sum(result.gaps for result in self._results)
        self._gaps += int(np.count_nonzero(steps[is_next] > 1))
        self._late_starts = int(np.count_nonzero(starts > 0))
        self._gaps += self._late_starts

    def _reject_repeated(
        self, process: Longs, first: Longs, is_next: Bools, steps: Longs
    ) -> None:
        """Raise RepeatedEventError if a window, or two of them, have an event twice."""
        for result in self._results:
            if result.repeated is not None:
                raise RepeatedEventError(*result.repeated)
        between = np.flatnonzero(is_next & (steps == 0)) + 1
        if len(between):
            raise RepeatedEventError(int(process[between[0]]), int(first[between[0]]))

    def _check_numbers(self) -> None:
        """Check that the numbers of each source increase, also between windows."""
        ranges = [result.number_ranges for result in self._results]
        source, lowest, highest = _by_process(ranges)
        is_next = source[1:] == source[:-1]
        self.numbers_increase = all(
            result.numbers_increase for result in self._results
        ) and bool(np.all(lowest[1:][is_next] > highest[:-1][is_next]))

    def verdict(self) -> TraceVerdict:
        """Combine the results of the windows."""
        results, info = self._results, self._trace.info
        collectors = delivery_error_collectors(self._verification.violations_max)
        for collector in collectors:
            which = collector.property
            collector.count = sum(result.counts[which] for result in results)
            for result in results:
                collector.add_examples(result.delivery_errors[which])
            if which is Property.NO_CREATION:
                collector.count += len(self._never_sent)
                collector.add_examples(self._never_sent)
        orders = (Property.CAUSAL, Property.FIFO)
        counts = {
            which: sum(result.counts[which] for result in results) for which in orders
        }
        counts.update({collector.property: collector.count for collector in collectors})
        reaches = [result.broadcast_reach_min for result in results]
        missing = MissingDeliveries()
        for result in results:
            missing = missing.plus(result.missing)
        statuses, reasons = determine_statuses(
            counts,
            info,
            missing=missing,
            gaps=self._gaps,
            late_starts=self._late_starts,
            members=self._processes,
            broadcast_reach_min=min((r for r in reaches if r is not None), default=None),
        )
        violations = [each for which in orders for each in self._order_violations(which)]
        for collector in collectors:
            if statuses[collector.property] is Status.VIOLATED:
                violations += collector.violations()
        return TraceVerdict(
            run=info.run,
            messages=sum(result.messages for result in results),
            deliveries=sum(result.deliveries for result in results),
            statuses=statuses,
            counts=counts,
            violations=tuple(violations),
            reasons=reasons,
            names=info.names,
            unverified=count_unverified(info, missing, self._gaps),
            limits_max=max(result.limits_max for result in results),
            breakdown=None
            if self._buckets is None
            else combine_windows(
                self._stage, self._trace, self._windows, results, self._never_sent,
                self._buckets,
            ),
        )  # fmt: skip

    def _order_violations(self, which: Property) -> list[Violation]:
        """Return the earliest violations of an order, each with its chain."""
        left = self._verification.violations_max
        tasks: list[ChainTask] = []
        for first, result in zip(self._known_first, self._results, strict=True):
            found = tuple(result.early_deliveries[which][:left])
            left -= len(found)
            if found:
                task = ChainTask(trace=self._trace, first=first, early_deliveries=found)
                tasks.append(task)
        chains = [
            chain for part in self._stage(find_window_chains, tasks) for chain in part
        ]
        early = [each for task in tasks for each in task.early_deliveries]
        return [
            Violation(property=which, process=each.process, message=chain[-1], chain=chain)
            for each, chain in zip(early, chains, strict=True)
        ]


def _by_process(ranges: Sequence[np.ndarray]) -> np.ndarray:
    """Concatenate the ranges of windows, sorted by process and then by window."""
    every = np.concatenate(ranges, axis=1)
    result: np.ndarray = every[:, np.argsort(every[0], kind="stable")]
    return result
