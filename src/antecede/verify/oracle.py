"""The reference oracle: verifies a run by the definitions.

All other verifiers are tested against it, so it is written for clarity, not for speed:
happened-before between messages is built by its definition (Almeida §4.1) as one bit set
per message, and every pair of deliveries at a process is compared.

    m1 hb m2 if m1 was delivered, or sent, at a process before that process sent m2;
    hb is the transitive closure of that.

Only ``send`` and ``deliver`` events count, each in the order of its own process; the order
of events at different processes is not used. The properties, at every process:

* causal: of two delivered messages, the one that happened before is delivered first;
* fifo: the same for two messages of one source;
* no-duplication: no message is delivered twice;
* no-creation: no message is delivered that was not sent to the process;
* liveness: every message that was sent to the process is delivered.

A send without targets is a broadcast. Any process may deliver it. The processes that are
members from the first event to the last, without joining, leaving or crashing, must.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from antecede.errors import TraceError
from antecede.trace.event import Event, Kind

__all__ = ["MessageId", "Property", "Verdict", "Violation", "verify_events"]


@dataclass(frozen=True, slots=True, order=True)
class MessageId:
    """A message: the ``number``-th, from 1, that ``source`` sent."""

    source: int
    number: int

    def __str__(self) -> str:
        return self.format({})

    def format(self, names: Mapping[int, str]) -> str:
        """Return the message as text, with the name of its source if it has one."""
        return f"{names.get(self.source, self.source)}:{self.number}"


class Property(Enum):
    """A property that a run has or violates."""

    CAUSAL = "causal"
    FIFO = "fifo"
    NO_DUPLICATION = "no-duplication"
    NO_CREATION = "no-creation"
    LIVENESS = "liveness"

    @property
    def column(self) -> str:
        """The name of the column of this property in a table of verdicts."""
        return self.value.replace("-", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A violation of a property, with the evidence."""

    property: Property
    process: int
    """The process at which the property is violated."""
    message: MessageId
    """The message that was delivered too early, twice, without being sent, or never."""
    chain: tuple[MessageId, ...] = ()
    """For causal and fifo: the message that should have been delivered first, then messages
    each of which the one before happened directly before, ending in ``message``."""

    def __str__(self) -> str:
        return self.format({})

    def format(
        self, names: Mapping[int, str], label: Callable[[MessageId], str] | None = None
    ) -> str:
        """Return the violation as one line.

        Args:
            names: The names of the processes that have one.
            label: Returns the text of a message; by default, its source and number.
        """

        def name(message: MessageId) -> str:
            if label is not None:
                return label(message)
            return message.format(names)

        process = names.get(self.process, f"process {self.process}")
        message = name(self.message)
        text = f"{process} delivered {message}"
        if self.chain:
            text += f" before {name(self.chain[0])}, which happened before it: "
            text += " -> ".join(map(name, self.chain))
        elif self.property is Property.NO_DUPLICATION:
            text += " twice"
        elif self.property is Property.NO_CREATION:
            text += ", which was never sent to it"
        else:
            text = f"{process} never delivered {message}"
        return f"{self.property.value}: {text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of :func:`verify_events`."""

    messages: int
    """The number of messages sent."""
    deliveries: int
    """The number of deliveries."""
    violations: tuple[Violation, ...]
    """Every violation, in the order of processes and of their deliveries."""

    @property
    def held(self) -> bool:
        """Whether every property held."""
        return not self.violations

    def violated(self) -> frozenset[Property]:
        """Return the properties that are violated."""
        return frozenset(violation.property for violation in self.violations)


@dataclass(slots=True)
class _Run:
    """The history of each process, and happened-before between messages."""

    histories: dict[int, list[tuple[Kind, MessageId]]] = field(default_factory=dict)
    targets: dict[MessageId, frozenset[int] | None] = field(default_factory=dict)
    """None for a broadcast."""
    stable: set[int] = field(default_factory=set)
    """The processes that are members from the first event to the last."""
    bits: dict[MessageId, int] = field(default_factory=dict)
    """For each message, its bit in a set of messages."""
    before: dict[MessageId, int] = field(default_factory=dict)
    """For each message, the set of all messages that happened before it."""
    direct: dict[MessageId, list[MessageId]] = field(default_factory=dict)
    """For each message, those that its sender had sent or delivered, latest first."""


def verify_events(
    events: Iterable[Event], *, complete: bool = True, processes: int = 0
) -> Verdict:
    """Verify a run.

    Args:
        events: The run; the events of each process must be in the order of its history.
        complete: The run continued until nothing was left to do, so a message that was not
            delivered will never be.
        processes: The number of processes, with ids from 0; processes that appear in the
            events are added.

    Raises:
        TraceError: The events are not a run: a message is sent twice, or by a process other
            than its source, or is delivered before it can have been sent.
    """
    run = _read_run(events, processes)
    _build_happened_before(run)
    violations: list[Violation] = []
    for process in sorted(run.histories):
        violations += _check_process(run, process)
    if complete:
        violations += _check_liveness(run)
    return Verdict(
        messages=len(run.targets),
        deliveries=sum(
            kind is Kind.DELIVER
            for history in run.histories.values()
            for kind, _ in history
        ),
        violations=tuple(violations),
    )


def _read_run(events: Iterable[Event], processes: int) -> _Run:
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
            raise TraceError(
                f"a {event.kind.value} needs a source and a number, got {event}"
            )
        message = MessageId(event.source, event.number)
        run.histories.setdefault(event.process, []).append((event.kind, message))
        if event.kind is Kind.SEND:
            if event.source != event.process:
                raise TraceError(
                    f"process {event.process} sends {message}, which is not its own"
                )
            if message in run.targets:
                raise TraceError(f"message {message} is sent twice")
            targets = event.targets
            run.targets[message] = None if targets is None else frozenset(targets)
            run.bits[message] = 1 << len(run.bits)
    run.stable -= unstable
    return run


def _build_happened_before(run: _Run) -> None:
    """Process all histories at once, each delivery only after the send of its message."""
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
                    break  # Its send has not been processed yet.
                past[process] |= run.before.get(message, 0) | run.bits.get(message, 0)
                if message in run.targets:
                    seen[process].append(message)
                position[process] += 1
                moved = True
    for process, history in run.histories.items():
        if position[process] < len(history):
            _, message = history[position[process]]
            raise TraceError(
                f"process {process} delivered {message} before it can have been sent"
            )


def _check_process(run: _Run, process: int) -> list[Violation]:
    violations: list[Violation] = []
    delivered: list[MessageId] = []
    for kind, message in run.histories[process]:
        if kind is not Kind.DELIVER:
            continue
        targets = run.targets.get(message, frozenset())
        if targets is not None and process not in targets:
            violations.append(
                Violation(property=Property.NO_CREATION, process=process, message=message)
            )
        elif message in delivered:
            violations.append(
                Violation(
                    property=Property.NO_DUPLICATION, process=process, message=message
                )
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


def _check_liveness(run: _Run) -> list[Violation]:
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
        Violation(property=Property.LIVENESS, process=process, message=message)
        for process, message in sorted(sent - delivered)
    ]
