"""The buffer protocol once more, naively, and what becomes of it with one thing wrong."""

from collections.abc import Iterable

from antecede.core import Delivery, Frame, ProcessId, Transmit
from antecede.core.protocols.baseline import PlainMessage
from antecede.core.protocols.buffer import BufferAck


class Naive:
    """The protocol with lists for everything, and room for one fault.

    Without a fault it is a second implementation to compare with.
    """

    __slots__ = (
        "clock",
        "deliveries",
        "fault",
        "fifo",
        "id",
        "in_transit",
        "out",
        "owed",
        "waiting",
    )

    def __init__(self, id: ProcessId, fifo: bool, fault: str = "") -> None:
        self.id = id
        self.fifo = fifo
        self.fault = fault
        self.clock = 0
        self.waiting: list[Transmit] = []
        self.in_transit: list[ProcessId] = []  # A target for each unacked message.
        self.owed: list[ProcessId] = []  # Acks, by one of the faults.
        self.out: list[Transmit] = []
        self.deliveries: list[Delivery] = []

    def send(self, targets: Iterable[ProcessId], payload: bytes, now: float) -> int:
        self.clock += 1
        (target,) = targets
        if target == self.id:
            self.deliveries.append(Delivery(target, self.clock, payload))
        else:
            self.waiting.append(Transmit(target, PlainMessage(self.clock, payload)))
            self.post()
        return self.clock

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        if isinstance(frame, PlainMessage):
            self.deliveries.append(Delivery(source, frame.number, frame.payload))
            self.owed.append(source)
        else:
            if source in self.in_transit:
                self.in_transit.remove(source)
            if self.fault == "the first ack is enough":
                self.in_transit.clear()
            if self.fault != "an ack releases nothing":
                self.post()
        if self.fault != "acks wait for acks" or not self.in_transit:
            self.out += [Transmit(owed, BufferAck()) for owed in self.owed]
            self.owed.clear()

    def may_post(self, target: ProcessId) -> bool:
        if self.fault == "two in transit":
            return len(self.in_transit) < 2
        if self.fault == "one in transit to each":
            return target not in self.in_transit
        return not self.in_transit or (self.fifo and target == self.in_transit[-1])

    def post(self) -> None:
        index = -1 if self.fault == "last in, first out" else 0
        while self.waiting and self.may_post(self.waiting[index].target):
            transmit = self.waiting.pop(index)
            self.in_transit.append(transmit.target)
            self.out.append(transmit)

    def frames_to_transmit(self) -> list[Transmit]:
        out, self.out = self.out, []
        return out

    def messages_to_deliver(self) -> list[Delivery]:
        deliveries, self.deliveries = self.deliveries, []
        return deliveries

    def broadcast(self, payload: bytes, now: float) -> int:
        raise NotImplementedError

    def connect(self, peer: ProcessId, now: float) -> None:
        raise NotImplementedError

    def disconnect(self, peer: ProcessId, now: float) -> None:
        raise NotImplementedError

    def handle_timer(self, now: float) -> None:
        raise NotImplementedError

    def next_timer(self) -> float | None:
        return None
