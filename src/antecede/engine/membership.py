"""The membership of a node: which peers it has, and how they come and go."""

from collections.abc import Sequence

from antecede.core.registry import ProtocolInfo
from antecede.engine.datagram import BYE
from antecede.engine.departures import Departures
from antecede.engine.entry_names import EntryNames
from antecede.engine.events import PeerMoved
from antecede.engine.histories import Histories
from antecede.engine.journal import SavedPeer
from antecede.engine.journal_recorder import JournalRecorder
from antecede.engine.limits import Limits
from antecede.engine.overlay_sessions import OverlaySessions, make_overlay_sessions
from antecede.engine.peer_session import ACTIVE, PeerSession, SessionEvent
from antecede.engine.peer_table import PeerTable
from antecede.engine.process_driver import ProcessDriver
from antecede.engine.session_layer import SessionLayer
from antecede.errors import ConfigError

__all__ = ["Membership"]


class Membership:
    """The peers of a node.

    Args:
        info: the protocol.
        group: the names of the group, whose indices are process ids, if the protocol's
            membership is fixed; otherwise the name of the node alone.
        limits: the limits.
        layer: exchanges datagrams with the peers.
        driver: drives the process.
        journal: records changes.
        entry_names: names processes in entries; None if frames contain no entries.
    """

    __slots__ = (
        "_info",
        "_journal",
        "_layer",
        "_recovery",
        "departures",
        "histories",
        "overlay",
        "table",
    )

    table: PeerTable
    departures: Departures
    histories: Histories
    overlay: OverlaySessions | None
    """The sessions of a process on an overlay; None without one."""

    def __init__(
        self,
        info: ProtocolInfo,
        group: Sequence[str],
        limits: Limits,
        layer: SessionLayer,
        driver: ProcessDriver,
        journal: JournalRecorder,
        entry_names: EntryNames | None,
    ) -> None:
        self._info = info
        self._layer = layer
        self._journal = journal
        self._recovery = driver.process.recovery
        self.table = PeerTable(group, layer, driver.by_id, entry_names)
        overlay = make_overlay_sessions(self.table, layer, driver, limits)
        self.overlay = overlay
        self.departures = Departures(
            info, limits, self.table, layer, driver, journal, overlay
        )
        self.histories = Histories(
            self.table, self.departures, layer, driver, journal, overlay
        )

    def add_peer(
        self,
        name: str,
        address: object,
        now: float,
        *,
        is_configured: bool = False,
        is_link: bool = False,
    ) -> None:
        """Add a peer, or add it again after it left or was removed.

        With ``is_link``, its session only carries the datagrams of rooms, unless the
        application has added the peer before.

        Raise ConfigError if it is the node itself, is being removed, or the protocol's
        membership is fixed.
        """
        if name == self._layer.name:
            raise ConfigError(f"{name} is this node itself; add only its peers")
        session = self.table.sessions.get(name)
        if self.overlay is not None:
            self.overlay.add_contact(name, now)
        if session is None:
            if not self._info.capabilities.dynamic:
                raise ConfigError(
                    f"cannot add {name}: {self._info.name} has a fixed membership; name"
                    " all members when the node is created"
                )
            session = self.table.add_session(name, address)
            session.number_before = self.table.forgotten_number
            session.is_link = is_link
        if is_configured:
            session.apply(SessionEvent.REMOVAL_CANCELLED)
        if not session.apply(SessionEvent.ADDED):
            raise ConfigError(f"{name} is being removed; wait until its lease has ended")
        session.is_link = session.is_link and is_link
        session.stopped = False
        session.is_configured = session.is_configured or is_configured
        self._layer.timers.cancel_lease(session)
        self._move(session, address, now)
        self._journal.session_changed(session)
        self._layer.timers.schedule_hello(session, now)

    def set_address(self, name: str, address: object, now: float) -> None:
        """Set the address of a peer, and contact it unless it was removed."""
        session = self.table.sessions[name]
        self._move(session, address, now)
        self._layer.timers.schedule_hello(session, now)

    def _move(self, session: PeerSession, address: object, now: float) -> None:
        """Set the address of a peer, and report a change.

        The caller schedules a HELLO, without waiting for the former address.
        """
        former = session.address
        session.address = address
        if former is not None and former != address:
            session.path.move(now)
            self._layer.timers.hello_answered(session)
            event = PeerMoved(peer=session.name, address=address, former_address=former)
            self._layer.events.add(event)

    def restore_session(self, saved: SavedPeer, now: float) -> PeerSession:
        """Add the session of a peer that a journal holds, in the state that it had."""
        session = self.table.restore_session(saved, now)
        self.departures.restore(session, now)
        return session

    def bye_datagrams(self, now: float) -> list[tuple[object, bytes]]:
        """Return a BYE to each active peer that has not acked one.

        A peer that was silent for too long to accept a BYE gets a HELLO first.
        """
        layer = self._layer
        datagrams: list[tuple[object, bytes]] = []
        for session in self.table.sessions.values():
            if session.state is not ACTIVE or session.address is None:
                continue
            if layer.can_transmit(session, now):
                bye = layer.seal(BYE, session, layer.data_prefix(session, now))
                datagrams.append((session.address, bye))
            elif session.handshake.incarnation != 0:
                datagrams.append((session.address, layer.make_hello(session, now)))
        return datagrams
