"""Published pseudo-code as printed, with the data structures and a network to run it.

The tests of docs/explanation/errata.md run it to show its errors. This module has the data
structures of Almeida §5.3 and a network in memory; `tests.listings.almeida` has the
algorithms. `run_steps` runs a schedule on them and, for comparison, on antecede.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from antecede.core.codec import Frame
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit, PermitRequest
from antecede.testing import Cluster
from antecede.trace import Event, Kind
from antecede.verify import Verdict, verify_events

__all__ = [
    "Listing",
    "Network",
    "AntecedeRun",
    "Packet",
    "Per",
    "Run",
    "SlidingArray",
    "SlidingMap",
    "run_steps",
]

E = TypeVar("E")

IDLE_STEPS_MAX = 100_000
"""A network that carries more packets than this never becomes idle."""


@dataclass(frozen=True, slots=True)
class Per:
    """A message of a sender: the key of its permit."""

    snd: int
    mid: int


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet in flight; ``pid`` and ``per`` are for MSG only."""

    kind: str
    source: int
    target: int
    number: int
    pid: int = 0
    per: bool = False


class SlidingArray(Generic[E]):
    """A window of elements; reading outside it is an error."""

    def __init__(self, first: int) -> None:
        self.first = self.next = first
        self.cells: dict[int, E] = {}

    def __iter__(self) -> Iterator[E]:
        return iter(list(self.cells.values()))

    def __getitem__(self, index: int) -> E:
        if index not in self.cells:
            raise IndexError(f"{index} is not in [{self.first}, {self.next})")
        return self.cells[index]

    @property
    def size(self) -> int:
        return len(self.cells)

    @property
    def peek(self) -> E:
        return self[self.first]

    def add(self, element: E) -> None:
        self.cells[self.next] = element
        self.next += 1

    def remove(self) -> None:
        del self.cells[self.first]
        self.first += 1


class SlidingMap:
    """The sliding map of permits, with the operations of the indexable variant."""

    def __init__(self) -> None:
        self.next = 0
        self.cells: dict[int, Per] = {}

    def __iter__(self) -> Iterator[Per]:
        return iter(list(self.cells.values()))

    def __getitem__(self, index: int) -> Per | None:
        return self.cells.get(index)

    @property
    def first(self) -> int:
        return min(self.cells, default=self.next)

    def add(self, per: Per) -> None:
        self.cells[self.next] = per
        self.next += 1

    def index(self, per: Per) -> int | None:
        return next((index for index, each in self.cells.items() if each == per), None)

    def remove(self, per: Per) -> None:
        index = self.index(per)
        if index is not None:
            del self.cells[index]


class Listing(Protocol):
    """One process of an algorithm: its events, and their outputs."""

    base: int
    """The id of its first message."""
    outbox: list[Packet]
    delivered: list[Per]

    def causal_send(self, receivers: frozenset[int]) -> None: ...
    def receive_msg(self, j: int, m: Packet) -> None: ...
    def receive_ack(self, j: int, n: int) -> None: ...
    def receive_permit(self, j: int, n: int) -> None: ...
    def receive_request(self, j: int, n: int) -> None: ...
    def periodically(self) -> None: ...


