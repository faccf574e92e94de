"""Processes on an overlay in virtual time, with a FIFO network and random delays."""

import heapq
from collections import Counter
from collections.abc import Callable
from random import Random

from antecede.core.codec import Frame
from antecede.core.overlay.spray import Spray
from antecede.core.process import ProcessBase, ProcessId
from antecede.trace import Event, EventCounter, Kind, MemoryRecorder
from antecede.verify import Verdict, verify_events

__all__ = ["Swarm"]


class Swarm:
    """Drives processes; a crashed process has no more inputs."""

    def __init__(self, seed: int, delay_s: tuple[float, float] = (0.5, 0.5)) -> None:
        self.random = Random(seed)
        self.delay_s = delay_s
        self.processes: dict[int, ProcessBase] = {}
        self.crashed: set[int] = set()
        self.now = 0.0
        self.frames = 0
        self.kinds: Counter[str] = Counter()
        self.recorder = MemoryRecorder()
        self.observer = EventCounter(self.recorder)
        self._heap: list[tuple[float, int, int, int, Frame]] = []
        self._latest: dict[tuple[int, int], float] = {}

    def add(self, process: ProcessBase) -> None:
        self.processes[process.id] = process

    def do(self, index: int, act: Callable[[], object]) -> None:
        """Apply an input to a process, and drain its outputs."""
        act()
        self._drain(index)

    def broadcast(self, index: int) -> None:
        number = self.processes[index].broadcast(b"", self.now)
        self.observer.sent(index, number, None, self.now)
        self._drain(index)

    def run(self, until: float) -> None:
        """Process all events before ``until``."""
        while True:
            due, index = min(
                (
                    (timer, i)
                    for i, process in self.processes.items()
                    if i not in self.crashed and (timer := process.next_timer()) is not None
                ),
                default=(float("inf"), 0),
            )
            if self._heap and self._heap[0][0] <= min(due, until):
                self.now, _, source, target, frame = heapq.heappop(self._heap)
                if target not in self.crashed:
                    process = self.processes[target]
                    process.receive(ProcessId(source), frame, self.now)
                    self._drain(target)
            elif due <= until and due < float("inf"):
                self.now = max(self.now, due)
                self.processes[index].handle_timer(self.now)
                self._drain(index)
            else:
                break
        if until < float("inf"):
            self.now = until

    def alive(self) -> list[int]:
        return [index for index in self.processes if index not in self.crashed]

    def views(self) -> list[list[int]]:
        """Return the views of Spray processes."""
        views = []
        for process in self.processes.values():
            assert isinstance(process, Spray)
            views.append([int(peer) for peer in process.view])
        return views

    def verdict(self, joined: set[int]) -> Verdict:
        changes = [Event(process=i, kind=Kind.JOIN) for i in sorted(joined)]
        changes += [Event(process=i, kind=Kind.CRASH) for i in sorted(self.crashed)]
        return verify_events(changes + self.recorder.events, processes=len(self.processes))

    def _drain(self, index: int) -> None:
        process = self.processes[index]
        for delivery in process.messages_to_deliver():
            self.observer.delivered(index, delivery, self.now)
        for transmit in process.frames_to_transmit():
            self.frames += 1
            self.kinds[type(transmit.frame).__name__] += 1
            pair = (index, transmit.target)
            arrival = self.now + self.random.uniform(*self.delay_s)
            arrival = max(arrival, self._latest.get(pair, 0.0))
            self._latest[pair] = arrival
            entry = (arrival, self.frames, index, int(transmit.target), transmit.frame)
            heapq.heappush(self._heap, entry)
