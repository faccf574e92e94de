"""Traces to take advice on, and what happened before what in them, found on its own."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from antecede.sim.workloads.program import Program
from antecede.trace.event import Event, Kind
from antecede.trace.reader import RunInfo, Trace, read_trace
from antecede.trace.table import table_of
from antecede.trace.writer import TraceWriter

Message = tuple[int, int]
Step = tuple[tuple[int, ...] | None, frozenset[Message]]
"""A send: its targets, and what was delivered at its process since the send before."""


def trace_of(
    events: Sequence[Event], directory: Path, processes: int, *, foreign: bool = False
) -> Trace:
    """Write events as a trace, of foreign origin or our own."""
    parameters: dict[str, object] = {"format": "messages"} if foreign else {}
    with TraceWriter(directory, "recorded") as writer:
        for batch in table_of(events, "recorded").to_batches():
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
    """Return what each process sent, in its order, and what came in between."""
    steps: dict[int, list[Step]] = {}
    heard: dict[int, set[Message]] = {}
    for event in events:
        if event.kind is Kind.SEND:
            targets = None if event.targets is None else tuple(sorted(event.targets))
            got = frozenset(heard.pop(event.process, ()))
            steps.setdefault(event.process, []).append((targets, got))
        elif event.kind is Kind.DELIVER:
            message = (event.source or 0, event.number or 0)
            heard.setdefault(event.process, set()).add(message)
    return steps


def program_steps(program: Program) -> dict[int, list[Step]]:
    """Return the same of a program."""
    return {
        process: [(each.targets, frozenset(each.after)) for each in own]
        for process, own in enumerate(program.sends)
        if own
    }


def pasts(events: Iterable[Event]) -> dict[Message, frozenset[Message]]:
    """Return of each message all that happened before it."""
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


def lost(
    recorded: Mapping[Message, frozenset[Message]],
    replayed: Mapping[Message, frozenset[Message]],
) -> list[tuple[Message, Message]]:
    """Return what happened before what when recorded, and no more when replayed."""
    return [
        (before, after)
        for after, past in recorded.items()
        for before in past - replayed.get(after, frozenset())
    ]
