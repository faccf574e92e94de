"""Judge recorded traces, however many and however long: in this process or on Spark.

:func:`find_runs` turns what a user names into the directories of runs, and
:func:`verify_traces` judges them. Few events are judged here. Of many, a run that is long
by itself goes to Spark in windows (:mod:`antecede.pipeline.verify.windows`), and all others
together, one after the other in a few tasks (:mod:`antecede.pipeline.verify.runs`). The
reports are the same.

Spark is loaded only if it is used.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from antecede.errors import ConfigError
from antecede.pipeline.spark.progress import Progress, RunningTasks, watched
from antecede.trace.reader import PARTIAL_SUFFIX, Trace, read_trace
from antecede.trace.schema import EVENTS_NAME
from antecede.verify.verdict import Report
from antecede.verify.verifier import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Judged", "UseSpark", "find_runs", "verify_traces"]

EVENTS_HERE_MAX = 30_000_000
"""The most events to judge without Spark. One process judges 3 million a second, and Spark
takes some 7 s to start and to get its workers ready: they are even at 45 million events on
two cores, and at 25 million on eight. It is also how long a run may be that only one task
of Spark judges."""
PASSES = 2
"""How often a verdict reads a trace: backward, then forward."""

UseSpark = Literal["on", "off", "auto"]
Say = Callable[[str], None]
Show = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What became of one run: a report, or why there is none."""

    path: Path
    """As it was named."""
    report: Report | None = None
    error: str | None = None
    """In one line."""


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """Return the directories of runs: those named, and those in a directory of runs.

    A directory of runs has them side by side, as a study's ``events`` does; the directory
    of a study stands for its ``events``.

    Raise ConfigError if one of them is neither a run nor holds any.
    """
    runs: list[Path] = []
    for path in paths:
        found = [] if _is_run(path) else [*_inside(path), *_inside(path / "events")]
        if not found:
            # Whoever opens it finds the words for what it is.
            read_trace(path)
        runs += found or [path]
    return runs


def _inside(path: Path) -> list[Path]:
    if not path.is_dir() or path.name == EVENTS_NAME:
        return []
    # Names that begin with a dot are of traces that are still being written.
    return sorted(p for p in path.iterdir() if p.name[0] != "." and _is_run(p))


def _is_run(path: Path) -> bool:
    names = (EVENTS_NAME, EVENTS_NAME + PARTIAL_SUFFIX)
    return any((path / name).exists() for name in names)


def verify_traces(
    runs: Sequence[Path],
    *,
    master: "SparkSession | str | None" = None,
    cores: int | None = None,
    use_spark: UseSpark = "auto",
    events_here_max: int = EVENTS_HERE_MAX,
    violations_max: int = 10,
    say: Say | None = None,
    show: Show | None = None,
) -> Iterator[Judged]:
    """Judge the runs; yield what became of each, in their order.

    A run that cannot be judged is yielded with its error, and the others go on.

    Args:
        runs: Their directories, such as :func:`find_runs` returns.
        master: Use the Spark of this URL, or this session, whatever the size.
        cores: How many cores local Spark uses; None for all.
        use_spark: ``auto`` for Spark where it pays and is installed.
        events_here_max: Up to how many events not to use Spark, and to leave a run to one
            task.
        violations_max: The most violations of each property to name, for each run.
        say: Is called with a line that says where it is done, and if something is odd.
        show: Is called now and then, for a display of progress.

    Raises:
        ConfigError: A parameter makes no sense, or there is no Spark where it is asked for.
    """
    if violations_max < 0:
        raise ConfigError(f"violations must be at least 0, got {violations_max}")
    if cores is not None and cores < 1:
        raise ConfigError(f"cores must be at least 1, got {cores}")
    if master is not None and use_spark == "off":
        raise ConfigError("a master is of no use without Spark; leave out one of them")
    say = say if say is not None else lambda line: None
    opened = _open_all(runs, show)
    traces = [each for each in opened if isinstance(each, Trace)]
    events = sum(trace.rows for trace in traces)
    wanted = use_spark == "on" or master is not None
    if not wanted and use_spark == "auto" and events > events_here_max:
        wanted = find_spec("pyspark") is not None
        if not wanted:
            say(
                "Spark would be faster, but is not installed: pip install 'antecede[spark]'"
            )
    judged: Iterator[Judged] = iter(())
    if traces and wanted:
        from antecede.pipeline.spark.session import open_session

        with open_session(master, cores=cores) as spark:
            where = master if isinstance(master, str) else "local"
            say(f"judged on Spark, {where}: {events:,} events")
            on_spark = _OnSpark(spark, traces, violations_max, say)
            judged = iter(on_spark.judge(show, events_here_max))
    elif traces:
        say(f"judged in one process, without Spark: {events:,} events")
        judged = _judge_here(traces, violations_max, show)
    for path, each in zip(runs, opened, strict=True):
        yield replace(each if isinstance(each, Judged) else next(judged), path=path)


