"""PC-broadcast as in its listings, with corrections or with one fault, for comparison.

It shares only the frames and the outputs with ``pc-broadcast``: received messages are a
set, pings flood to all processes, and there are no newcomers, mediators or summaries. Each
fault must violate causal order in some run.
"""

from collections.abc import Iterable
from enum import Enum

from antecede.core.codec import Frame
from antecede.core.process import Delivery, ProcessId, Transmit
from antecede.core.protocols.flood import RelayedMessage
from antecede.core.protocols.pc_broadcast.frames import Ping, Pong

__all__ = ["Fault", "NaivePcBroadcast"]


class Fault(Enum):
    NONE = "none"
    ANY_PONG = "a pong counts for any ping (Algorithm 2 line 15)"
    ONLY_LINK_IS_SAFE = "an only link is safe at once (Algorithm 2 line 7)"
    STAYS_IN_Q = "close leaves the link in Q (Algorithm 2 line 20)"
    NO_PING = "a new link is used at once"
    USED_WHILE_UNSAFE = "messages are transmitted on unsafe links, too"
    NO_BUFFER = "messages delivered during the ping phase are not transmitted later"
    DIRECT_PING = "the ping takes the unsafe link itself"
    PING_FIRST = "a ping overtakes the message whose delivery caused it"


class NaivePcBroadcast:
    """A process of PC-broadcast."""

    def __init__(
        self,
        id: ProcessId,
        links: Iterable[ProcessId] = (),
        *,
        fault: Fault = Fault.NONE,
        buffer_max: int = 1000,
        retries_max: int = 1000,
    ) -> None:
        self.id = id
        self.fault = fault
        self.buffer_max = buffer_max
        self.retries_max = retries_max
        self.safe = list(links)
        self.buffers: dict[ProcessId, list[RelayedMessage]] = {}
        self.pings: dict[int, ProcessId] = {}
        self.retries: dict[ProcessId, int] = {}
        self.received: set[tuple[int, int]] = set()
        self.seen: set[tuple[int, int]] = set()
        self.clock = 0
        self.counter = 0
        self.transmits: list[Transmit] = []
        self.deliveries: list[Delivery] = []

    def send(self, targets: Iterable[ProcessId], payload: bytes, now: float) -> int:
        raise NotImplementedError

    def broadcast(self, payload: bytes, now: float) -> int:
        self.clock += 1
        self.deliver(RelayedMessage(self.id, self.clock, payload))
        return self.clock

    def connect(self, peer: ProcessId, now: float) -> None:
        if peer in self.safe or peer in self.buffers:
            return
        shortcut = not self.received
        if self.fault is Fault.ONLY_LINK_IS_SAFE:
            shortcut = not self.safe
        if shortcut or self.fault is Fault.NO_PING:
            self.safe.append(peer)
        else:
            self.retries[peer] = 0
            self.ping(peer)

    def disconnect(self, peer: ProcessId, now: float) -> None:
        if peer in self.safe and self.fault is not Fault.STAYS_IN_Q:
            self.safe.remove(peer)
        self.close(peer)

    def close(self, peer: ProcessId) -> None:
        self.buffers.pop(peer, None)
        self.retries.pop(peer, None)
        self.pings = {i: to for i, to in self.pings.items() if to != peer}

    def ping(self, peer: ProcessId) -> None:
        self.counter += 1
        self.pings = {i: to for i, to in self.pings.items() if to != peer}
        self.pings[self.counter] = peer
        self.buffers[peer] = []
        way = [peer] if self.fault is Fault.DIRECT_PING else self.safe
        ping = Ping(self.id, peer, self.counter, False)
        self.transmits += [Transmit(neighbour, ping) for neighbour in way]

    def deliver(self, message: RelayedMessage) -> None:
        self.received.add((message.source, message.number))
        full = [q for q, buffer in self.buffers.items() if len(buffer) >= self.buffer_max]
        if self.fault is Fault.PING_FIRST:
            for peer in full:
                self.retry(peer)
        way = list(self.safe)
        if self.fault is Fault.USED_WHILE_UNSAFE:
            way += self.buffers
        self.transmits += [Transmit(neighbour, message) for neighbour in way]
        self.deliveries.append(Delivery(message.source, message.number, message.payload))
        for peer, buffer in self.buffers.items():
            if peer not in full:
                buffer.append(message)
        if self.fault is not Fault.PING_FIRST:
            for peer in full:
                self.retry(peer)

    def retry(self, peer: ProcessId) -> None:
        self.retries[peer] += 1
        if self.retries[peer] <= self.retries_max:
            self.ping(peer)
        else:
            self.close(peer)

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        if isinstance(frame, RelayedMessage):
            if (frame.source, frame.number) not in self.received:
                self.deliver(frame)
        elif isinstance(frame, Ping):
            if frame.source == self.id or (frame.source, frame.number) in self.seen:
                return
            self.seen.add((frame.source, frame.number))
            if frame.target == self.id:
                self.transmits.append(Transmit(frame.source, Pong(frame.number)))
            else:
                self.transmits += [Transmit(neighbour, frame) for neighbour in self.safe]
        elif isinstance(frame, Pong):
            matches = self.pings.get(frame.number) == source
            if self.fault is Fault.ANY_PONG:
                matches = True
            if matches and source in self.buffers:
                buffer = self.buffers[source]
                self.close(source)
                self.safe.append(source)
                if self.fault is not Fault.NO_BUFFER:
                    self.transmits += [Transmit(source, message) for message in buffer]

    def handle_timer(self, now: float) -> None:
        pass

    def next_timer(self) -> float | None:
        return None

    def frames_to_transmit(self) -> list[Transmit]:
        frames, self.transmits = self.transmits, []
        return frames

    def messages_to_deliver(self) -> list[Delivery]:
        deliveries, self.deliveries = self.deliveries, []
        return deliveries
