"""Peers that restart, or that have removed this node: their histories and epochs.

docs/explanation/peer-removal.md proves that these preserve causal order.
"""

from antecede.engine.datagram import Introduction
from antecede.engine.departures import Departures
from antecede.engine.history_number import is_later
from antecede.engine.journal_recorder import JournalRecorder
from antecede.engine.overlay_sessions import OverlaySessions
from antecede.engine.peer_session import PeerSession, SessionEvent, generation_of
from antecede.engine.peer_table import PeerTable
from antecede.engine.process_driver import ProcessDriver
from antecede.engine.received_datagram import ReceivedDatagram
from antecede.engine.session_layer import SessionLayer

__all__ = ["Histories"]


class Histories:
    """Follows the histories and epochs of the peers of one node.

    Args:
        table: the sessions.
        departures: ends sessions.
        layer: exchanges datagrams with the peers.
        driver: drives the process.
        journal: records changes.
        overlay: the sessions on an overlay; None without one.
    """

    __slots__ = (
        "_departures",
        "_driver",
        "_journal",
        "_layer",
        "_overlay",
        "_recovery",
        "_table",
        "outdated",
    )

    outdated: tuple[str, int] | None
    """The name of a peer that knows more of this node than the node itself, which was
    restored from an outdated journal, and the history that this peer knows."""

    def __init__(
        self,
        table: PeerTable,
        departures: Departures,
        layer: SessionLayer,
        driver: ProcessDriver,
        journal: JournalRecorder,
        overlay: OverlaySessions | None,
    ) -> None:
        self._table = table
        self._departures = departures
        self._layer = layer
        self._driver = driver
        self._journal = journal
        self._recovery = driver.process.recovery
        self.outdated = None
        self._overlay = overlay

    def update_session(self, received: ReceivedDatagram, now: float) -> bool:
        """Follow a peer that restarted or removed this node.

        Return whether the frames of the datagram may be used.
        """
        session = received.session
        introduction = received.introduction
        if introduction is not None:
            session.message_bytes_max = introduction.message_bytes_max
        if received.is_new_history and self._overlay is not None:
            self._overlay.start_history(received, now)
        elif received.is_new_history:
            if not self._start_history(received, now):
                return False
        elif received.previous_history and self._recovery is not None:
            self._recovery.peer_restored(session.id)  # It was restarted with its journal.
        if received.epoch > session.epoch_in and not self._start_epoch(received, now):
            return False
        if introduction is not None and self._is_outdated(session, introduction):
            self.outdated = session.name, introduction.known_history
            return False
        if received.epoch_echo not in (-1, session.epoch_out):
            # The peer transmitted it before it learned of the current epoch.
            self._layer.dropped["epoch"] += 1
            self._layer.respond(session, now)
            return False
        session.epoch_known = max(session.epoch_known, received.epoch_echo)
        return True

    def _start_epoch(self, received: ReceivedDatagram, now: float) -> bool:
        """Start another epoch of a peer; return False if its protocol has no epochs."""
        session = received.session
        recovery = self._recovery
        if session.epoch_in == 0:  # The first contact.
            session.epoch_in = received.epoch
            return True
        if self._overlay is not None:
            session.epoch_in = received.epoch  # The peer had closed this session.
            return True
        if recovery is None:
            # No node with this protocol can have removed us.
            self._layer.dropped["protocol"] += 1
            return False
        if generation_of(received.epoch) != generation_of(session.epoch_in):
            # The peer no longer knows what it has delivered. It refuses everything that
            # this node transmitted to its former epoch, so abandoning is safe now.
            self._departures.abandon(session, now)
            session.outbox.clear()
            if session.names is not None:
                session.names.reset(session.history)
        self._driver.gaps.report_from(session.name, session.id)
        recovery.reset_channel(session.id, now)
        session.reassembly.clear()
        session.epoch_in = received.epoch
        self._driver.drain(now)
        return True

    def _is_outdated(self, session: PeerSession, introduction: Introduction) -> bool:
        """Return whether a peer knows more of this node's history than the node itself."""
        recovery = self._recovery
        if recovery is None:
            return False
        own, known = self._layer.history, introduction.known_history
        if known != own:
            return is_later(known, own)
        last = recovery.last_number()
        sent, _, delivered, _ = recovery.channel_numbers(session.id)
        if session.bytes_out == 0:  # What was sent since the restart was not transmitted.
            last = session.number_before
        if introduction.received > last:  # In whatever epoch; the peer may be forgotten.
            return True
        if introduction.epoch_echo == session.epoch_out and introduction.received > sent:
            return True
        if introduction.epoch_echo > session.epoch_out:
            return True
        # In another generation, this node has forgotten on purpose what it had acked.
        return (
            generation_of(introduction.epoch_echo) == generation_of(session.epoch_out)
            and introduction.epoch == session.epoch_in
            and introduction.acked > delivered
        )

    def _start_history(self, received: ReceivedDatagram, now: float) -> bool:
        """Start the new history of a peer, and abandon its previous one if there is one."""
        session = received.session
        if received.previous_history != 0:
            recovery = self._recovery
            if recovery is None:
                session.apply(SessionEvent.HISTORY_LOST)
                return False
            former = session.id
            self._table.add_id(session)
            session.outbox.clear()
            # Its former incarnation accepts no datagram any more, so abandoning is safe
            # now. Datagrams that it transmitted to others may be in flight for a lease.
            self._driver.gaps.report_to(session.name, former)
            self._driver.gaps.report_from(session.name, former)
            recovery.abandon(former, now)
            recovery.drop_held(former)  # They would be taken for messages of the new one.
            _, _, _, permitted = recovery.channel_numbers(former)
            self._journal.permitted(session.name, received.previous_history, permitted)
            self._departures.start_permit_lease(
                former, session.name, received.previous_history, now
            )
            session.acked_base = 0
            self._journal.discard_copies(session)
            self._driver.drain(now)
            # On the first contact there is nothing to discard but fragments that another
            # peer has relayed (tree), and these are of the history that begins.
            session.reassembly.clear()
        session.stopped = False  # Another process was declared stopped, not this one.
        self._table.identify(session)
        session.epoch_in = received.epoch
        self._table.report_history(session.id, session.name, session.history)
        return True
