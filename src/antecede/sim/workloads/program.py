"""Fixed programs: a partially ordered set of sends, from a file or a trace.

A process makes its sends in order; each may also wait for the delivery of given messages.
So the dependencies between messages are the same under every protocol and network.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from antecede.errors import ConfigError
from antecede.sim.distribution import check_amount
from antecede.sim.workloads.synthetic import PAYLOAD_BYTES_MAX
from antecede.sim.workloads.workload import PlannedSend, Workload
from antecede.trace.event import Event, Kind

__all__ = ["Program", "ProgramSend", "load_program", "replay"]


@dataclass(frozen=True, kw_only=True)
class ProgramSend:
    """One send of a program; its id is its position among the sends of its process."""

    process: int
    targets: tuple[int, ...] | None
    """The targets; None for a broadcast to all members."""
    after: tuple[tuple[int, int], ...] = ()
    """Messages, by source and id, that the process must deliver before."""
    wait_s: float = 0.0
    """The time from the last of those deliveries, or from the previous send."""
    payload_bytes: int = 0


class Program(Workload):
    """A fixed program during a run."""

    __slots__ = ("_broadcast", "_delivered", "_issued", "_sends", "_sent", "names")

    names: dict[int, str]
    """Names of processes, for traces and diagrams."""

    def __init__(
        self,
        processes: int,
        sends: Iterable[ProgramSend],
        names: dict[int, str] | None = None,
    ) -> None:
        """Set the sends; those of the same process in their order.

        Raise ConfigError if a send is not valid, waits for a message that is never sent to
        its process, or waits in a cycle. All sends are broadcasts, or none.
        """
        super().__init__(processes)
        self.names = {} if names is None else names
        self._sends: list[list[ProgramSend]] = [[] for _ in range(processes)]
        for send in sends:
            _check_send(send, processes)
            self._sends[send.process].append(send)
        broadcasts = [send.targets is None for own in self._sends for send in own]
        if any(broadcasts) and not all(broadcasts):
            raise ConfigError("a program must have only broadcasts, or none")
        self._broadcast = any(broadcasts)
        _check_waits(self._sends)
        self._issued = [0] * processes
        self._sent = [0] * processes
        self._delivered: list[set[tuple[int, int]]] = [set() for _ in range(processes)]

    @property
    def fan_out_max(self) -> int:
        counts = [len(send.targets or ()) for own in self._sends for send in own]
        return max(counts, default=1)

    @property
    def broadcast(self) -> bool:
        return self._broadcast

    @property
    def sends(self) -> list[list[ProgramSend]]:
        """The sends of each process, in order; do not change them."""
        return self._sends

    def fresh(self) -> "Program":
        """Return a copy of the program that has not started."""
        program = Program(self.processes, [], self.names)
        program._sends = self._sends
        program._broadcast = self._broadcast
        return program

    def start(self, process: int) -> list[PlannedSend]:
        return self._next(process)

    def sent(self, process: int, planned: PlannedSend) -> list[PlannedSend]:
        self._sent[process] += 1
        return self._next(process)

    def delivered(self, process: int, source: int, id: int) -> list[PlannedSend]:
        self._delivered[process].add((source, id))
        return self._next(process)

    def _next(self, process: int) -> list[PlannedSend]:
        index = self._issued[process]
        own = self._sends[process]
        if index > self._sent[process] or index == len(own):
            return []
        send = own[index]
        if not self._delivered[process].issuperset(send.after):
            return []
        self._issued[process] += 1
        targets = list(send.targets or ())
        return [PlannedSend(targets, index + 1, send.payload_bytes, send.wait_s)]


def _check_send(send: ProgramSend, processes: int) -> None:
    targets = send.targets
    members = (send.process, *(targets or ()))
    if not all(0 <= process < processes for process in members):
        raise ConfigError(f"{send} names a process that is not below {processes}")
    if targets is not None and (not targets or len(set(targets)) < len(targets)):
        raise ConfigError(f"{send} needs at least one target, and each only once")
    check_amount(send.wait_s, "the wait of a send")
    check_amount(send.payload_bytes, "the size of a payload")
    if send.payload_bytes > PAYLOAD_BYTES_MAX:
        raise ConfigError(
            f"a payload has at most {PAYLOAD_BYTES_MAX} bytes, not {send.payload_bytes}"
        )


def _check_waits(sends: list[list[ProgramSend]]) -> None:
    """Run the program without time or network; raise ConfigError if a send never runs."""
    for process, own in enumerate(sends):
        for source, which in {message for send in own for message in send.after}:
            there = sends[source] if 0 <= source < len(sends) else []
            if not 1 <= which <= len(there) or not _is_for(there[which - 1], process):
                raise ConfigError(
                    f"process {process} waits for message {which} of {source},"
                    " which is never sent to it"
                )
    done = [0] * len(sends)
    waiting: dict[tuple[int, int], list[int]] = {}
    ready = list(range(len(sends)))
    while ready:
        process = ready.pop()
        while done[process] < len(sends[process]):
            missing = [
                (source, which)
                for source, which in sends[process][done[process]].after
                if which > done[source]
            ]
            if missing:
                waiting.setdefault(missing[0], []).append(process)
                break
            done[process] += 1
            ready += waiting.pop((process, done[process]), [])
    for process, own in enumerate(sends):
        if done[process] < len(own):
            raise ConfigError(f"send {done[process] + 1} of {process} waits in a cycle")


def _is_for(send: ProgramSend, process: int) -> bool:
    """Return whether a process is a target; a broadcast is for all others."""
    if send.targets is None:
        return process != send.process
    return process in send.targets


def load_program(path: Path) -> Program:
    """Read a program from a JSON file; raise ConfigError if it is not valid.

    The file holds ``{"processes": N, "sends": [{"process": 0, "targets": [1],
    "after": [[source, id], …], "wait": SECONDS, "bytes": SIZE}, …]}``, the last three
    optional. The targets of a broadcast are ``null``. An optional key ``"names"`` lists
    the names of all processes, which appear in verdicts and diagrams.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        sends = [
            ProgramSend(
                process=_whole(send["process"]),
                targets=_targets(send["targets"]),
                after=tuple((_whole(a), _whole(b)) for a, b in send.get("after", ())),
                wait_s=_seconds(send.get("wait", 0.0)),
                payload_bytes=_whole(send.get("bytes", 0)),
            )
            for send in data["sends"]
        ]
        processes = _whole(data["processes"])
        names = [str(name) for name in data.get("names", ())]
        if names and len(names) != processes:
            raise ValueError(f"{len(names)} names for {processes} processes")
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        OverflowError,
        RecursionError,  # Deeply nested brackets.
    ) as error:
        raise ConfigError(f"{path} is not a valid program: {error!r}") from error
    return Program(processes, sends, dict(enumerate(names)))


