"""The node: causal delivery for an asyncio application, over UDP.

One node is one engine (:mod:`antecede.engine`) and one socket, on one event loop. All
methods are to be called from that loop.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

from antecede.engine.engine import Engine
from antecede.engine.message import Message
from antecede.errors import LocalError, WindowFull
from antecede.net.clock import now_s
from antecede.net.runtime import Driver, reach
from antecede.net.statistics import (
    NodeStats,
    Waiting,
    make_metrics,
    make_stats,
    make_waiting,
)
from antecede.net.udp import (
    Address,
    parse_address,
)

__all__ = ["Node"]


class Node(Driver):
    """A process of a causal group, for an application.

    Use it as ``async with Node("ann", bind="127.0.0.1:9001", peers={...}) as node``.

    Args:
        name: by which its peers know it; unique in the group.
        bind: where to listen, ``host:port``; port 0 lets the system choose.
        peers: names and addresses of the others; more can be added later.
        protocol: a unicast protocol of ``antecede protocols``, the same at all nodes.
        key: the group key, 32 bytes: all datagrams are encrypted and authenticated.
        insecure: allow an address other than loopback without a key.
        limits: all bounds; see :class:`antecede.engine.limits.Limits`.
        journal: a file that makes the node survive its restart without loss.
        journal_sync: wait for the disk at each commit; without it nothing is lost if the
            process is killed, but the last moments may be if the machine fails.
        trace: a directory to record a trace to, for ``antecede verify``.
        run: what to call the run in the trace; the same at all nodes.
        segmentation: let the kernel cut and join datagrams, where it can.
    """

    # Peers.

    @property
    def peers(self) -> list[str]:
        """The names of the peers of the moment."""
        return self.engine.peers()

    def add_peer(self, name: str, address: str | Address) -> None:
        """Let ``name`` be a peer from now on."""
        udp = self._opened_socket()
        now = now_s()
        self.engine.add_peer(name, reach(name, parse_address(address), udp), now)
        self._settle(now)

    async def remove(self, name: str, *, stopped: bool = False) -> None:
        """Let go of a peer: abandon what it has not acked, so that permits flow again.

        Returns when that has been done, a lease after the peer was last heard. Say
        ``stopped`` of a peer that has stopped for good: its own permits are waived then
        (docs/removal.md says what happens if it has not).
        """
        self._opened_socket()
        now = now_s()
        ends = self.engine.remove_peer(name, now, stopped=stopped)
        self._settle(now)
        while now < ends:
            await self._pause(ends - now)
            now = now_s()
        self._due()

    # Sending.

    async def send(self, target: str, data: bytes, *, wait: bool = True) -> int:
        """Send ``data`` to one peer, or to the node itself, and return its number.

        Waits while the window of the target is full; with ``wait=False`` raises
        WindowFull instead. That the call returns means that the message is accepted, not
        that it is delivered: see :meth:`flush`.
        """
        engine = self._engine
        if engine is not None and not self._closing:
            now = now_s()
            number = engine.try_send(target, data, now)
            if number:
                if engine.is_lone((target,)):
                    self._flush(engine, now)  # Waiting for others would only delay it.
                elif engine.urgent:
                    self._settle(now)
                    await asyncio.sleep(0)  # Others want to run, too, and acks to be read.
                elif not self._scheduled:
                    self._schedule()
                return number
        return await self._send((target,), data, wait)

    async def multicast(
        self, targets: Iterable[str], data: bytes, *, wait: bool = True
    ) -> int:
        """Send one message to several peers; else as :meth:`send`."""
        if isinstance(targets, str):
            raise LocalError(f"targets are a list of names, not {targets!r}; use send")
        return await self._send(tuple(targets), data, wait)

    async def broadcast(self, data: bytes, *, wait: bool = True) -> int:
        """Send one message to all peers of the moment; else as :meth:`send`."""
        targets = tuple(self.engine.peers())
        if not targets:
            raise LocalError("there is no peer to broadcast to; call add_peer first")
        return await self._send(targets, data, wait)

    async def _send(self, targets: Sequence[str], data: bytes, wait: bool) -> int:
        engine = self.engine
        if self._failure is not None:
            raise self._failure
        if self._closing:
            raise LocalError(f"{self.name} is closed; it sends nothing any more")
        payloads = engine.cut(data)
        if len(payloads) == 1:
            if not engine.has_room(targets):
                await self._wait_for_room(engine, targets, wait)
            now = now_s()
            number = engine.post(targets, payloads[0], now)
            if engine.is_lone(targets):
                self._flush(engine, now)  # Waiting for others would only delay it.
        else:
            if not wait and (self._large.locked() or not engine.has_room(targets)):
                raise self._window_full(targets)
            async with self._large:  # Parts of two messages must not mix.
                for payload in payloads:
                    if not engine.has_room(targets):
                        await self._wait_for_room(engine, targets, True)
                    number = engine.post(targets, payload, now_s())
                    self._post_done(engine)
        self._post_done(engine)
        if self._journal is not None:
            await self._durable()
        return number

    async def _durable(self) -> None:
        """Wait for the commit that a message rests on; those of many are one."""
        assert self._loop is not None
        if self._failure is not None:
            raise self._failure
        if self._scheduled:
            future = self._loop.create_future()
            self._committed.append(future)
            await future

    def _post_done(self, engine: Engine) -> None:
        if engine.urgent:
            self._settle(now_s())
        elif not self._scheduled:
            self._schedule()

    async def _wait_for_room(
        self, engine: Engine, targets: Sequence[str], wait: bool
    ) -> None:
        if not wait:
            raise self._window_full(targets)
        assert self._loop is not None
        self._settle(now_s())
        while not engine.has_room(targets):
            entry = (targets, self._loop.create_future())
            self._blocked.append(entry)
            try:
                await entry[1]
            finally:
                if entry in self._blocked:
                    self._blocked.remove(entry)

    def _window_full(self, targets: Sequence[str]) -> WindowFull:
        names = ", ".join(t for t in targets if not self.engine.has_room((t,)))
        return WindowFull(f"the window of {names} is full; wait, or try again later")

    async def flush(self) -> None:
        """Wait until everything sent so far, and meanwhile, is delivered everywhere."""
        self._opened_socket()
        await self._flushed(self.engine)

    # What is going on.

    def stats(self) -> NodeStats:
        """Return what the node has done so far, and what is under way."""
        return make_stats(self.engine, len(self._inbox), now_s())

    def metrics(self) -> str:
        """Return the same as OpenMetrics text, to be served to a scraper."""
        return make_metrics(self.stats())

    def waiting(
        self, source: str | None = None, number: int | None = None
    ) -> list[Waiting]:
        """Tell what waits, and on whom; of one source or message only, if named.

        ``node.waiting("ann", 7)`` answers why Ann's message 7 is not delivered here, or,
        at Ann's node, why it is not released or not acked yet. Empty: it does not wait
        here. Protocols other than the hybrid ones tell nothing.
        """
        return [
            entry
            for entry in make_waiting(self.engine)
            if source in (None, entry.source) and number in (None, entry.number)
        ]

    # Receiving.

    def __aiter__(self) -> AsyncIterator[Message]:
        """Iterate over the messages as they are delivered, until the node is closed."""
        return self

    async def __anext__(self) -> Message:
        """Return the next message.

        A slow consumer holds others back: once ``Limits.inbox`` messages wait here, the
        node takes no more in and withholds their acks, and with them other nodes' permits.
        """
        while not self._inbox:
            if self._engine is not None and self._socket is None:
                raise StopAsyncIteration
            self._opened_socket()
            assert self._loop is not None
            reader = self._loop.create_future()
            self._readers.append(reader)
            try:
                await reader
            except asyncio.CancelledError:
                if reader in self._readers:
                    self._readers.remove(reader)
                elif self._inbox:  # It was woken: somebody else takes its turn.
                    self._wake_readers(1)
                raise
        return self._take()

    def _take(self) -> Message:
        message = self._inbox.popleft()
        engine = self._engine
        if engine is not None and engine.full:
            engine.full = self._is_full()
        return message

    async def receive(self) -> Message:
        """Return the next message; raise LocalError if the node is closed meanwhile."""
        if self._inbox:
            return self._take()
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            if self._failure is not None:
                raise self._failure from None
            raise LocalError(f"{self.name} is closed; nothing comes any more") from None
