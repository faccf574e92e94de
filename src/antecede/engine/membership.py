"""The peers of a node: adding, removing, leaving, and the loss of their histories.

docs/explanation/peer-removal.md proves that these preserve causal order.
"""

from collections.abc import Callable, Sequence

from antecede.core.process import NEVER, ProcessId
from antecede.core.registry import ProtocolInfo
from antecede.engine.datagram import BYE, name_hash
from antecede.engine.journal_recorder import JournalRecorder
from antecede.engine.limits import Limits
from antecede.engine.peer_session import (
    ACTIVE,
    REMOVED,
    REMOVING,
    PeerSession,
    SessionEvent,
)
from antecede.engine.process_driver import ProcessDriver
from antecede.engine.session_layer import (
    TIMESTAMP_RESOLUTION_S,
    ReceivedDatagram,
    SessionLayer,
)
from antecede.errors import ConfigError, LocalError

__all__ = ["Membership"]


class Membership:
    """The sessions of a node, and the process ids of its peers.

    Args:
        info: the protocol.
        group: the names of the group, whose indices are process ids, if the protocol's
            membership is fixed; otherwise the name of the node alone.
        limits: the limits.
        layer: exchanges datagrams with the peers.
        driver: drives the process.
        journal: records changes.
    """

    __slots__ = (
        "_driver",
        "_info",
        "_journal",
        "_layer",
        "_lease_s",
        "_next_check_at",
        "_next_id",
        "_on_history",
        "_peer_timeout_s",
        "_permit_leases",
        "_recovery",
        "sessions",
    )

    sessions: dict[str, PeerSession]
    """All sessions by name, those of removed peers included."""

    def __init__(
        self,
        info: ProtocolInfo,
        group: Sequence[str],
        limits: Limits,
        layer: SessionLayer,
        driver: ProcessDriver,
        journal: JournalRecorder,
    ) -> None:
        self._info = info
        self._layer = layer
        self._driver = driver
        self._journal = journal
        self._recovery = driver.process.recovery
        # A lease by the clock of a peer, in seconds of this node's clock at most.
        self._lease_s = (
            limits.lease_s * (1 + limits.clock_drift_max) + TIMESTAMP_RESOLUTION_S
        )
        self._peer_timeout_s = limits.peer_timeout_s
        self._next_check_at = -NEVER
        self._permit_leases: list[tuple[float, ProcessId]] = []
        self._on_history: Callable[[int, str, int], None] | None = None
        self.sessions = {}
        self._next_id = len(group)
        for index, name in enumerate(group):
            if name != layer.name:
                self._add(name, ProcessId(index), None)

    def peers(self) -> list[str]:
        """Return the names of the active peers."""
        return [name for name, session in self.sessions.items() if session.state is ACTIVE]

    def report_histories(self, on_history: Callable[[int, str, int], None]) -> None:
        """Call ``on_history`` with id, name and history of each known and future peer.

        The history is 0 until the peer is met, and then reported again. A peer that loses
        its history gets a new id.
        """
        self._on_history = on_history
        for session in self.sessions.values():
            on_history(session.id, session.name, session.history)

    # Adding peers.

    def add_peer(self, name: str, address: object, now: float) -> None:
        """Add a peer, or add it again after it left or was removed.

        Raise ConfigError if it is the node itself, is being removed, or the protocol's
        membership is fixed.
        """
        if name == self._layer.name:
            raise ConfigError(f"{name} is this node itself; add only its peers")
        session = self.sessions.get(name)
        if session is None:
            if not self._info.capabilities.dynamic:
                raise ConfigError(
                    f"cannot add {name}: {self._info.name} has a fixed membership; name"
                    " all members when the node is created"
                )
            session = self.add_session(name, address)
        if not session.apply(SessionEvent.ADDED):
            raise ConfigError(f"{name} is being removed; wait until its lease has ended")
        session.stopped = False
        self._layer.timers.cancel_lease(session)
        session.address = address
        self._layer.timers.schedule_hello(session, now)

    def add_session(self, name: str, address: object) -> PeerSession:
        """Add the session of a new peer."""
        return self._add(name, self.new_id(), address)

    def new_id(self) -> ProcessId:
        """Return a process id that is not in use."""
        id = ProcessId(self._next_id)  # noqa: A001 (the word for it)
        self._next_id += 1
        return id

    def _add(self, name: str, id: ProcessId, address: object) -> PeerSession:
        session = PeerSession(name, name_hash(name), id, address)
        for other in self.sessions.values():
            if other.name_hash == session.name_hash:
                raise ConfigError(
                    f"the names {name} and {other.name} have the same hash; rename one"
                )
        self.sessions[name] = session
        self._driver.by_id[id] = session
        self._layer.add(session)
        self.report_history(id, name, 0)
        return session

    def report_history(self, id: ProcessId, name: str, history: int) -> None:
        """Report which history of which peer has a process id."""
        if self._on_history is not None:
            self._on_history(id, name, history)

    # Removing peers.

    def remove_peer(self, name: str, now: float, *, stopped: bool) -> float:
        """Remove a peer, and return when its unacked messages will be abandoned.

        That is the end of the peer's lease on the datagrams transmitted to it. With
        ``stopped`` the node also stops waiting for the peer's permits then. This is safe
        only if the peer has stopped for good; see docs/explanation/peer-removal.md. Raise
        LocalError if the peer is unknown, or the protocol cannot remove peers.
        """
        session = self.sessions.get(name)
        if session is None or session.state is REMOVED:
            raise LocalError(f"{name} is not a peer")
        if self._recovery is None:
            raise LocalError(f"{self._info.name} cannot remove a peer; use hybrid")
        ends = self._lease_end(session, now)
        if stopped and not session.stopped:  # Its datagrams to others may be in flight.
            ends = now + self._lease_s
        elif session.state is REMOVING:
            ends = session.lease_ends
        session.stopped = session.stopped or stopped
        session.apply(SessionEvent.REMOVAL_STARTED)
        session.outbox.pop_frames()
        self._layer.timers.start_lease(session, ends)
        return ends

    def _lease_end(self, session: PeerSession, now: float) -> float:
        """Return when the peer refuses every datagram transmitted to it so far."""
        transmitted_at = max(session.handshake.timestamp_echo_at, session.former_at)
        return max(now, transmitted_at + self._lease_s)

    def _end_lease(self, session: PeerSession, now: float) -> None:
        """Abandon the unacked copies to a leaving peer, which refuses all of them now."""
        recovery = self._recovery
        assert recovery is not None  # Else the lease would not have been started.
        recovery.abandon(session.id, now)
        if session.stopped:
            recovery.forgo_permits(session.id, now)
        session.apply(SessionEvent.LEASE_ENDED)
        session.lease_ends = NEVER
        session.epoch_out += 1
        session.reassembly.clear()
        self._journal.discard_copies(session)
        self._driver.drain(now)

    # Histories and epochs.

    def update_session(self, received: ReceivedDatagram, now: float) -> bool:
        """Follow a peer that restarted or removed this node; return False if impossible."""
        if received.is_new_history:
            return self._start_history(received, now)
        session = received.session
        recovery = self._recovery
        if received.previous_history and recovery is not None:
            recovery.peer_restored(session.id)  # It was restarted with its journal.
        if received.epoch > session.epoch_in:
            if recovery is None:
                # No node with this protocol can have removed us.
                self._layer.dropped["protocol"] += 1
                return False
            recovery.reset_channel(session.id, now)
            session.reassembly.clear()
            session.epoch_in = received.epoch
        return True

    def _start_history(self, received: ReceivedDatagram, now: float) -> bool:
        """Start the new history of a peer, and abandon its previous one if there is one."""
        session = received.session
        if received.previous_history != 0:
            recovery = self._recovery
            if recovery is None:
                session.apply(SessionEvent.HISTORY_LOST)
                return False
            former = session.id
            session.id = self.new_id()
            self._driver.by_id[session.id] = session
            session.outbox.pop_frames()
            # Its former incarnation accepts no datagram any more, so abandoning is safe
            # now. Datagrams that it transmitted to others may be in flight for a lease.
            recovery.abandon(former, now)
            self.start_permit_lease(former, now)
            self._journal.discard_copies(session)
            self._driver.drain(now)
            # On the first contact there is nothing to discard but fragments that another
            # peer has relayed (tree), and these are of the history that begins.
            session.reassembly.clear()
        session.epoch_in = received.epoch
        self.report_history(session.id, session.name, session.history)
        return True

    def start_permit_lease(self, former: ProcessId, now: float) -> None:
        """Wait for the permits of a former history for one more lease."""
        self._permit_leases.append((now + self._lease_s, former))

    # Leaving.

    def bye_datagrams(self, now: float) -> list[tuple[object, bytes]]:
        """Return a BYE to each active peer that has not acked one."""
        layer = self._layer
        return [
            (
                session.address,
                layer.seal(BYE, session, layer.data_prefix(session, now)),
            )
            for session in self.sessions.values()
            if session.state is ACTIVE and layer.can_transmit(session, now)
        ]

    def receive_bye(self, session: PeerSession, now: float) -> None:
        """Ack a BYE, and let the peer leave: its messages were delivered everywhere.

        Therefore none of its permits is missing. The copies that it has not acked are
        abandoned at the end of its lease, unless it returns before.
        """
        if session.address is None:
            return
        self._layer.acknowledge_bye(session, now)
        recovery = self._recovery
        if recovery is not None and session.apply(SessionEvent.BYE_RECEIVED):
            recovery.assume_permits(session.id, now)
            session.outbox.pop_frames()
            self._layer.timers.start_lease(session, self._lease_end(session, now))
            self._driver.drain(now)

    # Time.

    def next_deadline(self) -> float:
        """Return when :meth:`handle_deadlines` is due next; infinity for never."""
        earliest = self._layer.timers.next_deadline()
        if self._permit_leases:
            earliest = min(earliest, self._permit_leases[0][0])
        if self._peer_timeout_s < NEVER:
            earliest = min(earliest, self._next_check_at)
        return earliest

    def handle_deadlines(self, now: float) -> None:
        """End the leases that are over, and remove the peers that timed out."""
        recovery = self._recovery
        while self._permit_leases and self._permit_leases[0][0] <= now:
            assert recovery is not None  # Else the lease would not have been started.
            _, former = self._permit_leases.pop(0)
            recovery.forgo_permits(former, now)
            self._driver.by_id.pop(former, None)
            self._driver.drain(now)
        for session in self._layer.timers.ended_leases(now):
            self._end_lease(session, now)
        if self._peer_timeout_s < NEVER and self._next_check_at <= now:
            self._next_check_at = now + self._peer_timeout_s / 4
            self._remove_silent_peers(now)

    def _remove_silent_peers(self, now: float) -> None:
        """Remove the peers that were silent for too long while copies were unacked."""
        process = self._driver.process
        for name, session in self.sessions.items():
            if session.state is not ACTIVE or not process.backlog(session.id):
                session.unacked_since = NEVER
            elif session.unacked_since == NEVER:
                session.unacked_since = now
            else:
                silent_since = max(session.unacked_since, session.heard_at)
                if now - silent_since >= self._peer_timeout_s:
                    self.remove_peer(name, now, stopped=False)
