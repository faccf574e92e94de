"""An asyncio event loop whose time is virtual: waiting takes no time."""

import asyncio
import selectors
from collections.abc import Callable, Mapping
from typing import Final, NoReturn, Protocol

from antecede.errors import LocalError
from antecede.net.host import Host

__all__ = ["HasFileno", "VirtualEventLoop"]


class HasFileno(Protocol):
    """A file or a socket."""

    def fileno(self) -> int:
        """Return the file descriptor."""


FileObject = int | HasFileno

TURNS_MAX: Final = 1000
"""How many turns a busy loop makes before the time advances by :data:`BUSY_S`."""
BUSY_S: Final = 1e-6


class VirtualEventLoop(asyncio.SelectorEventLoop):
    """The event loop of one simulated process.

    Tasks, timers, locks, queues and timeouts work as on any event loop. Threads,
    subprocesses, signals and sockets raise LocalError: a simulation cannot control them.

    Args:
        host: the host of the nodes that run on the loop.
        clock: returns the time of the process in seconds.
    """

    def __init__(self, host: Host, clock: Callable[[], float]) -> None:
        self._idle_selector = _IdleSelector(self.stop)
        self._clock = clock
        super().__init__(self._idle_selector)
        self.host = host

    def time(self) -> float:
        return self._clock()

    def run_until_idle(self) -> float | None:
        """Run everything that is due, and return the seconds until the next timer.

        Return None if the loop has no timer.
        """
        self._idle_selector.turns = 0
        self.run_forever()
        return self._idle_selector.idle_s


class _IdleSelector(selectors.BaseSelector):
    """Stops the event loop when it would wait, and remembers for how long."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self.idle_s: float | None = None
        self.turns = 0
        """How many turns the loop has made since the time has last advanced."""
        self._stop = stop
        self._keys: dict[FileObject, selectors.SelectorKey] = {}

    def register(
        self, fileobj: FileObject, events: int, data: object = None
    ) -> selectors.SelectorKey:
        key = selectors.SelectorKey(fileobj, 0, events, data)
        self._keys[fileobj] = key
        return key

    def unregister(self, fileobj: FileObject) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(
        self, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        self.turns += 1
        if timeout is None or timeout > 0:
            self.idle_s = timeout
            self._stop()
        elif self.turns > TURNS_MAX:
            self.idle_s = BUSY_S
            self._stop()
        return []

    def get_map(self) -> Mapping[FileObject, selectors.SelectorKey]:
        return self._keys


def _refuse(what: str) -> Callable[..., NoReturn]:
    def refuse(self: VirtualEventLoop, *args: object, **options: object) -> NoReturn:
        raise LocalError(
            f"{what} cannot be simulated, because the simulation does not control them; use"
            " coroutines and nodes only, or run the program without a simulation"
        )

    return refuse


for _what, _names in {
    "threads": ("run_in_executor", "call_soon_threadsafe"),
    "subprocesses": ("subprocess_exec", "subprocess_shell"),
    "signals": ("add_signal_handler",),
    "name look-ups": ("getaddrinfo", "getnameinfo"),
    "sockets and pipes": (
        "add_reader",
        "add_writer",
        "connect_accepted_socket",
        "connect_read_pipe",
        "connect_write_pipe",
        "create_connection",
        "create_datagram_endpoint",
        "create_server",
        "create_unix_connection",
        "create_unix_server",
        "sock_accept",
        "sock_connect",
        "sock_recv",
        "sock_recv_into",
        "sock_recvfrom",
        "sock_sendall",
        "sock_sendto",
    ),
}.items():
    for _name in _names:
        setattr(VirtualEventLoop, _name, _refuse(_what))
