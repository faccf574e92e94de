"""The length of windows, and the limits on the work for stragglers."""

from dataclasses import dataclass, replace

__all__ = ["WindowConfig", "choose_config"]

WINDOWS_PER_CORE = 4
WINDOW_ROWS_MIN = 1 << 19
"""Shorter windows would consist mostly of margins."""
WINDOW_ROWS_MAX = 1 << 21
"""The task of a longer window would need more than about 200 MiB."""
MARGINS_PER_WINDOW = 16
WINDOW_ROWS_LIMIT = 1 << 23
"""The longest window that is tried if there are many stragglers."""
GROWTH = 4
"""The factor by which windows become longer if there are many stragglers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowConfig:
    """The length of windows, and limits on the work for stragglers."""

    window_rows: int
    margin_rows: int
    window_rows_max: int = WINDOW_ROWS_LIMIT
    straggler_deliveries_max: int = 1 << 18
    """The most deliveries of stragglers to collect; about 100 bytes each."""
    propagations_max: int = 1 << 9
    """The most stragglers to follow from window to window."""
    propagation_tasks: int = 2
    """The number of tasks that follow them."""

    def longer(self) -> "WindowConfig":
        """Return the configuration with longer windows."""
        return replace(
            self,
            window_rows=GROWTH * self.window_rows,
            margin_rows=GROWTH * self.margin_rows,
        )


def choose_config(
    rows: int, group: int, cores: int, window_rows: int | None
) -> WindowConfig:
    """Choose windows for a number of cores, aligned to groups of rows if possible.

    Args:
        rows: The rows of the run.
        group: The number of rows that are stored together.
        cores: The number of tasks that run at once.
        window_rows: The length of windows; None to choose it.
    """
    if window_rows is None:
        even = -(-rows // (WINDOWS_PER_CORE * cores))
        window_rows = min(max(even, WINDOW_ROWS_MIN), WINDOW_ROWS_MAX)
        window_rows = -(-window_rows // group) * group
    margin_rows = max(1, window_rows // MARGINS_PER_WINDOW)
    if group <= window_rows // 4:
        margin_rows = -(-margin_rows // group) * group
    return WindowConfig(
        window_rows=window_rows, margin_rows=margin_rows, propagation_tasks=cores
    )
