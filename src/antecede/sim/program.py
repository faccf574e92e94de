"""Fixed programs: a partially ordered set of sends, written down or taken from a trace.

A process makes its sends in order; each may also wait until given messages have been
delivered to it. So the dependencies between messages are the program's, whatever the
protocol and the network do to their timing.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from antecede.errors import ConfigError
from antecede.sim.workload import Sending, Workload
from antecede.trace.event import Event, Kind

__all__ = ["Program", "ProgramSend", "load_program", "replay"]


@dataclass(frozen=True, kw_only=True)
class ProgramSend:
    """One send of a program; its id is its place among the sends of its process."""

    process: int
    targets: tuple[int, ...]
    after: tuple[tuple[int, int], ...] = ()
    """Messages, by source and id, that must have been delivered here before."""
    wait_s: float = 0.0
    """How long the process takes from then, or from its last send, to this one."""
    payload_bytes: int = 0


class Program(Workload):
    """A fixed program, on its way."""

    __slots__ = ("_after", "_issued", "_seen", "_sends", "_sent")

    def __init__(self, processes: int, sends: Iterable[ProgramSend]) -> None:
        """Set the sends, those of a process in its order.

        Raise ConfigError if a send names a process that there is not, or waits for a
        message that is never sent to its process: it would wait for ever.
        """
        super().__init__(processes)
        self._sends: list[list[ProgramSend]] = [[] for _ in range(processes)]
        for send in sends:
            if not send.targets or not all(
                0 <= process < processes for process in (send.process, *send.targets)
            ):
                raise ConfigError(f"{send} is not among {processes} processes")
            self._sends[send.process].append(send)
        for process, own in enumerate(self._sends):
            for source, which in {message for send in own for message in send.after}:
                there = self._sends[source] if 0 <= source < processes else []
                if not 1 <= which <= len(there) or process not in there[which - 1].targets:
                    raise ConfigError(
                        f"process {process} waits for message {which} of {source},"
                        " which is never sent to it"
                    )
        self._issued = [0] * processes
        self._sent = [0] * processes
        self._seen: list[set[tuple[int, int]]] = [set() for _ in range(processes)]

    @property
    def fan_out_max(self) -> int:
        """The most targets of any send."""
        return max((len(send.targets) for own in self._sends for send in own), default=1)

    def start(self, process: int) -> list[Sending]:
        """Return the first send, unless it waits for something."""
        return self._next(process)

    def sent(self, process: int, sending: Sending) -> list[Sending]:
        """Return the next send, unless it waits for something."""
        self._sent[process] += 1
        return self._next(process)

    def delivered(self, process: int, source: int, id: int) -> list[Sending]:
        """Return the next send, if this is what it waited for."""
        self._seen[process].add((source, id))
        return self._next(process)

    def _next(self, process: int) -> list[Sending]:
        index = self._issued[process]
        own = self._sends[process]
        if index > self._sent[process] or index == len(own):
            return []
        send = own[index]
        if not self._seen[process].issuperset(send.after):
            return []
        self._issued[process] += 1
        return [Sending(list(send.targets), index + 1, send.payload_bytes, send.wait_s)]


def load_program(path: Path) -> Program:
    """Read a program from a JSON file, or raise ConfigError that says what is wrong.

    The file holds ``{"processes": N, "sends": [{"process": 0, "targets": [1],
    "after": [[source, id], …], "wait": SECONDS, "bytes": SIZE}, …]}``, the last three
    optional.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        sends = [
            ProgramSend(
                process=int(send["process"]),
                targets=tuple(int(target) for target in send["targets"]),
                after=tuple((int(a), int(b)) for a, b in send.get("after", ())),
                wait_s=float(send.get("wait", 0.0)),
                payload_bytes=int(send.get("bytes", 0)),
            )
            for send in data["sends"]
        ]
        processes = int(data["processes"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is not a program: {error!r}") from error
    return Program(processes, sends)


def replay(events: Iterable[Event], processes: int) -> Program:
    """Turn a recorded run into a program with the same dependencies and pauses.

    A send waits for all that had been delivered to its process before it, and for as long
    as the process took from the last of that, or from its send before, to this one.
    """
    sends: list[ProgramSend] = []
    counts: dict[int, int] = {}
    ids: dict[tuple[int, int], int] = {}
    latest: dict[int, float] = {}
    heard: dict[int, list[tuple[int, int]]] = {}
    for event in events:
        source, number, process = event.source, event.number, event.process
        if source is None or number is None:
            continue
        if event.kind is Kind.SEND:
            counts[process] = counts.get(process, 0) + 1
            ids[source, number] = counts[process]
            sends.append(
                ProgramSend(
                    process=process,
                    targets=event.targets or (),
                    after=tuple(heard.pop(process, ())),
                    wait_s=max(0.0, event.time - latest.get(process, 0.0)),
                    payload_bytes=event.payload_bytes or 0,
                )
            )
            latest[process] = event.time
        elif event.kind is Kind.DELIVER:
            if (source, number) not in ids:
                raise ConfigError(f"{source}:{number} is delivered before it is sent")
            if source != process:
                heard.setdefault(process, []).append((source, ids[source, number]))
            latest[process] = event.time
    return Program(processes, sends)
