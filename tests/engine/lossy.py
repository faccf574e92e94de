"""Engines on a network in memory that loses, duplicates, delays and partitions.

Time is virtual and everything that is left to chance follows from the seed. What happens is
recorded at each engine by its own tally, and judged by the oracle as one run: the ids of an
engine's own give way to one place for each name and life.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from random import Random

from antecede.core.process import NEVER
from antecede.engine import Engine, Limits, Message
from antecede.engine.sealer import DatagramCipher
from antecede.trace import Event, MemoryRecorder
from antecede.verify import Verdict, verify_events

NAMES = ("ann", "bob", "cid", "dan", "eve")


@dataclass(frozen=True, order=True)
class Flight:
    """A datagram on its way."""

    due: float
    serial: int
    source: str
    target: str
    datagram: bytes
    transmitted_at: float


@dataclass
class Start:
    """One start of a node, with what it recorded."""

    engine: Engine
    history: int
    recorder: MemoryRecorder
    histories: dict[int, tuple[str, int]]
    """Whose life stands behind each of the engine's ids."""

    def look(self) -> None:
        """Note who is behind the ids of the moment."""
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
        """Every datagram that was transmitted, lost or not."""
        self.taken: dict[str, list[Message]] = {}
        self.on_message: Callable[[str, Message], None] | None = None
        self.lost: Callable[[Flight], bool] = lambda flight: False
        """A fault of the test's own: what it says yes to does not arrive."""
        self._serial = 0

    # Who is there.

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
        """Start a node, in place of one of the same name that stops now."""
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
            observer=recorder,
        )
        own = history if history else incarnation
        start = Start(engine, own, recorder, {engine.process.id: (name, own)})
        self.engines[name] = engine
        self.starts.setdefault(name, []).append(start)
        self.taken.setdefault(name, [])
        return engine

    def stop(self, name: str) -> None:
        """Stop a node as a crash does."""
        del self.engines[name]

    def mesh(self, *names: str) -> list[Engine]:
        """Start nodes that are all each other's peers."""
        for name in names:
            self.start(name, members=names)
        for name in names:
            self.introduce(name, *names)
        return [self.engines[name] for name in names]

    def introduce(self, name: str, *peers: str) -> None:
        """Add ``peers`` at ``name``; the address of a node is its name."""
        for peer in peers:
            if peer != name:
                self.engines[name].add_peer(peer, peer, self.now)

    # What happens.

    def send(self, source: str, *targets: str, data: bytes = b"") -> int:
        """Send a message, and transmit what that brings about."""
        number = self.engines[source].send(targets, data, self.now)
        self.settle(source)
        return number

    def settle(self, name: str) -> None:
        """Transmit what an engine has, and take what it delivers."""
        engine = self.engines[name]
        self.starts[name][-1].look()
        for address, datagram in engine.flush(self.now):
            assert isinstance(address, str)
            self.transmit(name, address, datagram)
        for message in engine.poll_messages():
            self.taken[name].append(message)
            if self.on_message is not None:
                self.on_message(name, message)

    def transmit(self, source: str, target: str, datagram: bytes) -> None:
        """Put a datagram on the network, which may lose or double it."""
        random = self.random
        copies = (random.random() >= self.loss) + (random.random() < self.duplication)
        for copy in range(max(copies, 1)):
            self._serial += 1
            due = self.now + random.uniform(*self.delay_s)
            flight = Flight(due, self._serial, source, target, datagram, self.now)
            if copy == 0:
                self.transmitted.append(flight)
            if copies > 0 and not self.lost(flight):
                heappush(self.flights, flight)

    def arrive(self, flight: Flight) -> None:
        """Let a datagram arrive now, wherever it has been."""
        engine = self.engines.get(flight.target)
        if engine is not None:
            engine.receive_datagram(flight.datagram, flight.source, self.now)
            self.settle(flight.target)

    def hold_back(self, which: Callable[[Flight], bool]) -> list[Flight]:
        """Take datagrams out of the network; they arrive when the test says so."""
        taken = [flight for flight in self.flights if which(flight)]
        self.flights = [flight for flight in self.flights if not which(flight)]
        heapify(self.flights)
        return taken

    # Time.

    def next_event(self) -> float:
        """Tell when something happens by itself, infinity if never."""
        due = self.flights[0].due if self.flights else NEVER
        for engine in self.engines.values():
            timer = engine.next_timer()
            if timer is not None and timer < due:
                due = timer
        return due

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        for name in list(self.engines):
            self.settle(name)
        while self.next_event() <= end:
            self._step()
        self.now = end

    def run_until_quiet(self, seconds_max: float = 600.0) -> None:
        """Let time pass until nothing is under way and nothing is undelivered."""
        end = self.now + seconds_max
        for name in list(self.engines):
            self.settle(name)
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
                self.settle(name)

    # What came of it.

    def data(self, name: str) -> list[bytes]:
        """Return what was handed to the application, over all starts."""
        return [message.data for message in self.taken[name]]

    def dropped(self, name: str) -> dict[str, int]:
        """Return what an engine has refused, by reason."""
        dropped = self.engines[name].stats().dropped
        return {reason: count for reason, count in dropped.items() if count}

    def events(self) -> list[Event]:
        """Return all events, with one id for each name and life."""
        places: dict[tuple[str, int], int] = {}
        for name, starts in self.starts.items():
            for start in starts:
                places.setdefault((name, start.history), len(places))
        events: list[Event] = []
        for name, starts in self.starts.items():
            for start in starts:
                start.look()
                ids = {
                    own_id: places.setdefault(who, len(places))
                    for own_id, who in start.histories.items()
                }
                own = places[name, start.history]
                events += [_placed(event, own, ids) for event in start.recorder.events]
        return events

    def verdict(self, *, complete: bool = True) -> Verdict:
        """Judge the run so far; ``complete`` if what is undelivered counts as lost."""
        return verify_events(self.events(), complete=complete)


def _placed(event: Event, own: int, ids: dict[int, int]) -> Event:
    targets = event.targets
    return replace(
        event,
        process=own,
        source=None if event.source is None else ids[event.source],
        target=None if event.target is None else ids[event.target],
        targets=None if targets is None else tuple(ids[target] for target in targets),
    )


def chatter(
    network: Network, *, messages: int, hops: int = 3, every_s: float = 0.01
) -> None:
    """Let random nodes send at random times, and pass on what they get, for some hops.

    Where the protocol can, some messages have two targets; a few need fragments.
    """
    random = network.random
    names = list(network.engines)
    can = next(iter(network.engines.values())).info.capabilities
    multicast = can.multicast
    large = can.causal or not can.reordering  # Fragments need some order.

    def say(source: str, left: int) -> None:
        others = [name for name in names if name != source]
        targets = random.sample(others, 2 if multicast and random.random() < 0.3 else 1)
        size = 3000 if large and random.random() < 0.05 else 8
        network.send(source, *targets, data=bytes([left]) * size)

    def pass_on(name: str, message: Message) -> None:
        if message.data[0] > 0:
            say(name, message.data[0] - 1)

    network.on_message = pass_on
    for _ in range(messages):
        say(random.choice(names), hops)
        network.run(random.uniform(0, 2 * every_s))
    network.run_until_quiet()
