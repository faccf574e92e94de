"""The metrics of a node, if prometheus_client is installed."""

import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from antecede.engine.message import Message
from antecede.errors import ConfigError
from antecede.net.udp import Address, parse_address

if TYPE_CHECKING:
    from antecede.net.metrics import Metrics
    from antecede.net.statistics import NodeStats

__all__ = ["NodeMetrics", "TimedInbox"]


class TimedInbox(deque[Message]):
    """An inbox that reports how long each message was in it."""

    def __init__(self, observe_s: Callable[[float], object]) -> None:
        super().__init__()
        self._observe_s = observe_s

    def popleft(self) -> Message:
        """Remove and return the first message."""
        message = super().popleft()
        self._observe_s(max(time.time() - message.delivered_at, 0.0))
        return message


class NodeMetrics:
    """The metrics of one node, and its endpoint.

    Args:
        name: the name of the node.
        stats: returns its statistics.
        bind: the address of the endpoint, or a port of the loopback address; None for no
            endpoint.
    """

    def __init__(
        self, name: str, stats: "Callable[[], NodeStats]", bind: str | int | Address | None
    ) -> None:
        self._name = name
        self._stats = stats
        if isinstance(bind, int):
            bind = ("127.0.0.1", bind)
        self._bind = parse_address(bind) if bind is not None else None
        self._served: Metrics | None = self._make() if bind is not None else None

    def _make(self) -> "Metrics":
        try:
            from antecede.net.metrics import Metrics
        except ImportError:
            raise ConfigError(
                "metrics need the package prometheus_client:"
                " run pip install 'antecede[metrics]'"
            ) from None
        return Metrics(self._name, self._stats)

    def observe_inbox_s(self, room: str = "") -> Callable[[float], object] | None:
        """Return the function that takes the time that each message was in the inbox.

        Return None without an endpoint. Without a room, the messages are those of the node
        outside of rooms.
        """
        return self._served.observe_inbox_s(room) if self._served is not None else None

    def observe_send_s(self, room: str = "") -> Callable[[float], object] | None:
        """Return the function that takes the time that each blocked send has waited."""
        return self._served.observe_send_s(room) if self._served is not None else None

    def forget_room(self, room: str) -> None:
        """Drop the histograms of a room, so that rooms of the past take no memory."""
        if self._served is not None:
            self._served.forget_room(room)

    def text(self) -> str:
        """Return the metrics as OpenMetrics text."""
        return (self._served or self._make()).text()

    @property
    def address(self) -> Address | None:
        """The address of the endpoint; None if there is none."""
        return self._served.address if self._served is not None else None

    async def open(self, close_node: Callable[[float], Awaitable[None]]) -> None:
        """Serve the metrics, if they have an address; close the node if that fails."""
        if self._served is None or self._bind is None:
            return
        try:
            await self._served.serve(self._bind)
        except BaseException:
            await close_node(0.0)
            raise

    def close(self) -> None:
        """Stop serving."""
        if self._served is not None:
            self._served.close()
