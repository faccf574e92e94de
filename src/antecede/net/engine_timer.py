"""The timer of an engine on an event loop."""

import asyncio
from collections.abc import Callable

__all__ = ["EngineTimer"]


class EngineTimer:
    """Calls a function at the deadline of an engine, or earlier.

    Args:
        loop: the event loop.
        expire: the function.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, expire: Callable[[], None]) -> None:
        self._loop = loop
        self._expire = expire
        self._handle: asyncio.TimerHandle | None = None
        self._deadline = 0.0

    def set(self, deadline: float | None, now: float) -> None:
        """Set the timer, unless it expires earlier: that has no effect."""
        if deadline is None:
            return
        if self._handle is not None:
            if self._deadline <= deadline:
                return
            self._handle.cancel()
        self._deadline = deadline
        self._handle = self._loop.call_later(max(0.0, deadline - now), self._expire)

    def cancel(self) -> None:
        """Cancel the timer, if it is set."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
