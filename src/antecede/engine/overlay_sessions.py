"""The sessions of a node on an overlay, whose peers come and go.

The process selects its links. Rules:

1. A frame to a process without a session opens one, at the address in the directory. Until
   the handshake, the node does not know whether that process still runs.
2. A node accepts the announcement of any stranger that has the key of the group
   (:mod:`antecede.engine.announcements`).
3. A newcomer joins through the first contact that it meets, and through another one if it
   is not a member after a while.
4. A neighbour that owes an answer for ``Limits.peer_timeout_s``, or has said goodbye, is
   down: the process replaces its links. While a process counts as down, no frame opens a
   session with it. One that was silent may come back.
5. A session without a link that is idle for a while is closed.
"""

from collections.abc import Callable
from typing import Final

from antecede.core.overlay_links import OverlayLinks
from antecede.core.process import NEVER, ProcessId, Transmit
from antecede.engine.events import PeerLeft
from antecede.engine.limits import Limits
from antecede.engine.overlay_addresses import decode_address, encode_address
from antecede.engine.peer_session import PeerSession, SessionEvent
from antecede.engine.peer_table import PeerTable
from antecede.engine.process_driver import ProcessDriver
from antecede.engine.received_datagram import ReceivedDatagram
from antecede.engine.session_layer import SessionLayer
from antecede.engine.session_opener import SessionOpener
from antecede.errors import ConfigError

__all__ = ["OverlaySessions", "make_overlay_sessions"]

SILENCES: Final = 3
"""By default, a neighbour may be silent for this multiple of ``Limits.silence_s``."""
DOWN_TIMEOUTS: Final = 4
"""The number of time-outs for which a silent process counts as down."""
STRANGERS_MAX: Final = 256
"""The maximum number of strangers that have announced themselves without a handshake."""


