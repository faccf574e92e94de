"""The session layer: handshakes, authentication, replay protection and leases.

Two nodes exchange frames only after each has proven to the other that it is running *now*.
A HELLO asks for the proof. The WELCOME that answers it echoes the HELLO's timestamp and
names both incarnations, so it cannot answer another HELLO. From then on every datagram is
bound to both incarnations and echoes the receiver's own clock; the receiver refuses an echo
older than a lease. The layer decrypts a datagram before it uses its content, and changes no
state until then.

The layer reports to the engine whether a peer has started a new history or continues its
old one, and the body of each accepted datagram. A datagram that it refuses changes nothing.
"""

from collections.abc import Callable
from typing import Final

from antecede.core.process import PeerRecovery
from antecede.engine.acknowledgements import RANGES_MAX
from antecede.engine.address_paths import AddressPaths
from antecede.engine.address_validation import AddressValidation
from antecede.engine.announcements import Announcements
from antecede.engine.datagram import (
    ANNOUNCE,
    CHALLENGE,
    DATA,
    DATA_PREFIX,
    HELLO,
    HELLO_TIMES,
    INTRODUCTION,
    RESPONSE,
    WELCOME,
    WELCOME_TIMES,
    Introduction,
    name_hash,
    read_header,
    read_introduction,
    timestamp_ms,
)
from antecede.engine.event_collector import EventCollector
from antecede.engine.fault_reports import FaultReports
from antecede.engine.flow_control import FlowControl
from antecede.engine.handshake import NOTHING
from antecede.engine.history_number import is_later
from antecede.engine.introducer import Introducer
from antecede.engine.limits import Limits
from antecede.engine.peer_session import PeerSession, SessionEvent
from antecede.engine.received_datagram import ReceivedDatagram
from antecede.engine.refusals import Refusals
from antecede.engine.sealer import DatagramCipher, Sealer
from antecede.engine.session_timers import SessionTimers
from antecede.engine.silence_watch import SilenceWatch
from antecede.errors import PeerError

__all__ = ["TIMESTAMP_RESOLUTION_S", "SessionLayer"]

TIMESTAMP_RESOLUTION_S: Final = 0.001
"""The rounding error of a timestamp, which counts whole milliseconds."""


