"""Random runs of any protocol of the registry, with checks of frames and deliveries."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random

from antecede.core import ProcessConfig, ProtocolInfo, RetransmissionPolicy
from antecede.core.codec import Frame, Reader, decode, encode
from antecede.core.link_frames import LinkAck, Segment
from antecede.core.process import Delivery, ProcessBase, ProcessId, Transmit
from antecede.errors import LocalError, PeerError
from antecede.testing import Cluster
from antecede.trace import Event, Kind
from antecede.verify import Property
from tests.core.broadcasts import pick, run_until_idle

__all__ = [
    "Ledger",
    "Network",
    "Outcome",
    "RunResult",
    "observe",
    "run",
    "send_something",
    "uses_overlay",
]

POLICY = RetransmissionPolicy(initial_s=1.0, minimum_s=0.5, maximum_s=8.0)
SECONDS = (0.02, 0.25, 1.0, 4.0)
BUDGETS = (0, 5, 8, 32)
"""Of ``bounded``: from no entry to all entries of a run."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """The faults of the network, and whether the processes have links."""

    reliable: bool
    """The link layer is left out."""
    faults: float = 0.0
    """The approximate share of packets that are lost, and that are duplicated."""
    overtaking: bool = True
    """Whether the network reorders the packets of a pair."""
    churn: bool = False
    """Whether links of the overlay are added and removed."""


@dataclass(kw_only=True)
class Outcome:
    """The results of several runs."""

    broken: set[Property] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)
    """Violated properties, endless runs and refused frames, with their seeds."""
    miscoded: list[str] = field(default_factory=list)
    """Frames that change by encoding and decoding, or whose size is wrong."""
    misnamed: list[str] = field(default_factory=list)
    """Frames and deliveries with a wrong message, or a wrong payload."""
    controls: set[str] = field(default_factory=set)
    """The names of the control frames, as in the capabilities."""
    relays: int = 0
    """The number of forwarded messages."""
    frames: int = 0
    deliveries: int = 0


class ObservedProcess:
    """A process whose frames and deliveries are passed to a ledger."""

    def __init__(self, inner: ProcessBase, ledger: "Ledger") -> None:
        self.inner = inner
        self.ledger = ledger
        self.id = inner.id

    def send(self, targets: Iterable[ProcessId], payload: bytes, now: float) -> int:
        number = self.inner.send(targets, payload, now)
        self.ledger.payloads[self.id, number] = payload
        return number

    def broadcast(self, payload: bytes, now: float) -> int:
        number = self.inner.broadcast(payload, now)
        self.ledger.payloads[self.id, number] = payload
        return number

    def connect(self, peer: ProcessId, now: float) -> None:
        self.inner.connect(peer, now)

    def disconnect(self, peer: ProcessId, now: float) -> None:
        self.inner.disconnect(peer, now)

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        self.inner.receive(source, frame, now)

    def handle_timer(self, now: float) -> None:
        self.inner.handle_timer(now)

    def next_timer(self) -> float | None:
        return self.inner.next_timer()

    def frames_to_transmit(self) -> list[Transmit]:
        transmits = self.inner.frames_to_transmit()
        for transmit in transmits:
            self.ledger.transmitted(self.id, transmit)
        return transmits

    def messages_to_deliver(self) -> list[Delivery]:
        deliveries = self.inner.messages_to_deliver()
        for delivery in deliveries:
            self.ledger.delivered(self.id, delivery)
        return deliveries


class Ledger:
    """Checks all frames and deliveries of a run."""

    def __init__(self, info: ProtocolInfo, reliable: bool, outcome: Outcome) -> None:
        self.info = info
        self.reliable = reliable
        self.outcome = outcome
        self.payloads: dict[tuple[int, int], bytes] = {}

    def read(self, reader: Reader) -> Frame:
        return self.info.read_frame(reader, reliable=self.reliable)

    def transmitted(self, process: int, transmit: Transmit) -> None:
        """Check a frame that is transmitted."""
        frame = transmit.frame
        outcome = self.outcome
        outcome.frames += 1
        encoded = encode([frame])
        try:
            received = decode(encoded, self.read)
        except PeerError as error:
            received = []
            outcome.miscoded.append(f"{frame}: {error}")
        if (
            len(encoded) != 1 + frame.size()
            or len(received) != 1
            or encode(received) != encoded
            or type(received[0]) is not type(frame)
            or encoded[1] >> 4 != frame.kind()
        ):
            outcome.miscoded.append(f"{frame}: {encoded.hex()}")
        else:
            copy = received[0]
            if (copy.message_number(), copy.message_source(), copy.payload_size()) != (
                frame.message_number(),
                frame.message_source(),
                frame.payload_size(),
            ):
                outcome.misnamed.append(f"{copy} was {frame}")
        self._check_contents(process, transmit, encoded)

    def _check_contents(self, process: int, transmit: Transmit, encoded: bytes) -> None:
        frame = transmit.frame
        outcome = self.outcome
        number = frame.message_number()
        own = frame.frame if isinstance(frame, Segment) else frame
        if not isinstance(own, LinkAck) and not 1 <= own.kind() <= 13:
            outcome.miscoded.append(f"{own}: the kind is the link's")
        if number == 0:
            if frame.payload_size() > 0:
                outcome.misnamed.append(f"{frame}: a payload of no message")
            if not isinstance(own, LinkAck):
                outcome.controls.add(kebab(type(own).__name__))
            return
        origin = frame.message_source()
        if origin < 0:
            origin = process
        payload = self.payloads.get((origin, number))
        if (
            payload is None
            or payload not in encoded
            or len(payload) != frame.payload_size()
        ):
            outcome.misnamed.append(f"{frame} is not {payload!r} of {origin}:{number}")
        if origin != process:
            outcome.relays += 1

    def delivered(self, process: int, delivery: Delivery) -> None:
        """Check a delivery."""
        self.outcome.deliveries += 1
        sent = self.payloads.get((delivery.source, delivery.number))
        if delivery.payload != sent:
            self.outcome.misnamed.append(f"{delivery} at {process}, not {sent!r}")


def kebab(name: str) -> str:
    """Return the name of a class in kebab case: YouCanTell as you-can-tell."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


