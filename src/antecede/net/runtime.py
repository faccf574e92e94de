"""The runtime of a node: an engine with its socket, its timer and its files."""

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import Final

from antecede.engine.engine import Engine
from antecede.errors import LocalError, StorageError
from antecede.net.blocked_sends import BlockedSends
from antecede.net.clock import now_s
from antecede.net.commits import Commits
from antecede.net.config import NodeConfig
from antecede.net.engine_factory import EngineFactory
from antecede.net.engine_timer import EngineTimer
from antecede.net.events import EventHub
from antecede.net.files import NodeFiles
from antecede.net.goodbye import leave
from antecede.net.host import DatagramSocket, Host, resolve_peer, running_host
from antecede.net.inbox import Inbox
from antecede.net.loop_check import check_loop
from antecede.net.reader import Reader
from antecede.net.receipts import Receipts
from antecede.net.resumption import resume_calls
from antecede.net.send_watch import SendWatch
from antecede.net.udp import Address
from antecede.net.waiters import Waiters

__all__ = ["DRAIN_S", "NodeRuntime"]

logger = logging.getLogger(__name__)

RECEIVE_BATCH: Final = 256
"""Datagrams to read from the socket before other tasks of the event loop run."""
DRAIN_S: Final = 5.0
"""Default time that a closing node waits for its messages to be delivered."""


