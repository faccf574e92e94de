"""Recorded traffic as a workload: who sent what to whom, after what, and how soon.

:func:`take_traffic` goes through a trace of ours, which may have been made of foreign files
(:mod:`antecede.ingest`), and keeps what can be replayed: its messages, and their
deliveries. :func:`write_traffic` writes that as a trace, for the workload ``replay:DIR``.

**What is kept.** Each process makes the same sends, to the same targets, in the same order;
and before each of them, the same messages have been delivered to it (:func:`antecede.sim.
program.replay`). So whatever happened before a message when it was recorded happens before
it in every replay. More may do so: what is delivered to a process earlier than it was.

**Pauses** are those of each process's own clock, from its last send or delivery to the next
send. Clocks of different processes are compared for one thing only: a process that sends
before anything is delivered to it begins so long after the first event of all.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

from antecede.errors import ConfigError
from antecede.trace.event import Event, Kind
from antecede.trace.reader import RunInfo, Trace, read_trace
from antecede.trace.schema import EVENTS_NAME
from antecede.trace.table import table_of
from antecede.trace.writer import TraceWriter

__all__ = ["Traffic", "paced", "take_traffic", "write_traffic"]

DIGEST_BYTES = 8
LIFE = (Kind.SEND, Kind.RELEASE, Kind.DELIVER)
"""What is looked at; a release tells how large a message is."""

NOWHERE = "messages that are for nobody, or nobody knows for whom"
TO_ITSELF = "messages that are for their sender alone"
UNSENT = "deliveries of messages whose send is not there before them"
TWICE = "deliveries of what had been delivered there before"
ASTRAY = "deliveries of messages that were for others"
NAMED = "broadcasts, which became messages to those who delivered them"

Id = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What of a trace is replayed."""

    processes: int
    names: Mapping[int, str]
    events: tuple[Event, ...]
    """Sends, first releases and first deliveries, in a linear extension of happened-before;
    the messages of each process are numbered from 1 without gaps."""
    messages: int
    copies: int
    """How many deliveries at other processes the messages ask for."""
    broadcast: bool
    """Every message is for all others."""
    has_times: bool
    """Whether the trace tells when something happened."""
    is_cut: bool
    """It is only the beginning of the trace, causally closed."""
    left_out: Mapping[str, int]
    """What is not replayed: what it is, and how often."""
    holes: tuple[str, ...] = ()
    """What the trace itself says that it lacks."""

    @property
    def digest(self) -> str:
        """A word that is another for other traffic."""
        text = repr((self.processes, self.events))
        return blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()


def take_traffic(trace: Trace, *, messages_max: int) -> Traffic:
    """Return what can be replayed of a trace, and count what cannot.

    Of more than ``messages_max`` messages those are taken that stand first in the trace,
    and the deliveries up to there. Rows stand in a linear extension of happened-before, so
    all that happened before any of these is among them.

    Raises:
        ConfigError: Nothing is left, or there is one process only.
    """
    if messages_max < 1:
        raise ConfigError(f"--messages-max must be at least 1, got {messages_max}")
    events, is_cut = _beginning(trace, messages_max)
    processes = trace.info.processes
    if processes is None:
        processes = 1 + max((event.process for event in events), default=0)
    if processes < 2:
        raise ConfigError(f"{trace.path}: one process alone has nobody to send to")
    left_out: Counter[str] = Counter()
    targets = _targets(events, processes, left_out, is_foreign=_is_foreign(trace.info))
    if not targets:
        raise ConfigError(
            f"{trace.path}: there is no message to replay, of which it is known for whom"
        )
    broadcast = processes > 2 and all(
        each is None or len(each) == processes - 1 for each in targets.values()
    )
    if broadcast:
        targets = dict.fromkeys(targets)
    kept = tuple(_kept(events, targets, left_out))
    sizes = [processes - 1 if each is None else len(each) for each in targets.values()]
    return Traffic(
        processes=processes,
        names=trace.info.names,
        events=kept,
        messages=len(targets),
        copies=sum(sizes),
        broadcast=broadcast,
        has_times=len({event.time for event in kept}) > 1,
        is_cut=is_cut,
        left_out={what: count for what, count in left_out.items() if count},
        holes=tuple(trace.info.holes),
    )


