"""Verify recorded traces of any number and length, in this process or on Spark.

:func:`find_runs` resolves paths to the directories of runs, and :func:`verify_traces`
verifies them. Few events are verified in this process. Otherwise Spark verifies each long
run in windows (:mod:`antecede.pipeline.verify.windows`), and all other runs in a few tasks
(:mod:`antecede.pipeline.verify.runs`). The verdicts are the same.

Spark is imported only if it is used.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from antecede.errors import ConfigError, StorageError, TraceError
from antecede.pipeline.spark.progress import (
    OnProgress,
    Progress,
    RunningTasks,
    poll_progress,
)
from antecede.trace.reader import PARTIAL_SUFFIX, Trace, read_trace
from antecede.trace.run_table import table_run_names
from antecede.trace.schema import EVENTS_NAME
from antecede.trace.store import open_store
from antecede.verify.verdict import TraceVerdict
from antecede.verify.verifier import verify_trace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from antecede.pipeline.verify.windowed_run import OnNotice

__all__ = ["UseSpark", "VerifiedRun", "find_runs", "verify_traces"]

LOCAL_EVENTS_MAX = 30_000_000
"""The most events to verify without Spark. One process verifies 3 million a second, and
Spark takes about 7 s to start and to prepare its workers: the two are equal at 45 million
events on two cores, and at 25 million on eight. It is also the longest run that a single
Spark task verifies."""
PASSES = 2
"""Verification reads a trace backward, then forward; a breakdown reads its times before."""

UseSpark = Literal["on", "off", "auto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedRun:
    """The verdict on one run, or the reason why there is none."""

    path: Path
    """The path as the caller gave it."""
    verdict: TraceVerdict | None = None
    error: str | None = None
    """One line."""


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """Return the directories of runs that the paths name or contain.

    A path is the directory of a run, the path of a run in a table of runs, a directory that
    contains directories of runs, a table of runs, or the directory of a study. Of a table,
    an unreadable part is returned, too, so that its verification reports it.

    Raises:
        TraceError: A path neither is a run nor contains any.
    """
    runs: list[Path] = []
    for path in paths:
        found = [] if _is_run(path) else [*_runs_in(path), *_runs_in(path / "events")]
        if not found:
            read_trace(path)  # Not a run: read_trace raises the specific error.
        runs += found or [path]
    return runs


def _runs_in(path: Path) -> list[Path]:
    if not path.is_dir() or path.name == EVENTS_NAME:
        return []
    # The names of traces that are still being written begin with a dot.
    found = [p for p in path.iterdir() if p.name[0] != "." and _is_run(p)]
    return sorted(found) + [path / name for name in table_run_names(open_store(path))]


def _is_run(path: Path) -> bool:
    names = (EVENTS_NAME, EVENTS_NAME + PARTIAL_SUFFIX)
    return any((path / name).exists() for name in names)


def verify_traces(
    runs: Sequence[Path],
    *,
    master: "SparkSession | str | None" = None,
    cores: int | None = None,
    use_spark: UseSpark = "auto",
    local_events_max: int = LOCAL_EVENTS_MAX,
    violations_max: int = 10,
    with_breakdown: bool = False,
    on_notice: "OnNotice | None" = None,
    on_progress: OnProgress | None = None,
) -> Iterator[VerifiedRun]:
    """Verify the runs; yield the results in the order of the runs.

    A run that cannot be verified is yielded with its error, and the others continue.

    Args:
        runs: Their directories, such as :func:`find_runs` returns.
        master: Use Spark at this URL, or this session, for any number of events.
        cores: The number of cores for local Spark; None for all.
        use_spark: ``auto`` to use Spark if it is installed and faster.
        local_events_max: The most events to verify without Spark, and the longest run to
            verify in one Spark task.
        violations_max: The most violations of each property to name, for each run.
        with_breakdown: Count the violations by pair of processes and by time, too.
        on_notice: Is called with a line that names the method, and about fallbacks.
        on_progress: Is called periodically.

    Raises:
        ConfigError: An argument is invalid, or Spark is requested and not available.
    """
    if violations_max < 0:
        raise ConfigError(f"violations_max must be at least 0, got {violations_max}")
    if cores is not None and cores < 1:
        raise ConfigError(f"cores must be at least 1, got {cores}")
    if master is not None and use_spark == "off":
        raise ConfigError('master cannot be combined with use_spark="off"; omit one')
    on_notice = on_notice if on_notice is not None else lambda line: None
    opened = _open_all(runs, on_progress)
    traces = [each for each in opened if isinstance(each, Trace)]
    events = sum(trace.rows for trace in traces)
    wants_spark = use_spark == "on" or master is not None
    if not wants_spark and use_spark == "auto" and events > local_events_max:
        wants_spark = find_spec("pyspark") is not None
        if not wants_spark:
            on_notice(
                "Spark would be faster, but is not installed: pip install 'antecede[spark]'"
            )
    verified: Iterator[VerifiedRun] = iter(())
    if traces and wants_spark:
        from antecede.pipeline.spark.master import master_name
        from antecede.pipeline.spark.session import open_session

        with open_session(master, cores=cores) as spark:
            name = master_name(master if isinstance(master, str) else spark)
            on_notice(f"verified on Spark, {name}: {events:,} events")
            on_spark = _SparkVerifier(
                spark, traces, violations_max, with_breakdown, on_notice
            )
            verified = iter(on_spark.verify(on_progress, local_events_max))
    elif traces:
        on_notice(f"verified in one process, without Spark: {events:,} events")
        verified = _verify_locally(traces, violations_max, with_breakdown, on_progress)
    for path, each in zip(runs, opened, strict=True):
        result = each if isinstance(each, VerifiedRun) else next(verified)
        yield replace(result, path=path)


def _open_all(
    runs: Sequence[Path], on_progress: OnProgress | None
) -> list[Trace | VerifiedRun]:
    opened: list[Trace | VerifiedRun] = []

    def progress(seconds: float) -> Progress:
        done, total = len(opened), len(runs)
        return Progress(stage="open", done=done, total=total, unit="runs", seconds=seconds)

    with poll_progress(on_progress, progress):
        for path in runs:
            try:
                trace = read_trace(path.absolute())
                if not trace.rows:
                    raise TraceError(f"{path} contains no events: nothing to verify")
                opened.append(trace)
            except TraceError as error:
                opened.append(VerifiedRun(path=path, error=str(error)))
    return opened


def _verify_locally(
    traces: Sequence[Trace],
    violations_max: int,
    with_breakdown: bool,
    on_progress: OnProgress | None,
) -> Iterator[VerifiedRun]:
    """Verify the traces in this process, one after the other."""
    read, total = 0, sum(trace.rows for trace in traces)
    passes = PASSES + with_breakdown

    def count(rows: int) -> None:
        nonlocal read
        read += rows

    def progress(seconds: float) -> Progress:
        # Finding the chains of violations reads further rows.
        return _verify_progress(min(read // passes, total), total, seconds)

    with poll_progress(on_progress, progress):
        for trace in traces:
            try:
                counted = trace.with_read_callback(count)
                verdict = verify_trace(
                    counted, violations_max=violations_max, with_breakdown=with_breakdown
                )
            except (StorageError, TraceError) as error:
                yield VerifiedRun(path=trace.path, error=str(error))
            else:
                yield VerifiedRun(path=trace.path, verdict=verdict)


class _SparkVerifier:
    """Verifies traces on Spark, and measures its progress."""

    def __init__(
        self,
        spark: "SparkSession",
        traces: Sequence[Trace],
        violations_max: int,
        with_breakdown: bool,
        on_notice: "OnNotice",
    ) -> None:
        self._spark = spark
        self._traces = traces
        self._violations_max = violations_max
        self._with_breakdown = with_breakdown
        self._on_notice = on_notice
        self._tasks = RunningTasks(spark)
        self._total = sum(trace.rows for trace in traces)
        self._events_done = 0
        self._events_now = 0
        self._share = 0.0

    def verify(
        self, on_progress: OnProgress | None, task_events_max: int
    ) -> list[VerifiedRun]:
        """Verify short runs at once, and long runs in windows, one after the other."""
        alone = len(self._traces) == 1
        long = [t for t in self._traces if alone or t.rows > task_events_max]
        short = [t for t in self._traces if not (alone or t.rows > task_events_max)]
        verified: dict[Path, VerifiedRun] = {}
        with poll_progress(on_progress, self._progress):
            if short:
                verified |= self._verify_short(short)
            for trace in long:
                verified[trace.path] = self._verify_long(trace)
        return [verified[trace.path] for trace in self._traces]

    def _verify_short(self, traces: Sequence[Trace]) -> dict[Path, VerifiedRun]:
        from antecede.pipeline.verify.runs import verdict_from_row, verify_runs

        self._start(sum(trace.rows for trace in traces))
        paths = [trace.path for trace in traces]
        names = {trace.path: trace.info.names for trace in traces}
        table = verify_runs(
            self._spark,
            paths,
            violations_max=self._violations_max,
            with_breakdown=self._with_breakdown,
        )
        verified = {}
        for row in table.collect():
            path = Path(row.path)
            try:
                verdict = verdict_from_row(row.asDict())
                verdict = replace(verdict, names=names[path])
                verified[path] = VerifiedRun(path=path, verdict=verdict)
            except TraceError as error:
                verified[path] = VerifiedRun(path=path, error=str(error))
        return verified

    def _verify_long(self, trace: Trace) -> VerifiedRun:
        from antecede.pipeline.verify.windows import verify_windows

        self._start(trace.rows)
        try:
            verdict = verify_windows(
                self._spark,
                trace.path,
                violations_max=self._violations_max,
                with_breakdown=self._with_breakdown,
                on_notice=self._start_over,
            )
        except (ConfigError, StorageError, TraceError) as error:
            return VerifiedRun(path=trace.path, error=str(error))
        return VerifiedRun(path=trace.path, verdict=verdict)

    def _start(self, events: int) -> None:
        """Count the current events as done, and these as current."""
        self._events_done += self._events_now
        self._events_now, self._share = events, 0.0

    def _start_over(self, line: str) -> None:
        """Reset the progress of the current events, and pass the notice on."""
        self._share = 0.0
        self._on_notice(line)

    def _progress(self, seconds: float) -> Progress:
        # The stages that follow the windows are short, and their share starts from 0.
        self._share = max(self._share, self._tasks.share())
        done = self._events_done + int(self._share * self._events_now)
        return _verify_progress(done, self._total, seconds)


def _verify_progress(done: int, total: int, seconds: float) -> Progress:
    return Progress(
        stage="verify", done=done, total=total, unit="events", events=done, seconds=seconds
    )
