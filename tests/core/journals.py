"""A process with a journal in memory that can be restarted from it, and broken journals.

The journal records the inputs and the deliveries of the process, not its internal state.
"""

from collections.abc import Iterable

from antecede.core.codec import Frame
from antecede.core.process import Delivery, ProcessId, Transmit
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit
from antecede.core.protocols.hybrid.process import HybridProcess
from tests.core.hybrids import MakeHybrid

__all__ = ["BROKEN", "Journal", "Journaled"]

Copy = tuple[ProcessId, int, int, int, bytes]


class Journal:
    """The records from which a process is restored."""

    def __init__(self) -> None:
        self.clock = 0
        self.sent: dict[ProcessId, int] = {}
        self.delivered: dict[ProcessId, int] = {}
        self.permitted: dict[ProcessId, int] = {}
        self.missing: list[tuple[int, ProcessId, int]] = []
        """Index, source and number of the delivered messages without a permit."""
        self.missing_next = 0
        """The index of the next entry of ``missing``."""
        self.copies: list[Copy] = []
        """Target, number, predecessor, ``missing_next`` at the send, and payload."""

    # Records.

    def record_send(
        self, number: int, targets: Iterable[ProcessId], payload: bytes
    ) -> None:
        self.clock = number
        for target in dict.fromkeys(targets):
            predecessor = self.sent.get(target, 0)
            self.copies.append((target, number, predecessor, self.missing_next, payload))
            self.sent[target] = number

    def record_ack(self, source: ProcessId, number: int) -> None:
        self.copies = [
            copy for copy in self.copies if copy[0] != source or copy[1] > number
        ]

    def record_permit(self, source: ProcessId, number: int) -> None:
        self.permitted[source] = max(number, self.permitted.get(source, 0))
        self.missing = [
            each for each in self.missing if each[1] != source or each[2] > number
        ]

    def record_delivery(self, source: ProcessId, number: int) -> None:
        self.delivered[source] = number
        if number > self.permitted.get(source, 0):
            self.missing.append((self.missing_next, source, number))
            self.missing_next += 1

    def record_abandon(self, peer: ProcessId) -> None:
        self.copies = [copy for copy in self.copies if copy[0] != peer]
        self.sent[peer] = 0

    def record_reset(self, peer: ProcessId) -> None:
        if peer in self.delivered:
            self.delivered[peer] = 0

    def record_forgo(self, peer: ProcessId) -> None:
        self.missing = [each for each in self.missing if each[1] != peer]
        self.delivered.pop(peer, None)
        self.permitted.pop(peer, None)

    # Restored state.

    def restored_clock(self) -> int:
        return self.clock

    def restored_channels(self) -> list[tuple[ProcessId, int, int, int]]:
        peers = sorted(self.sent.keys() | self.delivered.keys() | self.permitted.keys())
        return [
            (
                peer,
                self.sent.get(peer, 0),
                self.delivered.get(peer, 0),
                self.permitted.get(peer, 0),
            )
            for peer in peers
        ]

    def restored_missing(self) -> list[tuple[ProcessId, int]]:
        return [(source, number) for _, source, number in self.missing]

    def restored_copies(self) -> list[Copy]:
        found: list[Copy] = []
        for target, number, predecessor, missing_next, payload in self.copies:
            permits_before = sum(index < missing_next for index, _, _ in self.missing)
            found.append((target, number, predecessor, permits_before, payload))
        return found


