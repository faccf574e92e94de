"""Hands the events of a node to iterators, to a callback and to the log."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Self
from weakref import WeakSet

from antecede.engine.events import EventsDropped, MessageFailed, NodeEvent

__all__ = ["EventHub", "EventIterator"]

logger = logging.getLogger(__name__)

QUEUE_MAX: Final = 1024
"""The maximum number of events that wait for one iterator; the oldest are dropped."""
LOG_GAP_S: Final = 50.0
"""The time for which a kind of event about one peer is not logged again."""


class EventIterator:
    """Iterates over the events from its creation on, until the node is closed."""

    def __init__(self, hub: "EventHub") -> None:
        self._hub = hub
        self._events: deque[NodeEvent] = deque()
        self._dropped = 0
        self._waiters: deque[asyncio.Future[None]] = deque()

    def add(self, event: NodeEvent) -> None:
        """Add an event; drop the oldest one if the queue is full."""
        if len(self._events) >= QUEUE_MAX:
            self._events.popleft()
            self._dropped += 1
            self._hub.dropped += 1
        self._events.append(event)
        self.wake()

    def wake(self) -> None:
        """Wake the tasks that wait for an event."""
        self._hub.waiting.discard(self)
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> NodeEvent:
        """Return the next event; an EventsDropped stands for those that were dropped."""
        while not self._events:
            if self._hub.is_closed:
                raise StopAsyncIteration
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            self._hub.waiting.add(self)  # Nothing else may refer to a task that waits.
            await waiter
        if self._dropped > 0:
            dropped, self._dropped = self._dropped, 0
            return EventsDropped(count=dropped)
        return self._events.popleft()


class EventHub:
    """The iterators and the callback of one node, and the log.

    Args:
        name: the name of the node.
        on_event: called with each event; None for no callback.
        log_name: the name in the log, if it differs from ``name``; empty for no log.
    """

    def __init__(
        self,
        name: str,
        on_event: Callable[[NodeEvent], object] | None,
        log_name: str | None = None,
    ) -> None:
        self._log_name = name if log_name is None else log_name
        self._name = name
        self._on_event = on_event
        self._iterators: WeakSet[EventIterator] = WeakSet()
        self.waiting: set[EventIterator] = set()
        """The iterators that a task waits for."""
        self._logged: dict[tuple[type[NodeEvent], str | None], float] = {}
        self.dropped = 0
        """The number of events that were dropped because an iterator was not read in
        time."""
        self.is_closed = False

    def iterate(self) -> EventIterator:
        """Return an iterator over the events from now on."""
        iterator = EventIterator(self)
        self._iterators.add(iterator)
        return iterator

    def publish(self, events: Iterable[NodeEvent], now: float) -> None:
        """Hand out events, in order."""
        for event in events:
            if isinstance(event, EventsDropped):
                self.dropped += event.count
            if self._log_name:
                self._log(event, now)
            for iterator in tuple(self._iterators):
                iterator.add(event)
            if self._on_event is not None:
                try:
                    self._on_event(event)
                except Exception:
                    logger.exception("%s: on_event has raised for %r", self._name, event)

    def _log(self, event: NodeEvent, now: float) -> None:
        cause = (type(event), event.peer)
        if now - self._logged.get(cause, -LOG_GAP_S) < LOG_GAP_S:
            return
        self._logged = {key: at for key, at in self._logged.items() if now - at < LOG_GAP_S}
        self._logged[cause] = now
        level = logging.WARNING if event.needs_attention else logging.INFO
        error = event.error if isinstance(event, MessageFailed) else None
        logger.log(level, "%s: %s", self._log_name, event, exc_info=error)

    def close(self) -> None:
        """End the iterators, after the events that they hold."""
        self.is_closed = True
        for iterator in tuple(self._iterators):
            iterator.wake()
