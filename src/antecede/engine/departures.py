"""Peers that are removed, leave, or stop: leases, abandoned copies, forgotten sessions.

docs/explanation/peer-removal.md proves that these preserve causal order.
"""

from collections import deque

from antecede.core.process import NEVER, ProcessId
from antecede.core.registry import ProtocolInfo
from antecede.engine.datagram import BYE_ACK, name_hash
from antecede.engine.ended_sources import EndedSources
from antecede.engine.events import PeerLeft, PeerRemoved
from antecede.engine.journal_recorder import JournalRecorder
from antecede.engine.limits import Limits
from antecede.engine.overlay_sessions import OverlaySessions
from antecede.engine.peer_session import (
    ACTIVE,
    EPOCHS_PER_GENERATION,
    LEFT,
    REMOVED,
    REMOVING,
    PeerSession,
    SessionEvent,
)
from antecede.engine.peer_table import PeerTable
from antecede.engine.process_driver import ProcessDriver
from antecede.engine.session_layer import TIMESTAMP_RESOLUTION_S, SessionLayer
from antecede.errors import LocalError

__all__ = ["Departures"]


class Departures:
    """Ends the sessions of one node, each at the end of a lease.

    Args:
        info: the protocol.
        limits: the limits.
        table: the sessions.
        layer: exchanges datagrams with the peers.
        driver: drives the process.
        journal: records changes.
        overlay: the sessions on an overlay; None without one.
    """

    __slots__ = (
        "_departed",
        "_driver",
        "_ended_sources",
        "_forget_after_s",
        "_info",
        "_journal",
        "_layer",
        "_lease_s",
        "_next_check_at",
        "_overlay",
        "_peer_timeout_s",
        "_permit_leases",
        "_recovery",
        "_table",
    )

    def __init__(
        self,
        info: ProtocolInfo,
        limits: Limits,
        table: PeerTable,
        layer: SessionLayer,
        driver: ProcessDriver,
        journal: JournalRecorder,
        overlay: OverlaySessions | None,
    ) -> None:
        self._info = info
        self._table = table
        self._layer = layer
        self._driver = driver
        self._journal = journal
        self._overlay = overlay
        self._recovery = driver.process.recovery
        # A lease by the clock of a peer, in seconds of this node's clock at most.
        self._lease_s = (
            limits.lease_s * (1 + limits.clock_drift_max) + TIMESTAMP_RESOLUTION_S
        )
        self._ended_sources: EndedSources | None = None
        if driver.entry_names is not None:
            self._lease_s *= 2  # A peer holds a message for a second lease at most.
            self._ended_sources = EndedSources(
                driver.entry_names, table.sessions, layer, driver, self._lease_s
            )
        self._peer_timeout_s = limits.peer_timeout_s
        self._forget_after_s = limits.forget_after_s
        self._next_check_at = -NEVER
        self._permit_leases: deque[tuple[float, ProcessId, str, int]] = deque()
        self._departed: deque[tuple[float, PeerSession]] = deque()

    def remove_peer(
        self, name: str, now: float, *, stopped: bool, is_timeout: bool = False
    ) -> float:
        """Remove a peer, and return when its unacked messages will be abandoned.

        That is the end of the peer's lease on the datagrams transmitted to it. With
        ``stopped`` the node also stops waiting for the peer's permits then. This is safe
        only if the peer has stopped for good; see docs/explanation/peer-removal.md. A
        peer that was removed may be removed again with ``stopped``. Messages may also wait
        for a process that is no peer but that entries name; it may be declared stopped,
        too. Raise LocalError if the peer is unknown, or the protocol cannot remove peers.
        """
        session = self._table.sessions.get(name)
        if stopped and self._ended_sources is not None:
            is_named = self._ended_sources.declare_stopped(name_hash(name), now)
            if session is None and is_named:
                return now + self._lease_s
        if session is None or (
            session.state is REMOVED and (session.stopped or not stopped)
        ):
            raise LocalError(f"{name} is not a peer")
        if self._recovery is None:
            raise LocalError(f"{self._info.name} cannot remove a peer; use hybrid")
        ends = self._lease_end(session, now)
        if stopped and not session.stopped:  # Its datagrams to others may be in flight.
            ends = now + self._lease_s
        elif session.state is REMOVING:
            ends = session.lease_ends
        session.stopped = session.stopped or stopped
        if session.state in (ACTIVE, LEFT):
            self._layer.events.add(PeerRemoved(peer=name, is_timeout=is_timeout))
        session.apply(SessionEvent.REMOVAL_STARTED)
        self._layer.silence.forget(session)
        session.outbox.clear()
        self._layer.flow.free(session)
        self._layer.timers.start_lease(session, ends)
        self._journal.session_changed(session)
        return ends

    def _lease_end(self, session: PeerSession, now: float) -> float:
        """Return when the peer refuses every datagram transmitted to it so far."""
        transmitted_at = max(session.handshake.timestamp_echo_at, session.former_at)
        return max(now, transmitted_at + self._lease_s)

    def restore(self, session: PeerSession, now: float) -> None:
        """Continue the departure of a peer after a restart of this node."""
        if session.state in (REMOVING, LEFT):
            self._layer.timers.start_lease(session, self._lease_end(session, now))
        elif session.state is REMOVED:
            self._departed.append((now + self._forget_after_s, session))

    def _end_lease(self, session: PeerSession, now: float) -> None:
        """Abandon the unacked copies to a leaving peer, which refuses all of them now."""
        self.abandon(session, now)
        session.apply(SessionEvent.LEASE_ENDED)
        session.lease_ends = NEVER
        session.epoch_out += 1
        if session.epoch_out % EPOCHS_PER_GENERATION == 0:
            session.epoch_out = self._table.new_epoch()
        session.window = -1
        if session.stopped:
            self._forgo_permits(session.id, session.name, session.history, now)
        if not session.stopped or not self._forget(session):
            self._departed.append((now + self._forget_after_s, session))
        self._driver.drain(now)

    def abandon(self, session: PeerSession, now: float) -> None:
        """Give up the copies to a peer that can no longer accept them."""
        recovery = self._recovery
        assert recovery is not None  # Callers check it.
        self._driver.gaps.report_to(session.name, session.id)
        recovery.abandon(session.id, now)
        session.abandonments += 1
        _, session.acked_base, _, _ = recovery.channel_numbers(session.id)
        self._journal.discard_copies(session)

    def _forgo_permits(self, id: ProcessId, name: str, history: int, now: float) -> None:
        """Stop waiting for the permits of a history that has ended."""
        assert self._recovery is not None  # Callers check it.
        self._recovery.forgo_permits(id, now)
        self._journal.forgo_permits(name, history)

    def _forget(self, session: PeerSession) -> bool:
        """Delete everything about a peer, unless one of its permits is missing."""
        recovery = self._recovery
        if recovery is None or not recovery.forget(session.id):
            return False
        is_met = session.handshake.incarnation != 0
        number = recovery.last_number() if is_met else session.number_before
        self._table.forgotten_number = max(self._table.forgotten_number, number)
        self._table.remove(session)
        self._journal.forget(session, self._table.forgotten_number)
        return True

    def _forget_departed(self, now: float) -> None:
        """Forget the peers that were removed or have left long ago."""
        while self._departed and self._departed[0][0] <= now:
            _, session = self._departed.popleft()
            is_kept = session.is_configured and session.state is LEFT
            if (
                session.state in (REMOVED, LEFT)
                and session.lease_ends == NEVER
                and not is_kept
                and self._table.sessions.get(session.name) is session
                and not self._forget(session)
            ):
                self._departed.append((now + self._forget_after_s, session))

    def start_permit_lease(
        self, former: ProcessId, name: str, history: int, now: float
    ) -> None:
        """Wait for the permits of a former history for one more lease."""
        self._permit_leases.append((now + self._lease_s, former, name, history))

    def receive_bye(self, session: PeerSession, now: float) -> None:
        """Ack a BYE, and let the peer leave: its messages were delivered everywhere.

        Therefore none of its permits is missing. The copies that it has not acked are
        abandoned at the end of its lease, unless it returns before.
        """
        if session.address is None:
            return
        layer = self._layer
        ack = layer.seal(BYE_ACK, session, layer.data_prefix(session, now))
        layer.responses.append((session.address, ack))
        if self._overlay is not None:
            self._overlay.receive_bye(session, now)
        recovery = self._recovery
        if recovery is not None and session.apply(SessionEvent.BYE_RECEIVED):
            recovery.assume_permits(session.id, now)
            self._layer.events.add(PeerLeft(peer=session.name))
            self._layer.silence.forget(session)
            session.outbox.clear()
            self._layer.flow.free(session)
            self._layer.timers.cancel_hello(session)
            self._layer.timers.start_lease(session, self._lease_end(session, now))
            self._driver.drain(now)

    # Time.

    def next_deadline(self) -> float:
        """Return when :meth:`handle_deadlines` is due next; infinity for never."""
        earliest = self._layer.timers.next_deadline()
        if self._permit_leases:
            earliest = min(earliest, self._permit_leases[0][0])
        if self._departed:
            earliest = min(earliest, self._departed[0][0])
        if self._overlay is not None:
            return min(earliest, self._overlay.deadline)
        if self._peer_timeout_s < NEVER:
            earliest = min(earliest, self._next_check_at)
        if self._ended_sources is not None:
            earliest = min(earliest, self._ended_sources.next_deadline())
        return earliest

    def handle_deadlines(self, now: float) -> None:
        """End the leases that are over, and remove the peers that timed out."""
        while self._permit_leases and self._permit_leases[0][0] <= now:
            _, former, name, history = self._permit_leases.popleft()
            self._forgo_permits(former, name, history, now)
            self._table.remove_id(former)
            self._driver.drain(now)
        for session in self._layer.timers.ended_leases(now):
            self._end_lease(session, now)
        if self._departed:
            self._forget_departed(now)
        if self._ended_sources is not None:
            self._ended_sources.handle_deadline(now)
        if self._overlay is not None:
            self._overlay.handle_deadline(now)
        elif self._peer_timeout_s < NEVER and self._next_check_at <= now:
            self._next_check_at = now + self._peer_timeout_s / 4
            self._remove_silent_peers(now)

    def _remove_silent_peers(self, now: float) -> None:
        """Remove the peers that were silent for too long while copies were unacked."""
        process = self._driver.process
        for name, session in self._table.sessions.items():
            if session.state is not ACTIVE or not process.backlog(session.id):
                session.unacked_since = NEVER
            elif session.unacked_since == NEVER:
                session.unacked_since = now
            else:
                silent_since = max(session.unacked_since, session.heard_at)
                if now - silent_since >= self._peer_timeout_s:
                    self.remove_peer(name, now, stopped=False, is_timeout=True)
