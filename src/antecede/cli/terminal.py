"""Progress on the terminal."""

import sys
from time import monotonic
from types import TracebackType

__all__ = ["ProgressLine"]

GAP_S = 0.5
"""Often enough to be seen moving, seldom enough to cost nothing."""
WIDTH = 76


class ProgressLine:
    """A line on a terminal that is written over and over; elsewhere, nothing at all."""

    def __init__(self) -> None:
        """Write nothing yet."""
        self._shown = 0.0

    def __enter__(self) -> "ProgressLine":
        """Return it; leaving the block clears the line."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Clear the line."""
        self.clear()

    def due(self) -> bool:
        """Return whether it is time to write again."""
        return sys.stderr.isatty() and monotonic() - self._shown >= GAP_S

    def write(self, text: object) -> None:
        """Write this in place of what was there."""
        if sys.stderr.isatty():
            self._shown = monotonic()
            print(f"\r{text!s:{WIDTH}.{WIDTH}}", end="", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """Write a line that stays, on a terminal or not."""
        self.clear()
        print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Leave no trace of it."""
        if self._shown:
            self._shown = 0.0
            print(f"\r{'':{WIDTH}}\r", end="", file=sys.stderr, flush=True)