@cache
def uses_overlay(info: ProtocolInfo) -> bool:
    """Return whether a protocol uses an overlay."""
    process = info.make(ProcessId(0), ProcessConfig(processes=3))
    try:
        process.connect(ProcessId(1), 0.0)
    except LocalError:
        return False
    return True


def random_config(random: Random, processes: int, reliable: bool) -> ProcessConfig:
    """Return a config with a random connected overlay or none, and a tree or none."""
    links: list[list[int]] | None = None
    parents: list[int] | None = None
    if random.random() < 0.7:
        ring = random.sample(range(processes), processes)
        following = {member: ring[(i + 1) % processes] for i, member in enumerate(ring)}
        links = [
            [
                peer
                for peer in range(processes)
                if peer != member and (peer == following[member] or random.random() < 0.3)
            ]
            for member in range(processes)
        ]
    if random.random() < 0.7:
        order = random.sample(range(processes), processes)
        parents = [0] * processes
        for index, node in enumerate(order):
            parents[node] = order[random.randrange(index)] if index else node
    return ProcessConfig(
        processes=processes,
        policy=POLICY,
        reliable=reliable,
        links=links,
        parents=parents,
        budget_bytes=random.choice(BUDGETS),
    )


def send_something(
    cluster: Cluster, random: Random, info: ProtocolInfo, source: int, serial: int
) -> None:
    """Send a random message that the protocol supports."""
    offers = info.capabilities
    everyone = range(len(cluster.processes))
    payload = f"<{source} {serial}>".encode() + bytes(random.choice((0, 0, 1, 130)))
    shapes = [
        shape
        for shape, offered in (
            ("unicast", offers.unicast),
            ("multicast", offers.multicast),
            ("broadcast", offers.broadcast),
        )
        if offered
    ]
    shape = random.choice(shapes)
    if shape == "broadcast":
        cluster.broadcast(source, payload)
    elif shape == "multicast":
        count = random.randint(2, len(everyone))
        cluster.send(source, random.sample(everyone, count), payload)
    else:
        cluster.send(source, [random.choice(everyone)], payload)