class SessionLayer:
    """The sessions of one node with its peers."""

    __slots__ = (
        "_addresses",
        "_by_hash",
        "_introducer",
        "_last_forgotten_packet",
        "_lease_ms",
        "_lease_s",
        "_protocol",
        "_sealer",
        "announcements",
        "dropped",
        "events",
        "faults",
        "flow",
        "history",
        "incarnation",
        "limits",
        "name",
        "name_hash",
        "outdated",
        "paths",
        "refusals",
        "responses",
        "rtt_s",
        "silence",
        "timers",
    )

    events: EventCollector
    faults: FaultReports
    silence: SilenceWatch
    paths: AddressPaths
    flow: FlowControl
    """Grants the windows that datagrams to the peers contain."""
    dropped: dict[str, int]
    """How many datagrams and frames were dropped, by reason."""
    responses: list[tuple[object, bytes]]
    """Datagrams that answer accepted ones, each with its address."""
    rtt_s: float
    """The round trip of the last WELCOME; -1 before the first."""
    outdated: tuple[str, int] | None
    """The name of a peer that knows a later history of this node, and that history."""

    def __init__(
        self,
        name: str,
        incarnation: int,
        history: int,
        protocol: int,
        limits: Limits,
        cipher: DatagramCipher | None,
        recovery: PeerRecovery | None,
        flow: FlowControl,
        random_bits: Callable[[int], int],
        events: EventCollector,
        protocol_name: str,
    ) -> None:
        self.name = name
        self.name_hash: Final = name_hash(name)
        self.incarnation = incarnation
        self.history = history
        self._protocol = protocol
        self._introducer = Introducer(history, protocol, limits, recovery)
        self.events = events
        self.faults = FaultReports(name, protocol_name, limits, events)
        self.silence = SilenceWatch(limits.silence_s, events, self.faults)
        self.flow = flow
        self.limits = limits
        self._lease_s = limits.lease_s
        self._lease_ms = int(limits.lease_s * 1000)
        self._sealer = Sealer(name, incarnation, cipher, random_bits)
        self._addresses = AddressValidation(
            self.seal, self.data_prefix, random_bits, limits, has_key=cipher is not None
        )
        self._by_hash: dict[int, PeerSession] = {}
        self.paths = AddressPaths(self._by_hash, self.faults)
        self._last_forgotten_packet = 0
        self.timers = SessionTimers(limits.hello_timeout_s)
        self.refusals = Refusals(self.name_hash, self._sealer, self.timers, self.faults)
        self.announcements = Announcements(name, self._sealer, self.refusals)
        self.dropped = self.refusals.dropped
        self.responses = []
        self.rtt_s = -1.0
        self.outdated = None

    def add(self, session: PeerSession) -> None:
        """Accept datagrams of a peer from now on."""
        session.last_packet = self._last_forgotten_packet
        self._by_hash[session.name_hash] = session

    def remove(self, session: PeerSession) -> None:
        """Accept no datagram of a peer any more."""
        # If the peer is added again, no packet number, and so no nonce, is used again.
        self._last_forgotten_packet = max(self._last_forgotten_packet, session.last_packet)
        self._by_hash.pop(session.name_hash, None)
        self._addresses.forget(session)
        self.paths.forget(session)
        self.timers.cancel_hello(session)
        self.timers.cancel_lease(session)

    # Transmitting.

    def can_transmit(self, session: PeerSession, now: float) -> bool:
        """Return whether the peer would accept a datagram that is transmitted now."""
        handshake = session.handshake
        return (
            handshake.incarnation != 0
            and now - handshake.timestamp_echo_at < self._lease_s / 2
            and session.address is not None
        )

    def make_hello(self, session: PeerSession, now: float) -> bytes:
        """Make a HELLO, and schedule its retransmission."""
        timestamp = timestamp_ms(now)
        session.handshake.record_hello(timestamp, now)
        self.timers.hello_transmitted(session, now)
        self.silence.expect_answer(session, now)
        window = self.flow.hello_window(session, timestamp)
        body = HELLO_TIMES.pack(timestamp) + self._introducer.introduce(session, window)
        return self._sealer.seal_for(HELLO, session, 0, body)

    def data_prefix(
        self, session: PeerSession, now: float, asks: bool = False, most: int = RANGES_MAX
    ) -> bytes:
        """Return the start of the body of DATA, BYE and BYE_ACK; it may ask for an ack."""
        session.transmitted_at = now
        timestamp = timestamp_ms(now)
        return DATA_PREFIX.pack(
            timestamp,
            session.handshake.timestamp_echo,
            session.epoch_out,
            session.epoch_in,
            self.flow.window(session, timestamp),
        ) + session.path.arrived.encode(now, asks, most)

    def seal(self, kind: int, session: PeerSession, body: bytes) -> bytes:
        """Make a datagram for the current incarnation of a peer."""
        return self._sealer.seal(kind, session, body)

    def respond(self, session: PeerSession, now: float) -> None:
        """Answer with a datagram that carries no frame, but the current epochs."""
        if self.can_transmit(session, now):
            datagram = self.seal(DATA, session, self.data_prefix(session, now))
            self.responses.append((session.address, datagram))

    # Receiving.

    def accept(
        self, datagram: bytes, address: object, now: float
    ) -> ReceivedDatagram | None:
        """Return an accepted datagram, or count why it was dropped and return None.

        A HELLO is answered in ``responses``. It is returned only if it carries a newer
        window of the current incarnation.
        """
        try:
            kind, sender, incarnation, receiver, packet = read_header(datagram)
        except PeerError:
            return self.refusals.drop("malformed")
        if incarnation == 0:
            return self.refusals.drop("malformed")
        if kind == ANNOUNCE:
            return self.announcements.receive(datagram, address, now)
        session = self._by_hash.get(sender)
        if session is None:
            return self.refusals.drop_unknown(datagram, address, self._by_hash, now)
        handshake = session.handshake
        received = ReceivedDatagram(session, kind, incarnation, receiver, packet)
        if incarnation in handshake.retired:
            return self.refusals.drop_former(received, datagram, address, now)
        if kind == HELLO:
            return self._accept_hello(received, datagram, address, now)
        if receiver != self.incarnation:
            return self.refusals.drop_misdirected(received, datagram, address, now)
        is_bound = incarnation == handshake.incarnation
        if is_bound and not session.replay_window.is_new(packet):
            return self.refusals.drop("replay")
        cipher = self._sealer.opening_cipher(session, incarnation, receiver)
        try:
            received.body = self._sealer.open(cipher, packet, datagram)
        except PeerError:
            return self.refusals.drop_unopened(session, address, now)
        if kind == WELCOME:
            if not self._accept_welcome(received, now):
                return None
        elif not self._accept_data(received, now):
            return None
        handshake.opening_cipher = cipher
        session.replay_window.record(packet)
        if session.is_silent:
            self.silence.answered(session, now)
        session.heard_at = now
        session.bytes_in += len(datagram)
        if address != session.address or CHALLENGE <= kind <= RESPONSE:
            self._addresses.check(received, address, len(datagram), self.responses, now)
        return received

    def _accept_hello(
        self, received: ReceivedDatagram, datagram: bytes, address: object, now: float
    ) -> ReceivedDatagram | None:
        if not self.refusals.open_once(received, 0, datagram):
            return self.refusals.drop_unopened(received.session, address, now)
        body = received.body
        if received.receiver != 0 or len(body) != HELLO_TIMES.size + INTRODUCTION.size:
            return self.refusals.drop("malformed")
        (timestamp,) = HELLO_TIMES.unpack_from(body)
        introduction = read_introduction(body, HELLO_TIMES.size)
        session = received.session
        if introduction.protocol != self._protocol:
            self.faults.protocol_mismatch(session, introduction.protocol, now)
            return self.refusals.drop("protocol")
        is_bound = received.incarnation == session.handshake.incarnation
        if not is_bound or introduction.epoch > session.epoch_in:
            # The HELLO may be old. The session stays bound to its incarnation and epoch
            # until the sender proves to be current; our own HELLO asks for that proof.
            session.handshake.introduce(received.incarnation, introduction)
            self.timers.schedule_hello(session, now)
            if self._addresses.may_greet(session, address, now):
                self.responses.append((address, self.make_hello(session, now)))
        now_ms = timestamp_ms(now)
        times = WELCOME_TIMES.pack(now_ms, timestamp)
        window = self.flow.window(session, now_ms)
        body = times + self._introducer.introduce(session, window)
        welcome = self._sealer.seal_for(WELCOME, session, received.incarnation, body)
        self.responses.append((address, welcome))
        if not is_bound:
            return None
        received.read_window(introduction.window)
        return received if received.window >= 0 else None

    def _accept_welcome(self, received: ReceivedDatagram, now: float) -> bool:
        session = received.session
        if len(received.body) != WELCOME_TIMES.size + INTRODUCTION.size:
            self.refusals.drop("malformed")
            return False
        timestamp, timestamp_echo = WELCOME_TIMES.unpack_from(received.body)
        introduction = read_introduction(received.body, WELCOME_TIMES.size)
        if introduction.protocol != self._protocol:
            self.faults.protocol_mismatch(session, introduction.protocol, now)
            self.refusals.drop("protocol")
            return False
        hello_at = session.handshake.hellos.get(timestamp_echo, -1.0)
        if hello_at < 0 or now - hello_at > self._lease_s:
            self.refusals.drop("expired")
            return False
        if is_later(introduction.known_history, self.history):  # Even if it is not bound.
            self.outdated = session.name, introduction.known_history
        if not self._bind(received, introduction, introduction.epoch, hello_at, now):
            return False
        handshake = session.handshake
        is_latest = handshake.record_welcome(
            timestamp_echo, received.incarnation, introduction.epoch
        )
        received.introduction = introduction
        received.read_window(introduction.window)
        self.flow.record_echo(session, timestamp_echo)
        self.rtt_s = now - hello_at
        if is_latest:
            self.timers.hello_answered(session)
        if handshake.unproven != NOTHING:
            self.timers.schedule_hello(session, now)
        handshake.record_timestamp(timestamp, now)
        return True

    def _accept_data(self, received: ReceivedDatagram, now: float) -> bool:
        session = received.session
        handshake = session.handshake
        body = received.body
        if not received.read_acks():
            self.refusals.drop("malformed")
            return False
        timestamp, timestamp_echo, epoch, epoch_echo, window = DATA_PREFIX.unpack_from(body)
        age_ms = timestamp_ms(now) - timestamp_echo
        if not 0 <= age_ms < self._lease_ms:
            self.refusals.drop("expired")
            return False
        if received.incarnation != handshake.incarnation:
            introduction = handshake.introduced.get(received.incarnation)
            if introduction is None:
                self.timers.schedule_hello(session, now)
                self.refusals.drop("incarnation")
                return False
            running_at = now - age_ms / 1000
            if not self._bind(received, introduction, epoch, running_at, now):
                return False
            received.introduction = introduction
        elif epoch < session.epoch_in:
            self.refusals.drop("incarnation")
            return False
        received.epoch = epoch
        received.epoch_echo = epoch_echo
        received.read_window(window)
        self.flow.record_echo(session, timestamp_echo)
        handshake.record_timestamp(timestamp, now)
        return True

    def _bind(
        self,
        received: ReceivedDatagram,
        introduction: Introduction,
        epoch: int,
        running_at: float,
        now: float,
    ) -> bool:
        """Bind the session to the sender's incarnation, unless that is not the latest.

        The incarnation was running after ``running_at``, because it echoes a timestamp of
        that time. Of two incarnations, one that was running after this node met the other
        is the later one. Otherwise the datagram may be late, and a HELLO asks which
        incarnation is running.
        """
        session = received.session
        handshake = session.handshake
        history = introduction.history
        received.epoch = epoch
        if is_later(session.history, history) or (
            history == session.history and epoch < session.epoch_in
        ):
            # An outdated journal: the introduction of this node informs the peer.
            self.refusals.drop("incarnation")
            return False
        if received.incarnation == handshake.incarnation:
            return True
        if (
            handshake.incarnation != 0
            and running_at - TIMESTAMP_RESOLUTION_S <= handshake.met_at
        ):
            self.timers.schedule_hello(session, now)
            self.refusals.drop("incarnation")
            return False
        self.faults.report_met(session, history)
        received.previous_history = session.history
        received.is_new_history = history != session.history
        session.bind(received.incarnation, history, now)
        self.faults.compare_limits(session, introduction, now)
        if session.apply(SessionEvent.RETURNED):
            self.timers.cancel_lease(session)
        return True
