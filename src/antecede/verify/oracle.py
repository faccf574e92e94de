"""The reference oracle: judges a run by the definitions, slowly and obviously.

It is what every other verifier is compared with, so it is written to be read, not to be
fast: happened-before between messages is built by its definition (Almeida §4.1) as one
bit set per message, and every pair of deliveries at a process is looked at.

    m1 hb m2 if m1 was delivered, or sent, at a process before that process sent m2;
    hb is the transitive closure of that.

Only ``send`` and ``deliver`` events count, each in its own process's order; the order of
events at different processes is not used. A run holds if, at every process:

* causal: of two delivered messages, the one that happened before is delivered first;
* fifo: the same for two messages of one source;
* once: nothing is delivered twice;
* genuine: nothing is delivered that was not sent to this process (from nowhere);
* live: everything that was sent to this process is delivered.

A send without targets is a broadcast. Any process may deliver it; those that are members
from the beginning to the end, without joining, leaving or crashing, must.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from antecede.errors import ConfigError
from antecede.trace.event import Event, Kind

__all__ = ["MessageId", "Property", "Verdict", "Violation", "judge"]


@dataclass(frozen=True, slots=True, order=True)
class MessageId:
    """Which message: the ``number``-th, from 1, that ``source`` sent."""

    source: int
    number: int

    def __str__(self) -> str:
        """Write it as ``source:number``."""
        return f"{self.source}:{self.number}"


class Property(Enum):
    """What a run is judged for."""

    CAUSAL = "causal"
    FIFO = "fifo"
    ONCE = "once"
    GENUINE = "genuine"
    LIVE = "live"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A property that a run breaks, and the evidence."""

    property: Property
    process: int
    """Where it shows."""
    message: MessageId
    """The message delivered too early, twice, from nowhere, or never."""
    chain: tuple[MessageId, ...] = ()
    """For causal and fifo: what should have come first, then each message that the one
    before it happened directly before, ending in ``message``."""

    def __str__(self) -> str:
        """Say it in one line."""
        return self.told({})

    def told(self, names: Mapping[int, str]) -> str:
        """Say it in one line, with the names of processes that have one."""

        def called(message: MessageId) -> str:
            return f"{names.get(message.source, message.source)}:{message.number}"

        which = self.property.value
        who = names.get(self.process, f"process {self.process}")
        if self.chain:
            chain = " -> ".join(map(called, self.chain))
            return (
                f"{which}: {who} delivered {called(self.message)}"
                f" before {called(self.chain[0])}, which happened before it: {chain}"
            )
        what = {
            Property.ONCE: "twice",
            Property.GENUINE: "though it was never sent to it",
            Property.LIVE: "never",
        }[self.property]
        who = names.get(self.process, str(self.process))
        return f"{which}: {who} delivered {called(self.message)} {what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the oracle found."""

    messages: int
    """How many messages were sent."""
    deliveries: int
    """How many deliveries there were."""
    violations: tuple[Violation, ...]
    """Every violation, in the order of processes and of their deliveries."""

    @property
    def held(self) -> bool:
        """Whether every property held."""
        return not self.violations

    def broken(self) -> frozenset[Property]:
        """Return the properties that some violation breaks."""
        return frozenset(violation.property for violation in self.violations)


@dataclass(slots=True)
class _Run:
    """A run, taken apart: who did what in which order, and what happened before what."""

    histories: dict[int, list[tuple[Kind, MessageId]]] = field(default_factory=dict)
    targets: dict[MessageId, frozenset[int] | None] = field(default_factory=dict)
    """None for a broadcast."""
    stable: set[int] = field(default_factory=set)
    """The processes that are members from the beginning to the end."""
    bits: dict[MessageId, int] = field(default_factory=dict)
    before: dict[MessageId, int] = field(default_factory=dict)
    """For each message, the set of all messages that happened before it."""
    direct: dict[MessageId, list[MessageId]] = field(default_factory=dict)
    """For each message, what its sender had sent or delivered before, latest first."""


def judge(events: Iterable[Event], *, complete: bool = True, processes: int = 0) -> Verdict:
    """Judge a run.

    Args:
        events: The run; events of one process must be in the order of its history.
        complete: The run went on until nothing was left to do, so that a message which
            was not delivered by then never will be.
        processes: How many processes there are, with ids from 0; those that appear in
            the events are there in any case.

    Raises:
        ConfigError: The events are no run: a message is sent twice, or by another, or
            is delivered before it can have been sent.
    """
    run = _take_apart(events, processes)
    _build_happened_before(run)
    violations: list[Violation] = []
    for process in sorted(run.histories):
        violations += _judge_process(run, process)
    if complete:
        violations += _judge_liveness(run)
    return Verdict(
        messages=len(run.targets),
        deliveries=sum(
            kind is Kind.DELIVER
            for history in run.histories.values()
            for kind, _ in history
        ),
        violations=tuple(violations),
    )