class Network:
    """Processes of one listing, the packets between them, and the history of the run.

    The test controls every send, arrival, loss and duplication, and when the
    ``periodically`` blocks run. A packet is identified by kind, source and target; of
    several, the oldest is used.
    """

    in_flight: list[Packet]
    history: list[Event]

    def __init__(self, processes: Sequence[Listing]) -> None:
        self.processes = processes
        self.in_flight = []
        self.history = []
        self._sent = [0] * len(processes)

    def send(self, source: int, *targets: int) -> None:
        self.processes[source].causal_send(frozenset(targets))
        self._sent[source] += 1
        self._record(source, Kind.SEND, source, self._sent[source], targets)
        self._drain(source)

    def arrive(self, kind: str, source: int, target: int) -> None:
        self._deliver(self._take(kind, source, target))

    def drop(self, kind: str, source: int, target: int) -> None:
        self._take(kind, source, target)

    def duplicate(self, kind: str, source: int, target: int) -> None:
        packet = self._take(kind, source, target)
        self.in_flight += [packet, packet]

    def tick(self) -> None:
        for index, process in enumerate(self.processes):
            process.periodically()
            self._drain(index)

    def run_until_idle(self) -> None:
        """Let all packets arrive, in the order of transmission, without any tick."""
        for _ in range(IDLE_STEPS_MAX):
            if not self.in_flight:
                return
            self._deliver(self.in_flight.pop(0))
        raise AssertionError("the network does not become idle")

    def count(self, kind: str, source: int, target: int) -> int:
        """Return the number of packets of a kind in flight between two processes."""
        return sum(self._is(packet, kind, source, target) for packet in self.in_flight)

    def needs_permit(self, source: int, target: int) -> list[bool]:
        """Return the flags of the messages in flight between two processes."""
        return [
            packet.per
            for packet in self.in_flight
            if self._is(packet, "MSG", source, target)
        ]

    def delivered(self, process: int) -> list[tuple[int, int]]:
        """Return the delivered messages as (source, number from 1)."""
        base = self.processes[process].base
        return [
            (each.snd, each.mid - base + 1) for each in self.processes[process].delivered
        ]

    def verdict(self) -> Verdict:
        return verify_events(self.history)

    @staticmethod
    def _is(packet: Packet, kind: str, source: int, target: int) -> bool:
        return (packet.kind, packet.source, packet.target) == (kind, source, target)

    def _take(self, kind: str, source: int, target: int) -> Packet:
        for index, packet in enumerate(self.in_flight):
            if self._is(packet, kind, source, target):
                return self.in_flight.pop(index)
        raise AssertionError(f"no {kind} {source}>{target} in {self.in_flight}")

    def _deliver(self, packet: Packet) -> None:
        process = self.processes[packet.target]
        if packet.kind == "MSG":
            process.receive_msg(packet.source, packet)
        elif packet.kind == "ACK":
            process.receive_ack(packet.source, packet.number)
        elif packet.kind == "PERMIT":
            process.receive_permit(packet.source, packet.number)
        else:
            process.receive_request(packet.source, packet.number)
        self._drain(packet.target)

    def _drain(self, id: int) -> None:
        process = self.processes[id]
        recorded = sum(
            event.kind is Kind.DELIVER and event.process == id for event in self.history
        )
        for each in process.delivered[recorded:]:
            self._record(id, Kind.DELIVER, each.snd, each.mid - process.base + 1, None)
        self.in_flight += process.outbox
        process.outbox.clear()

    def _record(
        self,
        process: int,
        kind: Kind,
        source: int,
        number: int,
        targets: tuple[int, ...] | None,
    ) -> None:
        self.history.append(
            Event(process=process, kind=kind, source=source, number=number, targets=targets)
        )


class AntecedeRun:
    """A cluster of antecede with the interface of `Network`."""

    FRAMES: Mapping[str, type[Frame]] = {
        "MSG": MessageFrame,
        "ACK": Ack,
        "PERMIT": Permit,
        "REQUEST": PermitRequest,
    }
    TICK_S = 60.0
    """Longer than any timeout, so that all unacked copies are retransmitted."""

    def __init__(self, name: str, processes: int = 3) -> None:
        self.cluster = Cluster(name, processes)

    def send(self, source: int, *targets: int) -> None:
        self.cluster.send(source, targets)

    def arrive(self, kind: str, source: int, target: int) -> None:
        self.cluster.arrive(self._find(kind, source, target)[0])

    def drop(self, kind: str, source: int, target: int) -> None:
        self.cluster.drop(self._find(kind, source, target)[0])

    def duplicate(self, kind: str, source: int, target: int) -> None:
        self.cluster.duplicate(self._find(kind, source, target)[0])

    def tick(self) -> None:
        self.cluster.pass_time(self.TICK_S)

    def run_until_idle(self) -> None:
        for _ in range(IDLE_STEPS_MAX):
            if not self.cluster.in_flight:
                return
            self.cluster.arrive()
        raise AssertionError("the cluster does not become idle")

    def count(self, kind: str, source: int, target: int) -> int:
        return len(self._find(kind, source, target))

    def needs_permit(self, source: int, target: int) -> list[bool]:
        frames = [packet.frame for packet in self.cluster.in_flight]
        found = [frames[index] for index in self._find("MSG", source, target)]
        return [not frame.permitted for frame in found if isinstance(frame, MessageFrame)]

    def delivered(self, process: int) -> list[tuple[int, int]]:
        return self.cluster.delivered(process)

    def verdict(self) -> Verdict:
        return self.cluster.verdict()

    def _find(self, kind: str, source: int, target: int) -> list[int]:
        return [
            index
            for index, packet in enumerate(self.cluster.in_flight)
            if (packet.source, packet.target) == (source, target)
            and isinstance(packet.frame, self.FRAMES[kind])
        ]


Run = Network | AntecedeRun


def run_steps(run: Run, schedule: str) -> None:
    """Run a schedule, whose steps are separated by commas.

    ``send 0 1 2`` (by 0, to 1 and 2), ``MSG 0 1`` (arrives at 1; also ACK, PERMIT and
    REQUEST), ``drop MSG 0 1``, ``duplicate MSG 0 1``, ``tick``, ``idle``
    (all packets arrive).
    """
    for step in schedule.split(","):
        match step.split():
            case ["tick"]:
                run.tick()
            case ["idle"]:
                run.run_until_idle()
            case ["send", *ids]:
                run.send(*map(int, ids))
            case ["drop", kind, source, target]:
                run.drop(kind, int(source), int(target))
            case ["duplicate", kind, source, target]:
                run.duplicate(kind, int(source), int(target))
            case [kind, source, target]:
                run.arrive(kind, int(source), int(target))
            case _:
                raise AssertionError(f"invalid step: {step}")
