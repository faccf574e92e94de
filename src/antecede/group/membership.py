"""The membership of one node in one room: joining, catching up, sponsoring, leaving.

A pure state machine. The inputs are methods, ``now`` is an argument, and the driver
executes the list that :meth:`RoomMembership.effects` returns after every input, then calls
:meth:`handle_timer` at the time of :meth:`next_timer`.
"""

from collections.abc import Iterable, Sequence

from antecede.group.effects import Effect
from antecede.group.member import CutEntry, Member, RoomMessage
from antecede.group.settings import MembershipSettings

__all__ = ["RoomMembership"]


class RoomMembership:
    """One node's membership in one room.

    The driver prefixes every payload in the room with one byte:
    ``antecede.group.frames.APPLICATION`` for data of the application; the payloads of
    Broadcast and SendInRoom begin with ``CONTROL`` already. While :attr:`is_member` is
    true, the driver may deliver messages of the application without asking the
    membership; before that, and for control messages, it calls :meth:`receive_in_room`.
    """

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

    # Call one of these once.

    def found(self, now: float) -> None:
        """Found the room: this node is its only member."""

    def join(self, candidates: Iterable[tuple[str, str]], now: float) -> None:
        """Join through any of ``candidates``, pairs of a name and an address."""

    def resume(self, members: Iterable[Member], now: float) -> None:
        """Continue as a member after a restart with a journal, with its stored members."""

    # What has arrived.

    def receive_control(self, source: str, data: bytes, now: float) -> None:
        """Process what ``source`` has sent by SendControl; PeerError if it is invalid."""

    def receive_in_room(self, message: RoomMessage, now: float) -> None:
        """Process a message that the room's protocol has delivered, in that order.

        Call it when the protocol delivers, not when the application reads. Raise PeerError
        if it is an invalid control message.
        """

    # What the driver has done.

    def member_added(self, name: str, incarnation: int, now: float) -> None:
        """Note that messages in the room from now on reach this incarnation of a peer."""

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

    def snapshot_failed(
        self, newcomer: str, admission: int, reason: str, now: float
    ) -> None:
        """Refuse the newcomer: the application made no snapshot."""

    def restored(self, now: float) -> None:
        """Begin to deliver: the application has restored the snapshot."""

    def restore_failed(self, reason: str, now: float) -> None:
        """Give up joining: the application could not restore the snapshot."""

    def member_lost(self, name: str, now: float) -> None:
        """Remove a member that the room's policy has given up; tell the others."""

    def unknown_sender(self, name: str, now: float) -> None:
        """Tell a node that sends in the room, and is no member, that it was removed."""

    # What the application wants.

    def leave(self, now: float) -> None:
        """Leave the room for good."""

    def remove(self, name: str, now: float) -> None:
        """Remove a member, and propose its removal to the others; LocalError if unknown."""

    def cancel(self, now: float) -> None:
        """Give up joining."""

    # Time and outputs.

    def next_timer(self) -> float | None:
        """Return when to call :meth:`handle_timer`, or None for never."""

    def handle_timer(self, now: float) -> None:
        """Do what is due at ``now``; an early call is harmless."""

    def effects(self) -> list[Effect]:
        """Remove and return what to do, in order."""

    # What it knows.

    @property
    def is_member(self) -> bool:
        """Whether the node may send in the room: between Joined and Left or Rejoining."""

    @property
    def members(self) -> Sequence[str]:
        """The names of the members, sorted, with this node: to these one may send.

        A newcomer is a peer and gets all broadcasts before it is in this list. To name it
        as the target of a message is an error until then, because its snapshot may or may
        not contain that message.
        """

    @property
    def peers(self) -> Sequence[Member]:
        """All other members and newcomers, to which broadcasts go; for a journal."""

    @property
    def waiting_for(self) -> Sequence[str]:
        """The nodes that the join waits for at present, for error messages."""
