"""Run processes of a protocol in virtual time, and judge the run."""

from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from random import Random

from antecede.core.contract import Process, ProcessId
from antecede.core.frames import Frame
from antecede.core.registry import protocol
from antecede.core.retransmission import RetransmissionPolicy
from antecede.errors import ConfigError
from antecede.sim.network import Network
from antecede.trace import Event, Recorder, Verdict, judge

__all__ = ["Run", "simulate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A finished run: what happened, and whether it was right."""

    protocol: str
    seed: int
    history: tuple[Event, ...]
    """Every event, in the order of virtual time."""
    verdict: Verdict


def simulate(
    name: str,
    *,
    processes: int,
    messages: int,
    fan_out: int = 1,
    gap_s: float = 0.05,
    network: Network | None = None,
    seed: int = 0,
    policy: RetransmissionPolicy | None = None,
) -> Run:
    """Run a protocol on uniform random traffic until everything is at rest.

    Args:
        name: The protocol, by its name in the registry.
        processes: How many processes there are, at least two.
        messages: How many messages each of them sends.
        fan_out: How many other processes each message is for, drawn at random.
        gap_s: The mean time between two sends of a process, exponentially distributed.
        network: What happens to frames; by default they are delayed only.
        seed: The same seed gives the same run.
        policy: The retransmission policy, None for the default.

    Raises:
        ConfigError: A parameter is out of range, or the protocol cannot serve it.
    """
    info = protocol(name)
    if processes < 2 or messages < 0 or gap_s < 0:
        raise ConfigError(
            "a run needs at least 2 processes, 0 messages and a gap of 0 seconds, got"
            f" {processes}, {messages}, {gap_s}"
        )
    if not 1 <= fan_out < processes:
        raise ConfigError(f"fan_out must be from 1 to {processes - 1}, got {fan_out}")
    if fan_out > 1 and not info.capabilities.multicast:
        raise ConfigError(f"{name} has no multicast; use a fan-out of 1")
    random = Random(seed)
    loop = _Loop(
        [info.factory(ProcessId(i), policy) for i in range(processes)],
        network if network is not None else Network(),
        random,
    )
    for process in range(processes):
        moment = 0.0
        for _ in range(messages):
            moment += random.expovariate(1 / gap_s) if gap_s else 0.0
            others = random.sample(range(processes - 1), fan_out)
            targets = tuple(other + (other >= process) for other in others)
            loop.schedule(moment, _Sending(process, targets))
    loop.run()
    return Run(
        protocol=name,
        seed=seed,
        history=tuple(loop.recorder.events),
        verdict=judge(loop.recorder.events),
    )


@dataclass(frozen=True, slots=True)
class _Sending:
    process: int
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Arrival:
    process: int
    source: int
    frame: Frame


@dataclass(frozen=True, slots=True)
class _Wake:
    process: int


_Happening = _Sending | _Arrival | _Wake


class _Loop:
    """Virtual time: what happens next happens first; ties in the order of scheduling."""

    def __init__(self, processes: list[Process], network: Network, random: Random) -> None:
        self.recorder = Recorder()
        self._processes = processes
        self._network = network
        self._random = random
        self._queue: list[tuple[float, int, _Happening]] = []
        self._serial = 0
        self._wakes: dict[int, float] = {}

    def schedule(self, moment: float, happening: _Happening) -> None:
        self._serial += 1
        heappush(self._queue, (moment, self._serial, happening))

    def run(self) -> None:
        while self._queue:
            now, _, happening = heappop(self._queue)
            index = happening.process
            process = self._processes[index]
            if isinstance(happening, _Sending):
                targets = [ProcessId(target) for target in happening.targets]
                number = process.send(targets, b"", now)
                self.recorder.sent(index, number, targets, now)
            elif isinstance(happening, _Arrival):
                self.recorder.arrived(index, happening.source, happening.frame, now)
                process.receive(ProcessId(happening.source), happening.frame, now)
            elif self._wakes.get(index) == now:
                del self._wakes[index]
                process.handle_timer(now)
            self._drain(index, now)

    def _drain(self, index: int, now: float) -> None:
        process = self._processes[index]
        for delivery in process.messages_to_deliver():
            self.recorder.delivered(index, delivery, now)
        for transmit in process.frames_to_transmit():
            self.recorder.transmitted(index, transmit, now)
            delays = self._network.carry(self._random)
            if not delays:
                self.recorder.dropped(index, transmit.target, transmit.frame, now)
            for delay in delays:
                self.schedule(now + delay, _Arrival(transmit.target, index, transmit.frame))
        due = process.next_timer()
        if due is not None and due < self._wakes.get(index, inf):
            self._wakes[index] = due
            self.schedule(due, _Wake(index))
