"""Processes outside the registry for the checker; most violate a property."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from antecede.core.codec import Frame
from antecede.core.process import Delivery, Process, ProcessId, Transmit
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit
from tests.core.cykas_variants import Change
from tests.core.cykas_variants import Listing as CykasListing
from tests.listings import Listing, Packet
from tests.listings.almeida import Algorithm1, Algorithm2, Algorithm3, Repair, before

__all__ = ["LISTINGS", "SECRET_MODE", "ListingProcess", "Make", "cykas", "listing"]

Make = Callable[[int], Process]


class ListingProcess:
    """A published listing with the methods of the contract, on a reliable network.

    A listing that reads a missing value stops for good.
    """

    def __init__(self, id: ProcessId, algorithm: Listing) -> None:
        self._id = id
        self.algorithm = algorithm
        self.number = 0
        self.stopped = False

    @property
    def id(self) -> ProcessId:
        return self._id

    def send(self, targets: Iterable[ProcessId], payload: bytes, now: float) -> int:
        self.number += 1
        receivers = frozenset([int(target) for target in targets])
        self._attempt(lambda: self.algorithm.causal_send(receivers))
        return self.number

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        self._attempt(lambda: self._receive(source, frame))

    def _receive(self, source: ProcessId, frame: Frame) -> None:
        if isinstance(frame, MessageFrame):
            needs = not frame.permitted
            number, predecessor = frame.number, frame.predecessor
            packet = Packet("MSG", source, self._id, number, predecessor, needs)
            self.algorithm.receive_msg(source, packet)
        elif isinstance(frame, Ack):
            self.algorithm.receive_ack(source, frame.delivered)
        else:
            assert isinstance(frame, Permit)
            self.algorithm.receive_permit(source, frame.number)

    def _attempt(self, event: Callable[[], None]) -> None:
        if self.stopped:
            return
        try:
            event()
        except (IndexError, NameError, TypeError):
            self.stopped = True
        if isinstance(self.algorithm, Algorithm2):
            self.algorithm.visits = 0  # A counter for a test of speed.

    def frames_to_transmit(self) -> list[Transmit]:
        packets = list(self.algorithm.outbox)
        self.algorithm.outbox.clear()
        return [Transmit(ProcessId(p.target), _frame(p)) for p in packets]

    def messages_to_deliver(self) -> list[Delivery]:
        first = 1 - self.algorithm.base
        found = [
            Delivery(ProcessId(each.snd), each.mid + first, b"")
            for each in self.algorithm.delivered
        ]
        self.algorithm.delivered.clear()
        return found

    def next_timer(self) -> float | None:
        return None

    def handle_timer(self, now: float) -> None:
        raise NotImplementedError

    def broadcast(self, payload: bytes, now: float) -> int:
        raise NotImplementedError

    def connect(self, peer: ProcessId, now: float) -> None:
        raise NotImplementedError

    def disconnect(self, peer: ProcessId, now: float) -> None:
        raise NotImplementedError


def _frame(packet: Packet) -> Frame:
    if packet.kind == "MSG":
        return MessageFrame(packet.number, packet.pid, not packet.per, b"")
    if packet.kind == "ACK":
        return Ack(packet.number, packet.number)
    assert packet.kind == "PERMIT"
    return Permit(packet.number)


def cykas(change: Change | None = None) -> Make:
    """Return a factory of processes of the Cykas listings."""
    return lambda index: CykasListing(ProcessId(index), change)


def listing(
    algorithm: type[Algorithm1 | Algorithm2 | Algorithm3], repairs: Iterable[Repair] = ()
) -> Make:
    """Return a factory of processes of a listing by Almeida, with some errata corrected."""
    enabled = frozenset(repairs)
    return lambda index: ListingProcess(ProcessId(index), algorithm(index, enabled))


SECRET_MODE: Final = cykas(Change.ANSWER_THE_LATEST)
"""The variant of §2.3 of the Cykas paper."""

LISTINGS: Final[Mapping[str, Make]] = {
    "Algorithm 1 as printed": listing(Algorithm1),
    "Algorithm 1 with errata 1 and 2 repaired": listing(
        Algorithm1, before(Repair.REMEMBER_EARLY_PERMITS)
    ),
    "Algorithm 2 as printed": listing(Algorithm2),
    "Algorithm 2 with errata 1 and 2 repaired": listing(
        Algorithm2, before(Repair.REMEMBER_EARLY_PERMITS)
    ),
    "Algorithm 2 with errata 1 to 3 repaired": listing(
        Algorithm2, before(Repair.SEPARATE_FLAG)
    ),
    "Algorithm 2 with errata 1 to 4 repaired": listing(
        Algorithm2, before(Repair.ADVANCE_U2)
    ),
    "Algorithm 2 with errata 1 to 5 repaired": listing(Algorithm2, before(Repair.CLAMP_M2)),
}
"""Every one of them gets stuck within 3 processes and 2 messages of each."""
