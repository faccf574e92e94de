"""Verify a run that is packed into blobs, in windows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from antecede.pipeline.verify.packed_stage import packed_stage
from antecede.pipeline.verify.packed_trace import PackedTrace, verify_spooled
from antecede.pipeline.verify.runs import parallelism
from antecede.pipeline.verify.violation_rows import (
    FindTask,
    ViolationRows,
    find_window_rows,
    merge_rows,
    messages_of,
)
from antecede.pipeline.verify.window_config import choose_config
from antecede.pipeline.verify.window_task import LongRun, split_into_windows
from antecede.pipeline.verify.windowed_run import OnNotice, WindowedVerification
from antecede.verify.oracle import MessageId
from antecede.verify.verdict import TraceVerdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["PackedVerification"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedVerification:
    """Verifies the blobs of one run."""

    blobs: "DataFrame"
    """The blobs of the run; only the columns ``id`` and ``data`` are used."""
    trace: PackedTrace
    blob_rows: int
    """The usual number of rows of a blob."""
    violations_max: int
    """The most violations of each property to name."""
    on_notice: OnNotice
    has_seq: bool
    """The rows have ``seq``."""
    """Use columns with 64-bit offsets."""
    find_duplicate_send: Callable[[LongRun], MessageId | None] = lambda trace: None
    """Returns a message that is sent twice, if any."""
    window_rows: int | None = None
    """The length of windows; None to choose it by run and cluster."""
    with_breakdown: bool = False
    """Also count the violations by pair of processes and by time."""
    has_ranks: bool = True
    """The number of a message is its rank among the messages of its source, from 1."""

    def verify(self) -> TraceVerdict:
        """Return the verdict on the run; the exceptions are those of windows."""
        return self._windowed().verify(self.trace)

    def find_rows(self, verdict: TraceVerdict) -> ViolationRows:
        """Find the rows of the messages of the violations."""
        messages = tuple(sorted(messages_of(verdict.violations)))
        if not messages:
            return ViolationRows()
        verification = self._windowed()
        config = verification.config
        windows = split_into_windows(
            self.trace.rows, config.window_rows, config.margin_rows
        )
        tasks = [
            FindTask(
                trace=self.trace,
                window=window,
                messages=messages,
                with_ranks=not self.has_ranks,
            )
            for window in windows
        ]
        return merge_rows(verification.stage(find_window_rows, tasks))

    def _windowed(self) -> WindowedVerification:
        cores = parallelism(self.blobs.sparkSession)
        return WindowedVerification(
            stage=packed_stage(self.blobs),
            find_duplicate_send=self.find_duplicate_send,
            config=choose_config(self.trace.rows, self.blob_rows, cores, self.window_rows),
            violations_max=self.violations_max,
            on_notice=self.on_notice,
            verify_whole=verify_spooled,
            has_seq=self.has_seq,
            with_breakdown=self.with_breakdown,
            is_unique=True,
        )
