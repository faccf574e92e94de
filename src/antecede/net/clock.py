"""The clock of a node: monotonic, and running while the machine is suspended.

A lease must expire even if the machine is suspended (docs/explanation/peer-removal.md), but
on Linux ``time.monotonic`` stops during a suspension.
"""

import time
from typing import Final

__all__ = ["now_s"]

BOOT_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", None)
"""The Linux clock that includes suspensions; None on systems without it."""


def now_s() -> float:
    """Return the time in seconds since an unspecified point in the past."""
    if BOOT_CLOCK is None:
        return time.monotonic()
    return time.clock_gettime(BOOT_CLOCK)