def run_randomly(
    cluster: Cluster,
    random: Random,
    info: ProtocolInfo,
    network: Network,
    links: Sequence[Sequence[int]] | None,
) -> None:
    """Send messages and pass on packets at random, with the faults of the network."""
    everyone = range(len(cluster.processes))
    faults = network.faults * random.choice((0.5, 1.0, 2.0))
    for step in range(random.choice((20, 50, 100))):
        draw = random.random()
        if draw < 0.25:
            send_something(cluster, random, info, random.choice(everyone), step)
        elif draw < 0.3:
            cluster.pass_time(random.choice(SECONDS))
        elif draw < 0.33:
            process = random.choice(everyone)
            change = cluster.paused.discard if random.random() < 0.5 else cluster.paused.add
            change(process)
        elif draw < 0.38 and network.churn and links is not None:
            source, target = random.sample(everyone, 2)
            if random.random() < 0.7:
                cluster.connect(source, target)
            elif target not in links[source]:
                cluster.disconnect(source, target)
        elif cluster.in_flight:
            index = pick(cluster, random, fifo=not network.overtaking)
            if cluster.in_flight[index].target in cluster.paused:
                continue
            fate = random.random()
            if fate < faults:
                cluster.drop(index)
            elif fate < 2 * faults:
                cluster.duplicate(index)
            else:
                cluster.arrive(index)
    cluster.paused.clear()


@dataclass(frozen=True)
class RunResult:
    """The result of one run."""

    history: list[Event]
    is_idle: bool
    refusal: PeerError | None
    """The frame that a process refused, which ends the run."""
    cluster: Cluster


def run(info: ProtocolInfo, network: Network, seed: int, outcome: Outcome) -> RunResult:
    """Run once with ``seed``; add the results to ``outcome``."""
    random = Random(seed)
    processes = random.randint(3, 5)
    config = random_config(random, processes, network.reliable)
    ledger = Ledger(info, network.reliable, outcome)
    cluster = Cluster(
        info.name,
        processes,
        make=lambda own: ObservedProcess(info.make(own, config), ledger),
    )
    is_idle = False
    refusal = None
    try:
        run_randomly(cluster, random, info, network, config.links)
        is_idle = run_until_idle(cluster, random, fifo=not network.overtaking)
    except PeerError as error:
        refusal = error
    return RunResult(cluster.history, is_idle, refusal, cluster)


def observe(info: ProtocolInfo, network: Network, seeds: int) -> Outcome:
    """Run and verify once per seed."""
    outcome = Outcome()
    for seed in range(seeds):
        result = run(info, network, seed, outcome)
        if result.refusal is not None:
            outcome.failures.append(f"seed {seed}: refused: {result.refusal}")
            continue
        if not result.is_idle:
            outcome.failures.append(f"seed {seed}: never idle")
        verdict = result.cluster.verdict(complete=result.is_idle)
        outcome.broken |= verdict.violated()
        outcome.failures += [f"seed {seed}: {broken}" for broken in verdict.violations]
        arrived: set[tuple[int, int | None, int | None]] = set()
        for event in result.history:
            key = (event.process, event.source, event.number)
            if event.kind is Kind.ARRIVE:
                arrived.add(key)
            elif (
                event.kind is Kind.DELIVER
                and event.source != event.process
                and key not in arrived
            ):
                outcome.misnamed.append(f"seed {seed}: {event} without its arrival")
    return outcome
