"""Traces of nodes, made from a simulated run."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

from antecede.sim import Scenario, simulate
from antecede.trace import Event, Kind
from antecede.trace.live.writer import NodeTraceWriter
from antecede.trace.reader import Trace
from antecede.trace.recorders import KINDS

STARTED = 1_700_000_000.0


def name_of(process: int) -> str:
    """Return a name such that the order of names is not the order of ids."""
    return f"n{process * 7 % 100}-{process}"


def process_of(name: str) -> int:
    return int(name.partition("-")[2])


def history(**parameters: str | float) -> list[Event]:
    return list(simulate(Scenario(**parameters)).history)  # type: ignore[arg-type]


class Node:
    """Records the events of one node of a run, with ids of its own."""

    def __init__(self, directory: Path, process: int, **options: object) -> None:
        fields = {"protocol": "hybrid", "run": "test", "started": STARTED, **options}
        self.trace = NodeTraceWriter(directory, name_of(process), **fields)  # type: ignore[arg-type]
        self._ids = {process: 0}

    def id_of(self, process: int) -> int:
        if process not in self._ids:
            self._ids[process] = len(self._ids)
            self.trace.set_name(self._ids[process], name_of(process))
        return self._ids[process]

    def record(self, events: Iterable[Event], clock: float = 0.0) -> None:
        for event in events:
            targets = event.targets
            self.trace.recorder.record(
                0,
                event.time + clock,
                KINDS.index(event.kind),
                -1 if event.source is None else self.id_of(event.source),
                -1 if event.number is None else event.number,
                -1 if event.target is None else self.id_of(event.target),
                -1 if event.payload_bytes is None else event.payload_bytes,
                -1 if event.metadata_bytes is None else event.metadata_bytes,
                None if targets is None else [self.id_of(target) for target in targets],
            )


def record_nodes(
    events: Sequence[Event],
    directory: Path,
    *,
    skip: Iterable[int] = (),
    skew: float = 0.0,
    complete: bool = True,
    **options: object,
) -> list[Path]:
    """Record the events of every process; return the directories in random order."""
    random = Random(7)
    processes = sorted({event.process for event in events} - set(skip))
    paths = []
    for process in processes:
        node = Node(directory / name_of(process), process, **options)
        for other in random.sample(processes, 2):
            node.id_of(other)
        own = [event for event in events if event.process == process]
        node.record(own, clock=random.uniform(-skew, skew))
        node.trace.close(complete=complete)
        paths.append(directory / name_of(process))
    random.shuffle(paths)
    return paths


def events_by_process(trace: Trace) -> dict[int, list[Event]]:
    """Return the histories of a merged trace with the ids of the simulated run."""
    numbers = {new: process_of(name) for new, name in trace.info.names.items()}

    def renamed(event: Event) -> Event:
        return replace(
            event,
            process=numbers[event.process],
            time=0.0,
            source=None if event.source is None else numbers[event.source],
            target=None if event.target is None else numbers[event.target],
            targets=None
            if event.targets is None
            else tuple(numbers[target] for target in event.targets),
        )

    # The last event of an incomplete trace states that deliveries are missing.
    recorded = (event for event in trace.events() if event.kind is not Kind.MISSING)
    return by_process(map(renamed, recorded))


def by_process(events: Iterable[Event]) -> dict[int, list[Event]]:
    """Return the histories of a run, without times, which depend on clocks."""
    histories: dict[int, list[Event]] = {}
    for event in events:
        histories.setdefault(event.process, []).append(replace(event, time=0.0))
    return histories


def swap_deliveries(events: list[Event], process: int) -> None:
    """Swap two deliveries of one source at a process, both sent before the first."""
    sent = {
        (event.source, event.number): index
        for index, event in enumerate(events)
        if event.kind is Kind.SEND
    }
    deliveries = [
        index
        for index, event in enumerate(events)
        if event.kind is Kind.DELIVER and event.process == process
    ]
    for first, second in pairwise(deliveries):
        early, late = events[first], events[second]
        if early.source == late.source and sent[late.source, late.number] < first:
            events[first], events[second] = late, early
            return
    raise AssertionError("no two deliveries of one source to swap")