class Journaled:
    """A process with a journal, which records each input before the outputs are drained."""

    def __init__(
        self, make: MakeHybrid, id: ProcessId, journal: Journal | None = None
    ) -> None:
        self.make = make
        self.inner = make(id)
        self.journal = journal if journal is not None else Journal()
        self._deliveries: list[Delivery] = []

    @property
    def id(self) -> ProcessId:
        return self.inner.id

    def restart(self, now: float) -> HybridProcess:
        """Replace the process by one restored from the journal, and return it."""
        journal = self.journal
        self.inner = self.make(self.inner.id)
        self.inner.recovery.restore(
            journal.restored_clock(),
            journal.restored_channels(),
            journal.restored_missing(),
            journal.restored_copies(),
            now,
        )
        return self.inner

    def send(self, targets: Iterable[ProcessId], payload: bytes, now: float) -> int:
        chosen = list(targets)
        number = self.inner.send(chosen, payload, now)
        self.journal.record_send(number, [t for t in chosen if t != self.id], payload)
        self._record_deliveries()
        return number

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        self.inner.receive(source, frame, now)
        if isinstance(frame, Ack):
            self.journal.record_ack(source, frame.delivered)
        elif isinstance(frame, Permit) or (
            isinstance(frame, MessageFrame) and frame.permitted
        ):
            self.journal.record_permit(source, frame.number)
        self._record_deliveries()

    def _record_deliveries(self) -> None:
        for delivery in self.inner.messages_to_deliver():
            if delivery.source != self.id:
                self.journal.record_delivery(delivery.source, delivery.number)
            self._deliveries.append(delivery)

    def abandon(self, peer: ProcessId, now: float) -> None:
        self.journal.record_abandon(peer)
        self.inner.recovery.abandon(peer, now)

    def reset_channel(self, peer: ProcessId, now: float) -> None:
        self.journal.record_reset(peer)
        self.inner.recovery.reset_channel(peer, now)

    def forgo_permits(self, peer: ProcessId, now: float) -> None:
        self.journal.record_forgo(peer)
        self.inner.recovery.forgo_permits(peer, now)

    def handle_timer(self, now: float) -> None:
        self.inner.handle_timer(now)

    def next_timer(self) -> float | None:
        return self.inner.next_timer()

    def frames_to_transmit(self) -> list[Transmit]:
        return self.inner.frames_to_transmit()

    def messages_to_deliver(self) -> list[Delivery]:
        found, self._deliveries = self._deliveries, []
        return found

    def broadcast(self, payload: bytes, now: float) -> int:
        raise NotImplementedError

    def connect(self, peer: ProcessId, now: float) -> None:
        raise NotImplementedError

    def disconnect(self, peer: ProcessId, now: float) -> None:
        raise NotImplementedError


# Broken journals.


class ForgetsDelivered(Journal):
    def restored_channels(self) -> list[tuple[ProcessId, int, int, int]]:
        return [
            (peer, sent, 0, permitted)
            for peer, sent, _, permitted in super().restored_channels()
        ]


class ForgetsMissingPermits(Journal):
    def restored_missing(self) -> list[tuple[ProcessId, int]]:
        return []

    def restored_copies(self) -> list[Copy]:
        return [(*copy[:3], 0, copy[4]) for copy in super().restored_copies()]


class ForgetsDependencies(Journal):
    def restored_copies(self) -> list[Copy]:
        return [(*copy[:3], 0, copy[4]) for copy in super().restored_copies()]


class ForgetsCopies(Journal):
    def restored_copies(self) -> list[Copy]:
        return []


class ForgetsPredecessors(Journal):
    def restored_copies(self) -> list[Copy]:
        return [(*copy[:2], 0, *copy[3:]) for copy in super().restored_copies()]


class ForgetsLastSent(Journal):
    def restored_channels(self) -> list[tuple[ProcessId, int, int, int]]:
        unacked = {copy[0] for copy in self.copies}
        return [
            (peer, sent if peer in unacked else 0, delivered, permitted)
            for peer, sent, delivered, permitted in super().restored_channels()
        ]


class InventsPermits(Journal):
    def restored_channels(self) -> list[tuple[ProcessId, int, int, int]]:
        return [(*channel[:3], channel[3] + 5) for channel in super().restored_channels()]


BROKEN = (
    ForgetsDelivered,
    ForgetsMissingPermits,
    ForgetsDependencies,
    ForgetsCopies,
    ForgetsPredecessors,
    ForgetsLastSent,
    InventsPermits,
)
