"""Algorithms 1 to 5 of the Cykas paper, line by line, and variants with one change.

The names, and the numbers at the ends of lines, are the paper's. Only the frames are shared
with ``antecede.core.protocols.cykas``: this module uses bit vectors (as sets of the bits
that are 1), no window. Without a `Change` it is Algorithms 1 to 5 with line 8 of
Algorithm 4 moved after the loop; every change breaks it.
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from antecede.core.codec import Frame
from antecede.core.process import Delivery, ProcessId, Transmit
from antecede.core.protocols.cykas import CykasAck, CykasMessage, YouCanTell

__all__ = ["Change", "Listing"]


class Change(Enum):
    """The change to the corrected listing; the first three follow the paper's text."""

    RELEASE_INSIDE_THE_LOOP = "Algorithm 4 as printed: line 8 is inside the loop"
    ACK_EVERYTHING = "§2.1: a YCT is acked like any other message"
    ANSWER_THE_LATEST = "§2.3: in secret mode, send to the source of the latest secret"
    NO_SECRET_MODE = "Figure 2, center: eager messages are not secret"
    MODE_IS_A_FLAG = "one YCT ends all secrets"
    TELL_WITHOUT_OWN_ACK = "the YCT may overtake its message"
    TELL_AT_OWN_ACK = "the bit vectors are ignored"
    PIPELINE = "several messages are in flight to one target"
    OVERTAKE_IN_THE_BUFFER = "a message that must wait blocks no other"
    NEVER_TELL_TWICE = "a second eager message to the same target gets no YCT"


class Unsent(NamedTuple):
    receiver: ProcessId
    number: int
    payload: bytes


class Listing:
    """A process of the listings; see :class:`antecede.core.process.Process`."""

    def __init__(self, id: ProcessId, change: Change | None = None) -> None:
        self.id = id
        self.change = change
        self.clock = 0
        self.ob: list[Unsent] = []
        self.unack: set[ProcessId] = set()
        self.mode = 0
        self.eager_sent: dict[ProcessId, list[set[ProcessId]]] = {}
        self.latest_secret = id  # For ANSWER_THE_LATEST: its source.
        self.told: set[ProcessId] = set()  # For NEVER_TELL_TWICE.
        self.transmits: list[Transmit] = []
        self.deliveries: list[Delivery] = []

    def send(self, targets: Iterable[ProcessId], payload: bytes, now: float) -> int:
        (target,) = set(targets)
        self.clock += 1
        if target == self.id:
            self.deliveries.append(Delivery(self.id, self.clock, payload))
        else:
            self.ob.append(Unsent(target, self.clock, payload))  # 1:1
            self.try_send_message()  # 1:2
        return self.clock

    def try_send_message(self) -> None:
        index = 0
        while index < len(self.ob):  # 2:4
            m = self.ob[index]  # 2:5
            if self.must_not_send_to(m.receiver):  # 2:2
                return
            if m.receiver in self.unack and self.change is not Change.PIPELINE:  # 2:7
                if self.change is not Change.OVERTAKE_IN_THE_BUFFER:
                    return
                index += 1
                continue
            eager = bool(self.unack)  # 2:9
            frame = CykasMessage(m.number, eager, m.payload)
            self.transmits.append(Transmit(m.receiver, frame))  # 2:10, 2:12
            if eager:
                queue = self.eager_sent.setdefault(m.receiver, [])
                queue.append(set(self.unack))  # 2:13
            del self.ob[index]  # 2:15
            self.unack.add(m.receiver)  # 2:16

    def must_not_send_to(self, receiver: ProcessId) -> bool:
        if self.change is Change.NO_SECRET_MODE or self.mode <= 0:
            return False
        return self.change is not Change.ANSWER_THE_LATEST or receiver != self.latest_secret

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        if isinstance(frame, CykasMessage):
            self.receive_deliver(source, frame)
        elif isinstance(frame, CykasAck):
            self.receive_ack(source)
        else:
            assert isinstance(frame, YouCanTell)
            self.receive_yct(source)

    def receive_deliver(self, source: ProcessId, m: CykasMessage) -> None:
        if m.eager:
            flag = self.change is Change.MODE_IS_A_FLAG
            self.mode = 1 if flag else self.mode + 1  # 3:1
            self.latest_secret = source
        self.deliveries.append(Delivery(source, m.number, m.payload))  # 3:3
        self.transmits.append(Transmit(source, CykasAck()))  # 3:4

    def receive_ack(self, i: ProcessId) -> None:
        self.unack.discard(i)  # 4:2
        for es_receiver, bitvec_queue in list(self.eager_sent.items()):  # 4:3
            for bitvec in bitvec_queue:  # 4:4
                bitvec.discard(i)  # 4:5
            self.try_send_yct(es_receiver)  # 4:7
            if self.change is Change.RELEASE_INSIDE_THE_LOOP:
                self.try_send_message()  # 4:8
        if self.change is not Change.RELEASE_INSIDE_THE_LOOP:
            self.try_send_message()

    def try_send_yct(self, receiver: ProcessId) -> None:
        queue = self.eager_sent[receiver]
        while queue:  # 4:12
            waits = bool(queue[0]) and self.change is not Change.TELL_AT_OWN_ACK
            own = receiver in self.unack and self.change is not Change.TELL_WITHOUT_OWN_ACK
            if waits or own:  # 4:14
                break
            if self.change is not Change.NEVER_TELL_TWICE or receiver not in self.told:
                self.transmits.append(Transmit(receiver, YouCanTell()))  # 4:17
            self.told.add(receiver)
            del queue[0]  # 4:18

    def receive_yct(self, source: ProcessId) -> None:
        flag = self.change is Change.MODE_IS_A_FLAG
        self.mode = 0 if flag else self.mode - 1  # 5:1
        if self.change is Change.ACK_EVERYTHING:
            self.transmits.append(Transmit(source, CykasAck()))
        self.try_send_message()  # 5:2

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

    def frames_to_transmit(self) -> list[Transmit]:
        transmits, self.transmits = self.transmits, []
        return transmits

    def messages_to_deliver(self) -> list[Delivery]:
        deliveries, self.deliveries = self.deliveries, []
        return deliveries
