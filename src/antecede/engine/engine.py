"""The engine: a protocol's process that speaks in datagrams, and does no I/O.

Inputs are ``post`` (the application sends), ``feed`` (a datagram has come) and
``handle_timer``; outputs are ``flush`` (datagrams to transmit), ``take`` (messages for the
application) and ``next_timer``. Time is an argument, in seconds of a clock that never runs
backwards. Whoever drives it, a socket or a simulator, calls ``flush`` after each batch of
inputs: all frames for one peer then share datagrams, and acks and permits that others
cover are left out.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from antecede.core.contract import NEVER, Delivery, ProcessBase, ProcessId
from antecede.core.encoding import Reader
from antecede.core.hybrid_basic import HybridBasic
from antecede.core.registry import ProtocolInfo, protocol
from antecede.core.setting import Setting
from antecede.engine.gate import Accepted, Gate, Sealing
from antecede.engine.limits import Limits
from antecede.engine.message import LAST, PART, WHOLE, Message, fragments
from antecede.engine.remote import ACTIVE, GONE, LEAVING, LEFT, Remote
from antecede.engine.wire import (
    BYE,
    DATA,
    DATA_PREFIX,
    FAREWELL,
    HEAD,
    protocol_tag,
    tag_of,
)
from antecede.errors import ConfigError, LocalError, PeerError
from antecede.trace.recorder import Tally

__all__ = ["Engine", "EngineStats", "JournalKeeper"]

ITSELF: Final = ProcessId(0)
"""Its own id, where ids mean nothing to others."""
SEAL_BYTES: Final = 16
METADATA_MAX: Final = 40
"""The most bytes around a payload in a datagram, where they do not grow with the group."""
UNREADY_MAX: Final = 4096
"""How many frames wait for a peer that cannot be spoken to yet."""


class JournalKeeper(Protocol):
    """What an engine tells a journal: :class:`antecede.engine.journal.Journal`."""

    def sent(self, number: int, targets: Sequence[str], payload: bytes) -> None:
        """Note a message before it is transmitted."""

    def delivered(self, source: str, life: int, number: int, payload: bytes) -> None:
        """Note a message before it is acked."""

    def pair(self, remote: Remote, numbers: tuple[int, int, int, int]) -> None:
        """Note how far a pair has come: sent, acked, delivered, permitted."""

    def commit(self) -> None:
        """Make all of it durable."""


@dataclass(frozen=True, kw_only=True)
class EngineStats:
    """What an engine has done so far."""

    sent: int
    """Messages that the application has sent; fragments count."""
    released: int
    """Copies of them that were transmitted for the first time."""
    retransmitted: int
    delivered: int
    """Messages that were handed over; fragments count once."""
    control_frames: int
    datagrams_in: int
    datagrams_out: int
    dropped: dict[str, int]
    """What was refused, by reason."""


class Engine:
    """One node without its socket.

    Args:
        name: the node's name, by which its peers know it.
        incarnation: a number above 0 that no start of a node of this name has had.
        protocol_name: a unicast protocol of the registry.
        members: all names of the group, for protocols whose membership is fixed.
        limits: the bounds.
        seal: seals datagrams, if there is a group key.
        life: which history this is; a restored node gives that of its journal.
        tally: records events, if there is to be a trace.
        wall_offset: what to add to ``now`` to get the time of the wall clock.
    """

    __slots__ = (
        "_body_max",
        "_by_id",
        "_clock_offset",
        "_dirty",
        "_done",
        "_fixed",
        "_fresh",
        "_gate",
        "_info",
        "_journal",
        "_limits",
        "_next_id",
        "_process",
        "_read",
        "_remotes",
        "_room",
        "_tally",
        "_touched",
        "_waives",
        "control_frames",
        "datagrams_in",
        "datagrams_out",
        "delivered",
        "full",
        "queued",
        "released",
        "retransmitted",
        "sent",
    )

    full: bool
    """Set by the driver: the application takes too little, so messages are dropped."""
    queued: int
    """How many frames wait for the next flush."""

    def __init__(
        self,
        name: str,
        incarnation: int,
        *,
        protocol_name: str = "hybrid",
        members: Sequence[str] = (),
        limits: Limits | None = None,
        seal: Sealing | None = None,
        life: int = 0,
        tally: Tally | None = None,
        wall_offset: float = 0.0,
    ) -> None:
        """Start an engine with no peers; see the class for the arguments."""
        self._limits = limits if limits is not None else Limits()
        info = protocol(protocol_name)
        if not info.capabilities.unicast:
            raise ConfigError(f"{protocol_name} has no unicast; choose another protocol")
        self._info = info
        self._fixed = not info.capabilities.dynamic
        names = sorted({*members, name})
        own = ProcessId(names.index(name)) if self._fixed else ITSELF
        setting = Setting(
            processes=len(names) if self._fixed else 0,
            policy=self._limits.policy,
            early_max=self._limits.early,
        )
        self._process: ProcessBase = info.make(own, setting)
        self._read = info.read_frame
        self._gate = Gate(
            name,
            tag_of(name),
            incarnation,
            life if life else incarnation,
            protocol_tag(protocol_name),
            self._limits,
            seal,
        )
        self._remotes: dict[str, Remote] = {}
        self._by_id: dict[ProcessId, Remote] = {}
        self._next_id = 1
        if self._fixed:
            self._next_id = len(names)
        self._dirty: list[Remote] = []
        self._fresh: list[Message] = []
        self._waives: list[tuple[float, ProcessId]] = []
        self._touched: dict[str, Remote] = {}
        self._journal: JournalKeeper | None = None
        self._done: Callable[[str, int], None] | None = None
        self._tally = tally
        self._clock_offset = wall_offset
        sealed = SEAL_BYTES if seal is not None else 0
        self._body_max = self._limits.datagram - HEAD.size - sealed
        self._room = self._body_max - DATA_PREFIX.size - METADATA_MAX
        self.full = False
        self.queued = 0
        self.sent = 0
        self.released = 0
        self.retransmitted = 0
        self.delivered = 0
        self.control_frames = 0
        self.datagrams_in = 0
        self.datagrams_out = 0
        if self._fixed:
            for member in names:
                if member != name:
                    self._add(member, ProcessId(names.index(member)), None)

    # Peers.

    @property
    def name(self) -> str:
        """The node's name."""
        return self._gate.name

    @property
    def info(self) -> ProtocolInfo:
        """The protocol."""
        return self._info

    @property
    def process(self) -> ProcessBase:
        """The protocol's process."""
        return self._process

    @property
    def remotes(self) -> dict[str, Remote]:
        """All peers by name, those that have gone included."""
        return self._remotes

    def peers(self) -> list[str]:
        """Return the names of the peers of the moment."""
        return [name for name, remote in self._remotes.items() if remote.state == ACTIVE]

    def add_peer(self, name: str, address: object, now: float) -> None:
        """Speak with ``name`` at ``address`` from now on; if it was removed, anew.

        Raise ConfigError if it is the node itself, is a peer already with another
        address, or the protocol's membership is fixed.
        """
        if name == self._gate.name:
            raise ConfigError(f"{name} is this node itself; name its peers only")
        remote = self._remotes.get(name)
        if remote is None:
            if self._fixed:
                raise ConfigError(
                    f"the members of {self._info.name} are fixed; name {name} at the start"
                )
            remote = self._add(name, ProcessId(self._next_id), address)
            self._next_id += 1
        elif remote.state == LEAVING:
            raise ConfigError(f"{name} is being removed; wait until its lease has run out")
        elif remote.state in (GONE, LEFT):
            remote.state = ACTIVE
            remote.stopped = False
        remote.address = address
        self._gate.want_hello(remote, now)

    def _add(self, name: str, id: ProcessId, address: object) -> Remote:
        remote = Remote(name, tag_of(name), id, address)
        for other in self._remotes.values():
            if other.tag == remote.tag:
                raise ConfigError(f"{name} and {other.name} have one tag; rename one")
        self._remotes[name] = remote
        self._by_id[id] = remote
        self._gate.add(remote)
        return remote

    def remove_peer(self, name: str, now: float, *, stopped: bool = False) -> float:
        """Let go of a peer, and return when its unacked messages will be abandoned.

        That is when the peer's lease on what was transmitted to it has run out. Say
        ``stopped`` only of a process that has stopped for good: then nobody waits for its
        permits either (docs/removal.md). Raise LocalError for an unknown peer.
        """
        remote = self._remotes.get(name)
        if remote is None or remote.state == GONE:
            raise LocalError(f"{name} is not a peer")
        if not isinstance(self._process, HybridBasic):
            raise LocalError(f"{self._info.name} cannot let go of a peer; use hybrid")
        remote.stopped = remote.stopped or stopped
        if remote.state != LEAVING:
            remote.state = LEAVING
            remote.out.clear()
            remote.take()
            lease_s = self._limits.lease_s * (1 + self._limits.drift)
            ends = remote.echo_at + lease_s
            remote.lease_ends = max(now, ends)
            if stopped:  # What it transmitted to others is on its way, too.
                remote.lease_ends = max(now, remote.heard_at) + lease_s
            self._gate.watch(remote)
        return remote.lease_ends

    # Sending.

    def cut(self, data: object) -> list[bytes]:
        """Make the payloads of a message, to be posted one after the other.

        Raise LocalError if it is not bytes, or is too large.
        """
        if not isinstance(data, bytes):
            raise LocalError(f"data must be bytes, not {type(data).__name__}")
        if len(data) > self._limits.message:
            raise LocalError(
                f"a message of {len(data)} bytes is above the limit of"
                f" {self._limits.message}; raise Limits.message or send less"
            )
        return fragments(data, self._room)

    def has_room(self, targets: Iterable[str]) -> bool:
        """Tell whether the windows of all ``targets`` are open."""
        limits = self._limits
        process = self._process
        for name in targets:
            remote = self._remotes.get(name)
            if remote is not None and (
                process.backlog(remote.id) >= limits.window
                or process.backlog_bytes(remote.id) >= limits.window_bytes
            ):
                return False
        return True

    def post(self, targets: Sequence[str], payload: bytes, now: float) -> int:
        """Send one payload of :meth:`cut` and return its number.

        Look at :meth:`has_room` first: this one sends in any case. Raise LocalError, and
        change nothing, if a target is unknown or the protocol cannot serve several.
        """
        ids: list[ProcessId] = []
        for name in targets:
            remote = self._remotes.get(name)
            if remote is not None and remote.state == ACTIVE:
                ids.append(remote.id)
            elif name == self._gate.name:
                ids.append(self._process.id)
            else:
                raise LocalError(
                    f"{name} is not a peer of {self._gate.name}; call add_peer first"
                )
        number = self._process.send(ids, payload, now)
        self.sent += 1
        if self._journal is not None:
            self._journal.sent(number, targets, payload)
        if self._tally is not None:
            self._tally.sent(self._process.id, number, ids, now + self._clock_offset)
        self._collect(now)
        return number

    def send(self, targets: Sequence[str], data: bytes, now: float) -> int:
        """Send a message, whatever the windows say, and return its number."""
        number = 0
        for payload in self.cut(data):
            number = self.post(targets, payload, now)
        return number

    # Datagrams.

    def feed(self, datagram: bytes, address: object, now: float) -> None:
        """Take a datagram; one that is not what it should be is counted and dropped."""
        self.datagrams_in += 1
        accepted = self._gate.judge(datagram, address, now)
        if accepted is None:
            return
        remote = accepted.remote
        if accepted.new_life:
            if not self._begin_life(accepted, now):
                return
        elif accepted.epoch > remote.epoch_in:
            self._process.renew(remote.id, now)
            remote.parts.clear()
            remote.parts_bytes = 0
            remote.epoch_in = accepted.epoch
        if self._journal is not None:
            self._touched[remote.name] = remote
        if accepted.kind == DATA:
            self._feed_frames(remote, accepted.body, now)
        elif accepted.kind == BYE:
            self._hear_bye(remote, now)
        elif accepted.kind == FAREWELL:
            remote.state = LEFT
        elif self._gate.rtt_s >= 0:
            self._process.learn_round_trip(remote.id, self._gate.rtt_s)
        if remote.out and not remote.dirty:
            remote.dirty = True
            self._dirty.append(remote)

    def _feed_frames(self, remote: Remote, body: bytes, now: float) -> None:
        if remote.state == GONE:
            self._gate.drops["removed"] += 1
            return
        refuse_messages = self.full or remote.state == LEAVING
        drops = self._gate.drops
        process = self._process
        tally = self._tally
        reader = Reader(body, DATA_PREFIX.size)
        end = len(body)
        while reader.position < end:
            try:
                frame = self._read(reader)
            except PeerError:
                drops["frame"] += 1
                break  # Where the next one would begin, nobody knows.
            if refuse_messages and frame.message_number() > 0:
                drops["inbox" if self.full else "removed"] += 1
                continue
            try:
                process.receive(remote.id, frame, now)
            except PeerError:
                drops["frame"] += 1
                continue
            if tally is not None:
                tally.arrived(process.id, remote.id, frame, now + self._clock_offset)
        self._collect(now)

    def _begin_life(self, accepted: Accepted, now: float) -> bool:
        """Take in a peer that has lost its history, or has just been met."""
        remote = accepted.remote
        if accepted.previous != 0:
            if not isinstance(self._process, HybridBasic):
                remote.state = GONE  # The protocol has no way on without its history.
                return False
            former = remote.id
            remote.id = ProcessId(self._next_id)
            self._next_id += 1
            self._by_id[remote.id] = remote
            remote.take()
            # Its former incarnation accepts nothing any more, so this is safe now; what
            # that one transmitted to others may still be on its way for a lease.
            self._process.abandon(former, now)
            lease_s = self._limits.lease_s * (1 + self._limits.drift)
            self._waives.append((now + lease_s, former))
            self._collect(now)
        remote.epoch_in = accepted.epoch
        remote.parts.clear()
        remote.parts_bytes = 0
        if remote.state == LEFT:
            remote.state = ACTIVE
        return True

    def _collect(self, now: float) -> None:
        """Take what the process wants to transmit and to deliver."""
        process = self._process
        tally = self._tally
        for transmit in process.frames_to_transmit():
            remote = self._by_id.get(transmit.target)
            if remote is None or remote.state != ACTIVE or remote.id != transmit.target:
                continue
            if transmit.repeat:
                self.retransmitted += 1
                if not self._gate.ready(remote, now):
                    self._gate.want_hello(remote, now)
                    continue
            elif transmit.frame.message_number() > 0:
                self.released += 1
            else:
                self.control_frames += 1
            if len(remote.out) >= UNREADY_MAX and not self._gate.ready(remote, now):
                continue
            if tally is not None:
                tally.transmitted(process.id, transmit, now + self._clock_offset)
            remote.queue(transmit.frame)
            self.queued += 1
            if not remote.dirty:
                remote.dirty = True
                self._dirty.append(remote)
        for delivery in process.messages_to_deliver():
            self._deliver(delivery, now)

    def _deliver(self, delivery: Delivery, now: float) -> None:
        when = now + self._clock_offset
        if self._tally is not None:
            self._tally.delivered(self._process.id, delivery, when)
        remote = self._by_id.get(delivery.source)
        payload = delivery.payload
        name = remote.name if remote is not None else self._gate.name
        if self._journal is not None:
            life = remote.life if remote is not None else self._gate.life
            self._journal.delivered(name, life, delivery.number, payload)
        self.hand_over(remote, name, delivery.number, payload, when)

    def hand_over(
        self, remote: Remote | None, name: str, number: int, payload: bytes, when: float
    ) -> None:
        """Give the application a message, or keep a part of one until the last is there."""
        kind = payload[0] if payload else -1
        if kind == WHOLE:
            data = payload[1:]
        elif remote is None or kind not in (PART, LAST):
            self._gate.drops["frame"] += 1
            return
        else:
            remote.parts_bytes += len(payload) - 1
            if remote.parts_bytes > self._limits.message:
                remote.parts.clear()  # A whole above the limit is nobody's but a liar's.
                self._gate.drops["frame"] += 1
                return
            remote.parts.append(payload[1:])
            if kind == PART:
                return
            data = b"".join(remote.parts)
            remote.parts.clear()
            remote.parts_bytes = 0
        self.delivered += 1
        self._fresh.append(Message(name, number, data, when, self._done))

    def flush(self, now: float) -> list[tuple[object, bytes]]:
        """Return the datagrams to transmit, each with its address."""
        if self._journal is not None:
            self._keep_journal()
        self.queued = 0
        gate = self._gate
        out = gate.answers
        gate.answers = []
        if self._dirty:
            dirty = self._dirty
            self._dirty = []
            for remote in dirty:
                remote.dirty = False
                if remote.state != ACTIVE:
                    remote.take()
                elif gate.ready(remote, now):
                    self._pack(remote, now, out)
                else:
                    gate.want_hello(remote, now)
        if gate.asking:
            for remote in gate.due_hellos(now):
                out.append((remote.address, gate.hello(remote, now)))
        self.datagrams_out += len(out)
        return out

    def _pack(self, remote: Remote, now: float, out: list[tuple[object, bytes]]) -> None:
        """Put frames into as few datagrams as hold them."""
        gate = self._gate
        prefix = gate.prefix(remote, now)
        prefix_size = len(prefix)
        body_max = self._body_max
        buffer = bytearray(prefix)
        for frame in remote.take():
            mark = len(buffer)
            frame.write(buffer)
            if len(buffer) > body_max and mark > prefix_size:
                body = bytes(buffer[:mark])
                out.append((remote.address, gate.close(DATA, remote, body)))
                buffer = bytearray(prefix) + buffer[mark:]
        if len(buffer) > prefix_size:
            out.append((remote.address, gate.close(DATA, remote, bytes(buffer))))

    def take(self) -> list[Message]:
        """Take the messages to hand to the application, in order."""
        fresh = self._fresh
        if fresh:
            self._fresh = []
        return fresh

    # Time.

    def next_timer(self) -> float | None:
        """Tell when ``handle_timer`` wants to be called next, or None for never."""
        earliest = NEVER
        timer = self._process.next_timer()
        if timer is not None:
            earliest = timer
        asked = self._gate.next_deadline()
        if asked < earliest:
            earliest = asked
        if self._waives and self._waives[0][0] < earliest:
            earliest = self._waives[0][0]
        return earliest if earliest < NEVER else None

    def handle_timer(self, now: float) -> None:
        """Do what is due at ``now``; flush afterwards. Calling early is harmless."""
        due = self._process.next_timer()
        if due is not None and due <= now:
            self._process.handle_timer(now)
            self._collect(now)
        while self._waives and self._waives[0][0] <= now:
            _, former = self._waives.pop(0)
            self._process.waive(former, now)
            self._by_id.pop(former, None)
            self._collect(now)
        for remote in self._gate.ended_leases(now):
            self._process.abandon(remote.id, now)
            if remote.stopped:
                self._process.waive(remote.id, now)
            remote.state = GONE
            remote.lease_ends = NEVER
            remote.epoch_out += 1
            remote.parts.clear()
            remote.parts_bytes = 0
            if self._journal is not None:
                self._touched[remote.name] = remote
            self._collect(now)

    # Leaving.

    @property
    def backlog(self) -> int:
        """How many copies are not known to have been delivered, gone peers' aside."""
        process = self._process
        return sum(
            process.backlog(remote.id)
            for remote in self._remotes.values()
            if remote.state in (ACTIVE, LEAVING)
        )

    def bye(self, now: float) -> list[tuple[object, bytes]]:
        """Return the goodbyes to transmit; call it once ``backlog`` is 0, and again.

        A peer that has answered gets none; when there are none, everybody has.
        """
        out: list[tuple[object, bytes]] = []
        for remote in self._remotes.values():
            if remote.state == ACTIVE and self._gate.ready(remote, now):
                body = self._gate.prefix(remote, now)
                out.append((remote.address, self._gate.close(BYE, remote, body)))
        self.datagrams_out += len(out)
        return out

    def _hear_bye(self, remote: Remote, now: float) -> None:
        """Let a peer go whose messages have all been delivered: no permit is missing."""
        body = self._gate.prefix(remote, now)
        answer = self._gate.close(FAREWELL, remote, body)
        self._gate.answers.append((remote.address, answer))
        if remote.state == ACTIVE and isinstance(self._process, HybridBasic):
            self._process.waive(remote.id, now)
            remote.state = LEFT
            self._collect(now)

    # Keeping a journal.

    def keep(
        self, journal: JournalKeeper, done: Callable[[str, int], None] | None = None
    ) -> None:
        """Tell a journal everything from now on; ``done`` is what messages call."""
        if not isinstance(self._process, HybridBasic):
            raise ConfigError(f"{self._info.name} cannot keep a journal; use hybrid")
        self._journal = journal
        self._done = done

    def _keep_journal(self) -> None:
        journal = self._journal
        process = self._process
        assert journal is not None
        if isinstance(process, HybridBasic):
            for remote in self._touched.values():
                journal.pair(remote, process.numbers(remote.id))
        self._touched.clear()
        journal.commit()

    def stats(self) -> EngineStats:
        """Return what has been done so far."""
        return EngineStats(
            sent=self.sent,
            released=self.released,
            retransmitted=self.retransmitted,
            delivered=self.delivered,
            control_frames=self.control_frames,
            datagrams_in=self.datagrams_in,
            datagrams_out=self.datagrams_out,
            dropped=dict(self._gate.drops),
        )
