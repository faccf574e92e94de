"""Flow control: peers transmit only messages that the inbox has room for.

The node grants each peer a part of its inbox, and sends it a *receive window* in every
datagram: the number of messages that the peer may have transmitted and this node has not
delivered. Each message of a bundle counts, but a bundle may exceed the window with all but
its first message. Each fragment of a large message counts. The granted room is reserved. A
delivery uses it, and the inbox holds the message instead, until the application receives
it; then the room can be granted again.

The sum of inbox and reserved room is at most the capacity, plus one bundle for each peer: a
peer without any room is granted one message in spite of the reserved room of others, while
the inbox is not full. So an idle peer with reserved room cannot block other peers for ever.

A window that is smaller than the one before takes room back. The room stays reserved until
the peer has echoed a timestamp of the smaller window, because it transmits nothing above
that window afterwards.

Only processes with windows (:class:`antecede.core.windows.PeerWindows`) have flow control.
Under the other protocols, the node drops the messages that arrive while its inbox is full.
"""

from collections.abc import Sized
from typing import Final

from antecede.core.process import ProcessBase
from antecede.engine.limits import Limits
from antecede.engine.peer_session import ACTIVE, PeerSession

__all__ = ["UNLIMITED", "FlowControl", "make_flow_control"]

UNLIMITED: Final = (1 << 32) - 1
"""The largest window, which a node without flow control transmits."""