def paced(traffic: Traffic, pause_s: float) -> Traffic:
    """Return the same traffic, every event of a process so long after its last one."""
    counts: Counter[int] = Counter()
    events = []
    for event in traffic.events:
        counts[event.process] += event.kind is not Kind.RELEASE
        events.append(replace(event, time=pause_s * counts[event.process]))
    return replace(traffic, events=tuple(events))


def write_traffic(traffic: Traffic, directory: Path) -> None:
    """Write traffic as a trace, unless it is there; ``replay:DIR`` runs it.

    Raises:
        ConfigError: The directory holds other traffic, or cannot be written to.
    """
    name = f"traffic-{traffic.digest}"
    if (directory / EVENTS_NAME).exists():
        found = read_trace(directory).info.run
        if found != name:
            raise ConfigError(
                f"{directory} holds other traffic than this; choose another --out"
            )
        return
    with TraceWriter(directory, name) as writer:
        for batch in table_of(traffic.events, name).to_batches():
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


def _beginning(trace: Trace, messages_max: int) -> tuple[list[Event], bool]:
    """Return the events of a message's life up to so many sends, and if more follow."""
    events: list[Event] = []
    sends = 0
    for event in trace.events():
        if event.kind not in LIFE or event.source is None or event.number is None:
            continue
        if event.kind is Kind.SEND:
            if sends == messages_max:
                return events, True
            sends += 1
        events.append(event)
    return events, False


def _targets(
    events: Sequence[Event], processes: int, left_out: Counter[str], *, is_foreign: bool
) -> dict[Id, tuple[int, ...] | None]:
    """Return whom each message that is replayed is for; None for a broadcast.

    A send without targets is a broadcast only in a trace of our own, and only if somebody
    delivered it. Where other messages have targets, it gets those who did: a program has
    broadcasts only, or none.
    """
    got: dict[Id, list[int]] = {}
    for event in events:
        if event.kind is Kind.DELIVER and event.process != event.source:
            got.setdefault(_id(event), []).append(event.process)
    sends = [event for event in events if event.kind is Kind.SEND]
    named = [event for event in sends if event.targets is not None]
    unnamed = [event for event in sends if event.targets is None]
    are_broadcasts = not is_foreign and any(_id(event) in got for event in unnamed)
    if are_broadcasts and not named:
        return {_id(event): None for event in sends}
    targets: dict[Id, tuple[int, ...] | None] = {}
    for event in sends:
        found: Iterable[int] = () if event.targets is None else event.targets
        if event.targets is None and are_broadcasts:
            found = got.get(_id(event), ())
            left_out[NAMED] += bool(found)
        chosen = tuple(sorted({each for each in found if each != event.process}))
        if chosen and max(chosen) < processes:
            targets[_id(event)] = chosen
        else:
            left_out[TO_ITSELF if found and not chosen else NOWHERE] += 1
    return targets


def _kept(
    events: Iterable[Event],
    targets: Mapping[Id, tuple[int, ...] | None],
    left_out: Counter[str],
) -> Iterable[Event]:
    """Yield the events of messages that are replayed, renumbered."""
    numbers: dict[Id, int] = {}
    counts: Counter[int] = Counter()
    released: set[Id] = set()
    delivered: set[tuple[Id, int]] = set()
    for event in events:
        which = _id(event)
        if event.kind is Kind.SEND and which in targets:
            counts[event.process] += 1
            numbers[which] = counts[event.process]
            yield replace(event, number=numbers[which], targets=targets[which])
        elif event.kind is Kind.RELEASE and which in numbers and which not in released:
            released.add(which)
            yield replace(event, number=numbers[which])
        elif event.kind is Kind.DELIVER and event.process != event.source:
            chosen = targets.get(which, ())
            if which not in numbers:
                left_out[UNSENT] += 1
            elif chosen is not None and event.process not in chosen:
                left_out[ASTRAY] += 1
            elif (which, event.process) in delivered:
                left_out[TWICE] += 1
            else:
                delivered.add((which, event.process))
                yield replace(event, number=numbers[which])


def _id(event: Event) -> Id:
    assert event.source is not None, "only events of messages are looked at"
    assert event.number is not None, "only events of messages are looked at"
    return event.source, event.number
