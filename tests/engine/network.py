"""Engines on a network in memory that loses, duplicates and delays datagrams.

Time is virtual, and all random choices follow from a seed. Each engine records its events
with its own process ids. To verify them as one run, :meth:`Network.events` replaces these
by one process id for each name and history.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from random import Random

from antecede.core.process import NEVER
from antecede.engine import Engine, Limits, Message
from antecede.engine.ecn import CE, ECT, NOT_ECT
from antecede.engine.sealer import DatagramCipher
from antecede.net.faults import FaultInjector
from antecede.trace import Event, EventCounter, MemoryRecorder
from antecede.verify import Verdict, verify_events

NAMES = ("ann", "bob", "cid", "dan", "eve")


@dataclass(frozen=True, order=True)
class Flight:
    """A datagram on the network."""

    due: float
    serial: int
    source: str
    target: str
    datagram: bytes
    transmitted_at: float
    mark: int = NOT_ECT


@dataclass
class Start:
    """One start of a node, and the events it recorded."""

    engine: Engine
    history: int
    recorder: MemoryRecorder
    histories: dict[int, tuple[str, int]]
    """The name and history behind each process id of the engine."""

    def update_histories(self) -> None:
        """Record the names and histories behind the engine's current process ids."""
        for session in self.engine.sessions.values():
            if session.history or session.id not in self.histories:
                self.histories[session.id] = (session.name, session.history)