class FlowControl:
    """The inbox of a node, and the room in it that its peers were granted.

    Args:
        capacity: how many messages the inbox holds.
        is_enabled: whether the protocol has windows.
    """

    __slots__ = (
        "_capacity",
        "_is_enabled",
        "_limited",
        "_open",
        "_reserved",
        "inbox",
        "is_closed",
        "unpolled",
    )

    inbox: Sized
    """The messages that the driver of the engine holds for the application."""
    is_closed: bool
    """No message is accepted any more."""
    unpolled: int
    """The messages that the driver of the engine has not polled."""

    def __init__(self, capacity: int, *, is_enabled: bool) -> None:
        self._capacity = capacity
        self._is_enabled = is_enabled
        self._reserved = 0
        self._open: dict[int, PeerSession] = {}  # Peers that may have room reserved.
        self._limited: dict[int, PeerSession] = {}  # Those that have less than a share.
        self.inbox = ()
        self.is_closed = False
        self.unpolled = 0

    @property
    def polled(self) -> int:
        """How many messages the driver of the engine holds for the application."""
        return len(self.inbox)

    @property
    def _room(self) -> int:
        """How many messages the inbox could hold that are not reserved."""
        return self._capacity - self.polled - self.unpolled - self._reserved

    @property
    def _share(self) -> int:
        """How much room a peer is granted at most: half of the inbox is for all peers."""
        return max(self._capacity // (2 * max(len(self._open), 1)), 1)

    # Receiving messages.

    def refuses(self, session: PeerSession) -> bool:
        """Return whether to drop the messages of a peer that are not delivered yet."""
        return self.is_closed or (
            self.polled + self.unpolled >= self._capacity and session.credit.reserved == 0
        )

    @property
    def accepts_unordered(self) -> bool:
        """Whether there is room for unordered messages, which use a quarter at most."""
        used = self.polled + self.unpolled
        return not self.is_closed and used < max(self._capacity // 4, 1)

    @property
    def drops_duplicates(self) -> bool:
        """Whether messages that are refused include those that were delivered before."""
        return self.is_closed or not self._is_enabled

    def record_deliveries(self, session: PeerSession, count: int) -> None:
        """Use the room that was reserved for messages, or for a fragment."""
        credit = session.credit
        used = min(credit.reserved, count)
        credit.reserved -= used
        self._reserved -= used
        credit.window = max(credit.window - count, 0)

    # Granting.

    def window(self, session: PeerSession, timestamp: int) -> int:
        """Grant room to a peer, and return the window for a datagram to it."""
        if not self._is_enabled:
            return UNLIMITED
        if session.state is not ACTIVE or session.is_link:
            return 0
        self._open[session.name_hash] = session
        credit = session.credit
        share = self._share
        grown = self._grown(session, share, self._room)
        if grown > credit.reserved:
            self._reserved += grown - credit.reserved
            credit.reserved = grown
        if credit.reserved <= share:
            credit.window = credit.reserved
            credit.taken_back_at = -1
        elif credit.window > share and credit.told_at < timestamp:
            # No datagram with this timestamp had a larger window, so its echo is proof.
            credit.window = share
            credit.taken_back_at = timestamp
        elif credit.window < share:
            credit.window = share
        credit.told_at = timestamp
        self._limited.pop(session.name_hash, None)
        if credit.window < share:
            self._limited[session.name_hash] = session  # After all others.
        return min(credit.window, UNLIMITED)

    def hello_window(self, session: PeerSession, timestamp: int) -> int:
        """Return the window for a HELLO; grant nothing to a peer that was never heard."""
        is_heard = session.name_hash in self._open or session.handshake.incarnation != 0
        return self.window(session, timestamp) if is_heard else 0

    def _grown(self, session: PeerSession, share: int, room: int) -> int:
        """Return the room that would be reserved for a peer in a datagram to it."""
        reserved = session.credit.reserved
        grown = min(share, reserved + max(room, 0))
        is_full = self.polled + self.unpolled >= self._capacity
        if grown == 0 and not is_full and room > -len(self._open):
            return 1
        return max(grown, reserved)

    def record_echo(self, session: PeerSession, timestamp_echo: int) -> None:
        """Use an echo: free the room that was taken back, once the peer knows of it."""
        session.echoed = max(session.echoed, timestamp_echo)
        credit = session.credit
        if 0 <= credit.taken_back_at <= timestamp_echo:
            credit.taken_back_at = -1
            self._reserved -= credit.reserved - credit.window
            credit.reserved = credit.window

    def free(self, session: PeerSession) -> None:
        """Free the room of a peer that leaves."""
        self._open.pop(session.name_hash, None)
        self._limited.pop(session.name_hash, None)
        self._reserved -= session.credit.reserved
        session.credit.clear()

    # Telling peers.

    @property
    def has_limited_peers(self) -> bool:
        """Whether a peer was granted less than its share."""
        return bool(self._limited)

    @property
    def is_limiting(self) -> bool:
        """Whether a peer must wait because the inbox is too full."""
        return bool(self._limited) or self.polled + self.unpolled >= self._capacity

    @property
    def has_updates(self) -> bool:
        """Whether :meth:`updates` may return peers."""
        if not self._limited:
            return False
        return self._is_half_empty or self._room >= max(self._share // 2, 1)

    @property
    def _is_half_empty(self) -> bool:
        return self.polled + self.unpolled <= self._capacity // 2

    def updates(self) -> list[PeerSession]:
        """Return the limited peers that can be granted a useful amount of room.

        A few messages are not worth a datagram, unless the inbox will soon be empty.
        """
        share = self._share
        worthwhile = 1 if self._is_half_empty else max(share // 2, 1)
        found: list[PeerSession] = []
        room = self._room
        for session in self._limited.values():
            grown = self._grown(session, share, room)
            if grown >= worthwhile and grown > session.credit.window:
                found.append(session)
                room -= grown - session.credit.reserved
        return found

    def overdrafts(self) -> list[PeerSession]:
        """Return the peers to take room back from, because others have too little."""
        if not self._limited or self._room > 0:
            return []
        share = self._share
        return [
            session
            for session in self._open.values()
            if session.credit.window > share and session.credit.taken_back_at < 0
        ]


def make_flow_control(process: ProcessBase, limits: Limits) -> FlowControl:
    """Return the flow control of a node, and enable the windows of its process."""
    windows = process.windows
    if windows is not None:
        windows.enable()
    return FlowControl(limits.inbox_messages_max, is_enabled=windows is not None)
