"""The engine: a node of the group without I/O.

Inputs are ``send_fragment`` (the application sends), ``receive_datagram`` and
``handle_timer``; outputs are ``flush`` (datagrams to transmit), ``poll_messages`` (messages
for the application) and ``next_timer``. Time is an argument, in seconds of a monotonic
clock. A driver, such as a socket or a simulator, calls ``flush`` after each batch of
inputs: all frames to one peer then share datagrams, and acks and permits that later ones
cover are left out.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence

from antecede.core.config import DEFAULT_BUDGET_BYTES
from antecede.core.observer import Observer
from antecede.core.process import PeerRecovery, ProcessId
from antecede.core.registry import protocol
from antecede.engine.datagram import (
    AEAD_TAG_BYTES,
    BYE,
    BYE_ACK,
    HEADER,
    HELLO,
    QUESTION,
    protocol_hash,
)
from antecede.engine.deadlines import Deadlines
from antecede.engine.ecn import NOT_ECT
from antecede.engine.entry_names import make_entry_names
from antecede.engine.event_collector import EventCollector
from antecede.engine.flow_control import FlowControl, make_flow_control
from antecede.engine.journal import JournalWriter, SavedDelivery, SavedState
from antecede.engine.journal_recorder import JournalRecorder
from antecede.engine.limits import Limits
from antecede.engine.links import Links
from antecede.engine.loss_recovery import LossRecovery
from antecede.engine.membership import Membership
from antecede.engine.message import Message
from antecede.engine.peer_session import PeerSession, SessionEvent
from antecede.engine.process_driver import ProcessDriver
from antecede.engine.process_factory import group_of, make_process
from antecede.engine.restore import restore
from antecede.engine.sealer import DatagramCipher
from antecede.engine.seeded_random import random_bits_of
from antecede.engine.sender import Channel, Sender, TargetNames
from antecede.engine.session_layer import SessionLayer
from antecede.engine.statistics import EngineStats
from antecede.engine.transmitter import Transmitter
from antecede.engine.watch import Watch
from antecede.errors import ConfigError

__all__ = ["Engine"]


class Engine:
    """A node without I/O.

    Args:
        name: the name of the node, unique in the group.
        incarnation: a number above 0 that no earlier start of this node had.
        protocol_name: a protocol of the registry that suits nodes.
        members: the names of all nodes, for protocols with a fixed membership.
        limits: the limits; the defaults of :class:`Limits` if None.
        cipher: encrypts datagrams; None if the group has no key.
        history: the history of the node's journal; 0 for a new history.
        observer: records events; None for no trace.
        wall_offset_s: the difference of the wall clock to ``now``.
        budget_bytes: the budget of ``bounded``.
        random_bits: draws cryptographically secure random numbers; None only in tests.
    """

    __slots__ = (
        "_deadlines",
        "_driver",
        "_journal",
        "_layer",
        "_membership",
        "_recovery",
        "_sender",
        "_sessions",
        "_transmitter",
        "datagrams_in",
        "info",
        "links",
        "paths",
        "process",
        "unordered",
        "watch",
    )

    def __init__(
        self,
        name: str,
        incarnation: int,
        *,
        protocol_name: str = "hybrid",
        members: Sequence[str] = (),
        limits: Limits | None = None,
        cipher: DatagramCipher | None = None,
        history: int = 0,
        observer: Observer | None = None,
        wall_offset_s: float = 0.0,
        budget_bytes: int = DEFAULT_BUDGET_BYTES,
        random_bits: Callable[[int], int] | None = None,
    ) -> None:
        """Raise ConfigError if the protocol does not suit a node or its limits."""
        info = protocol(protocol_name)
        bounds = limits if limits is not None else Limits()
        group = group_of(info, name, members)
        own = history if history else incarnation
        process = make_process(info, name, own, members, bounds, budget_bytes)
        events = EventCollector()
        layer = SessionLayer(
            name,
            incarnation,
            own,
            protocol_hash([protocol_name, *(() if info.capabilities.dynamic else group)]),
            bounds,
            cipher,
            process.recovery,
            make_flow_control(process, bounds),
            random_bits_of(random_bits, incarnation),
            events,
            protocol_name,
        )
        tag_bytes = AEAD_TAG_BYTES if cipher is not None else 0
        body_bytes_max = bounds.base_bytes - HEADER.size - tag_bytes
        entry_names = make_entry_names(process, layer, bounds, budget_bytes)
        self.info = info
        self.process = process
        self._layer = layer
        self.paths = layer.paths
        self._journal = JournalRecorder()
        self._transmitter = Transmitter(layer, tag_bytes, entry_names, process.windows)
        self._driver = ProcessDriver(
            process,
            info,
            layer,
            self._transmitter,
            self._journal,
            bounds.message_bytes_max,
            observer,
            wall_offset_s,
            entry_names,
        )
        self.watch = Watch(layer, self._driver, bounds, events)
        self._recovery = LossRecovery(layer, self._driver, self._transmitter)
        self.unordered = self._recovery.unordered
        self._membership = Membership(
            info, group, bounds, layer, self._driver, self._journal, entry_names
        )
        self.links = Links(layer, self._membership, self._transmitter)
        departures = self._membership.departures
        self._deadlines = Deadlines(self._driver, self._recovery, departures, self.watch)
        self._sessions = self._membership.table.sessions
        room = body_bytes_max - (entry_names.bytes_max if entry_names is not None else 0)
        self._sender = Sender(
            name, info, bounds, room, self._driver, self._sessions, self._journal
        )
        self.datagrams_in = 0

    @property
    def name(self) -> str:
        """The name of the node."""
        return self._layer.name

    @property
    def history(self) -> int:
        """The history that the numbers of the node's messages belong to."""
        return self._layer.history

    @property
    def incarnation(self) -> int:
        """The number of this start of the node."""
        return self._layer.incarnation

    @property
    def sessions(self) -> dict[str, PeerSession]:
        """All sessions by name of the peer, those of removed peers included."""
        return self._sessions

    @property
    def outdated(self) -> tuple[str, int] | None:
        """The name of a peer that knows more of this node, and the history it knows.

        The node was restored from an outdated journal, and must start a new history.
        """
        return self._membership.histories.outdated or self._layer.outdated

    @property
    def flow(self) -> FlowControl:
        """The room in the inbox; its ``inbox`` is that of the driver."""
        return self._layer.flow

    def peers(self) -> list[str]:
        """Return the names of the active peers."""
        return self._membership.table.peers()

    def name_of(self, id: ProcessId) -> str:
        """Return the name of the node with a process id."""
        return self._driver.name_of(id)

    # Membership.

    def add_peer(
        self, name: str, address: object, now: float, *, is_configured: bool = False
    ) -> None:
        """Add a peer, or add it again; see :meth:`Membership.add_peer`."""
        self._sender.hand_over(now)
        self._membership.add_peer(name, address, now, is_configured=is_configured)

    def set_address(self, name: str, address: object, now: float) -> None:
        """Set the address of a peer that was restored from the journal."""
        self._membership.set_address(name, address, now)

    def remove_peer(self, name: str, now: float, *, stopped: bool = False) -> float:
        """Remove a peer, and return when its unacked messages will be abandoned.

        With ``stopped`` the node also stops waiting for the peer's permits then. This is
        safe only if the peer has stopped for good; see docs/explanation/peer-removal.md.
        Raise LocalError if the peer is unknown, or the protocol cannot remove peers.
        """
        self._sender.hand_over(now)
        return self._membership.departures.remove_peer(name, now, stopped=stopped)

    def bye_datagrams(self, now: float) -> list[tuple[object, bytes]]:
        """Return a BYE to each peer that has not acked one; call it while there is any."""
        self._sender.hand_over(now)
        return self._membership.bye_datagrams(now)

    def report_histories(self, on_history: Callable[[int, str, int], None]) -> None:
        """Call ``on_history`` with id, name and history of each peer, now and later."""
        self._membership.table.report_histories(on_history)

    # Sending.

    def fragment(self, data: object) -> list[bytes]:
        """Return the payloads of a message; see :meth:`Sender.fragment`."""
        return self._sender.fragment(data)

    def knows_limits(self, targets: Iterable[str], size: int) -> bool:
        """Return whether all targets are known to accept a message of ``size`` bytes."""
        return self._sender.knows_limits(targets, size)

    def channels(self, targets: Iterable[str]) -> list[Channel]:
        """Return the channel to each target; all fragments of a message must use it."""
        return self._sender.channels(targets)

    def has_room(self, targets: Iterable[str]) -> bool:
        """Return whether the windows of all active peers in ``targets`` are open."""
        return self._sender.has_room(targets)

    def send_fragment(self, targets: TargetNames, payload: bytes, now: float) -> int:
        """Send one payload of :meth:`fragment`; see :meth:`Sender.send_fragment`."""
        return self._sender.send_fragment(targets, payload, now)

    def send(self, targets: Sequence[str], data: bytes, now: float) -> int:
        """Send a message, even if a window is full, and return its number."""
        return [self.send_fragment(targets, each, now) for each in self.fragment(data)][-1]

    def try_send(self, target: object, data: object, now: float) -> int:
        """Send a message of one fragment to one peer that has room; return its number.

        Return 0 in any other case; use :meth:`fragment` and :meth:`send_fragment` then.
        """
        return self._sender.try_send(target, data, now)

    def append(self, target: object, data: object) -> int:
        """Append a message to the pending bundle; return its number, or 0 if impossible."""
        return self._sender.append(target, data)

    def send_batch(
        self, target: object, batch: list[object], numbers: list[int], now: float
    ) -> None:
        """Send messages of a batch until a flush is due; see :meth:`Sender.send_batch`."""
        self._sender.send_batch(target, batch, numbers, now)

    @property
    def sent_alone(self) -> bool:
        """Whether the last :meth:`try_send` sent the only copy under way to its target."""
        return self._sender.sent_alone

    def is_only_in_flight(self, targets: Sequence[str]) -> bool:
        """Return whether the copy just sent is the only one under way to its target."""
        return self._sender.is_only_in_flight(targets)

    def has_given_up(self, target: str, number: int) -> bool:
        """Return whether the copy of a message to a peer was given up, not acked."""
        return self._driver.gaps.has_given_up(target, number)

    @property
    def backlog(self) -> int:
        """How many copies are queued or in flight, to peers that may still ack them."""
        return self._sender.backlog

    # Datagrams.

    def receive_datagram(
        self, datagram: bytes, address: object, now: float, mark: int = NOT_ECT
    ) -> None:
        """Process a datagram with a mark; count and drop an invalid one."""
        self.datagrams_in += 1
        self._sender.hand_over(now)
        received = self._layer.accept(datagram, address, now)
        if received is None:
            return
        received.mark = mark
        session = received.session
        histories = self._membership.histories
        is_usable = received.kind != HELLO and histories.update_session(received, now)
        self._driver.apply_window(session, received.window, now)
        self._recovery.receive_acks(received, now)
        if not is_usable:
            return
        self._journal.session_changed(session)
        if self._recovery.receive(received, now):
            pass
        elif received.kind >= QUESTION:
            self.watch.receive(received, now)
        elif received.kind == BYE:
            self._membership.departures.receive_bye(session, now)
        elif received.kind == BYE_ACK:
            session.apply(SessionEvent.BYE_ACKED)
        elif self._layer.rtt_s >= 0:
            session.path.learn_round_trip(self._layer.rtt_s)
            self.process.learn_round_trip(session.id, self._layer.rtt_s, now)
        if session.outbox.size > 0:
            self._transmitter.schedule(session)

    @property
    def has_output(self) -> bool:
        """Whether :meth:`flush` may return datagrams."""
        return self._transmitter.has_output or self._sender.pending_messages > 0

    @property
    def is_flush_due(self) -> bool:
        """Whether :attr:`sent_alone` or :attr:`should_flush` is true."""
        return self._sender.sent_alone or self.should_flush

    @property
    def should_flush(self) -> bool:
        """Whether enough frames and messages wait that :meth:`flush` is due now."""
        return self._transmitter.should_flush or self._sender.is_flush_due

    def flush(self, now: float) -> list[tuple[object, bytes]]:
        """Return the datagrams to transmit with their addresses.

        Make the journal durable before you transmit them.
        """
        self._sender.hand_over(now)
        self._sender.unflushed = 0
        self._journal.record_sessions(self.process)
        return self._transmitter.flush(now)

    def poll_messages(self) -> list[Message]:
        """Return the messages delivered since the last call, in order."""
        return self._driver.deliveries.poll_messages()

    def next_timer(self) -> float | None:
        """Return when :meth:`handle_timer` is due next, or None for never."""
        return self._deadlines.next_deadline()

    def handle_timer(self, now: float) -> None:
        """Do everything due at ``now``; flush afterwards. An early call does nothing."""
        self._sender.hand_over(now)
        self._deadlines.handle(now)

    # Journal.

    def attach_journal(
        self,
        writer: JournalWriter,
        on_commit: Callable[[str, int, int], Awaitable[None]] | None = None,
    ) -> None:
        """Record to a journal from now on; ``Message.commit`` calls ``on_commit``."""
        self._check_journal()
        self._journal.attach(writer, on_commit, self.process, self._sessions.values())

    def restore(self, saved: SavedState, now: float) -> None:
        """Restore the node from its journal; attach the journal and add peers after it."""
        recovery = self._check_journal()
        own = (self._layer.name, self._layer.history)
        restore(recovery, self._driver.entry_names, self._membership, own, saved, now)
        self._driver.drain(now)

    def _check_journal(self) -> PeerRecovery:
        recovery = self.process.recovery
        if recovery is None:
            raise ConfigError(f"{self.info.name} cannot keep a journal; use hybrid")
        return recovery

    def redeliver(self, saved: SavedDelivery, delivered_at: float) -> None:
        """Deliver a message of the journal that the application has not processed."""
        session = self._sessions.get(saved.source)
        self._driver.deliveries.redeliver(session, saved, delivered_at)

    def stats(self) -> EngineStats:
        """Return the counters."""
        return self._recovery.stats(self.datagrams_in, self._sender.pending_messages)
