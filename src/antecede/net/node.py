"""The node: causal delivery for an asyncio application, over UDP.

One node is one engine (:mod:`antecede.engine`) and one socket, on one event loop. All
methods are to be called from that loop.
"""

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from antecede.core.registry import protocol as look_up
from antecede.engine.engine import Engine
from antecede.engine.gate import Sealing
from antecede.engine.limits import Limits
from antecede.engine.message import Message
from antecede.errors import ConfigError, LocalError, WindowFull
from antecede.net.clock import now_s
from antecede.net.journal import Journal
from antecede.net.stats import (
    NodeStats,
    Waiting,
    make_metrics,
    make_stats,
    make_waiting,
)
from antecede.net.udp import (
    Address,
    SocketAddress,
    UdpSocket,
    is_loopback,
    parse_address,
    resolve,
)
from antecede.trace.names import name_in_life
from antecede.trace.recorder import Tally

if TYPE_CHECKING:
    from antecede.trace.live import LiveTrace

__all__ = ["Node"]

logger = logging.getLogger(__name__)

BATCH = 256
"""How many datagrams are taken from the socket before others get their turn."""
LOOPBACK_DATAGRAM = 16_384
"""Bytes of a datagram between nodes on one machine, whose path carries 64 KiB."""
BYE_TRIES = 5
BYE_S = 0.05
"""How often, and how long after each other, a closing node says goodbye."""
DRAIN_S = 5.0
"""How long a closing node waits for its messages to be delivered."""


