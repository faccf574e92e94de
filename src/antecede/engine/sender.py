"""Sending: fragments and bundles of messages, and the windows of peers."""

from collections.abc import Iterable, Sequence
from typing import Final

from antecede.core.process import ProcessId
from antecede.core.registry import ProtocolInfo
from antecede.engine.acknowledgements import ACK_BLOCK_BYTES_MAX
from antecede.engine.bundle import PendingBundle
from antecede.engine.datagram import DATA_PREFIX
from antecede.engine.fragmentation import WHOLE_PREFIX, fragment
from antecede.engine.journal_recorder import JournalRecorder
from antecede.engine.limits import MESSAGE_BYTES_MIN, Limits
from antecede.engine.peer_session import ACTIVE, REMOVING, PeerSession
from antecede.engine.process_driver import ProcessDriver
from antecede.errors import LocalError

__all__ = ["Channel", "Sender", "TargetNames"]

Channel = tuple[str, ProcessId, int]
"""The name and the process id of a peer, and how often copies to it were abandoned."""

TargetNames = Sequence[str] | None
"""The names of the targets of a message; None for the broadcast of the protocol."""

EARLY_WINDOWS_MAX: Final = 4
"""How many windows of copies to one peer may be queued or in flight, if most of them have
arrived before a lost one."""
UNFLUSHED_MAX: Final = 320
"""The number of messages in bundles that makes a flush worth its cost."""
METADATA_BYTES_MAX: Final = 40
"""The most bytes around a payload in a DATA body, unless they grow with the group."""


