"""Progress on the terminal."""

import sys
from time import monotonic
from types import TracebackType

__all__ = ["ProgressLine"]

GAP_S = 0.5
"""Minimum time between two updates of the line on a terminal."""
LOG_GAP_S = 15.0
"""Minimum time between two lines of progress where stderr is not a terminal."""
WIDTH = 76


class ProgressLine:
    """A line on the terminal that is overwritten; nothing where stderr is not a terminal.

    Args:
        keeps_lines: where stderr is not a terminal, print a line of progress now and then.
    """

    def __init__(self, *, keeps_lines: bool = False) -> None:
        self._keeps_lines = keeps_lines
        self._shown = 0.0
        self._logged = monotonic()

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()

    def due(self) -> bool:
        """Return whether enough time has passed since the last update."""
        return sys.stderr.isatty() and monotonic() - self._shown >= GAP_S

    def write(self, text: object) -> None:
        """Show this text in place of the previous one."""
        if sys.stderr.isatty():
            self._shown = monotonic()
            print(f"\r{text!s:{WIDTH}.{WIDTH}}", end="", file=sys.stderr, flush=True)
        elif self._keeps_lines and monotonic() - self._logged >= LOG_GAP_S:
            self._logged = monotonic()
            print(text, file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """Print a line that stays, on a terminal or not."""
        self.clear()
        print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Erase the line."""
        if self._shown:
            self._shown = 0.0
            print(f"\r{'':{WIDTH}}\r", end="", file=sys.stderr, flush=True)
