"""Detects applications that wait in ``send`` and therefore do not receive."""

import asyncio
from collections.abc import Callable
from typing import Final

from antecede.engine.engine import Engine
from antecede.engine.events import ReceiveLoopDeadlock
from antecede.net.blocked_sends import BlockedSends
from antecede.net.events import EventHub

__all__ = ["CHECK_S", "WARNING_S", "SendWatch"]

CHECK_S: Final = 2.0
"""How long a send waits, and the application receives nothing, before a warning."""
WARNING_S: Final = 60.0
"""How long a node gives no other warning."""


class SendWatch:
    """Warns if a send waits while the inbox of the node itself is full.

    If the target does the same, both wait for ever.

    Args:
        blocked: the messages that wait for room.
        engine: returns the engine, or None if the node is not open.
        events: collects the event of a deadlock.
    """

    def __init__(
        self,
        blocked: BlockedSends,
        engine: Callable[[], Engine | None],
        events: EventHub,
    ) -> None:
        self._events = events
        self._blocked = blocked
        self._engine = engine
        self._is_watching = False
        self._received = 0
        self._warned_at = -WARNING_S

    def watch(self) -> None:
        """Check from now on, until no send waits any more."""
        if not self._is_watching:
            self._is_watching = True
            self._received = _received(self._engine())
            asyncio.get_running_loop().call_later(CHECK_S, self._check)

    def _check(self) -> None:
        engine = self._engine()
        if engine is None or not self._blocked:
            self._is_watching = False
            return
        loop = asyncio.get_running_loop()
        received = _received(engine)
        if (
            received == self._received
            and engine.flow.is_limiting
            and loop.time() >= self._warned_at + WARNING_S
        ):
            self._warned_at = loop.time()
            targets = self._blocked.targets(engine)
            event = ReceiveLoopDeadlock(targets=tuple(targets), waiting_s=CHECK_S)
            self._events.publish([event], loop.time())
        self._received = received
        loop.call_later(CHECK_S, self._check)


def _received(engine: Engine | None) -> int:
    """Return how many messages the application has received so far."""
    return engine.stats().delivered - engine.flow.polled if engine is not None else 0