def _open_all(runs: Sequence[Path], show: Show | None) -> list[Trace | Judged]:
    opened: list[Trace | Judged] = []

    def look(seconds: float) -> Progress:
        done, total = len(opened), len(runs)
        return Progress(stage="open", done=done, total=total, unit="runs", seconds=seconds)

    with watched(show, look):
        for path in runs:
            try:
                trace = read_trace(path.absolute())
            except ConfigError as error:
                opened.append(Judged(path=path, error=str(error)))
            else:
                nothing = f"{path} holds no events, so there is nothing to judge"
                opened.append(trace if trace.rows else Judged(path=path, error=nothing))
    return opened


def _judge_here(
    traces: Sequence[Trace], violations_max: int, show: Show | None
) -> Iterator[Judged]:
    """Judge them in this process, one after the other."""
    read, total = 0, sum(trace.rows for trace in traces)

    def note(rows: int) -> None:
        nonlocal read
        read += rows

    def look(seconds: float) -> Progress:
        # The witnesses of violations are looked up in further rows.
        return _verifying(min(read // PASSES, total), total, seconds)

    with watched(show, look):
        for trace in traces:
            try:
                report = verify(trace.watched(note), violations_max=violations_max)
            except ConfigError as error:
                yield Judged(path=trace.path, error=str(error))
            else:
                yield Judged(path=trace.path, report=report)


class _OnSpark:
    """Judges runs on Spark, and knows how far that has come."""

    def __init__(
        self,
        spark: "SparkSession",
        traces: Sequence[Trace],
        violations_max: int,
        say: Say,
    ) -> None:
        self._spark = spark
        self._traces = traces
        self._violations_max = violations_max
        self._say = say
        self._tasks = RunningTasks(spark)
        self._total = sum(trace.rows for trace in traces)
        self._before = 0
        self._now = 0
        self._share = 0.0

    def judge(self, show: Show | None, task_events_max: int) -> list[Judged]:
        """Judge long runs in windows, one after the other, and all others at once."""
        alone = len(self._traces) == 1
        long = [t for t in self._traces if alone or t.rows > task_events_max]
        short = [t for t in self._traces if not (alone or t.rows > task_events_max)]
        judged: dict[Path, Judged] = {}
        with watched(show, self._look):
            if short:
                judged |= self._judge_short(short)
            for trace in long:
                judged[trace.path] = self._judge_long(trace)
        return [judged[trace.path] for trace in self._traces]

    def _judge_short(self, traces: Sequence[Trace]) -> dict[Path, Judged]:
        from antecede.pipeline.verify.runs import report_of, verify_runs

        self._turn_to(sum(trace.rows for trace in traces))
        paths = [trace.path for trace in traces]
        table = verify_runs(self._spark, paths, violations_max=self._violations_max)
        judged = {}
        for row in table.collect():
            path = Path(row.path)
            try:
                judged[path] = Judged(path=path, report=report_of(row.asDict()))
            except ConfigError as error:
                judged[path] = Judged(path=path, error=str(error))
        return judged

    def _judge_long(self, trace: Trace) -> Judged:
        from antecede.pipeline.verify.windows import verify_windows

        self._turn_to(trace.rows)
        try:
            report = verify_windows(
                self._spark,
                trace.path,
                violations_max=self._violations_max,
                say=self._start_over,
            )
        except ConfigError as error:
            return Judged(path=trace.path, error=str(error))
        return Judged(path=trace.path, report=report)

    def _turn_to(self, events: int) -> None:
        """Take what was under way for done, and these events as under way."""
        self._before += self._now
        self._now, self._share = events, 0.0

    def _start_over(self, line: str) -> None:
        """Say why what is under way begins once more."""
        self._share = 0.0
        self._say(line)

    def _look(self, seconds: float) -> Progress:
        # After the windows come a few tasks for what is left, which start from 0 again.
        self._share = max(self._share, self._tasks.share())
        done = self._before + int(self._share * self._now)
        return _verifying(done, self._total, seconds)


def _verifying(done: int, total: int, seconds: float) -> Progress:
    return Progress(
        stage="verify", done=done, total=total, unit="events", events=done, seconds=seconds
    )
