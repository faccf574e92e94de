"""Progress of a pipeline stage, reported from a thread while the stage runs."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.shell.progress import StageInfo

__all__ = ["OnProgress", "Progress", "RunningTasks", "poll_progress"]

POLL_INTERVAL_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How many units of a stage are done; ``str()`` returns a line to show."""

    stage: str
    done: int
    total: int
    unit: str = "cells"
    """The unit of ``done`` and ``total``."""
    is_step: bool = False
    """The counts are of the current step, and the number of steps is unknown."""
    done_before: int = 0
    """Units that an earlier run had done when this stage began."""
    events: int | None = None
    """Events processed since the stage began; None if they are not counted."""
    seconds: float

    @property
    def seconds_left(self) -> float | None:
        """The remaining time at the pace so far; None if it cannot be estimated."""
        if self.is_step or self.done <= self.done_before:
            return None
        return self.seconds * (self.total - self.done) / (self.done - self.done_before)

    @property
    def events_per_second(self) -> float | None:
        """The mean rate since the stage began; None before the first event."""
        return self.events / self.seconds if self.events and self.seconds else None

    def __str__(self) -> str:
        parts = [f"{self.stage}: {self.done:,} of {self.total:,} {self.unit}"]
        if self.events_per_second is not None:
            parts.append(f"{self.events_per_second:,.0f} events/s")
        if self.seconds_left is not None:
            parts.append(f"{self.seconds_left:,.0f} s left")
        elif self.is_step:
            parts.append(f"{self.seconds:,.0f} s so far")
        return ", ".join(parts)


OnProgress = Callable[[Progress], None]


class RunningTasks:
    """Counts the tasks that a session is running now, from Spark's own status."""

    def __init__(self, spark: "SparkSession") -> None:
        self._tracker: Any = None
        self._counts = (0, 0)
        try:
            self._tracker = spark.sparkContext.statusTracker()
        except Exception:  # Connect sessions have no context; the exception type varies.
            spark.registerProgressHandler(self._on_server_report)  # type: ignore[arg-type]

    def count(self) -> tuple[int, int]:
        """Return the number of finished tasks and of all tasks; zeros between jobs."""
        if self._tracker is None:
            return self._counts
        stages = map(self._tracker.getStageInfo, self._tracker.getActiveStageIds())
        found = [stage for stage in stages if stage is not None]
        done = sum(stage.numCompletedTasks for stage in found)
        return done, sum(stage.numTasks for stage in found)

    def share(self) -> float:
        """Return the share of the tasks that have finished, 0 between jobs."""
        done, total = self.count()
        return done / total if total else 0.0

    def _on_server_report(
        self,
        stages: "Iterable[StageInfo] | None",
        inflight_tasks: int,
        operation_id: str | None,
        done: bool,
    ) -> None:
        found = list(stages or ())
        finished = sum(stage.num_completed_tasks for stage in found)
        self._counts = (0, 0) if done else (finished, sum(s.num_tasks for s in found))


@contextmanager
def poll_progress(
    on_progress: OnProgress | None, measure: Callable[[float], Progress]
) -> Iterator[None]:
    """Report progress once, then periodically from a thread until the block ends.

    Args:
        on_progress: Receives each result of ``measure``; None to report nothing.
        measure: Returns the progress, given the seconds since the block was entered.
    """
    if on_progress is None:
        yield
        return
    start = monotonic()
    ended = threading.Event()
    on_progress(measure(0.0))

    def poll() -> None:
        while not ended.wait(POLL_INTERVAL_S):
            try:
                on_progress(measure(monotonic() - start))
            except Exception:  # Spark stopped; the main thread raises the error.
                return

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=2 * POLL_INTERVAL_S)