class Network:
    """Engines, the datagrams between them, and a clock."""

    def __init__(
        self,
        seed: int = 0,
        *,
        loss: float = 0.0,
        duplication: float = 0.0,
        delay_s: tuple[float, float] = (0.001, 0.005),
        cipher: DatagramCipher | None = None,
        limits: Limits | None = None,
        protocol: str = "hybrid",
    ) -> None:
        self.random = Random(seed)
        self.loss = loss
        self.duplication = duplication
        self.delay_s = delay_s
        self.cipher = cipher
        self.limits = limits if limits is not None else Limits()
        self.protocol = protocol
        self.now = 100.0
        self.engines: dict[str, Engine] = {}
        self.starts: dict[str, list[Start]] = {}
        self.flights: list[Flight] = []
        self.transmitted: list[Flight] = []
        """Every datagram transmitted, lost ones included."""
        self.received: dict[str, list[Message]] = {}
        self.on_message: Callable[[str, Message], None] | None = None
        self.on_flush: Callable[[str], None] = lambda name: None
        """Called with the name of a node before its datagrams are transmitted."""
        self.should_lose: Callable[[Flight], bool] = lambda flight: False
        """A fault injected by the test: the network loses these datagrams."""
        self.change_mark: Callable[[Flight], int] = lambda flight: flight.mark
        """A fault injected by the test: the mark with which a datagram arrives."""
        self.injector: FaultInjector | None = None
        """Decides instead of loss, duplication and delay, if the test sets it."""
        self._serial = 0

    # Nodes.

    def start(
        self,
        name: str,
        *,
        members: Sequence[str] = (),
        history: int = 0,
        limits: Limits | None = None,
        cipher: DatagramCipher | None = None,
        protocol: str = "",
    ) -> Engine:
        """Start a node, and stop the running node of the same name."""
        incarnation = self.random.randrange(1, 1 << 63)
        recorder = MemoryRecorder()
        engine = Engine(
            name,
            incarnation,
            protocol_name=protocol or self.protocol,
            members=members,
            limits=limits if limits is not None else self.limits,
            cipher=cipher if cipher is not None else self.cipher,
            history=history,
            observer=EventCounter(recorder),
        )
        own = history if history else incarnation
        start = Start(engine, own, recorder, {engine.process.id: (name, own)})
        self.engines[name] = engine
        self.starts.setdefault(name, []).append(start)
        self.received.setdefault(name, [])
        return engine

    def stop(self, name: str) -> None:
        """Crash a node."""
        del self.engines[name]

    def start_group(self, *names: str) -> list[Engine]:
        """Start nodes that are all peers of each other."""
        for name in names:
            self.start(name, members=names)
        for name in names:
            self.add_peers(name, *names)
        return [self.engines[name] for name in names]

    def add_peers(self, name: str, *peers: str, is_configured: bool = False) -> None:
        """Add ``peers`` at ``name``; the address of a node is its name."""
        engine = self.engines[name]
        for peer in peers:
            if peer != name:
                engine.add_peer(peer, peer, self.now, is_configured=is_configured)

    # Datagrams.

    def send(self, source: str, *targets: str, data: bytes = b"") -> int:
        """Send a message, and transmit the resulting datagrams."""
        number = self.engines[source].send(targets, data, self.now)
        self.flush(source)
        return number

    def flush(self, name: str) -> None:
        """Transmit the datagrams of an engine, and receive its delivered messages."""
        engine = self.engines[name]
        self.starts[name][-1].update_histories()
        datagrams = engine.flush(self.now)
        self.on_flush(name)
        for address, datagram in datagrams:
            assert isinstance(address, str)
            mark = ECT if address in engine.paths.marked else NOT_ECT
            self.transmit(name, address, datagram, mark)
        for message in engine.poll_messages():
            self.received[name].append(message)
            if self.on_message is not None:
                self.on_message(name, message)

    def transmit(
        self, source: str, target: str, datagram: bytes, mark: int = NOT_ECT
    ) -> None:
        """Put a datagram on the network, which may lose or duplicate it."""
        injector = self.injector
        if (
            injector is not None
            and mark == ECT
            and injector.marks(source, target, self.now)
        ):
            mark = CE
        delays_s = self._delays_s(source, target, len(datagram))
        for copy, delay_s in enumerate(delays_s or [NEVER]):
            self._serial += 1
            due = self.now + delay_s
            flight = Flight(due, self._serial, source, target, datagram, self.now, mark)
            if copy == 0:
                self.transmitted.append(flight)
            if delays_s and not self.should_lose(flight):
                heappush(self.flights, flight)

    def _delays_s(self, source: str, target: str, size: int) -> list[float]:
        """Return the delay of each copy of a datagram that arrives."""
        if self.injector is not None:
            return self.injector.delays(source, target, size, self.now)
        random = self.random
        copies = (random.random() >= self.loss) + (random.random() < self.duplication)
        return [random.uniform(*self.delay_s) for _ in range(copies)]

    def arrive(self, flight: Flight) -> None:
        """Let a datagram arrive now."""
        engine = self.engines.get(flight.target)
        if engine is not None:
            mark = self.change_mark(flight)
            engine.receive_datagram(flight.datagram, flight.source, self.now, mark)
            self.flush(flight.target)

    def intercept(self, which: Callable[[Flight], bool]) -> list[Flight]:
        """Take datagrams out of the network, for :meth:`arrive` later."""
        intercepted = [flight for flight in self.flights if which(flight)]
        self.flights = [flight for flight in self.flights if not which(flight)]
        heapify(self.flights)
        return intercepted

    # Time.

    def next_event(self) -> float:
        """Return when the next datagram arrives or timer is due; infinity for never."""
        due = self.flights[0].due if self.flights else NEVER
        for engine in self.engines.values():
            timer = engine.next_timer()
            if timer is not None and timer < due:
                due = timer
        return due

    def run(self, seconds: float) -> None:
        """Advance the time, with all arrivals and timers on the way."""
        end = self.now + seconds
        for name in list(self.engines):
            self.flush(name)
        while self.next_event() <= end:
            self._step()
        self.now = end

    def run_until_idle(self, seconds_max: float = 600.0) -> None:
        """Advance the time until every datagram has arrived and every copy is acked."""
        end = self.now + seconds_max
        for name in list(self.engines):
            self.flush(name)
        while self.flights or any(engine.backlog for engine in self.engines.values()):
            if self.next_event() > end:
                return
            self._step()

    def _step(self) -> None:
        self.now = max(self.now, self.next_event())
        while self.flights and self.flights[0].due <= self.now:
            self.arrive(heappop(self.flights))
        for name, engine in list(self.engines.items()):
            timer = engine.next_timer()
            if timer is not None and timer <= self.now:
                engine.handle_timer(self.now)
                self.flush(name)

    # Results.

    def data(self, name: str) -> list[bytes]:
        """Return the data that the application of a node received, over all starts."""
        return [message.data for message in self.received[name]]

    def dropped(self, name: str) -> dict[str, int]:
        """Return how many datagrams and frames an engine dropped, by reason."""
        dropped = self.engines[name].stats().dropped
        return {reason: count for reason, count in dropped.items() if count}

    def events(self) -> list[Event]:
        """Return all events, with one process id for each name and history."""
        process_ids: dict[tuple[str, int], int] = {}
        for name, starts in self.starts.items():
            for start in starts:
                process_ids.setdefault((name, start.history), len(process_ids))
        events: list[Event] = []
        for name, starts in self.starts.items():
            for start in starts:
                start.update_histories()
                ids = {
                    own_id: process_ids.setdefault(
                        self._identity(*identity), len(process_ids)
                    )
                    for own_id, identity in start.histories.items()
                }
                own = process_ids[name, start.history]
                events += [_with_ids(event, own, ids) for event in start.recorder.events]
        return events

    def _identity(self, name: str, history: int) -> tuple[str, int]:
        """Return a name and its history, also if a node was killed before it learned it."""
        histories = {start.history for start in self.starts.get(name, ())}
        if history == 0 and len(histories) == 1:
            history = histories.pop()
        return name, history

    def verdict(self, *, complete: bool = True) -> Verdict:
        """Verify the run so far; ``complete`` if an undelivered message is a violation."""
        return verify_events(self.events(), complete=complete)


def _with_ids(event: Event, own: int, ids: dict[int, int]) -> Event:
    targets = event.targets
    return replace(
        event,
        process=own,
        source=None if event.source is None else ids[event.source],
        target=None if event.target is None else ids[event.target],
        targets=None if targets is None else tuple(ids[target] for target in targets),
    )


def random_traffic(
    network: Network, *, messages: int, hops: int = 3, every_s: float = 0.01
) -> None:
    """Let random nodes send at random times, and forward messages for some hops.

    If the protocol has multicast, some messages have two targets; a few are fragmented.
    """
    random = network.random
    names = list(network.engines)
    can = next(iter(network.engines.values())).info.capabilities
    multicast = can.multicast
    large = can.causal or not can.reordering  # Reassembly needs FIFO order.

    def send(source: str, hops_left: int) -> None:
        others = [name for name in names if name != source]
        targets = random.sample(others, 2 if multicast and random.random() < 0.3 else 1)
        size = 3000 if large and random.random() < 0.05 else 8
        network.send(source, *targets, data=bytes([hops_left]) * size)

    def forward(name: str, message: Message) -> None:
        if message.data[0] > 0:
            send(name, message.data[0] - 1)

    network.on_message = forward
    for _ in range(messages):
        send(random.choice(names), hops)
        network.run(random.uniform(0, 2 * every_s))
    network.run_until_idle()
