"""Find the chains of messages behind the order violations of a window, as a task.

A chain lies between the sends of its first and its last message. Every message that the
window's pass knew of was sent at ``ChainTask.first`` or later, so earlier rows are not
read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from antecede.pipeline.verify.window_task import LongRun, RowRange
from antecede.verify.kernels.stream import Rows, RowStream
from antecede.verify.oracle import MessageId
from antecede.verify.witnesses import EarlyDelivery, find_chains

__all__ = ["ChainTask", "find_window_chains"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainTask:
    """The early deliveries that a window found, with the ids of processes."""

    trace: LongRun
    first: int
    """No chain begins before this row."""
    early_deliveries: tuple[EarlyDelivery, ...]

    def row_ranges(self) -> Sequence[RowRange]:
        """Return the rows of the chains, and of the messages at their starts."""
        last = max(early.send for early in self.early_deliveries)
        limits = {early.limit for early in self.early_deliveries}
        return [(self.first, last + 1), *((limit, limit + 1) for limit in sorted(limits))]


class _RowsFrom(RowStream):
    """The rows of a trace from one row on."""

    def __init__(self, trace: LongRun, first: int) -> None:
        super().__init__(trace)
        self._first = first

    def forward(self, first: int = 0, last: int | None = None) -> Iterator[Rows]:
        return super().forward(max(first, self._first), last)


def find_window_chains(task: ChainTask) -> list[tuple[MessageId, ...]]:
    """Return a shortest chain for each early delivery, its first message first."""
    stream = _RowsFrom(task.trace, task.first)
    found = task.early_deliveries
    none = np.zeros(len(found), np.int64)
    process = stream.processes.add(np.array([e.process for e in found], np.int64), none)
    source = stream.processes.add(np.array([e.source for e in found], np.int64), none)
    return find_chains(
        stream,
        [
            replace(early, process=int(process[i]), source=int(source[i]))
            for i, early in enumerate(found)
        ],
    )
