"""The receipt of a message for threads."""

from collections.abc import Callable, Coroutine
from typing import Any

from antecede.net import receipts
from antecede.net.receipts import Outcome

__all__ = ["Receipt"]

Wait = Callable[[Callable[[], Coroutine[Any, Any, Outcome]], float | None, str], Outcome]
"""Waits for a coroutine, up to a time-out that the text describes."""


class Receipt:
    """The receipt of one message; :meth:`wait` returns its outcome."""

    def __init__(self, receipt: receipts.Receipt, wait: Wait) -> None:
        self._receipt = receipt
        self._wait = wait

    @property
    def number(self) -> int:
        """The number of the message."""
        return self._receipt.number

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of its targets."""
        return self._receipt.targets

    @property
    def is_done(self) -> bool:
        """Whether :meth:`wait` returns at once."""
        return self._receipt.is_done

    def wait(self, *, timeout: float | None = None) -> Outcome:
        """Wait until the message is delivered, or given up, at all targets."""

        async def outcome() -> Outcome:
            return await self._receipt

        names = ", ".join(self.targets)
        unfinished = f"message {self.number} is neither delivered at {names} nor given up"
        return self._wait(outcome, timeout, unfinished)
