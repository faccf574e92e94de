"""The process of hybrid buffering: checks the inputs and passes them to the algorithm."""

from collections.abc import Iterable

from antecede.core.codec import Frame
from antecede.core.input_checks import checked_payload, checked_targets
from antecede.core.process import (
    NEVER,
    Delivery,
    ProcessBase,
    ProcessId,
    Transmit,
    check_now,
)
from antecede.core.protocols.hybrid.algorithm import HybridAlgorithm
from antecede.core.protocols.hybrid.dependencies import HybridDependencies
from antecede.core.protocols.hybrid.dependency_frames import SettledAck
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit, PermitRequest
from antecede.core.protocols.hybrid.ledger import Ledger
from antecede.core.protocols.hybrid.lost_frames import retransmit, transmit_again
from antecede.core.protocols.hybrid.note_exchange import NoteExchange
from antecede.core.protocols.hybrid.pending import HybridPending
from antecede.core.protocols.hybrid.recovery import HybridRecovery
from antecede.core.protocols.hybrid.rule import PermitRule
from antecede.core.protocols.hybrid.state import HybridState
from antecede.core.protocols.hybrid.windows import HybridWindows
from antecede.errors import LocalError, PeerError

__all__ = ["HybridProcess"]


class HybridProcess(ProcessBase):
    """A process of hybrid buffering with a given permit rule."""

    __slots__ = ("_algorithm", "_exchange")

    def __init__(
        self,
        id: ProcessId,
        rule: PermitRule,
        state: HybridState,
        reorder_buffer_max: int,
        ledger: Ledger | None = None,
    ) -> None:
        """Create a process without history and peers.

        A message that arrives early is refused while ``reorder_buffer_max`` messages of
        its source are held; its retransmission arrives later.
        """
        super().__init__(id)
        self._algorithm = HybridAlgorithm(id, rule, state, reorder_buffer_max, ledger)
        self._exchange = (
            NoteExchange(self._algorithm, ledger) if ledger is not None else None
        )

    def send(self, targets: Iterable[ProcessId], payload: object, now: float) -> int:
        # The payload's type is wider than bytes so that compiled code leaves the check to
        # checked_payload, which raises LocalError instead of TypeError.
        check_now(now)
        members = checked_targets(targets)
        data = checked_payload(payload)
        number = self._algorithm.send(members, data, now)
        if self._exchange is not None:
            self._exchange.send(now)
        return number

    def send_bundle(
        self, targets: Iterable[ProcessId], payload: bytes, count: int, now: float
    ) -> int:
        check_now(now)
        members = checked_targets(targets)
        if count < 1:
            raise LocalError(f"a bundle must have at least 1 message, got {count}")
        number = self._algorithm.send(members, payload, now, count)
        if self._exchange is not None:
            self._exchange.send(now)
        return number

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        check_now(now)
        if source == self._id:
            raise LocalError(f"source {source} is this process itself")
        algorithm = self._algorithm
        exchange = self._exchange
        if exchange is not None:
            exchange.hear(source, now)
        if isinstance(frame, MessageFrame):
            algorithm.receive_message(source, frame, now)
        elif isinstance(frame, Ack):
            algorithm.receive_ack(source, frame, now)
            if exchange is not None and isinstance(frame, SettledAck):
                exchange.receive_notes(source, frame.notes, now)
        elif isinstance(frame, Permit):
            if frame.number < 1:
                raise PeerError(f"invalid {frame}: number must be at least 1")
            peer = algorithm.state.receiving_peer(source)
            algorithm.receive_permit(peer, frame.number, now)
        elif isinstance(frame, PermitRequest):
            algorithm.receive_request(source, frame.number)
        elif exchange is None or not exchange.receive(source, frame, now):
            raise PeerError(f"{type(frame).__name__} is not a frame of this protocol")
        if exchange is not None:
            exchange.send(now)

    def handle_timer(self, now: float) -> None:
        """Retransmit overdue copies, and request overdue permits."""
        check_now(now)
        algorithm = self._algorithm
        state = algorithm.state
        exchange = self._exchange
        timer = state.timers.due(now)
        while timer is not None:
            if exchange is not None and exchange.handle_timer(timer, now):
                timer = state.timers.due(now)
                continue
            peer = state.peers[ProcessId(timer.owner)]
            if peer.sent > 0 and timer is peer.transmit_timer:
                retransmit(algorithm, peer, now)
            else:
                algorithm.request_permit(peer)
            timer.expire(now)
            timer = state.timers.due(now)
        if exchange is not None:
            exchange.retry(now)
            exchange.request_missing(now)
            exchange.send(now)

    def next_timer(self) -> float | None:
        deadline = self._algorithm.state.timers.next_deadline()
        if self._exchange is None:
            return deadline
        earliest = self._exchange.next_timer()
        if deadline is not None and deadline <= earliest:
            return deadline
        return earliest if earliest < NEVER else deadline

    def next_wake(self) -> float:
        if self._exchange is None:
            return self._algorithm.state.timers.first_deadline()
        return super().next_wake()

    def frames_to_transmit(self) -> list[Transmit]:
        algorithm = self._algorithm
        frames = algorithm.transmits
        if frames:
            algorithm.transmits = []
        return frames

    def messages_to_deliver(self) -> list[Delivery]:
        algorithm = self._algorithm
        deliveries = algorithm.deliveries
        if deliveries:
            algorithm.deliveries = []
        return deliveries

    def backlog(self, peer: ProcessId) -> int:
        known = self._algorithm.state.peers.get(peer)
        return known.backlog if known is not None else 0

    def backlog_bytes(self, peer: ProcessId) -> int:
        known = self._algorithm.state.peers.get(peer)
        return known.backlog_bytes if known is not None else 0

    def early_copies(self, peer: ProcessId) -> int:
        known = self._algorithm.state.peers.get(peer)
        return known.early_copies if known is not None else 0

    def early_bytes(self, peer: ProcessId) -> int:
        known = self._algorithm.state.peers.get(peer)
        return known.early_bytes if known is not None else 0

    def retained(self) -> int:
        return len(self._algorithm.state.buffer)

    def known_peers(self) -> int:
        return len(self._algorithm.state.peers)

    def round_trip_s(self, peer: ProcessId) -> float:
        known = self._algorithm.state.peers.get(peer)
        if known is None:
            return -1.0
        return known.transmit_timer.round_trip_s if known.sent > 0 else known.round_trip_s

    def frame_lost(self, peer: ProcessId, frame: Frame, sent_at: float, now: float) -> None:
        transmit_again(self._algorithm, peer, frame, sent_at, now)

    def learn_round_trip(self, peer: ProcessId, round_trip_s: float, now: float) -> None:
        self._algorithm.state.learn_round_trip(peer, round_trip_s, now)

    @property
    def recovery(self) -> HybridRecovery:
        return HybridRecovery(self._algorithm)

    @property
    def windows(self) -> HybridWindows:
        return HybridWindows(self._algorithm)

    @property
    def dependencies(self) -> HybridDependencies | None:
        ledger = self._algorithm.ledger
        if ledger is None:
            return None
        return HybridDependencies(self._algorithm, ledger)

    @property
    def pending(self) -> HybridPending:
        return HybridPending(self._id, self._algorithm.state, self._algorithm.rule)
