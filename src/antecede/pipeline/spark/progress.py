"""How far a stage of the pipeline has come, told from a thread while it runs."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.shell.progress import StageInfo

__all__ = ["Progress", "RunningTasks", "watched"]

POLL_S = 0.5
"""Often enough to be seen moving, seldom enough to cost nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a stage has come; show its text."""

    stage: str
    done: int
    total: int
    unit: str = "cells"
    """What is counted."""
    is_step: bool = False
    """It is about the step that runs, and nobody knows how many steps there are."""
    before: int = 0
    """What was done when it began, by an earlier run."""
    events: int | None = None
    """How many events it has dealt with since it began; None if it does not count them."""
    seconds: float

    @property
    def seconds_left(self) -> float | None:
        """At the pace so far; None before anything is done, or if nobody knows."""
        if self.is_step or self.done <= self.before:
            return None
        return self.seconds * (self.total - self.done) / (self.done - self.before)

    @property
    def events_per_second(self) -> float | None:
        """Since the stage began; None before anything is done."""
        return self.events / self.seconds if self.events and self.seconds else None

    def __str__(self) -> str:
        """Say it in one line."""
        parts = [f"{self.stage}: {self.done:,} of {self.total:,} {self.unit}"]
        if self.events_per_second is not None:
            parts.append(f"{self.events_per_second:,.0f} events/s")
        if self.seconds_left is not None:
            parts.append(f"{self.seconds_left:,.0f} s left")
        elif self.is_step:
            parts.append(f"{self.seconds:,.0f} s so far")
        return ", ".join(parts)


class RunningTasks:
    """Counts the tasks of what a session is running now, by Spark's own status."""

    def __init__(self, spark: "SparkSession") -> None:
        """Ask the session's tracker, or listen to what a Connect server reports."""
        self._tracker: Any = None
        self._told = (0, 0)
        try:
            self._tracker = spark.sparkContext.statusTracker()
        except Exception:  # A Connect session has no context, and raises one of several.
            spark.registerProgressHandler(self._hear)  # type: ignore[arg-type]

    def count(self) -> tuple[int, int]:
        """Return how many tasks are done, and how many there are; 0 and 0 between jobs."""
        if self._tracker is None:
            return self._told
        stages = map(self._tracker.getStageInfo, self._tracker.getActiveStageIds())
        found = [stage for stage in stages if stage is not None]
        done = sum(stage.numCompletedTasks for stage in found)
        return done, sum(stage.numTasks for stage in found)

    def share(self) -> float:
        """Return the share of the tasks that is done, 0 between jobs."""
        done, total = self.count()
        return done / total if total else 0.0

    def _hear(
        self,
        stages: "Iterable[StageInfo] | None",
        inflight_tasks: int,
        operation_id: str | None,
        done: bool,
    ) -> None:
        found = list(stages or ())
        finished = sum(stage.num_completed_tasks for stage in found)
        self._told = (0, 0) if done else (finished, sum(s.num_tasks for s in found))


@contextmanager
def watched(
    report: Callable[[Progress], None] | None, look: Callable[[float], Progress]
) -> Iterator[None]:
    """Report at once and then now and then, from a thread, until the block is left.

    Args:
        report: Is given what ``look`` returns; None to do nothing at all.
        look: Is given the seconds since the block was entered.
    """
    if report is None:
        yield
        return
    start = monotonic()
    over = threading.Event()
    report(look(0.0))

    def watch() -> None:
        while not over.wait(POLL_S):
            try:
                report(look(monotonic() - start))
            except Exception:  # Spark went away, and whoever waits for it will tell.
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=2 * POLL_S)
