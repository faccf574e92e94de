"""A naive second implementation of ``buffer``, optionally with one fault."""

from collections.abc import Iterable

from antecede.core import Delivery, Frame, ProcessId, Transmit
from antecede.core.protocols.baseline import BaselineMessage
from antecede.core.protocols.buffer import BufferAck


class NaiveBuffer:
    """A process of ``buffer`` or ``buffer-fifo`` built on lists."""

    __slots__ = (
        "clock",
        "deliveries",
        "due_acks",
        "fault",
        "fifo",
        "id",
        "in_flight",
        "queued",
        "transmits",
    )

    def __init__(self, id: ProcessId, fifo: bool, fault: str = "") -> None:
        self.id = id
        self.fifo = fifo
        self.fault = fault
        self.clock = 0
        self.queued: list[Transmit] = []
        self.in_flight: list[ProcessId] = []  # The targets of the unacked messages.
        self.due_acks: list[ProcessId] = []
        self.transmits: list[Transmit] = []
        self.deliveries: list[Delivery] = []

    def send(self, targets: Iterable[ProcessId], payload: bytes, now: float) -> int:
        self.clock += 1
        (target,) = targets
        if target == self.id:
            self.deliveries.append(Delivery(target, self.clock, payload))
        else:
            self.queued.append(Transmit(target, BaselineMessage(self.clock, payload)))
            self.release()
        return self.clock

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        if isinstance(frame, BaselineMessage):
            self.deliveries.append(Delivery(source, frame.number, frame.payload))
            self.due_acks.append(source)
        else:
            if source in self.in_flight:
                self.in_flight.remove(source)
            if self.fault == "the first ack is enough":
                self.in_flight.clear()
            if self.fault != "an ack releases nothing":
                self.release()
        if self.fault != "acks wait for acks" or not self.in_flight:
            self.transmits += [Transmit(target, BufferAck()) for target in self.due_acks]
            self.due_acks.clear()

    def may_release(self, target: ProcessId) -> bool:
        if self.fault == "two in flight":
            return len(self.in_flight) < 2
        if self.fault == "one in flight to each":
            return target not in self.in_flight
        return not self.in_flight or (self.fifo and target == self.in_flight[-1])

    def release(self) -> None:
        index = -1 if self.fault == "last in, first out" else 0
        while self.queued and self.may_release(self.queued[index].target):
            transmit = self.queued.pop(index)
            self.in_flight.append(transmit.target)
            self.transmits.append(transmit)

    def frames_to_transmit(self) -> list[Transmit]:
        transmits, self.transmits = self.transmits, []
        return transmits

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
