"""The clock of a node: monotonic, and running while the machine is suspended.

A lease must expire even if the machine is suspended (docs/explanation/peer-removal.md), but
on Linux ``time.monotonic`` stops during a suspension.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Final

__all__ = ["now_s"]

BOOT_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", None)
"""The Linux clock that includes suspensions; None on systems without it."""

now_s: Final[Callable[[], float]] = (
    time.monotonic if BOOT_CLOCK is None else partial(time.clock_gettime, BOOT_CLOCK)
)
"""Returns the time in seconds since an unspecified point in the past.

Every send calls it, and a partial function is faster than one of Python code.
"""
