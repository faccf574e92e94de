"""References for the protocols that hold messages at the receiver.

* :class:`CausalObserver` sees the whole run and derives from the definitions which messages
  may be delivered, and which dependencies a message must carry.
* :class:`MatrixListing` and :class:`OptimalListing` are the listings of the two papers,
  line by line with plain loops and sets, optionally with a flaw. Only the frames are
  shared with the real protocols.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from random import Random

from antecede.core import Delivery, Frame, Process, ProcessId, Transmit
from antecede.core.protocols.matrix import MatrixMessage, Row
from antecede.core.protocols.optimal.log import Entry
from antecede.core.protocols.optimal.optimal import OptimalMessage
from antecede.testing import Cluster, Step, random_schedule, run_schedule
from antecede.trace import Event, Kind

MessageKey = tuple[int, int]
"""The source and the number of a message."""
Dependencies = dict[MessageKey, frozenset[int]]
"""The targets for which each message is a dependency."""
Make = Callable[[ProcessId], Process]


class CausalObserver:
    """Checks every event of a run against the definitions."""

    def __init__(self, processes: int) -> None:
        self.targets: dict[MessageKey, frozenset[int]] = {}
        self.past: dict[MessageKey, set[MessageKey]] = {}
        """For each message, the messages that happened before it."""
        self.known: dict[MessageKey, set[tuple[MessageKey, int]]] = {}
        """For each message, the deliveries that happened before its send."""
        self.past_at: list[set[MessageKey]] = [set() for _ in range(processes)]
        self.known_at: list[set[tuple[MessageKey, int]]] = [set() for _ in range(processes)]
        self.held: list[set[MessageKey]] = [set() for _ in range(processes)]
        self.delivered: list[set[MessageKey]] = [set() for _ in range(processes)]
        self.events_checked = 0

    def check(self, history: Sequence[Event]) -> None:
        """Check that every new delivery is allowed, and that none is overdue."""
        changed = set()
        for event in history[self.events_checked :]:
            if event.source is None or event.number is None:
                continue
            message = (event.source, event.number)
            process = event.process
            changed.add(process)
            if event.kind is Kind.SEND:
                assert event.targets is not None
                self.targets[message] = frozenset(event.targets)
                self.past[message] = set(self.past_at[process])
                self.known[message] = set(self.known_at[process])
                self.past_at[process].add(message)
            elif event.kind is Kind.ARRIVE:
                self.held[process].add(message)
            elif event.kind is Kind.DELIVER:
                assert self.may_deliver(process, message), f"{message} early at {process}"
                self.held[process].discard(message)
                self.delivered[process].add(message)
                self.past_at[process] |= self.past[message] | {message}
                self.known_at[process] |= self.known[message] | {(message, process)}
        self.events_checked = len(history)
        for process in changed:
            for message in self.held[process]:
                assert not self.may_deliver(process, message), (
                    f"{message} late at {process}"
                )

    def may_deliver(self, process: int, message: MessageKey) -> bool:
        """Return whether the earlier messages to the same process are delivered."""
        return all(
            before in self.delivered[process]
            for before in self.past[message]
            if process in self.targets[before]
        )

    def dependencies(self, message: MessageKey, target: int) -> Dependencies:
        """Return the dependencies that the copy to ``target`` must carry.

        These are the dependencies for which neither (I) nor (II) holds, and, without
        targets, the last known message of each other source.
        """
        past = self.past[message]
        later_to = {
            (before, process)
            for later in past
            for process in self.targets[later]
            for before in self.past[later]
        }
        dependencies: Dependencies = {}
        for before in past:
            dependencies[before] = frozenset(
                process
                for process in self.targets[before]
                if process != before[0]  # Delivered inside its send.
                and (before, process) not in self.known[message]
                and (before, process) not in later_to
                and (process == target or process not in self.targets[message])
            )
        last = {source: 0 for source, _ in past if source != message[0]}
        for source, number in past:
            if source in last:
                last[source] = max(last[source], number)
        return {
            before: targets
            for before, targets in dependencies.items()
            if targets or last.get(before[0]) == before[1]
        }


def carried_by(frame: Frame) -> Dependencies:
    """Return the dependencies that a message of ``optimal`` carries."""
    assert isinstance(frame, OptimalMessage)
    return {(e.source, e.number): frozenset(e.targets) for e in frame.log}


# Runs of several protocols in lockstep, on a network that reorders.


def run_lockstep(
    makes: Sequence[Make],
    seed: int,
    *,
    fan_out_max: int = 1,
    after_step: Callable[[list[Cluster], CausalObserver], None] | None = None,
    to_itself: bool = True,
) -> list[Cluster]:
    """Run one schedule on several protocols; all must deliver the same at every step.

    A :class:`CausalObserver` checks these deliveries. At the end no frame is in flight.
    """
    random = Random(seed)
    processes = random.randint(2, 6)
    clusters = [Cluster("", processes, make=make) for make in makes]
    observer = CausalObserver(processes)
    schedule = random_schedule(
        random, processes=processes, steps=random.choice((30, 80)), fan_out_max=fan_out_max
    )
    position = 0
    while position < len(schedule) or clusters[0].in_flight:
        if position < len(schedule):
            step = schedule[position]
            if not to_itself and step.pick % processes in step.targets:
                step = Step(step.kind, step.pick, ((step.pick + 1) % processes,))
            for cluster in clusters:
                run_schedule(cluster, [step])
        else:
            index = random.randrange(len(clusters[0].in_flight))
            for cluster in clusters:
                cluster.arrive(index)
        position += 1
        compare(clusters, observer.events_checked)
        observer.check(clusters[0].history)
        if after_step is not None:
            after_step(clusters, observer)
    return clusters


def compare(clusters: list[Cluster], since: int) -> None:
    """Assert that all clusters have the same new events, in any order."""
    happened = [
        sorted((e.process, e.kind.value, e.source, e.number) for e in c.history[since:])
        for c in clusters
    ]
    assert all(one == happened[0] for one in happened)


# The listings.


class Listing:
    """The parts of a process that the listings share."""

    def __init__(self, id: ProcessId) -> None:
        self._id = id
        self.deliveries: list[Delivery] = []
        self.transmits: list[Transmit] = []
        self.clock = 0

    @property
    def id(self) -> ProcessId:
        return self._id

    def send(self, targets: Iterable[ProcessId], payload: bytes, now: float) -> int:
        raise NotImplementedError

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        raise NotImplementedError

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
        taken, self.transmits = self.transmits, []
        return taken

    def messages_to_deliver(self) -> list[Delivery]:
        taken, self.deliveries = self.deliveries, []
        return taken


class MatrixFlaw(Enum):
    """Flaws of the matrix protocol; the listing itself is not causal for multicast."""

    NONE = "none"
    LEARNS_NOTHING = "does not take the maximum of the matrices"
    IGNORES_OTHER_SOURCES = "waits for earlier messages of the same source only"
    SKIPS_A_ROW = "does not wait for messages of process 0"


class MatrixListing(Listing):
    """Raynal, Schiper and Toueg: attach SENT, then count, also for messages to itself."""

    def __init__(
        self, id: ProcessId, processes: int, flaw: MatrixFlaw = MatrixFlaw.NONE
    ) -> None:
        super().__init__(id)
        self.sent = [[0] * processes for _ in range(processes)]
        self.deliv = [0] * processes
        self.held: list[tuple[ProcessId, MatrixMessage]] = []
        self.flaw = flaw

    def send(self, targets: Iterable[ProcessId], payload: bytes, now: float) -> int:
        self.clock += 1
        for target in targets:
            rows = [Row(tuple(row)) for row in self.sent]
            frame = MatrixMessage(self.clock, rows, payload)
            self.transmits.append(Transmit(target, frame))
            self.sent[self._id][target] += 1
        return self.clock

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        assert isinstance(frame, MatrixMessage)
        self.held.append((source, frame))
        while True:
            ready = [pair for pair in self.held if self.ready(*pair)]
            if not ready:
                return
            self.held.remove(ready[0])
            self.deliver(*ready[0])

    def ready(self, source: ProcessId, frame: MatrixMessage) -> bool:
        for other, row in enumerate(frame.rows):
            if self.flaw is MatrixFlaw.IGNORES_OTHER_SOURCES and other != source:
                continue
            if self.flaw is MatrixFlaw.SKIPS_A_ROW and other == 0 != source:
                continue
            if row.counts[self._id] > self.deliv[other]:
                return False
        return True

    def deliver(self, source: ProcessId, frame: MatrixMessage) -> None:
        self.deliveries.append(Delivery(source, frame.number, frame.payload))
        self.deliv[source] += 1
        self.sent[source][self._id] += 1
        if self.flaw is MatrixFlaw.LEARNS_NOTHING:
            return
        for own, received in zip(self.sent, frame.rows, strict=True):
            own[:] = map(max, own, received.counts)


class OptimalFlaw(Enum):
    """Flaws that break the optimal protocol, or make messages carry too much."""

    NONE = "none"
    COPY_OMITS_ITS_TARGET = "a copy to d omits the dependencies for d"
    SEND_SETTLES_ALL = "a send ends the dependencies for all targets"
    MISSING_IN_MESSAGE_IS_SETTLED = "an entry missing in the message is always settled"
    MISSING_IN_LOG_IS_SETTLED = "an entry missing in the log is always settled"
    OTHERS_ARE_SETTLED = "a delivery settles the copies to the other targets"
    KEEPS_UNION = "merging keeps the targets of either entry"
    DROPS_LAST = "the last message of a source is dropped if it is settled"


WASTEFUL = (OptimalFlaw.KEEPS_UNION, OptimalFlaw.DROPS_LAST)
"""The flaws that keep causal order, but carry more than necessary."""


class OptimalListing(Listing):
    """Kshemkalyani and Singhal: LOG and O as sets of (source, number) with Dests."""

    def __init__(self, id: ProcessId, flaw: OptimalFlaw = OptimalFlaw.NONE) -> None:
        super().__init__(id)
        self.log: dict[MessageKey, set[int]] = {}
        self.last: dict[int, int] = {}  # SR
        self.held: list[tuple[ProcessId, OptimalMessage]] = []
        self.flaw = flaw

    def send(self, targets: Iterable[ProcessId], payload: bytes, now: float) -> int:
        self.clock += 1
        members: list[int] = list(targets)
        dests = set(members) - {int(self._id)}
        if self._id in members:
            self.deliveries.append(Delivery(self._id, self.clock, payload))
        for target in members:
            if target == self._id:
                continue
            carried = {
                key: (named - dests) | (named & {target}) for key, named in self.log.items()
            }
            if self.flaw is OptimalFlaw.COPY_OMITS_ITS_TARGET:
                carried = {key: named - dests for key, named in self.log.items()}
            self.purge(carried)
            log = [Entry(*key, tuple(sorted(named))) for key, named in carried.items()]
            log.sort(key=lambda entry: (entry.source, entry.number))
            others = tuple(sorted(dests - {target}))
            frame = OptimalMessage(self.clock, others, log, payload)
            self.transmits.append(Transmit(ProcessId(target), frame))
        for named in self.log.values():
            named -= dests
            if self.flaw is OptimalFlaw.SEND_SETTLES_ALL:
                named.clear()
        self.purge(self.log)
        self.log[self._id, self.clock] = dests
        return self.clock

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        assert isinstance(frame, OptimalMessage)
        self.held.append((source, frame))
        while True:
            ready = [pair for pair in self.held if self.ready(pair[1])]
            if not ready:
                return
            self.held.remove(ready[0])
            self.deliver(*ready[0])

    def ready(self, frame: OptimalMessage) -> bool:
        return all(
            entry.number <= self.last.get(entry.source, 0)
            for entry in frame.log
            if self._id in entry.targets
        )

    def deliver(self, source: ProcessId, frame: OptimalMessage) -> None:
        self.deliveries.append(Delivery(source, frame.number, frame.payload))
        self.last[source] = frame.number
        carried = {(e.source, e.number): set(e.targets) for e in frame.log}
        settled = self.flaw is OptimalFlaw.OTHERS_ARE_SETTLED
        carried[source, frame.number] = set() if settled else set(frame.others)
        for named in carried.values():
            named.discard(self._id)
        own, received = self.log, carried
        settled_own = [key for key in own if self.is_settled(key, received)]
        settled_received = [key for key in received if self.is_settled(key, own)]
        if self.flaw is OptimalFlaw.MISSING_IN_MESSAGE_IS_SETTLED:
            settled_own = [key for key in own if key not in received]
        if self.flaw is OptimalFlaw.MISSING_IN_LOG_IS_SETTLED:
            settled_received = [k for k in received if own and k not in own]
        for key in settled_own:
            del own[key]
        for key in settled_received:
            del received[key]
        for key, named in received.items():
            if self.flaw is OptimalFlaw.KEEPS_UNION:
                own[key] = own.get(key, set()) | named
            else:
                own[key] = own.get(key, named) & named
        self.purge(own)

    @staticmethod
    def is_settled(key: MessageKey, log: dict[MessageKey, set[int]]) -> bool:
        """Return whether a log has a later message of the source, but not this one."""
        return key not in log and any(s == key[0] and t > key[1] for s, t in log)

    def purge(self, log: dict[MessageKey, set[int]]) -> None:
        """Drop the settled messages that are not the last of their source."""
        for key, named in list(log.items()):
            last = not any(s == key[0] and t > key[1] for s, t in log)
            if not named and (not last or self.flaw is OptimalFlaw.DROPS_LAST):
                del log[key]
