"""The ids of processes."""

from typing import NewType

__all__ = ["ProcessId"]

ProcessId = NewType("ProcessId", int)
"""The id of a process, at least 0; the driver assigns it, and no frame contains it."""
