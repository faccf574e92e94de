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
from antecede.sim.distribution import check_amount
from antecede.sim.workloads.synthetic import PAYLOAD_BYTES_MAX, Sending, Workload
from antecede.trace.event import Event, Kind

__all__ = ["Program", "ProgramSend", "load_program", "replay"]


@dataclass(frozen=True, kw_only=True)
class ProgramSend:
    """One send of a program; its id is its place among the sends of its process."""

    process: int
    targets: tuple[int, ...] | None
    """Whom it is for; None for a broadcast to all members."""
    after: tuple[tuple[int, int], ...] = ()
    """Messages, by source and id, that must have been delivered here before."""
    wait_s: float = 0.0
    """How long the process takes from then, or from its last send, to this one."""
    payload_bytes: int = 0


class Program(Workload):
    """A fixed program, on its way."""

    __slots__ = ("_broadcast", "_issued", "_seen", "_sends", "_sent")

    def __init__(self, processes: int, sends: Iterable[ProgramSend]) -> None:
        """Set the sends, those of a process in its order.

        Raise ConfigError if a send cannot be, or would wait for ever: for a message that
        is never sent to its process, or in a circle. A program has broadcasts only, or
        none, as there are protocols for either.
        """
        super().__init__(processes)
        self._sends: list[list[ProgramSend]] = [[] for _ in range(processes)]
        for send in sends:
            _check_send(send, processes)
            self._sends[send.process].append(send)
        broadcasts = [send.targets is None for own in self._sends for send in own]
        if any(broadcasts) and not all(broadcasts):
            raise ConfigError("a program has broadcasts only, or none")
        self._broadcast = any(broadcasts)
        _check_waits(self._sends)
        self._issued = [0] * processes
        self._sent = [0] * processes
        self._seen: list[set[tuple[int, int]]] = [set() for _ in range(processes)]

    @property
    def fan_out_max(self) -> int:
        """The most targets of any send."""
        counts = [len(send.targets or ()) for own in self._sends for send in own]
        return max(counts, default=1)

    @property
    def broadcast(self) -> bool:
        """Whether its messages go to all members."""
        return self._broadcast

    @property
    def sends(self) -> list[list[ProgramSend]]:
        """The sends of each process, in its order; they are not to be changed."""
        return self._sends

    def fresh(self) -> "Program":
        """Return the same program, not begun, without checking it once more."""
        program = Program(self.processes, [])
        program._sends = self._sends
        program._broadcast = self._broadcast
        return program

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
        targets = list(send.targets or ())
        return [Sending(targets, index + 1, send.payload_bytes, send.wait_s)]


def _check_send(send: ProgramSend, processes: int) -> None:
    targets = send.targets
    members = (send.process, *(targets or ()))
    if not all(0 <= process < processes for process in members):
        raise ConfigError(f"{send} is not among {processes} processes")
    if targets is not None and (not targets or len(set(targets)) < len(targets)):
        raise ConfigError(f"{send} needs targets, each named once")
    check_amount(send.wait_s, "the wait of a send")
    check_amount(send.payload_bytes, "the size of a payload")
    if send.payload_bytes > PAYLOAD_BYTES_MAX:
        raise ConfigError(f"a payload of {send.payload_bytes} bytes fits into no trace")


def _check_waits(sends: list[list[ProgramSend]]) -> None:
    """Play the program without time or network; whatever cannot be sent waits for ever."""
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
            raise ConfigError(f"send {done[process] + 1} of {process} waits in a circle")


def _is_for(send: ProgramSend, process: int) -> bool:
    """Tell whether a process gets the message; a broadcast is for the others."""
    if send.targets is None:
        return process != send.process
    return process in send.targets


def load_program(path: Path) -> Program:
    """Read a program from a JSON file, or raise ConfigError that says what is wrong.

    The file holds ``{"processes": N, "sends": [{"process": 0, "targets": [1],
    "after": [[source, id], …], "wait": SECONDS, "bytes": SIZE}, …]}``, the last three
    optional. The targets of a broadcast are ``null``.
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
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        OverflowError,
        RecursionError,  # Brackets in brackets, thousands deep.
    ) as error:
        raise ConfigError(f"{path} is not a program: {error!r}") from error
    return Program(processes, sends)


def _targets(value: Iterable[object] | None) -> tuple[int, ...] | None:
    """Return the targets of a send of the file."""
    return None if value is None else tuple([_whole(target) for target in value])


def _whole(value: object) -> int:
    """Return a whole number of the file; 2.9 is none, nor are ``true`` and ``"2"``."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no whole number")
    return value


def _seconds(value: object) -> float:
    """Return a number of the file."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def replay(events: Iterable[Event], processes: int) -> Program:
    """Turn a recorded run into a program with the same dependencies and pauses.

    A send waits for all that had been delivered to its process before it, and for as long
    as the process took from the last of that, or from its send before, to this one.
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
    heard: dict[int, list[tuple[int, int]]] = {}
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
                    after=tuple(heard.pop(process, ())),
                    wait_s=max(0.0, event.time - latest.get(process, 0.0)),
                    payload_bytes=sizes.get((source, number), 0),
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