def _targets(value: Iterable[object] | None) -> tuple[int, ...] | None:
    return None if value is None else tuple([_whole(target) for target in value])


def _whole(value: object) -> int:
    """Return an integer of the file; raise TypeError for 2.9, ``true`` and ``"2"``."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not an integer")
    return value


def _seconds(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def replay(events: Iterable[Event], processes: int) -> Program:
    """Return a program with the dependencies and pauses of a recorded run.

    A send waits for all earlier deliveries at its process. Its wait is the time from the
    last of them, or from the previous send, to this one.
    """
    history = list(events)
    sizes = {
        (event.source, event.number): event.payload_bytes or 0
        for event in history
        if event.kind is Kind.RELEASE
    }
    sends: list[ProgramSend] = []
    counts: dict[int, int] = {}
    ids: dict[tuple[int, int], int] = {}
    latest: dict[int, float] = {}
    delivered: dict[int, list[tuple[int, int]]] = {}
    for event in history:
        source, number, process = event.source, event.number, event.process
        if source is None or number is None:
            continue
        if event.kind is Kind.SEND:
            counts[process] = counts.get(process, 0) + 1
            ids[source, number] = counts[process]
            sends.append(
                ProgramSend(
                    process=process,
                    targets=event.targets,
                    after=tuple(delivered.pop(process, ())),
                    wait_s=max(0.0, event.time - latest.get(process, 0.0)),
                    payload_bytes=sizes.get((source, number), 0),
                )
            )
            latest[process] = event.time
        elif event.kind is Kind.DELIVER:
            if (source, number) not in ids:
                raise ConfigError(f"{source}:{number} is delivered before it is sent")
            if source != process:
                delivered.setdefault(process, []).append((source, ids[source, number]))
            latest[process] = event.time
    return Program(processes, sends)
