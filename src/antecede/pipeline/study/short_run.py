"""A run whose rows are read once, and kept in memory if they are few.

The verification reads a run twice, and the measures read it once more.
"""

from collections.abc import Iterator, Sequence

from antecede.pipeline.verify.runs import SizedRun
from antecede.trace.reader import NumberedBatch, Trace, read_trace
from antecede.trace.run_info import RunInfo
from antecede.trace.store import StorePath

__all__ = ["open_run"]

KEPT_ROWS_MAX = 1 << 20
"""The longest run that is kept: about 100 MiB."""


def open_run(path: str) -> SizedRun:
    """Open the trace of a run; a short one is read at its first use."""
    trace = read_trace(path)
    return _ShortRun(trace) if trace.rows <= KEPT_ROWS_MAX else trace


class _ShortRun:
    """Keeps the rows of a trace; a :class:`antecede.trace.reader.RecordedRun`."""

    location: StorePath
    info: RunInfo
    rows: int

    def __init__(self, trace: Trace) -> None:
        self.location = trace.location
        self.info = trace.info
        self.rows = trace.rows
        self._trace = trace
        self._batches: list[NumberedBatch] | None = None

    def numbered_batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        first: int = 0,
        last: int | None = None,
        backward: bool = False,
    ) -> Iterator[NumberedBatch]:
        """Yield the rows as :meth:`antecede.trace.reader.Trace.numbered_batches` does."""
        if self._batches is None:
            self._batches = list(self._trace.numbered_batches())
        for start, batch in reversed(self._batches) if backward else self._batches:
            if start + batch.num_rows > first and (last is None or start <= last):
                wanted = set(batch.schema.names if columns is None else columns)
                names = [name for name in batch.schema.names if name in wanted]
                yield NumberedBatch(start, batch.select(names))