class NodeRuntime:
    """Drives one engine on an event loop, from :meth:`open` to :meth:`close`.

    Call :meth:`transmit`, :meth:`process_output` or :meth:`schedule_output` after every
    input to :attr:`engine`.
    """

    def __init__(self, config: NodeConfig, host: Host | None = None) -> None:
        self._config = config
        self.name: Final = config.name
        self.engine: Engine | None = None
        self.events = EventHub(config.name, config.on_event, config.log_name)
        self.waiters = Waiters()
        self.inbox: Final = Inbox(config, self.events, lambda: self.now_s())
        self.blocked_sends = BlockedSends()
        self.receipts = Receipts()
        self.send_watch = SendWatch(
            self.blocked_sends, lambda: None if self.is_closed else self.engine, self.events
        )
        self.has_journal: Final = config.journal is not None
        self.is_closing = False
        self.output_scheduled = False
        """Whether the event loop will process output before it waits for I/O again."""
        self.failure: StorageError | None = None
        """The error of the journal that closed the node."""
        self.now_s = now_s
        """Returns the time of the host's clock."""
        self.transmit_lost: Mapping[str, int] = {}
        """How many datagrams were lost at the socket so far, by reason."""
        self._host = host  # None before open: the host of the event loop.
        self._files: NodeFiles | None = None
        self._commits: Commits | None = None
        self._transmit_after_commit = False
        self._socket: DatagramSocket | None = None
        self._is_timer_set = False  # False after an input that may change a deadline.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: EngineTimer | None = None
        self._engines: EngineFactory | None = None

    @property
    def is_closed(self) -> bool:
        """Whether the node was open, and is not any more."""
        return self.engine is not None and self._socket is None

    def opened_engine(self) -> Engine:
        """Return the engine; raise LocalError if the node was never opened."""
        if self.engine is None:
            raise LocalError(f"{self.name} is not open; use `async with Node(...) as node`")
        return self.engine

    def opened_socket(self) -> DatagramSocket:
        """Return the socket; raise if the node is not open."""
        if self._socket is None:
            self.opened_engine()
            raise self.failure or LocalError(f"{self.name} is closed; open a new node")
        self.check_loop()
        return self._socket

    def check_loop(self) -> None:
        """Raise LocalError if another thread, or another event loop, calls the node."""
        if asyncio._get_running_loop() is not self._loop:
            check_loop(self.name, self._loop)

    def open(self) -> None:
        """Open the socket and the files, and contact the peers."""
        config = self._config
        if self.engine is not None:
            raise LocalError(
                f"{self.name} was opened before, and a node opens once; make a new Node"
            )
        host = self._host or running_host()
        files = NodeFiles(config, host)
        udp = host.bind_socket(config.bind, segmentation=config.segmentation)
        self._host, self._files, self._socket = host, files, udp
        self.now_s = host.now_s
        self.transmit_lost = udp.lost
        try:
            limits = config.limits_for(udp.address[0])
            now = host.now_s()
            engines = EngineFactory(config, host, files, limits, self._commit_message)
            engine = engines.restore(now)
            for peer, address in config.peers.items():
                self._add_peer(engine, peer, address, now, True)
            engines.restore_addresses(engine, udp, now)
        except BaseException:
            self._socket = None
            udp.close()
            files.close(None)
            raise
        if files.journal is not None:
            self._commits = Commits(files.journal, host.start_worker())
        self._engines = engines
        self._use_engine(engine, udp)
        self._loop = asyncio.get_running_loop()
        self._timer = EngineTimer(self._loop, self.run_timers)
        udp.start_reading(self.receive_datagrams)
        self.process_output(now)

    def _use_engine(self, engine: Engine, udp: DatagramSocket) -> None:
        """Connect an engine with the inbox, the calls that wait, and the socket."""
        engine.flow.inbox = self.inbox.messages
        engine.watch.analysis.blocked_targets = lambda: self.blocked_sends.targets(engine)
        paths = engine.paths
        udp.marked = paths.marked
        udp.on_refused = lambda at, size: paths.refuse_size(at, size, self.now_s())
        self.engine = engine

    def add_peer(self, name: str, address: Address) -> None:
        """Add a peer, or change its address."""
        now = self.now_s()
        self._add_peer(self.opened_engine(), name, address, now, False)
        self.process_output(now)

    def _add_peer(
        self, engine: Engine, name: str, address: Address, now: float, is_configured: bool
    ) -> None:
        where = resolve_peer(self.opened_socket(), name, address)
        engine.add_peer(name, where, now, is_configured=is_configured)
        self.record_address(name, address)

    def record_address(self, name: str, address: Address) -> None:
        """Record the address of a node in the journal, if there is one."""
        if self._files is not None and self._files.journal is not None:
            self._files.journal.record_address(name, address)

    def _begin_history(self, engine: Engine) -> None:
        """Continue with a new history, because the journal is outdated."""
        assert self._engines is not None
        now = self.now_s()
        self.inbox.wake_readers(self._poll_messages(engine))  # The journal keeps these.
        successor, error = self._engines.begin_history(engine, now)
        logger.error("%s", error)
        self._use_engine(successor, self.opened_socket())
        self.waiters.interrupt(error)
        self.blocked_sends.interrupt(error)
        self.receipts.interrupt(error)
        self.process_output(now)

    def _commit_message(self, source: str, history: int, number: int) -> Awaitable[None]:
        self.check_loop()
        if self._socket is None or self._commits is None or self._files is None:
            raise LocalError(
                f"cannot commit {source}:{number}: {self.name} is closed; the message is"
                " redelivered when the node is opened again"
            )
        if self._files.journal is not None:
            self._files.journal.mark_processed(source, history, number)
        self.schedule_output()
        return self._commits.receipt()

    async def close(self, drain_s: float, *, returns: bool | None = None) -> None:
        """Wait up to ``drain_s`` for acks, say BYE unless the node returns, and close."""
        engine = self.engine
        if engine is None or self._socket is None or self.is_closing:
            return
        self.check_loop()
        self.is_closing = True
        try:
            if drain_s > 0:
                acks = self.wait_for_acks(engine)
                returns = self.has_journal if returns is None else returns
                await leave(
                    engine, self._socket, acks, self.now_s, drain_s, returns=returns
                )
            self.process_output(self.now_s())
            if self._commits is not None:
                await self._commits.wait()
        except StorageError:
            if self.failure is None:
                raise
        finally:
            self._close_resources(engine)

    def _close_resources(self, engine: Engine) -> None:
        """Close the socket, the timer and the files, and end all waiting calls."""
        if self._socket is None or self._files is None:
            return  # The journal has failed while the node was closing.
        self._socket.close()
        self._socket = None
        if self._timer is not None:
            self._timer.cancel()
        if self.has_journal:
            self.inbox.messages.clear()  # The journal redelivers these after a restart.
        closed = self.failure or LocalError(f"{self.name} was closed")
        try:
            if self._commits is not None:
                self._commits.close(closed, write=self.failure is None)
        except StorageError as error:
            closed = self.failure = error
            raise
        finally:
            self._files.close(engine)
            self.waiters.close(closed)
            self.inbox.wake_readers(len(self.inbox.readers))
            self.events.close()
            self.blocked_sends.close(closed)
            self.receipts.interrupt(closed)

    def _fail(self, engine: Engine, error: StorageError) -> None:
        """Close at once: no effect of an event that is not in the journal may leave."""
        logger.error("%s closes: %s", self.name, error)
        self.failure = error
        self.is_closing = True
        self._close_resources(engine)

    async def wait_for_acks(self, engine: Engine) -> None:
        """Wait until every copy sent so far, and meanwhile, is acked."""
        self.process_output(self.now_s())
        while engine.backlog:
            await self.waiters.wait_for_acks()

    async def wait_for_commit(self) -> None:
        """Wait until the messages sent so far are in the journal."""
        if self.failure is not None:
            raise self.failure
        if self._commits is not None:
            await self._commits.wait()

    # Input.

    def receive_datagrams(self) -> None:
        """Process the datagrams that have arrived at the socket."""
        engine = self.engine
        udp = self._socket
        if engine is None or udp is None:
            return
        received = udp.receive(RECEIVE_BATCH)
        # The clock is read after the socket: a lease must not seem longer than it is.
        now = self.now_s()
        for datagram, address, mark in received:
            engine.receive_datagram(datagram, address, now, mark)
        if self.has_journal and engine.outdated is not None:
            self._begin_history(engine)
            return
        self._is_timer_set = False
        self._poll_messages(engine)
        self._end_waits(engine)
        # The readers run now, before the output: their sends share datagrams with the acks.
        self.inbox.resume_readers()
        if engine.has_output or self.has_journal:
            self.schedule_output()
        elif not self._is_timer_set:
            self._set_timer(engine, now)

    def run_timers(self) -> None:
        """Handle the engine's timers that are due."""
        if self._timer is not None:
            self._timer.cancel()  # The caller may be another than this timer.
        if self.engine is not None and self._socket is not None:
            now = self.now_s()
            self.engine.handle_timer(now)
            self.process_output(now)

    def new_reader(self) -> Reader | None:
        """Return a future to await until there is a message; None if the node is closed."""
        if self._socket is None or (loop := self._loop) is None:
            self.opened_engine()
            return None
        self.check_loop()
        return self.inbox.new_reader(loop)

    def _tell_peers(self) -> None:
        """Schedule output if it would inform peers of new room in the inbox."""
        engine = self.engine
        if engine is not None and engine.flow.has_updates:
            self.schedule_output()

    # Output.

    def schedule_output(self) -> None:
        """Process output after the callbacks that the loop already has to run."""
        self._is_timer_set = False
        if not self.output_scheduled:
            self.output_scheduled = True
            assert self._loop is not None
            self._loop.call_soon(self._run_scheduled_output)

    def _run_scheduled_output(self) -> None:
        self.output_scheduled = False
        engine = self.engine
        if engine is None or self._socket is None:
            return
        if engine.has_output or self.has_journal:
            self.process_output(self.now_s())
        else:  # Everything was transmitted together with a single message.
            self._collect_deliveries(engine)
            if not self._is_timer_set:
                self._set_timer(engine, self.now_s())

    def process_output(self, now: float) -> None:
        """Transmit, move deliveries to the inbox, wake waiting calls, and set the timer."""
        engine = self.engine
        if engine is not None and self._socket is not None:
            self.transmit(engine, now)
            self._collect_deliveries(engine)

    def transmit(self, engine: Engine, now: float) -> None:
        """Commit the journal, transmit the queued frames, and set the timer."""
        udp = self._socket
        if udp is None:
            return
        commits = self._commits
        if commits is None:
            datagrams = engine.flush(now)
            if datagrams:
                udp.transmit(datagrams)
        elif commits.is_busy:
            self._transmit_after_commit = True
            return  # The end of the commit sets the timer.
        else:
            assert self._files is not None
            self._files.flush_trace()
            datagrams = engine.flush(now)
            commits.start(partial(self._transmit_committed, engine, datagrams))
        self.inbox.on_room = self._tell_peers if engine.flow.has_limited_peers else None
        self._set_timer(engine, now)

    def _set_timer(self, engine: Engine, now: float) -> None:
        if self._timer is not None and self._socket is not None:
            self._timer.set(engine.next_timer(), now)
            self._is_timer_set = True

    def _transmit_committed(
        self,
        engine: Engine,
        datagrams: Sequence[tuple[object, bytes]],
        error: StorageError | None,
    ) -> None:
        """Transmit datagrams, now that the events before them are in the journal."""
        if self._socket is None:
            return
        if error is not None:
            self._fail(engine, error)
            return
        if datagrams and engine is self.engine:
            self._socket.transmit(datagrams)
        if self._transmit_after_commit:
            self._transmit_after_commit = False
            self.process_output(self.now_s())

    def _collect_deliveries(self, engine: Engine) -> None:
        """Move delivered messages to the inbox, and end calls that need not wait."""
        self.inbox.wake_readers(self._poll_messages(engine))
        self._end_waits(engine)

    def _end_waits(self, engine: Engine) -> None:
        """Publish events, and end calls that wait for acks, room or a handshake."""
        if engine.watch.has_events:
            self.events.publish(engine.watch.poll_events(), self.now_s())
        waits = self.waiters, self.blocked_sends, self.receipts
        if resume_calls(engine, *waits, self.now_s):
            self.schedule_output()

    def _poll_messages(self, engine: Engine) -> int:
        """Move delivered messages to the inbox, and return their number."""
        messages = engine.poll_messages()
        if self._config.filter_messages is not None:
            messages = self._config.filter_messages(messages)
        if messages:
            self.inbox.put(messages)
        return len(messages)