class OverlaySessions(SessionOpener):
    """Opens and closes the sessions of one node.

    Args:
        overlay: the links of the process.
        table: the sessions.
        layer: exchanges datagrams with the peers.
        driver: drives the process.
        limits: the limits.
    """

    __slots__ = (
        "_contacts",
        "_directory",
        "_down",
        "_driver",
        "_idle_s",
        "_join_at",
        "_join_s",
        "_layer",
        "_overlay",
        "_table",
        "_timeout_s",
        "_unreachable",
        "_used_at",
        "deadline",
        "decode_address",
        "encode_address",
    )

    deadline: float
    """The time at which to call :meth:`handle_deadline`."""
    encode_address: Callable[[object], bytes]
    """Returns the bytes that stand for an address in definitions."""
    decode_address: Callable[[bytes], object]
    """Returns the address that bytes stand for; None if there is none."""

    def __init__(
        self,
        overlay: OverlayLinks,
        table: PeerTable,
        layer: SessionLayer,
        driver: ProcessDriver,
        limits: Limits,
    ) -> None:
        self._overlay = overlay
        self._directory = overlay.directory
        self._table = table
        self._layer = layer
        self._driver = driver
        timeout_s = limits.peer_timeout_s
        self._timeout_s = timeout_s if timeout_s < NEVER else SILENCES * limits.silence_s
        self._idle_s = limits.linger_s
        self._join_s = limits.ping_timeout_s
        self._contacts: dict[str, None] = {}
        self._join_at = -NEVER
        self._down: dict[ProcessId, float] = {}
        """The time until which each process counts as down."""
        self._unreachable: dict[ProcessId, None] = {}
        """Processes without a usable address, to report as down."""
        self._used_at: dict[str, float] = {}
        """The last time at which each session had a link."""
        self.deadline = -NEVER
        self.encode_address = encode_address
        self.decode_address = decode_address

    # Opening.

    def add_contact(self, name: str, now: float) -> None:
        """Join through a node that the application has named.

        Raise ConfigError if this node is a member.
        """
        if not self._overlay.is_newcomer:
            raise ConfigError(
                f"cannot add {name}: {self._layer.name} is a member, whose neighbours the"
                " overlay selects; a node that joins names a member when it is created"
            )
        self._contacts[name] = None
        self.deadline = now

    def open_for(self, transmits: list[Transmit], now: float) -> None:
        by_id = self._driver.by_id
        for transmit in transmits:
            if transmit.target not in by_id and not transmit.is_retransmission:
                self._open(transmit.target, now)

    def _open(self, id: ProcessId, now: float) -> None:
        """Open a session with a process, or note that it cannot be reached."""
        name, _ = self._directory.identity(id)
        address = self.decode_address(self._directory.address(id))
        session = self._table.sessions.get(name)
        if (
            now < self._down.get(id, -NEVER)
            or name == self._layer.name
            or (session is None and address is None)
            or (session is not None and session.history != 0)
        ):
            # Its node has another history now, or no known address.
            self._unreachable[id] = None
            self.deadline = now
            return
        if session is None:
            session = self._add(name, address, now)
        if session is not None:
            self._table.set_id(session, id)

    def _add(self, name: str, address: object, now: float) -> PeerSession | None:
        """Add a session, unless another peer has the same hash."""
        try:
            session = self._table.add_session(name, address)
        except ConfigError:
            return None
        self._used_at[name] = now
        return session

    def accept_stranger(self, name: str, address: object, now: float) -> None:
        """Add a session with a node that has announced itself."""
        session = self._table.sessions.get(name)
        if session is None:
            met = (
                each.handshake.incarnation != 0 for each in self._table.sessions.values()
            )
            if len(self._table.sessions) - sum(met) < STRANGERS_MAX:
                self._add(name, address, now)
        elif session.handshake.incarnation == 0:
            session.address = address  # The address in a definition may be outdated.

    def start_history(self, received: ReceivedDatagram, now: float) -> None:
        """Give a session the id of the history that its peer has now."""
        session = received.session
        former = session.id
        own = self._directory.id_of(session.name, session.history)
        if own != former:
            session.outbox.clear()
            self._table.set_id(session, own)
            if self._directory.knows(former):
                self._take_down(former, NEVER, now)
        self._down.pop(own, None)
        self._used_at[session.name] = now
        self._directory.set_address(own, self.encode_address(session.address))
        session.epoch_in = received.epoch
        if session.name in self._contacts:
            self.deadline = now

    # Closing.

    def receive_bye(self, session: PeerSession, now: float) -> None:
        """Let a peer leave."""
        self._layer.events.add(PeerLeft(peer=session.name))
        self._close(session)
        self._take_down(session.id, NEVER, now)

    def _take_down(self, id: ProcessId, until: float, now: float) -> None:
        """Report to the process that a peer is down."""
        self._down[id] = until
        self._driver.process.disconnect(id, now)
        self._driver.drain(now)

    def _close(self, session: PeerSession) -> None:
        """Delete a session."""
        session.apply(SessionEvent.REMOVAL_STARTED)
        session.apply(SessionEvent.LEASE_ENDED)
        session.outbox.clear()
        self._layer.silence.forget(session)
        self._layer.flow.free(session)
        self._table.remove(session)
        self._used_at.pop(session.name, None)

    # Time.

    def handle_deadline(self, now: float) -> None:
        """Close unused sessions, and join, if the next check is due."""
        if now < self.deadline:
            return
        self.deadline = now + self._timeout_s / 4
        unreachable = self._unreachable
        self._unreachable = {}
        for id in unreachable:  # noqa: A001 (the word for it)
            self._driver.process.disconnect(id, now)
        linked = set(self._overlay.peers())
        for session in list(self._table.sessions.values()):
            self._examine(session, session.id in linked, now)
        self._join(now)
        self._driver.drain(now)

    def _examine(self, session: PeerSession, is_linked: bool, now: float) -> None:
        """Close a session if its peer is silent, or if it has had no link for a while."""
        id = session.id  # noqa: A001 (the word for it)
        is_needed = session.name in self._contacts and self._overlay.is_newcomer
        if is_linked or is_needed:
            self._used_at[session.name] = now
        if _owes_answer_s(session, now) >= self._timeout_s:
            if is_needed and not is_linked:
                return  # The session may not be open yet.
            self._close(session)
            if self._directory.knows(id):
                self._take_down(id, now + DOWN_TIMEOUTS * self._timeout_s, now)
        elif now - self._used_at.setdefault(
            session.name, now
        ) >= self._idle_s and not self._driver.process.backlog(id):
            self._close(session)

    def _join(self, now: float) -> None:
        """Join through a contact that was met, through another one at each call."""
        if not self._overlay.is_newcomer or now < self._join_at:
            return
        met = [
            name
            for name, session in self._table.sessions.items()
            if session.history != 0 and session.id not in self._down
        ]
        names = [name for name in self._contacts if name in met] or met
        if not names:
            return
        name = names[0]
        self._contacts.pop(name, None)  # Next time, try this contact last.
        self._contacts[name] = None
        self._join_at = now + self._join_s
        self.deadline = min(self.deadline, self._join_at)
        self._driver.process.connect(self._table.sessions[name].id, now)


def _owes_answer_s(session: PeerSession, now: float) -> float:
    """Return the time for which a peer has owed an answer, without idle time before."""
    if session.heard_at >= session.suspected_at:
        return 0.0
    return max(now - session.suspected_at, 0.0)


def make_overlay_sessions(
    table: PeerTable, layer: SessionLayer, driver: ProcessDriver, limits: Limits
) -> OverlaySessions | None:
    """Return the sessions of a process on an overlay; None without one."""
    overlay = driver.process.overlay
    if overlay is None:
        return None
    sessions = OverlaySessions(overlay, table, layer, driver, limits)
    table.directory = overlay.directory
    driver.session_opener = sessions
    layer.refusals.expects_until = NEVER  # Late datagrams of former neighbours.
    layer.announcements.on_stranger = sessions.accept_stranger
    return sessions
