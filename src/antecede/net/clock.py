"""The clock of a node: seconds that never run backwards, a sleep of the machine included.

A lease must run out while a machine sleeps (docs/removal.md), and the usual monotonic clock
of Linux stops meanwhile.
"""

import time
from typing import Final

__all__ = ["now_s"]

BOOT_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", None)
"""Linux has one that goes on while the machine sleeps; elsewhere it is monotonic's job."""


def now_s() -> float:
    """Return the time in seconds since some moment in the past."""
    if BOOT_CLOCK is None:
        return time.monotonic()
    return time.clock_gettime(BOOT_CLOCK)
