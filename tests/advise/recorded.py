"""Traces for tests of advice, and an independent computation of happened-before."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from antecede.sim.workloads.program import Program
from antecede.trace.event import Event, Kind
from antecede.trace.reader import Trace, read_trace
from antecede.trace.run_info import RunInfo
from antecede.trace.table import events_to_table
from antecede.trace.writer import TraceWriter

Message = tuple[int, int]
Step = tuple[tuple[int, ...] | None, frozenset[Message]]
"""A send: its targets, and the deliveries at its process since the previous send."""


def trace_of(
    events: Sequence[Event], directory: Path, processes: int, *, foreign: bool = False
) -> Trace:
    """Write events as a trace, of foreign origin or of antecede."""
    parameters: dict[str, object] = {"format": "messages"} if foreign else {}
    with TraceWriter(directory, "recorded") as writer:
        for batch in events_to_table(events, "recorded").to_batches():
            writer.write_batch(batch)
        writer.close(RunInfo(run="recorded", processes=processes, parameters=parameters))
    return read_trace(directory)


def send(process: int, number: int, *targets: int, time: float = 0.0) -> Event:
    return Event(
        process=process, kind=Kind.SEND, source=process, number=number,
        targets=targets, time=time,
    )  # fmt: skip


def deliver(process: int, source: int, number: int, *, time: float = 0.0) -> Event:
    return Event(
        process=process, kind=Kind.DELIVER, source=source, number=number, target=process,
        time=time,
    )  # fmt: skip


def recorded_steps(events: Iterable[Event]) -> dict[int, list[Step]]:
    """Return the sends of each process in order, with the deliveries in between."""
    steps: dict[int, list[Step]] = {}
    delivered: dict[int, set[Message]] = {}
    for event in events:
        if event.kind is Kind.SEND:
            targets = None if event.targets is None else tuple(sorted(event.targets))
            since = frozenset(delivered.pop(event.process, ()))
            steps.setdefault(event.process, []).append((targets, since))
        elif event.kind is Kind.DELIVER:
            message = (event.source or 0, event.number or 0)
            delivered.setdefault(event.process, set()).add(message)
    return steps


def program_steps(program: Program) -> dict[int, list[Step]]:
    """Return the sends of each process of a program, like :func:`recorded_steps`."""
    return {
        process: [(each.targets, frozenset(each.after)) for each in own]
        for process, own in enumerate(program.sends)
        if own
    }


def pasts(events: Iterable[Event]) -> dict[Message, frozenset[Message]]:
    """Return, for each message, the messages that happened before it."""
    known: dict[int, set[Message]] = {}
    found: dict[Message, frozenset[Message]] = {}
    for event in events:
        message = (event.source or 0, event.number or 0)
        here = known.setdefault(event.process, set())
        if event.kind is Kind.SEND:
            found[message] = frozenset(here)
            here.add(message)
        elif event.kind is Kind.DELIVER:
            here |= {message, *found[message]}
    return found


def lost_pairs(
    recorded: Mapping[Message, frozenset[Message]],
    replayed: Mapping[Message, frozenset[Message]],
) -> list[tuple[Message, Message]]:
    """Return the happened-before pairs of the recording that the replay lacks."""
    return [
        (before, after)
        for after, past in recorded.items()
        for before in past - replayed.get(after, frozenset())
    ]
