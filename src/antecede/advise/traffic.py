"""Recorded traffic as a workload: sends, their targets, dependencies and pauses.

:func:`extract_traffic` reads a trace, which may be ingested from foreign files
(:mod:`antecede.ingest`), and keeps the messages and deliveries that can be replayed.
:func:`write_traffic` writes them as a trace, for the workload ``replay:DIR``.

**Dependencies.** Each process makes the same sends, to the same targets, in the same order;
and before each send, the same messages have been delivered to it
(:func:`antecede.sim.workloads.program.replay`). So a message that happened before another
one in the recording does so in every replay. Further pairs are possible: a message may be
delivered to a process earlier than in the recording.

**Pauses** are measured by each process's own clock, from its last send or delivery to the
next send. Clocks of different processes are compared only for a process that sends before
any delivery: it starts at its offset from the first event of the trace.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

from antecede.advise.sampling import WINDOWS, sample_events
from antecede.errors import ConfigError
from antecede.trace.event import Event, Kind
from antecede.trace.reader import Trace, read_trace
from antecede.trace.run_info import RunInfo
from antecede.trace.schema import EVENTS_NAME
from antecede.trace.table import events_to_table
from antecede.trace.writer import TraceWriter

__all__ = ["RecordedTraffic", "with_pauses", "extract_traffic", "write_traffic"]

DIGEST_BYTES = 8
WINDOW_PAUSES = 1000
"""Pauses between two windows of a trace without times; a pause is a median delay."""

NO_TARGET = "messages without a known target"
SELF_ADDRESSED = "messages to their sender only"
NO_SEND = "deliveries of messages without an earlier send"
NOT_SAMPLED = "deliveries of messages that are not in the sample"
DUPLICATE = "duplicate deliveries"
WRONG_TARGET = "deliveries at processes that are not targets"
NARROWED = "broadcasts, replaced by messages to the processes that delivered them"

Id = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTraffic:
    """The part of a trace that is replayed."""

    processes: int
    names: Mapping[int, str]
    events: tuple[Event, ...]
    """Sends, first releases and first deliveries, in a linear extension of happened-before;
    the messages of each process are numbered consecutively from 1."""
    messages: int
    copies: int
    """Copies of the messages for processes other than their sources."""
    broadcast: bool
    """Whether every message is for all other processes."""
    has_times: bool
    """Whether the events have times."""
    recorded_messages: int
    """The number of messages of the trace."""
    sampled_messages: int
    """The number of messages of the sample; some may not be replayed."""
    window_starts: tuple[int, ...]
    """For each window of the sample, the index of its first event."""
    skipped: Mapping[str, int]
    """Counts of events that are not replayed, by the reason."""
    missing: tuple[str, ...] = ()
    """Items that the trace reports as missing."""

    @property
    def is_sample(self) -> bool:
        """Whether the trace has more messages."""
        return self.sampled_messages < self.recorded_messages

    @property
    def digest(self) -> str:
        """A hash of the traffic."""
        text = repr((self.processes, self.events))
        return blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()


def extract_traffic(
    trace: Trace, *, messages_max: int, windows: int = WINDOWS
) -> RecordedTraffic:
    """Return the traffic of a trace, and count the events that cannot be replayed.

    Of a trace with more than ``messages_max`` messages, windows that are spread over the
    whole trace are used (:mod:`antecede.advise.sampling`).

    Args:
        trace: The trace, in a linear extension of happened-before.
        messages_max: The maximum number of messages.
        windows: The number of windows of a sample.

    Raises:
        ConfigError: No message can be replayed, or there is only one process.
    """
    if messages_max < 1:
        raise ConfigError(f"--messages-max must be at least 1, got {messages_max}")
    sample = sample_events(trace, messages_max, windows)
    events = sample.events
    processes = trace.info.processes
    if processes is None:
        processes = 1 + max((event.process for event in events), default=0)
    if processes < 2:
        raise ConfigError(f"{trace.path}: a replay needs 2 processes, the trace has 1")
    skipped: Counter[str] = Counter()
    targets = _targets(events, processes, skipped, is_foreign=_is_foreign(trace.info))
    if not targets:
        raise ConfigError(f"{trace.path}: no message with known targets to replay")
    broadcast = processes > 2 and all(
        each is None or len(each) == processes - 1 for each in targets.values()
    )
    if broadcast:
        targets = dict.fromkeys(targets)
    kept: list[Event] = []
    starts: list[int] = []
    is_sample = sample.sampled_messages < sample.recorded_messages
    unknown = NOT_SAMPLED if is_sample else NO_SEND
    for index, event in _kept(events, targets, skipped, unknown):
        while len(starts) < len(sample.window_starts) and (
            index >= sample.window_starts[len(starts)]
        ):
            starts.append(len(kept))
        kept.append(event)
    sizes = [processes - 1 if each is None else len(each) for each in targets.values()]
    return RecordedTraffic(
        processes=processes,
        names=trace.info.names,
        events=tuple(kept),
        messages=len(targets),
        copies=sum(sizes),
        broadcast=broadcast,
        has_times=len({event.time for event in kept}) > 1,
        recorded_messages=sample.recorded_messages,
        sampled_messages=sample.sampled_messages,
        window_starts=tuple(starts),
        skipped={reason: count for reason, count in skipped.items() if count},
        missing=tuple(trace.info.missing),
    )


def with_pauses(traffic: RecordedTraffic, pause_s: float) -> RecordedTraffic:
    """Return the traffic with ``pause_s`` between successive events of a process.

    Windows are :data:`WINDOW_PAUSES` pauses apart.
    """
    counts: dict[int, int] = {}
    base = 0
    starts = set(traffic.window_starts[1:])
    events = []
    for index, event in enumerate(traffic.events):
        if index in starts:
            base = max([base, *counts.values()]) + WINDOW_PAUSES
            counts = {}
        steps = counts.get(event.process, base) + (event.kind is not Kind.RELEASE)
        counts[event.process] = steps
        events.append(replace(event, time=pause_s * steps))
    return replace(traffic, events=tuple(events))


def write_traffic(traffic: RecordedTraffic, directory: Path) -> None:
    """Write traffic as a trace, unless the directory contains it; ``replay:DIR`` runs it.

    Raises:
        ConfigError: The directory contains other traffic.
    """
    name = f"traffic-{traffic.digest}"
    if (directory / EVENTS_NAME).exists():
        found = read_trace(directory).info.run
        if found != name:
            raise ConfigError(f"{directory} contains other traffic; choose another --out")
        return
    with TraceWriter(directory, name) as writer:
        for batch in events_to_table(traffic.events, name).to_batches():
            writer.write_batch(batch)
        writer.close(
            RunInfo(
                run=name,
                processes=traffic.processes,
                names=dict(traffic.names),
                parameters={"messages": traffic.messages, "copies": traffic.copies},
            )
        )


def _is_foreign(info: RunInfo) -> bool:
    return "format" in info.parameters


def _targets(
    events: Sequence[Event], processes: int, skipped: Counter[str], *, is_foreign: bool
) -> dict[Id, tuple[int, ...] | None]:
    """Return the targets of each message to replay; None for a broadcast.

    A send without targets is a broadcast only in a trace of antecede, and only if some
    process delivered it. If other messages have targets, its targets are the processes that
    delivered it, because a program has only broadcasts, or none.
    """
    deliverers: dict[Id, list[int]] = {}
    for event in events:
        if event.kind is Kind.DELIVER and event.process != event.source:
            deliverers.setdefault(_id(event), []).append(event.process)
    sends = [event for event in events if event.kind is Kind.SEND]
    untargeted = [event for event in sends if event.targets is None]
    are_broadcasts = not is_foreign and any(_id(e) in deliverers for e in untargeted)
    if are_broadcasts and len(untargeted) == len(sends):
        return {_id(event): None for event in sends}
    targets: dict[Id, tuple[int, ...] | None] = {}
    for event in sends:
        found: Iterable[int] = () if event.targets is None else event.targets
        if event.targets is None and are_broadcasts:
            found = deliverers.get(_id(event), ())
            skipped[NARROWED] += bool(found)
        chosen = tuple(sorted({each for each in found if each != event.process}))
        if chosen and max(chosen) < processes:
            targets[_id(event)] = chosen
        else:
            skipped[SELF_ADDRESSED if found and not chosen else NO_TARGET] += 1
    return targets


def _kept(
    events: Iterable[Event],
    targets: Mapping[Id, tuple[int, ...] | None],
    skipped: Counter[str],
    unknown: str,
) -> Iterable[tuple[int, Event]]:
    """Yield the events of the messages to replay, renumbered, with their indexes.

    ``unknown`` is the reason for skipping a delivery of a message that was not sent before.
    """
    numbers: dict[Id, int] = {}
    counts: Counter[int] = Counter()
    released: set[Id] = set()
    delivered: set[tuple[Id, int]] = set()
    for index, event in enumerate(events):
        message = _id(event)
        if event.kind is Kind.SEND and message in targets:
            counts[event.process] += 1
            numbers[message] = counts[event.process]
            yield index, replace(event, number=numbers[message], targets=targets[message])
        elif event.kind is Kind.RELEASE and message in numbers and message not in released:
            released.add(message)
            yield index, replace(event, number=numbers[message])
        elif event.kind is Kind.DELIVER and event.process != event.source:
            chosen = targets.get(message, ())
            if message not in numbers:
                skipped[unknown] += 1
            elif chosen is not None and event.process not in chosen:
                skipped[WRONG_TARGET] += 1
            elif (message, event.process) in delivered:
                skipped[DUPLICATE] += 1
            else:
                delivered.add((message, event.process))
                yield index, replace(event, number=numbers[message])


def _id(event: Event) -> Id:
    assert event.source is not None, "only events of messages are read"
    assert event.number is not None, "only events of messages are read"
    return event.source, event.number
