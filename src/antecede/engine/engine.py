"""The engine: a protocol's process that speaks in datagrams, and does no I/O.

Inputs are ``post`` (the application sends), ``feed`` (a datagram has come) and
``handle_timer``; outputs are ``flush`` (datagrams to transmit), ``take`` (messages for the
application) and ``next_timer``. Time is an argument, in seconds of a clock that never runs
backwards. Whoever drives it, a socket or a simulator, calls ``flush`` after each batch of
inputs: all frames for one peer then share datagrams, and acks and permits that others
cover are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from antecede.core.codec import Reader
from antecede.core.observer import Observer
from antecede.core.process import Delivery, ProcessId
from antecede.core.protocols.hybrid.basic import HybridBasic
from antecede.engine.datagram import BYE, DATA, DATA_PREFIX, FAREWELL, HEAD, TAG_BYTES
from antecede.engine.journal import SavedDelivery
from antecede.engine.limits import Limits
from antecede.engine.membership import Group
from antecede.engine.message import (
    FIRST,
    LAST,
    PART,
    WHOLE,
    WHOLE_PREFIX,
    Message,
    fragments,
)
from antecede.engine.peer_session import ACTIVE, GONE, LEAVING, LEFT, Remote
from antecede.engine.session_layer import Sealing
from antecede.errors import LocalError, PeerError

__all__ = ["Engine", "EngineStats"]

METADATA_MAX: Final = 40
"""The most bytes around a payload in a datagram, where they do not grow with the group."""
FLUSH_FRAMES: Final = 256
FLUSH_FRAMES_EACH: Final = 64
"""How many frames may wait, and how many more for each peer, before they had better be
transmitted: a datagram should be worth its while."""
UNREADY_MAX: Final = 4096
"""How many frames wait for a peer that cannot be spoken to yet."""


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


class Engine(Group):
    """One node without its socket.

    Args:
        name: the node's name, by which its peers know it.
        incarnation: a number above 0 that no start of a node of this name has had.
        protocol_name: a unicast protocol of the registry.
        members: all names of the group, for protocols whose membership is fixed.
        limits: the bounds.
        seal: seals datagrams, if there is a group key.
        life: which history this is; a restored node gives that of its journal.
        observer: records events, if there is to be a trace.
        wall_offset: what to add to ``now`` to get the time of the wall clock.
    """

    __slots__ = (
        "_body_max",
        "_clock_offset",
        "_dirty",
        "_fresh",
        "_itself",
        "_observer",
        "_room",
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
        observer: Observer | None = None,
        wall_offset: float = 0.0,
    ) -> None:
        """Start an engine with no peers; see the class for the arguments."""
        bounds = limits if limits is not None else Limits()
        super().__init__(name, incarnation, protocol_name, members, bounds, seal, life)
        self._dirty: list[Remote] = []
        self._fresh: list[Message] = []
        self._itself = Remote(name, 0, self._process.id, None)  # Holds parts.
        self._observer = observer
        self._clock_offset = wall_offset
        sealed = TAG_BYTES if seal is not None else 0
        self._body_max = bounds.datagram - HEAD.size - sealed
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
        can = self._info.capabilities
        if len(data) >= self._room and can.reordering and not can.causal:
            raise LocalError(
                f"{self._info.name} keeps no order, so a message must fit into a datagram:"
                f" send at most {self._room - 1} bytes, not {len(data)}"
            )
        return fragments(data, self._room)

    def try_send(self, target: object, data: object, now: float) -> int:
        """Send a small message to one peer that has room, and return its number.

        Return 0, and change nothing, in any other case; then :meth:`cut`, :meth:`has_room`
        and :meth:`post` say what to do. It is what most sends are, in one step.
        """
        if not isinstance(data, bytes) or len(data) >= self._room:
            return 0
        remote = self._remotes.get(target) if isinstance(target, str) else None
        if remote is None or remote.state != ACTIVE or self._journal is not None:
            return 0
        limits = self._limits
        if (
            not self._is_open(remote)
            or self._process.retained() >= limits.retained
            or len(data) > limits.message
        ):
            return 0
        return self._send([remote.id], WHOLE_PREFIX + data, now)

    @property
    def has_output(self) -> bool:
        """Whether a flush would return anything, or may."""
        gate = self._gate
        return bool(self._dirty) or bool(gate.answers) or bool(gate.asking)

    @property
    def urgent(self) -> bool:
        """Whether so much waits for a flush that it should not wait any longer."""
        return self.queued >= FLUSH_FRAMES + FLUSH_FRAMES_EACH * len(self._dirty)

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
        return self._send(ids, payload, now, targets)

    def _send(
        self,
        ids: list[ProcessId],
        payload: bytes,
        now: float,
        targets: Sequence[str] = (),
    ) -> int:
        """Send a payload; the names are for the journal."""
        number = self._process.send(ids, payload, now)
        self.sent += 1
        if self._journal is not None:
            self._journal.sent(number, targets, payload)
        if self._observer is not None:
            self._observer.sent(self._process.id, number, ids, now + self._clock_offset)
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
        elif accepted.previous:  # It was restarted, and has its journal.
            self._process.forget_arrivals(remote.id)
        if not accepted.new_life and accepted.epoch > remote.epoch_in:
            if not isinstance(self._process, HybridBasic):
                self._gate.drops["protocol"] += 1  # Its own could not have let go of us.
                return
            self._process.renew(remote.id, now)
            remote.drop_parts()
            remote.epoch_in = accepted.epoch
        if self._journal is not None:
            self._touched[remote.name] = remote
        if accepted.kind == DATA:
            self._feed_frames(remote, accepted.body, now)
        elif accepted.kind == BYE:
            self._hear_bye(remote, now)
        elif accepted.kind == FAREWELL:
            if remote.state == ACTIVE:
                remote.state = LEFT
        elif self._gate.rtt_s >= 0:
            self._process.learn_round_trip(remote.id, self._gate.rtt_s, now)
        if remote.out:
            self._mark(remote)

    def _mark(self, remote: Remote) -> None:
        """See to it that the next flush looks at a peer."""
        if not remote.dirty:
            remote.dirty = True
            self._dirty.append(remote)

    def _feed_frames(self, remote: Remote, body: bytes, now: float) -> None:
        if remote.state == GONE:
            self._gate.drops["removed"] += 1
            return
        refuse_messages = self.full or remote.state == LEAVING
        drops = self._gate.drops
        process = self._process
        info = self._info
        observer = self._observer
        reader = Reader(body, DATA_PREFIX.size)
        end = len(body)
        while reader.position < end:
            try:
                frame = info.read_frame(reader)
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
            if observer is not None:
                observer.arrived(process.id, remote.id, frame, now + self._clock_offset)
        self._collect(now)

    def _collect(self, now: float) -> None:
        """Take what the process wants to transmit and to deliver."""
        process = self._process
        observer = self._observer
        for transmit in process.frames_to_transmit():
            remote = self._by_id.get(transmit.target)
            if remote is None or remote.state != ACTIVE or remote.id != transmit.target:
                continue
            if transmit.repeat:
                if not self._gate.ready(remote, now):
                    self._gate.want_hello(remote, now)
                    if remote.out:  # One is enough to begin with when it is back.
                        continue
                self.retransmitted += 1
            elif transmit.frame.message_number() > 0:
                self.released += 1
            else:
                self.control_frames += 1
            if len(remote.out) >= UNREADY_MAX and not self._gate.ready(remote, now):
                continue
            if observer is not None:
                observer.transmitted(process.id, transmit, now + self._clock_offset)
            remote.queue(transmit.frame)
            self.queued += 1
            self._mark(remote)
        for delivery in process.messages_to_deliver():
            self._deliver(delivery, now)

    def _deliver(self, delivery: Delivery, now: float) -> None:
        when = now + self._clock_offset
        if self._observer is not None:
            self._observer.delivered(self._process.id, delivery, when)
        remote = self._by_id.get(delivery.source)
        payload = delivery.payload
        name = remote.name if remote is not None else self._gate.name
        life = remote.life if remote is not None else self._gate.life
        if self._journal is not None:
            self._journal.delivered(name, life, delivery.number, payload)
        self._hand_over(remote, name, life, delivery.number, payload, when)

    def hand_over_again(self, saved: SavedDelivery, when: float) -> None:
        """Give the application a message of the journal that it has not dealt with."""
        remote = self._remotes.get(saved.source)
        name = saved.source
        self._hand_over(remote, name, saved.life, saved.number, saved.payload, when)

    def _hand_over(
        self,
        remote: Remote | None,
        name: str,
        life: int,
        number: int,
        payload: bytes,
        when: float,
    ) -> None:
        """Give the application a message, or keep a part of one until the last is there."""
        kind = payload[0] if payload else -1
        if kind == WHOLE:
            data = payload[1:]
        else:
            holder = remote if remote is not None else self._itself
            if kind == FIRST:
                holder.drop_parts()  # The sender may have given up the one before.
            holder.parts_bytes += len(payload) - 1
            if (
                kind not in (FIRST, PART, LAST)
                or (kind != FIRST and not holder.parts)
                or holder.parts_bytes > self._limits.message
            ):  # It has no beginning, or a whole above the limit that only a liar sends.
                holder.drop_parts()
                self._gate.drops["frame"] += 1
                return
            holder.parts.append(payload[1:])
            if kind != LAST:
                return
            data = b"".join(holder.parts)
            holder.drop_parts()
        self.delivered += 1
        self._fresh.append(Message(name, number, data, when, life, self._done))

    def flush(self, now: float) -> list[tuple[object, bytes]]:
        """Return the datagrams to transmit, each with its address."""
        if self._journal is not None:
            self.write_journal()
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