def _take_apart(events: Iterable[Event], processes: int) -> _Run:
    run = _Run()
    run.stable.update(range(processes))
    unstable: set[int] = set()
    for event in events:
        run.stable.add(event.process)
        if event.kind in (Kind.JOIN, Kind.LEAVE, Kind.CRASH):
            unstable.add(event.process)
        if event.kind is not Kind.SEND and event.kind is not Kind.DELIVER:
            continue
        if event.source is None or event.number is None:
            raise ConfigError(f"a {event.kind.value} without a message: {event}")
        message = MessageId(event.source, event.number)
        run.histories.setdefault(event.process, []).append((event.kind, message))
        if event.kind is Kind.SEND:
            if message in run.targets or event.source != event.process:
                raise ConfigError(f"message {message} is sent twice, or by another")
            targets = event.targets
            run.targets[message] = None if targets is None else frozenset(targets)
            run.bits[message] = 1 << len(run.bits)
    run.stable -= unstable
    return run


def _build_happened_before(run: _Run) -> None:
    """Walk all histories at once, passing a delivery only after its message's send."""
    past = dict.fromkeys(run.histories, 0)
    seen: dict[int, list[MessageId]] = {process: [] for process in run.histories}
    position = dict.fromkeys(run.histories, 0)
    moved = True
    while moved:
        moved = False
        for process, history in run.histories.items():
            while position[process] < len(history):
                kind, message = history[position[process]]
                if kind is Kind.SEND:
                    run.before[message] = past[process]
                    run.direct[message] = seen[process][::-1]
                elif message in run.targets and message not in run.before:
                    break  # Its send has not been walked yet.
                past[process] |= run.before.get(message, 0) | run.bits.get(message, 0)
                if message in run.targets:
                    seen[process].append(message)
                position[process] += 1
                moved = True
    for process, history in run.histories.items():
        if position[process] < len(history):
            _, message = history[position[process]]
            raise ConfigError(
                f"process {process} delivered {message} before it can have been sent"
            )


def _judge_process(run: _Run, process: int) -> list[Violation]:
    violations: list[Violation] = []
    delivered: list[MessageId] = []
    for kind, message in run.histories[process]:
        if kind is not Kind.DELIVER:
            continue
        targets = run.targets.get(message, frozenset())
        if targets is not None and process not in targets:
            violations.append(
                Violation(property=Property.GENUINE, process=process, message=message)
            )
        elif message in delivered:
            violations.append(
                Violation(property=Property.ONCE, process=process, message=message)
            )
        else:
            delivered.append(message)
    for index, early in enumerate(delivered):
        for late in delivered[index + 1 :]:
            if run.before[early] & run.bits[late]:
                chain = _find_chain(run, late, early)
                violations += [
                    Violation(property=which, process=process, message=early, chain=chain)
                    for which in (Property.CAUSAL, Property.FIFO)
                    if which is Property.CAUSAL or early.source == late.source
                ]
    return violations


def _find_chain(run: _Run, start: MessageId, end: MessageId) -> tuple[MessageId, ...]:
    """Find a shortest chain of direct predecessors from ``start`` to ``end``."""
    follower: dict[MessageId, MessageId | None] = {end: None}
    queue = deque([end])
    while start not in follower:
        message = queue.popleft()
        for earlier in run.direct[message]:
            if earlier not in follower:
                follower[earlier] = message
                queue.append(earlier)
    chain: list[MessageId] = []
    link: MessageId | None = start
    while link is not None:
        chain.append(link)
        link = follower[link]
    return tuple(chain)


def _judge_liveness(run: _Run) -> list[Violation]:
    delivered = {
        (process, message)
        for process, history in run.histories.items()
        for kind, message in history
        if kind is Kind.DELIVER
    }
    sent = {
        (process, message)
        for message, targets in run.targets.items()
        for process in (run.stable if targets is None else targets)
    }
    return [
        Violation(property=Property.LIVE, process=process, message=message)
        for process, message in sorted(sent - delivered)
    ]