class Sender:
    """Sends the messages of an application within the windows of its peers.

    Args:
        name: the name of the node.
        info: the protocol.
        limits: the limits.
        body_bytes_max: the largest body of a datagram.
        driver: drives the process.
        sessions: the sessions by name of the peer.
        journal: reports whether there is a journal.
    """

    __slots__ = (
        "_driver",
        "_info",
        "_journal",
        "_last_target",
        "_message_bytes_max",
        "_name",
        "_payload_bytes_max",
        "_pending",
        "_process",
        "_recovery",
        "_retained_copies_max",
        "_sessions",
        "_window_bytes_max",
        "_window_copies_max",
        "sent_alone",
        "unflushed",
    )

    sent_alone: bool
    """Whether the copy that :meth:`try_send` sent last was the only one under way to its
    target."""
    unflushed: int
    """The number of messages that were put into bundles since the last flush."""

    def __init__(
        self,
        name: str,
        info: ProtocolInfo,
        limits: Limits,
        body_bytes_max: int,
        driver: ProcessDriver,
        sessions: dict[str, PeerSession],
        journal: JournalRecorder,
    ) -> None:
        self._name = name
        self._info = info
        self._driver = driver
        process = driver.process
        self._process = process
        self._sessions = sessions
        self._journal = journal
        self._payload_bytes_max = (
            body_bytes_max - DATA_PREFIX.size - ACK_BLOCK_BYTES_MAX - METADATA_BYTES_MAX
        )
        self._message_bytes_max = limits.message_bytes_max
        self._window_copies_max = limits.window_copies_max
        self._window_bytes_max = limits.window_bytes_max
        self._retained_copies_max = limits.retained_copies_max
        self.sent_alone = False
        self.unflushed = 0
        self._pending = PendingBundle()
        self._last_target = ""
        # The process numbers the messages of a bundle later than the node does.
        self._recovery = process.recovery if info.capabilities.bundles else None

    def fragment(self, data: object) -> list[bytes]:
        """Return the payloads of a message, to be sent with :meth:`send_fragment`.

        Raise LocalError if the data are not bytes, or too long.
        """
        if not isinstance(data, bytes):
            raise LocalError(f"data must be bytes, not {type(data).__name__}")
        if len(data) > self._message_bytes_max:
            raise LocalError(
                f"a message of {len(data)} bytes is above the limit of"
                f" {self._message_bytes_max}; raise Limits.message_bytes_max or send less"
            )
        can = self._info.capabilities
        if len(data) >= self._payload_bytes_max and can.reordering and not can.causal:
            raise LocalError(
                f"{self._info.name} keeps no order, so a message must fit into a datagram:"
                f" send at most {self._payload_bytes_max - 1} bytes, not {len(data)}"
            )
        return fragment(data, self._payload_bytes_max)

    def channels(self, targets: Iterable[str]) -> list[Channel]:
        """Return the channel to each target that is a peer or the node itself.

        A channel ends when the copies in it are abandoned. A message in fragments arrives
        only if all of them are sent through the same channel.
        """
        found: list[Channel] = []
        for name in targets:
            session = self._sessions.get(name)
            if session is not None:
                found.append((name, session.id, session.abandonments))
            elif name == self._name:
                found.append((name, self._process.id, 0))
        return found

    def knows_limits(self, targets: Iterable[str], size: int) -> bool:
        """Return whether all targets accept a message of ``size`` bytes.

        Return False if this is unknown, because a target was not met since the node was
        opened. Raise LocalError if a target does not accept it, or is unknown.
        """
        if size <= MESSAGE_BYTES_MIN:
            return True
        are_known = True
        for name in targets:
            session = self._sessions.get(name)
            if session is None:
                if name == self._name:
                    continue
                raise self._unknown(name)
            if session.message_bytes_max == 0:
                are_known = False
            elif size > session.message_bytes_max:
                raise LocalError(
                    f"{name} accepts messages of at most {session.message_bytes_max} bytes,"
                    f" not {size}; send less, or raise Limits.message_bytes_max there"
                )
        return are_known

    def send_fragment(self, targets: TargetNames, payload: bytes, now: float) -> int:
        """Send one payload of :meth:`fragment`, and return its number.

        Without targets, use the broadcast of the protocol, which it must have. Check
        :meth:`has_room` before: this method sends even if a window is full. Raise
        LocalError, and change nothing, if a target is unknown or the protocol has no
        multicast.
        """
        self.hand_over(now)
        if targets is None:
            return self._driver.broadcast(payload, now)
        ids: list[ProcessId] = []
        for name in targets:
            session = self._sessions.get(name)
            if session is not None and session.state is ACTIVE and not session.is_link:
                ids.append(session.id)
            elif name == self._name:
                ids.append(self._process.id)
            else:
                raise self._unknown(name)
        return self._driver.send(ids, payload, now, targets)

    def _unknown(self, name: str) -> LocalError:
        return LocalError(f"{name} is not a peer of {self._name}; call add_peer first")

    def try_send(
        self, target: object, data: object, now: float, in_batch: bool = False
    ) -> int:
        """Send a message of one fragment to one peer that has room; return its number.

        The message becomes part of a bundle if it is one of a batch, or if an earlier
        message to the same target is queued or in flight. Return 0, and send nothing, in
        any other case; use :meth:`fragment`, :meth:`has_room` and :meth:`send_fragment`
        then.
        """
        self.sent_alone = False
        if not isinstance(data, bytes) or len(data) >= self._payload_bytes_max:
            return 0
        pending = self._pending
        if pending.count > 0:
            if isinstance(target, str):
                number = pending.append(target, data)
                if number > 0:
                    self._record(number, now)
                    return number
            self.hand_over(now)
        session = self._sessions.get(target) if isinstance(target, str) else None
        if (
            session is None
            or session.state is not ACTIVE
            or session.is_link
            or self._journal.writer is not None
        ):
            return 0
        process = self._process
        backlog = process.backlog(session.id)
        is_full = (
            backlog >= self._window_copies_max
            or process.backlog_bytes(session.id) >= self._window_bytes_max
        )
        if (
            (is_full and not self._is_open(session))
            or process.retained() >= self._retained_copies_max
            or len(data) > self._message_bytes_max
        ):
            return 0
        recovery = self._recovery
        is_next = session.name == self._last_target
        self._last_target = session.name
        is_first = backlog == 0 or not is_next  # Targets in turn make no bundles.
        if (in_batch or not is_first) and not is_full and recovery is not None:
            number = recovery.last_number() + 1
            room = self._window_bytes_max - process.backlog_bytes(session.id)
            messages = self._window_copies_max
            if 0 <= session.window < messages:
                messages = session.window  # A bundle must not exceed the inbox of the peer.
            pending.start(
                session.name,
                data,
                number,
                min(self._bundle_bytes(session), room),
                messages - backlog,
            )
            self._record(number, now)
            return number
        number = self._driver.send([session.id], WHOLE_PREFIX + data, now)
        self.sent_alone = backlog == 0 and process.backlog(session.id) == 1
        return number

    # Bundles.

    def _bundle_bytes(self, session: PeerSession) -> int:
        """Return the size of bundles that every path carries and that fill a datagram."""
        path = session.path
        most = self._payload_bytes_max + METADATA_BYTES_MAX
        room = most + path.usable_bytes - path.mtu.base
        bundles = (room + most - 1) // most
        return room // bundles - METADATA_BYTES_MAX

    def append(self, target: object, data: object) -> int:
        """Append a message to the pending bundle, and return its number.

        Return 0, and change nothing, if there is none for this target, it is full, a flush
        is due, or events are recorded; use :meth:`try_send` then.
        """
        if (
            self.unflushed >= UNFLUSHED_MAX
            or self._driver.is_observed
            or not isinstance(target, str)
            or not isinstance(data, bytes)
        ):
            return 0
        number = self._pending.append(target, data)
        if number > 0:
            self.unflushed += 1
        return number

    def send_batch(
        self, target: object, batch: list[object], numbers: list[int], now: float
    ) -> None:
        """Send the messages of a batch that have no number yet, and append the numbers.

        Stop when a flush is due, and before a message that :meth:`try_send` cannot send.
        """
        index = len(numbers)
        while index < len(batch):
            data = batch[index]
            number = self.append(target, data)
            if number == 0:
                number = self.try_send(target, data, now, True)
                if number == 0:
                    return
            numbers.append(number)
            index += 1
            if self.unflushed >= UNFLUSHED_MAX:
                return

    def _record(self, number: int, now: float) -> None:
        """Count a message of the pending bundle, and record that it was sent."""
        self.unflushed += 1
        if self._driver.is_observed:
            session = self._sessions[self._pending.target]
            self._driver.record_sent(number, [session.id], now)

    def hand_over(self, now: float) -> None:
        """Pass the pending bundle to the process; call this before any other input."""
        pending = self._pending
        count = pending.count
        if count == 0:
            return
        session = self._sessions[pending.target]
        payload = pending.pop() if count > 1 else WHOLE_PREFIX + pending.pop_single()
        self._driver.send_bundle(session.id, payload, count, now)

    @property
    def pending_messages(self) -> int:
        """The number of messages in the pending bundle."""
        return self._pending.count

    @property
    def is_flush_due(self) -> bool:
        """Whether enough messages were put into bundles to make a flush worth its cost."""
        return self.unflushed >= UNFLUSHED_MAX

    def has_room(self, targets: Iterable[str]) -> bool:
        """Return whether the windows of all active peers in ``targets`` are open.

        Other targets do not count: a send to them fails at once.
        """
        if self._process.retained() >= self._retained_copies_max:
            return False
        for name in targets:
            session = self._sessions.get(name)
            if (
                session is not None
                and session.state is ACTIVE
                and not self._is_open(session)
            ):
                return False
        return True

    def _is_open(self, session: PeerSession) -> bool:
        """Return whether the window of a peer has room.

        Copies that have arrived before a lost one do not use it, as long as there are not
        many of them: the lost one does not stop those after it.
        """
        process = self._process
        id = session.id  # noqa: A001 (the word for it)
        copies = process.backlog(id)
        size = process.backlog_bytes(id)
        if session.name == self._pending.target:
            copies += self._pending.count
        if copies < self._window_copies_max and size < self._window_bytes_max:
            return True
        return (
            copies < EARLY_WINDOWS_MAX * self._window_copies_max
            and size < EARLY_WINDOWS_MAX * self._window_bytes_max
            and copies - process.early_copies(id) < self._window_copies_max
            and size - process.early_bytes(id) < self._window_bytes_max
        )

    def is_only_in_flight(self, targets: Sequence[str]) -> bool:
        """Return whether the copy just sent is the only one under way to its target."""
        if len(targets) != 1:
            return False
        session = self._sessions.get(targets[0])
        return (
            session is not None
            and self._pending.count == 0
            and self._process.backlog(session.id) == 1
        )

    @property
    def backlog(self) -> int:
        """How many copies are queued or in flight, to peers that may still ack them."""
        process = self._process
        return self._pending.count + sum(
            process.backlog(session.id)
            for session in self._sessions.values()
            if session.state in (ACTIVE, REMOVING)
        )
