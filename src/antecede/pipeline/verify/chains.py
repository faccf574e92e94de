"""Find the chains behind what the windows of a run found, as tasks.

A chain lies between the sends of its first and its last message. The window that found the
violation knows from where on everything was sent that its walk knew of; so nothing before
that has to be read.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from antecede.pipeline.verify.window import Overtaking
from antecede.trace.reader import Trace
from antecede.verify.kernels.stream import Rows, RowStream
from antecede.verify.oracle import MessageId
from antecede.verify.witnesses import Suspect, find_chains

__all__ = ["ChainTask", "find_window_chains"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainTask:
    """What a window found."""

    trace: Trace
    first: int
    """No chain begins before this row."""
    found: tuple[Overtaking, ...]


class _Rest(RowStream):
    """The rows of a trace from one on."""

    def __init__(self, trace: Trace, first: int) -> None:
        super().__init__(trace)
        self._first = first

    def forward(self, first: int = 0, last: int | None = None) -> Iterator[Rows]:
        return super().forward(max(first, self._first), last)


def find_window_chains(task: ChainTask) -> list[tuple[MessageId, ...]]:
    """Return a shortest chain for each of them, from what should have come first."""
    stream = _Rest(task.trace, task.first)
    ids = np.array([(each.process, each.source) for each in task.found], np.int64)
    none = np.zeros(len(ids), np.int64)
    process = stream.processes.add(ids[:, 0].copy(), none)
    source = stream.processes.add(ids[:, 1].copy(), none)
    suspects = [
        Suspect(
            process=int(process[i]),
            source=int(source[i]),
            number=each.number,
            send=each.send,
            limit=each.limit,
        )
        for i, each in enumerate(task.found)
    ]
    return find_chains(stream, suspects)
