"""A task that waits for a message, as a future."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any

__all__ = ["Reader"]


class Reader(asyncio.Future[None]):
    """A task that waits for a message; it can be resumed at once.

    The result of other futures resumes a task in the next turn of the event loop. A turn
    costs as much as receiving a datagram.
    """

    __slots__ = ("_context", "_on_cancel", "_resume")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_cancel: "Callable[[Reader], object]"
    ) -> None:
        super().__init__(loop=loop)
        self._on_cancel = on_cancel
        self._resume: Callable[[Reader], object] | None = None
        self._context: Context | None = None

    def add_done_callback(
        self, callback: Callable[[Any], object], /, *, context: Context | None = None
    ) -> None:
        """Add a callback; a task that awaits the future adds one that resumes it."""
        self._resume = callback
        self._context = context
        super().add_done_callback(callback, context=context)

    def cancel(self, msg: Any | None = None) -> bool:  # noqa: ANN401 (as in the base)
        """Cancel the wait; leave the message to another reader if this one was woken."""
        self._on_cancel(self)
        return super().cancel(msg)

    def resume(self) -> None:
        """Resume the waiting task now; call this in the event loop, outside of a task."""
        resume, context = self._resume, self._context
        if resume is None or context is None or self.remove_done_callback(resume) == 0:
            self.set_result(None)  # No task awaits this future yet.
        else:
            self.set_result(None)
            context.run(resume, self)
