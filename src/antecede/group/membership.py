"""The membership of one node in one room: joining, catching up, sponsoring, leaving.

A pure state machine. The inputs are methods, ``now`` is an argument, and the driver
executes the list that :meth:`RoomMembership.effects` returns after every input, then calls
:meth:`handle_timer` at the time of :meth:`next_timer`. docs/explanation/groups.md proves
that a newcomer misses no message and gets none twice.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from antecede.core.process import NEVER
from antecede.core.registry import protocol as find_protocol
from antecede.errors import ConfigError, LocalError, PeerError
from antecede.group.codec import decode_control, encode_control
from antecede.group.effects import Effect, Left
from antecede.group.exclusions import Exclusions
from antecede.group.frames import (
    APPLICATION,
    CONTROL,
    NAME_BYTES_MAX,
    Added,
    Adding,
    Answer,
    Chunk,
    ChunkAck,
    CutNotice,
    Excluded,
    Inquiry,
    Introduction,
    JoinedNotice,
    Leaving,
    MemberState,
    Offer,
    Outdated,
    Progress,
    Refused,
    Removing,
    Request,
    RosterEntry,
    SnapshotStart,
)
from antecede.group.joining import Joining, Phase
from antecede.group.member import CutEntry, Member, RoomMessage
from antecede.group.outputs import Outputs
from antecede.group.reception import Reception
from antecede.group.settings import MembershipSettings
from antecede.group.sponsor import Sponsor
from antecede.group.view import View

__all__ = ["RoomMembership"]


class RoomMembership:
    """One node's membership in one room.

    The driver prefixes every payload in the room with one byte:
    ``antecede.group.frames.APPLICATION`` for data of the application; the payloads of
    Broadcast and SendInRoom begin with ``CONTROL`` already. While :attr:`is_member` is
    true, the driver may deliver messages of the application without asking the
    membership; before that, and for control messages, it calls :meth:`receive_in_room`.
    """

    __slots__ = (
        "_exclusions",
        "_joining",
        "_out",
        "_reception",
        "_settings",
        "_sponsor",
        "_view",
        "room",
    )

    def __init__(
        self, room: str, protocol: str, own: Member, settings: MembershipSettings
    ) -> None:
        """Make a membership that does nothing yet.

        Args:
            room: the name of the room.
            protocol: the protocol of the room; ConfigError if its members are fixed.
            own: this node. Its admission is the first number to use: the milliseconds of
                the wall clock, so that it is higher after a restart.
            settings: limits and time-outs.
        """
        capabilities = find_protocol(protocol).capabilities
        if not (capabilities.dynamic and capabilities.multicast and capabilities.causal):
            raise ConfigError(
                f"the members of a room with protocol {protocol!r} are fixed, or it keeps"
                " no causal order: choose hybrid, hybrid-basic or bounded to join a room"
            )
        for text in (room, own.name, own.address):
            if not 1 <= len(text.encode()) <= NAME_BYTES_MAX:
                raise ConfigError(
                    f"invalid name or address {text[:40]!r}: it must have 1 to"
                    f" {NAME_BYTES_MAX} bytes"
                )
        self.room = room
        self._settings = settings
        self._out = Outputs()
        self._view = View(self._out)
        self._joining = Joining(own, protocol, self._view, self._out, settings)
        self._sponsor = Sponsor(self._view, self._out, settings)
        self._exclusions = Exclusions(
            self._joining, self._view, self._out, settings.answer_timeout_s
        )
        self._reception = Reception(
            room, protocol, self._joining, self._sponsor, self._view, self._out, settings
        )

    # Call one of these once.

    def found(self, now: float) -> None:
        """Found the room: this node is its only member."""
        self._joining.become_member(has_founded=True)

    def join(self, candidates: Iterable[tuple[str, str]], now: float) -> None:
        """Join through any of ``candidates``, pairs of a name and an address."""
        self._joining.search.add(candidates, now)
        self._joining.start(now)

    def add_candidates(self, candidates: Iterable[tuple[str, str]], now: float) -> None:
        """Ask other nodes, too, while this node looks for a member."""
        if self._joining.phase is Phase.SEARCHING:
            self._joining.search.add(candidates, now)

    def resume(self, roster: bytes, now: float) -> None:
        """Continue as a member after a restart with a journal, with a stored roster."""
        header = decode_control(roster)
        if not isinstance(header, Offer):
            raise PeerError("the stored roster of a room is damaged")
        self._joining.apply(header.members, self._own.name)
        self._joining.renumber(header.admission)
        self._joining.become_member(has_founded=False)

    # Messages that have arrived.

    def receive_control(self, source: str, data: bytes, now: float) -> None:
        """Process a control message from outside the room; PeerError if it is invalid."""
        frame = decode_control(data)
        if self._joining.phase is Phase.OVER and not isinstance(frame, Inquiry):
            return
        handler = _CONTROL_HANDLERS.get(type(frame))
        if handler is None:
            raise PeerError(f"unexpected {type(frame).__name__} outside the room")
        handler(self, source, frame, now)
        self._check()

    def receive_in_room(self, message: RoomMessage, now: float) -> None:
        """Process a message that the room's protocol has delivered, in that order.

        Call it when the protocol delivers, not when the application reads. Raise PeerError
        if it is an invalid control message.
        """
        data = message.data
        if not data or data[0] not in (APPLICATION, CONTROL):
            raise PeerError("payload in a room without a valid first byte")
        if self._joining.phase is Phase.OVER:
            return
        if data[0] == CONTROL:
            frame = decode_control(data, 1)
            handler = _ROOM_HANDLERS.get(type(frame))
            if handler is None:
                raise PeerError(f"unexpected {type(frame).__name__} in the room")
            handler(self, message.source, frame, now)
            self._check()
        elif self.is_member:
            self._joining.deliver(message)
        else:
            self._joining.hold(message)

    # Reports of the driver.

    def member_added(self, name: str, incarnation: int, now: float) -> None:
        """Note that messages in the room from now on reach this incarnation of a peer."""
        self._view.added(name, incarnation)
        self._check()

    def _check(self) -> None:
        """Continue what waited for a change of the view."""
        self._sponsor.check()
        self._joining.finish()

    def snapshot_taken(
        self,
        newcomer: str,
        admission: int,
        snapshot: bytes,
        cut: Iterable[CutEntry],
        now: float,
    ) -> None:
        """Send a snapshot to the newcomer.

        Args:
            newcomer: as in TakeSnapshot.
            admission: as in TakeSnapshot.
            snapshot: the state of the application.
            cut: for each history of a member, the last message that the application has
                received (or that the snapshot contained with which it began); for this
                node, the last message that it has sent in the room.
            now: the current time.
        """
        self._sponsor.send_snapshot(newcomer, admission, self._own, snapshot, cut, now)

    def snapshot_failed(
        self, newcomer: str, admission: int, reason: str, now: float
    ) -> None:
        """Refuse the newcomer: the application made no snapshot."""
        self._sponsor.refuse(newcomer, admission, reason)

    def restored(self, now: float) -> None:
        """Begin to deliver: the application has restored the snapshot."""
        self._joining.restored(now)

    def restore_failed(self, reason: str, now: float) -> None:
        """End the join: the application could not restore the snapshot."""
        self._joining.fail(reason)

    def member_lost(self, name: str, now: float) -> None:
        """Remove a member because of the policy of the room; inform the other members."""
        if name in self._view.roster:
            self._remove(self._view.roster.admission(name), name)

    def unknown_sender(self, name: str, now: float) -> None:
        """Notify a node that was removed, and still sends in the room, of its removal."""
        if self.is_member and name not in self._view.roster:
            self._exclusions.tell(name, self._view.roster.admission(name))

    # Requests of the application.

    def leave(self, now: float) -> None:
        """Leave the room for good."""
        if self.is_member:
            self._sponsor.stop()
            self._out.broadcast(Leaving(self._own.admission))
            self._joining.phase = Phase.OVER
            self._out.append(Left())
        else:
            self._joining.fail("cancelled by leave()")

    def remove(self, name: str, now: float) -> None:
        """Remove a member, and propose its removal to the others; LocalError if unknown."""
        if name not in self._view.roster:
            raise LocalError(f"{name!r} is not a member of the room {self.room!r}")
        self.member_lost(name, now)

    def cancel(self, now: float) -> None:
        """End the join without success."""
        self._joining.fail("cancelled")

    # Time and outputs.

    def next_timer(self) -> float | None:
        """Return the time at which to call :meth:`handle_timer`, or None for never."""
        due = min(
            self._joining.next_timer(),
            self._sponsor.next_timer(),
            self._exclusions.next_timer(),
        )
        return None if due == NEVER else due

    def handle_timer(self, now: float) -> None:
        """Meet the deadlines up to ``now``; an early call is harmless."""
        self._joining.handle_timer(now)
        for newcomer in self._sponsor.handle_timer(now):
            self._remove(newcomer.admission, newcomer.name)
        for name in self._exclusions.due(now):
            self.member_lost(name, now)

    def effects(self) -> list[Effect]:
        """Remove and return the effects, in order."""
        return self._out.take()

    # The state of the membership.

    @property
    def is_member(self) -> bool:
        """Whether the node may send in the room: between Joined and Left or Rejoining."""
        return self._joining.phase is Phase.MEMBER

    @property
    def is_filtering(self) -> bool:
        """Whether :meth:`receive_in_room` may still drop a message of the application.

        A message that the snapshot contains may arrive after the snapshot.
        """
        return not self.is_member or bool(self._joining.filter)

    @property
    def members(self) -> Sequence[str]:
        """The names of the members, sorted, with this node: the targets of messages.

        A newcomer is a peer and gets all broadcasts before it is in this list. It must not
        be the target of a message until then, because its snapshot may or may not contain
        that message.
        """
        return self._exclusions.members()

    @property
    def peers(self) -> Sequence[Member]:
        """All other members and newcomers, to which broadcasts go; for a journal."""
        return self._view.roster.peers()

    @property
    def roster(self) -> bytes:
        """The argument of :meth:`resume` after a restart with a journal."""
        entries = tuple(self._view.roster)
        return encode_control(Offer(self._own.admission, entries))

    @property
    def waiting_for(self) -> Sequence[str]:
        """The nodes that the join waits for at present, for error messages."""
        return self._joining.waiting_for() or self._sponsor.waiting_for()

    def obstacle(self) -> str:
        """Return the reason for which the node is not a member yet; empty if it is one."""
        return self._joining.obstacle()

    # Messages outside the room.

    @property
    def _own(self) -> Member:
        return self._joining.own

    def _receive_chunk_ack(self, source: str, frame: ChunkAck, now: float) -> None:
        self._sponsor.acknowledge(source, frame.admission, frame.received, now)

    def _receive_excluded(self, source: str, frame: Excluded, now: float) -> None:
        if self._exclusions.receive(source, frame, now):
            self._sponsor.stop()

    # Messages in the room.

    def _receive_adding(self, source: str, frame: Adding, now: float) -> None:
        member = frame.member
        if member.name == self._own.name:
            return
        roster = self._view.roster
        self._view.apply(RosterEntry(member, MemberState.ADDED), source)
        if member.name in roster and roster.admission(member.name) == member.admission:
            self._view.confirm(source, member)
            self._sponsor.introduce(member)

    def _receive_added(self, source: str, frame: Added, now: float) -> None:
        self._sponsor.confirmed(source, frame.newcomer, frame.admission)

    def _receive_joined(self, source: str, frame: JoinedNotice, now: float) -> None:
        self._view.set_state(source, frame.admission, MemberState.JOINED, source)

    def _receive_leaving(self, source: str, frame: Leaving, now: float) -> None:
        self._view.set_state(source, frame.admission, MemberState.GONE, source)

    def _receive_removing(self, source: str, frame: Removing, now: float) -> None:
        name = frame.name
        if (
            name != self._own.name
            and self._settings.agree(source, name)
            and self._view.set_state(name, frame.admission, MemberState.GONE, source)
        ):
            self._exclusions.tell(name, frame.admission)

    def _remove(self, admission: int, name: str) -> None:
        if self._view.set_state(name, admission, MemberState.GONE, self._own.name):
            self._out.broadcast(Removing(name, admission))
            self._exclusions.tell(name, admission)
            self._sponsor.check()


_Handler = Callable[[RoomMembership, str, Any, float], None]

_CONTROL_HANDLERS: Final[dict[type[Any], _Handler]] = {
    Inquiry: lambda self, *args: self._reception.receive_inquiry(*args),
    Answer: lambda self, *args: self._joining.receive_answer(*args),
    Request: lambda self, *args: self._reception.receive_request(*args),
    Refused: lambda self, *args: self._joining.receive_refusal(*args),
    Outdated: lambda self, *args: self._joining.receive_outdated(*args),
    Offer: lambda self, *args: self._joining.receive_offer(*args),
    Introduction: lambda self, *args: self._joining.receive_introduction(*args),
    Progress: lambda self, *args: self._joining.receive_progress(*args),
    SnapshotStart: lambda self, *args: self._joining.receive_start(*args),
    Chunk: lambda self, *args: self._joining.receive_chunk(*args),
    ChunkAck: RoomMembership._receive_chunk_ack,
    Excluded: RoomMembership._receive_excluded,
}
_ROOM_HANDLERS: Final[dict[type[Any], _Handler]] = {
    Adding: RoomMembership._receive_adding,
    Added: RoomMembership._receive_added,
    CutNotice: lambda self, *args: self._joining.receive_cut_notice(*args),
    JoinedNotice: RoomMembership._receive_joined,
    Leaving: RoomMembership._receive_leaving,
    Removing: RoomMembership._receive_removing,
}