class Node:
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

    def __init__(
        self,
        name: str,
        *,
        bind: str | Address = "127.0.0.1:0",
        peers: Mapping[str, str | Address] | None = None,
        protocol: str = "hybrid",
        key: bytes | None = None,
        insecure: bool = False,
        limits: Limits | None = None,
        journal: str | Path | None = None,
        journal_sync: bool = True,
        trace: str | Path | None = None,
        run: str = "live",
        segmentation: bool = True,
    ) -> None:
        """Check the arguments; nothing is opened before the node is entered."""
        if not isinstance(name, str) or not 1 <= len(name.encode()) <= 255:
            raise ConfigError(f"a name is a text of 1 to 255 bytes, not {name!r}")
        self.name = name
        self._bind = parse_address(bind)
        self._peers = {peer: parse_address(at) for peer, at in (peers or {}).items()}
        self._protocol = protocol
        self._key = key
        self._insecure = insecure
        self._limits = limits
        self._run = run
        self._trace: LiveTrace | None = None
        self._sync = journal_sync
        self._journal: Journal | None = None
        self._journal_path = Path(journal) if journal is not None else None
        self._trace_path = Path(trace) if trace is not None else None
        self._segmentation = segmentation
        self._seal = _make_seal(key)
        self._engine: Engine | None = None
        self._socket: UdpSocket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inbox: deque[Message] = deque()
        self._inbox_max = 0
        self._readers: deque[asyncio.Future[None]] = deque()
        self._blocked: list[tuple[Sequence[str], asyncio.Future[None]]] = []
        self._flushers: list[asyncio.Future[None]] = []
        self._committed: list[asyncio.Future[None]] = []
        self._pausing: set[asyncio.Future[None]] = set()
        self._large = asyncio.Lock()
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._closing = False
        self._parting = False
        self._failure: ConfigError | None = None

    # Opening and closing.

    async def __aenter__(self) -> Self:
        """Open the socket and meet the peers."""
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the node: see everything delivered first, unless an error is under way."""
        await self.close(DRAIN_S if error is None else 0.0)

    async def open(self) -> None:
        """Open the socket and meet the peers; prefer ``async with``."""
        if self._engine is not None:
            raise LocalError("the node was opened before; make a new one")
        udp = UdpSocket(self._bind, segmentation=self._segmentation)
        try:
            host = udp.address[0]
            if self._seal is None and not self._insecure and not is_loopback(host):
                raise ConfigError(
                    f"{host} is not loopback: give a group key, or say insecure=True"
                )
            limits = self._limits if self._limits is not None else Limits()
            if self._limits is None and is_loopback(host):
                limits = replace(limits, datagram=LOOPBACK_DATAGRAM)
            self._inbox_max = limits.inbox
            now = now_s()
            engine = self._make_engine(limits, now)
            for peer, address in self._peers.items():
                engine.add_peer(peer, _find(peer, address, udp), now)
        except BaseException:
            udp.close()
            if self._journal is not None:
                self._journal.close()
            raise
        self._engine = engine
        self._socket = udp
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(udp.fileno(), self._readable)
        self._settle(now)

    def _make_engine(self, limits: Limits, now: float) -> Engine:
        life = 0
        if self._journal_path is not None:
            self._journal = Journal(self._journal_path, self.name, sync=self._sync)
            life = self._journal.life
        incarnation = secrets.randbits(63) | 1
        tally: Tally | None = None
        if self._trace_path is not None:
            self._trace = self._open_trace(life if life else incarnation)
            tally = self._trace.recorder
        engine = Engine(
            self.name,
            incarnation,
            protocol_name=self._protocol,
            members=list(self._peers),
            limits=limits,
            seal=self._seal,
            life=life,
            tally=tally,
            wall_offset=time.time() - now,
        )
        if self._trace is not None:
            trace = self._trace
            engine.tell_lives(
                lambda whom, name, life: trace.name_of(whom, name_in_life(name, life))
            )
        journal = self._journal
        if journal is not None:
            deliveries = journal.deliveries()
            engine.restore(
                journal.clock, journal.pairs(), journal.copies(), deliveries, now
            )
            engine.keep(journal, self._message_done)
            for saved in deliveries:
                if not saved.done:
                    engine.hand_over_again(saved, time.time())
        return engine

    def _open_trace(self, life: int) -> "LiveTrace":
        try:
            from antecede.trace.live import LiveTrace
        except ImportError:
            raise ConfigError("a trace needs antecede[trace]: pip install it") from None
        assert self._trace_path is not None
        own = 0
        if not look_up(self._protocol).capabilities.dynamic:
            own = sorted([*self._peers, self.name]).index(self.name)
        return LiveTrace(
            self._trace_path,
            name_in_life(self.name, life),
            id=own,
            protocol=self._protocol,
            run=self._run,
            write_ahead=self._journal is not None,
        )

    def _message_done(self, source: str, life: int, number: int) -> None:
        """Let a message never be handed over again, whatever happens."""
        if self._socket is None:
            raise LocalError(
                f"{self.name} is closed; {source}:{number} will be handed over again"
            )
        if self._journal is not None:
            self._journal.done(source, life, number)
            self.engine.write_journal()

    async def close(self, drain_s: float = DRAIN_S) -> None:
        """Wait until what was sent is delivered, say goodbye, and close the socket.

        After ``drain_s`` seconds the node closes in any case; peers that wait for its
        permits then wait until they remove it. Closing twice does nothing.
        """
        engine = self._engine
        if engine is None or self._socket is None or self._closing:
            return
        self._closing = True
        try:
            if drain_s > 0:
                await self._drain(engine, drain_s)
        finally:
            self._shut()

    async def _drain(self, engine: Engine, drain_s: float) -> None:
        try:
            async with asyncio.timeout(drain_s):
                await self._flushed(engine)
        except TimeoutError:
            logger.warning(
                "%s closes with %d copies undelivered", self.name, engine.backlog
            )
            return
        if self._journal is not None:
            return  # It comes back: its peers keep what they have for it.
        self._parting = engine.full = True  # It takes in nothing after its goodbye.
        for _ in range(BYE_TRIES):
            goodbyes = engine.bye(now_s())
            if not goodbyes or self._socket is None:
                return
            self._socket.transmit(goodbyes)
            await asyncio.sleep(BYE_S)

    def _shut(self) -> None:
        assert self._socket is not None
        assert self._loop is not None
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._socket = None
        if self._timer is not None:
            self._timer.cancel()
        try:
            self._shut_files()
        except ConfigError as error:
            self._failure = self._failure or error
            raise
        finally:
            self._wake_all()

    def _shut_files(self) -> None:
        if self._journal is not None:
            self._inbox.clear()  # What was not taken is handed over after the restart.
            try:
                if self._failure is None:
                    self.engine.write_journal()
            finally:
                self._journal.close()
        if self._trace is not None:
            for remote in self.engine.remotes.values():
                if not remote.life:  # It was spoken to, and never met.
                    self._trace.name_of(remote.id, remote.name)
            self._trace.close(complete=not self.engine.backlog)

    def _wake_all(self) -> None:
        """Tell everybody who waits that the node is closed."""
        for reader in self._readers:
            _wake(reader)
        error = self._failure or LocalError(f"{self.name} was closed")
        if self._failure is None:
            for future in self._committed:  # What they wait for has been written.
                _wake(future)
        blocked = [future for _, future in self._blocked]
        for future in (*blocked, *self._flushers, *self._committed, *self._pausing):
            if not future.done():
                future.set_exception(error)

    def _fail(self, error: ConfigError) -> None:
        """Close at once: what the journal cannot keep must not leave the node."""
        logger.error("%s stops: %s", self.name, error)
        self._failure = error
        self._closing = True
        self._shut()

    @property
    def address(self) -> Address:
        """Where the node listens."""
        return self._opened_socket().address

    @property
    def engine(self) -> Engine:
        """The engine, for those who want to look inside."""
        if self._engine is None:
            raise LocalError("the node is not open; use `async with Node(...) as node`")
        return self._engine

    # Peers.

    @property
    def peers(self) -> list[str]:
        """The names of the peers of the moment."""
        return self.engine.peers()

    def add_peer(self, name: str, address: str | Address) -> None:
        """Let ``name`` be a peer from now on."""
        udp = self._opened_socket()
        now = now_s()
        self.engine.add_peer(name, _find(name, parse_address(address), udp), now)
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

    async def _pause(self, seconds: float) -> None:
        """Wait, but not beyond the closing of the node: that raises."""
        assert self._loop is not None
        future = self._loop.create_future()
        self._pausing.add(future)
        timer = self._loop.call_later(seconds, _wake, future)
        try:
            await future
        finally:
            timer.cancel()
            self._pausing.discard(future)

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

    def _schedule(self) -> None:
        """Transmit once everybody whom the loop runs meanwhile has had their say."""
        self._scheduled = True
        assert self._loop is not None
        self._loop.call_soon(self._soon)

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

    async def _flushed(self, engine: Engine) -> None:
        assert self._loop is not None
        self._settle(now_s())
        while engine.backlog:
            future = self._loop.create_future()
            self._flushers.append(future)
            try:
                await future
            finally:
                if future in self._flushers:
                    self._flushers.remove(future)

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

    # What the loop calls.

    def _readable(self) -> None:
        engine = self._engine
        udp = self._socket
        if engine is None or udp is None:
            return
        received = udp.receive(BATCH)
        now = now_s()  # Not earlier: what has waited here must not look younger.
        for datagram, address in received:
            engine.feed(datagram, address, now)
        # Whoever is woken runs before the flush: acks ride on what they send.
        self._hand_over(engine)
        if not self._scheduled:
            self._schedule()

    def _soon(self) -> None:
        self._scheduled = False
        engine = self._engine
        if engine is None or self._socket is None:
            return
        if engine.has_output or self._journal is not None:
            self._settle(now_s())
        else:  # A lone message has taken everything along.
            self._hand_over(engine)
            self._set_timer(engine, now_s())

    def _due(self) -> None:
        if self._timer is not None:
            self._timer.cancel()  # It may not be what has called.
            self._timer = None
        if self._engine is not None and self._socket is not None:
            now = now_s()
            self._engine.handle_timer(now)
            self._settle(now)

    def _settle(self, now: float) -> None:
        """Transmit, hand over, wake whoever waits, and set the timer."""
        engine = self._engine
        if engine is not None and self._socket is not None:
            self._flush(engine, now)
            self._hand_over(engine)

    def _flush(self, engine: Engine, now: float) -> None:
        """Transmit what waits, and set the timer."""
        udp = self._socket
        if udp is None:
            return
        if self._trace is not None and self._journal is not None:
            self._trace.flush()  # Nothing leaves the node that its trace does not know.
        try:
            datagrams = engine.flush(now)
        except ConfigError as error:
            self._fail(error)
            return
        if datagrams:
            udp.transmit(datagrams)
        if self._committed:
            for future in self._committed:
                _wake(future)
            self._committed.clear()
        self._set_timer(engine, now)

    def _hand_over(self, engine: Engine) -> None:
        """Give the application what has come, and wake whoever waits."""
        fresh = engine.take()
        if fresh:
            self._inbox.extend(fresh)
            engine.full = self._is_full()
            self._wake_readers(len(fresh))
        if self._blocked:
            self._unblock(engine)
        if self._flushers and not engine.backlog:
            for future in self._flushers:
                _wake(future)
            self._flushers.clear()

    def _is_full(self) -> bool:
        return self._parting or len(self._inbox) >= self._inbox_max

    def _wake_readers(self, count: int) -> None:
        """Wake so many readers, but none that has been cancelled in their place."""
        while count > 0 and self._readers:
            reader = self._readers.popleft()
            if not reader.done():
                reader.set_result(None)
                count -= 1

    def _unblock(self, engine: Engine) -> None:
        still: list[tuple[Sequence[str], asyncio.Future[None]]] = []
        for targets, future in self._blocked:
            if engine.has_room(targets):
                _wake(future)
            else:
                still.append((targets, future))
        self._blocked = still

    def _set_timer(self, engine: Engine, now: float) -> None:
        """See to it that the engine's timer is handled; a timer set too early is kept."""
        deadline = engine.next_timer()
        if deadline is None:
            return
        if self._timer is not None:
            if self._timer_at <= deadline:
                return
            self._timer.cancel()
        assert self._loop is not None
        self._timer_at = deadline
        self._timer = self._loop.call_later(max(0.0, deadline - now), self._due)

    def _opened_socket(self) -> UdpSocket:
        if self._socket is None:
            if self._engine is None:
                raise LocalError("the node is not open; use `async with Node(...) as node`")
            raise self._failure or LocalError(f"{self.name} is closed")
        return self._socket


def _find(peer: str, address: Address, udp: UdpSocket) -> SocketAddress:
    if address[1] == 0:
        raise ConfigError(f"{peer} has port 0, where nobody listens; give its own port")
    return resolve(address, udp.family)[1]


def _make_seal(key: bytes | None) -> Sealing | None:
    if key is None:
        return None
    try:
        from antecede.engine.seal import Seal
    except ImportError:
        raise ConfigError("a key needs antecede[secure]: pip install it") from None
    return Seal(key)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
