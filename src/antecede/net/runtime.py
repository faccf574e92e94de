"""What drives a node's engine: its socket, its files, its timer, and who waits for what.

It opens and closes them, and is what the event loop calls. What an application calls is in
:mod:`antecede.net.node`.
"""

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from antecede.core.observer import Observer
from antecede.core.registry import protocol as look_up
from antecede.engine.engine import Engine
from antecede.engine.limits import Limits
from antecede.engine.message import Message
from antecede.engine.session_layer import Sealing
from antecede.errors import ConfigError, LocalError
from antecede.net.clock import now_s
from antecede.net.journal import Journal
from antecede.net.udp import (
    Address,
    SocketAddress,
    UdpSocket,
    is_loopback,
    parse_address,
    resolve,
)
from antecede.trace.live.names import name_in_life

if TYPE_CHECKING:
    from antecede.trace.live.writer import LiveTrace

__all__ = ["Driver", "reach"]

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


class Driver:
    """An engine with its surroundings; :class:`antecede.net.node.Node` is one.

    Its arguments are documented there.
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
                engine.add_peer(peer, reach(peer, address, udp), now)
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
        observer: Observer | None = None
        if self._trace_path is not None:
            self._trace = self._open_trace(life if life else incarnation)
            observer = self._trace.recorder
        engine = Engine(
            self.name,
            incarnation,
            protocol_name=self._protocol,
            members=list(self._peers),
            limits=limits,
            seal=self._seal,
            life=life,
            observer=observer,
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
            from antecede.trace.live.writer import LiveTrace
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

    # Waiting.

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

    def _schedule(self) -> None:
        """Transmit once everybody whom the loop runs meanwhile has had their say."""
        self._scheduled = True
        assert self._loop is not None
        self._loop.call_soon(self._soon)

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


def reach(peer: str, address: Address, udp: UdpSocket) -> SocketAddress:
    """Return the address of a peer for a socket; raise ConfigError if it has none."""
    if address[1] == 0:
        raise ConfigError(f"{peer} has port 0, where nobody listens; give its own port")
    return resolve(address, udp.family)[1]


def _make_seal(key: bytes | None) -> Sealing | None:
    if key is None:
        return None
    try:
        from antecede.engine.crypto import Seal
    except ImportError:
        raise ConfigError("a key needs antecede[secure]: pip install it") from None
    return Seal(key)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
