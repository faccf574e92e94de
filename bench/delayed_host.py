"""An event loop whose nodes transmit each datagram after a delay, over real sockets."""

import asyncio
from collections.abc import Sequence
from typing import Any

from antecede.net.host import SystemHost

__all__ = ["DelayedEventLoop"]


class DelayedEventLoop(asyncio.SelectorEventLoop):
    """The host of nodes with a delay on each path.

    Args:
        delay_s: the delay of each datagram, in seconds.
    """

    def __init__(self, delay_s: float) -> None:
        super().__init__()
        self.host = DelayedHost(self, delay_s)


class DelayedHost(SystemHost):
    """A machine with delayed sockets."""

    def __init__(self, loop: asyncio.AbstractEventLoop, delay_s: float) -> None:
        self._loop = loop
        self._delay_s = delay_s

    def bind_socket(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return a socket that delays what it transmits."""
        udp = super().bind_socket(*arguments, **options)
        transmit = udp.transmit
        is_closed = False
        close = udp.close

        def transmit_later(datagrams: Sequence[tuple[object, bytes]]) -> int:
            self._loop.call_later(self._delay_s, transmit_open, list(datagrams))
            return len(datagrams)

        def transmit_open(datagrams: Sequence[tuple[object, bytes]]) -> None:
            if not is_closed:
                transmit(datagrams)

        def close_socket() -> None:
            nonlocal is_closed
            is_closed = True
            close()

        udp.transmit = transmit_later  # type: ignore[method-assign]
        udp.close = close_socket  # type: ignore[method-assign]
        return udp
