"""What the protocols that hold messages back at the receiver are compared with.

* :class:`Omniscient` sees the whole run and knows by the definitions what may be delivered
  now, and which dependencies a message has to tell of.
* :class:`MatrixListing` and :class:`OptimalListing` are the two papers' listings, line by
  line with plain loops and sets, as they are or with a flaw. They use the frames of the
  real protocols, and nothing else of them.
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
"""A message, as (source, number)."""
Dependencies = dict[MessageKey, frozenset[int]]
"""Messages, and where each is a dependency."""
Make = Callable[[ProcessId], Process]


class Omniscient:
    """Follows a run event by event, and holds it to the definitions."""

    def __init__(self, processes: int) -> None:
        self.targets: dict[MessageKey, frozenset[int]] = {}
        self.past: dict[MessageKey, set[MessageKey]] = {}
        """For each message, those that happened before it."""
        self.known: dict[MessageKey, set[tuple[MessageKey, int]]] = {}
        """For each message, the deliveries that happened before its send."""
        self.past_at: list[set[MessageKey]] = [set() for _ in range(processes)]
        self.known_at: list[set[tuple[MessageKey, int]]] = [set() for _ in range(processes)]
        self.waiting: list[set[MessageKey]] = [set() for _ in range(processes)]
        self.delivered: list[set[MessageKey]] = [set() for _ in range(processes)]
        self.followed = 0

    def follow(self, history: Sequence[Event]) -> None:
        """Take what is new; every delivery must be allowed, and none be overdue."""
        touched = set()
        for event in history[self.followed :]:
            if event.source is None or event.number is None:
                continue
            message = (event.source, event.number)
            place = event.process
            touched.add(place)
            if event.kind is Kind.SEND:
                assert event.targets is not None
                self.targets[message] = frozenset(event.targets)
                self.past[message] = set(self.past_at[place])
                self.known[message] = set(self.known_at[place])
                self.past_at[place].add(message)
            elif event.kind is Kind.ARRIVE:
                self.waiting[place].add(message)
            elif event.kind is Kind.DELIVER:
                assert self.may_deliver(place, message), f"{message} too early at {place}"
                self.waiting[place].discard(message)
                self.delivered[place].add(message)
                self.past_at[place] |= self.past[message] | {message}
                self.known_at[place] |= self.known[message] | {(message, place)}
        self.followed = len(history)
        for place in touched:
            for message in self.waiting[place]:
                assert not self.may_deliver(place, message), f"{message} late at {place}"

    def may_deliver(self, place: int, message: MessageKey) -> bool:
        """Tell whether all before it that was sent to the same place is delivered."""
        return all(
            before in self.delivered[place]
            for before in self.past[message]
            if place in self.targets[before]
        )

    def dependencies(self, message: MessageKey, target: int) -> Dependencies:
        """Return what the copy to ``target`` has to tell: neither (I) nor (II) holds.

        Also, with no targets, the last message known of each other source.
        """
        past = self.past[message]
        later_to = {
            (before, place)
            for later in past
            for place in self.targets[later]
            for before in self.past[later]
        }
        told: Dependencies = {}
        for before in past:
            told[before] = frozenset(
                place
                for place in self.targets[before]
                if place != before[0]  # Delivered inside its send.
                and (before, place) not in self.known[message]
                and (before, place) not in later_to
                and (place == target or place not in self.targets[message])
            )
        last = {source: 0 for source, _ in past if source != message[0]}
        for source, number in past:
            if source in last:
                last[source] = max(last[source], number)
        return {
            before: places
            for before, places in told.items()
            if places or last.get(before[0]) == before[1]
        }


def told(frame: Frame) -> Dependencies:
    """Return what a message of ``optimal`` carries."""
    assert isinstance(frame, OptimalMessage)
    return {(e.source, e.number): frozenset(e.targets) for e in frame.log}


# Runs of several protocols at once, on a network that keeps no order.


def run_lockstep(
    makes: Sequence[Make],
    seed: int,
    *,
    fan_out_max: int = 1,
    after_step: Callable[[list[Cluster], Omniscient], None] | None = None,
    to_itself: bool = True,
) -> list[Cluster]:
    """Play one schedule on several protocols; all must do the same at every step.

    What that is, an omniscient observer says. Everything has arrived at the end.
    """
    random = Random(seed)
    processes = random.randint(2, 6)
    clusters = [Cluster("", processes, make=make) for make in makes]
    observer = Omniscient(processes)
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
        compare(clusters, observer.followed)
        observer.follow(clusters[0].history)
        if after_step is not None:
            after_step(clusters, observer)
    return clusters


def compare(clusters: list[Cluster], since: int) -> None:
    """Assert that the same happened in all since then, whatever the order of deliveries."""
    happened = [
        sorted((e.process, e.kind.value, e.source, e.number) for e in c.history[since:])
        for c in clusters
    ]
    assert all(one == happened[0] for one in happened)


# The listings.


class Listing:
    """What the listings share; a process by the contract."""

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
    """How the matrix protocol may be broken; for multicast the listing is broken anyway."""

    NONE = "none"
    LEARNS_NOTHING = "does not take the maximum of the matrices"
    TRUSTS_OTHERS = "waits for earlier messages of the same source only"
    SKIPS_A_ROW = "does not wait for messages of process 0"


class MatrixListing(Listing):
    """Raynal, Schiper and Toueg: attach SENT, then count; messages to oneself travel."""

    def __init__(
        self, id: ProcessId, processes: int, flaw: MatrixFlaw = MatrixFlaw.NONE
    ) -> None:
        super().__init__(id)
        self.sent = [[0] * processes for _ in range(processes)]
        self.deliv = [0] * processes
        self.waiting: list[tuple[ProcessId, MatrixMessage]] = []
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
        self.waiting.append((source, frame))
        while True:
            ready = [pair for pair in self.waiting if self.ready(*pair)]
            if not ready:
                return
            self.waiting.remove(ready[0])
            self.deliver(*ready[0])

    def ready(self, source: ProcessId, frame: MatrixMessage) -> bool:
        for other, row in enumerate(frame.rows):
            if self.flaw is MatrixFlaw.TRUSTS_OTHERS and other != source:
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
        for mine, theirs in zip(self.sent, frame.rows, strict=True):
            mine[:] = map(max, mine, theirs.counts)


class OptimalFlaw(Enum):
    """How the optimal protocol may be broken, or made to say too much."""

    NONE = "none"
    COPY_FORGETS_ITS_TARGET = "a copy to d does not say what was sent to d before"
    SEND_SETTLES_ALL = "a send ends dependencies on targets that are not its own"
    SILENCE_IS_SETTLED = "what the message does not name is settled, later one or not"
    OWN_SILENCE_IS_SETTLED = "what is not in the log is settled, later one or not"
    OTHERS_ARE_SETTLED = "a delivery here settles the copies to the others"
    KEEPS_UNION = "of a message that both name, either's word that it is open counts"
    DROPS_LAST = "the last message of a source is dropped when it is settled"


WASTEFUL = (OptimalFlaw.KEEPS_UNION, OptimalFlaw.DROPS_LAST)
"""The flaws that break no order, but tell more than must be told."""


class OptimalListing(Listing):
    """Kshemkalyani and Singhal: LOG and O as sets of (source, number) with Dests."""

    def __init__(self, id: ProcessId, flaw: OptimalFlaw = OptimalFlaw.NONE) -> None:
        super().__init__(id)
        self.log: dict[MessageKey, set[int]] = {}
        self.last: dict[int, int] = {}  # SR
        self.waiting: list[tuple[ProcessId, OptimalMessage]] = []
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
            if self.flaw is OptimalFlaw.COPY_FORGETS_ITS_TARGET:
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
        self.waiting.append((source, frame))
        while True:
            ready = [pair for pair in self.waiting if self.ready(pair[1])]
            if not ready:
                return
            self.waiting.remove(ready[0])
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
        mine, theirs = self.log, carried
        old_mine = [key for key in mine if self.silent(key, theirs)]
        old_theirs = [key for key in theirs if self.silent(key, mine)]
        if self.flaw is OptimalFlaw.SILENCE_IS_SETTLED:
            old_mine = [key for key in mine if key not in theirs]
        if self.flaw is OptimalFlaw.OWN_SILENCE_IS_SETTLED:
            old_theirs = [k for k in theirs if mine and k not in mine]
        for key in old_mine:
            del mine[key]
        for key in old_theirs:
            del theirs[key]
        for key, named in theirs.items():
            if self.flaw is OptimalFlaw.KEEPS_UNION:
                mine[key] = mine.get(key, set()) | named
            else:
                mine[key] = mine.get(key, named) & named
        self.purge(mine)

    @staticmethod
    def silent(key: MessageKey, log: dict[MessageKey, set[int]]) -> bool:
        """Tell whether a log knows a later message of the source, and not this one."""
        return key not in log and any(s == key[0] and t > key[1] for s, t in log)

    def purge(self, log: dict[MessageKey, set[int]]) -> None:
        """Drop what is settled and not the last of its source."""
        for key, named in list(log.items()):
            last = not any(s == key[0] and t > key[1] for s, t in log)
            if not named and (not last or self.flaw is OptimalFlaw.DROPS_LAST):
                del log[key]
