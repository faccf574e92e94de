"""Simulates programs that use nodes: virtual time, a faulty network, killed processes.

A simulation runs the coroutines of several processes, with real nodes, in one thread. Time
is virtual, so that hours take milliseconds, and everything random comes from one seed, so
that a run can be repeated exactly.
"""

import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from itertools import count
from pathlib import Path
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from antecede.errors import LocalError, SimulationError
from antecede.net.faults import FaultInjector, Faults
from antecede.testing.run_record import RunRecord
from antecede.testing.simulated_network import SimulatedNetwork
from antecede.testing.simulated_process import Clock, Main, SimulatedProcess
from antecede.trace import Event
from antecede.verify import Verdict, verify_events

if TYPE_CHECKING:
    from antecede.testing.simulated_disk import SimulatedDisk

__all__ = ["Simulation"]

T = TypeVar("T")

LAN: Final = Faults(delay_s=0.0002, jitter_s=0.0003)
"""The default network: fast, without loss, and with some reordering."""


class Simulation:
    """Processes on simulated machines, joined by a simulated network.

    Example:
        >>> from antecede import Node
        >>> address = {"ann": "127.0.0.1:1", "bob": "127.0.0.1:2"}
        >>> async def ann():
        ...     peers = {"bob": address["bob"]}
        ...     async with Node("ann", bind=address["ann"], peers=peers) as node:
        ...         await node.send("bob", b"hello")
        >>> async def bob():
        ...     peers = {"ann": address["ann"]}
        ...     async with Node("bob", bind=address["bob"], peers=peers) as node:
        ...         print((await node.receive()).data)
        >>> with Simulation(seed=1) as simulation:
        ...     simulation.start("ann", ann)
        ...     simulation.start("bob", bob)
        ...     simulation.run()
        b'hello'

    Args:
        seed: determines everything that is random.
        faults: the faults of all links of the network.
    """

    def __init__(self, seed: int = 0, faults: Faults = LAN) -> None:
        self.seed = seed
        self.random = Random(seed)
        """For your own program: a source of randomness that the seed determines."""
        self.now = 0.0
        """The time in seconds since the start of the simulation."""
        self.record = RunRecord()
        self.unhandled: list[str] = []
        """Unhandled exceptions in callbacks and tasks of all processes."""
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._counter = count()
        self._runnable: deque[SimulatedProcess] = deque()
        self._processes: dict[str, SimulatedProcess] = {}
        self._killed: list[SimulatedProcess] = []
        self._daemons: set[str] = set()
        self._clocks: dict[str, Clock] = {}
        self._disks: dict[str, SimulatedDisk | None] = {}
        self.network = SimulatedNetwork(
            FaultInjector(faults, self.random.getrandbits(32)),
            lambda: self.now,
            self.call_later,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all tasks of all processes, and release their memory."""
        for process in (*self._killed, *self._processes.values()):
            process.kill()
            process.dispose()
        self._killed.clear()
        self._processes.clear()

    # Processes.

    def start(
        self,
        name: str,
        main: Main,
        *,
        daemon: bool = False,
        clock_start_s: float = 0.0,
        clock_rate: float = 1.0,
        wall_offset_s: float = 0.0,
    ) -> None:
        """Start a process on a machine of its own.

        Args:
            name: the name of the process, and the host name of its machine.
            main: a function that returns the coroutine to run.
            daemon: :meth:`run` does not wait until the process ends.
            clock_start_s: the time of its monotonic clock at the start of the simulation.
            clock_rate: how much faster its clocks run than the time of the simulation.
            wall_offset_s: the error of its wall clock.
        """
        if name in self._processes and self._processes[name].is_alive:
            raise LocalError(f"the process {name} runs already; kill it first")
        if name not in self._clocks:
            self._clocks[name] = Clock(
                lambda: self.now, clock_start_s, clock_rate, wall_offset_s
            )
            self._disks[name] = self._make_disk()
        if daemon:
            self._daemons.add(name)
        else:
            self._daemons.discard(name)
        self._start(name, main)

    def _start(self, name: str, main: Main) -> None:
        process = SimulatedProcess(
            name,
            main,
            clock=self._clocks[name],
            disk=self._disks[name],
            network=self.network,
            record=self.record,
            random=Random(self.random.getrandbits(64)),
            call_later=self.call_later,
            on_runnable=self._runnable.append,
            on_unhandled=self.unhandled.append,
        )
        self._processes[name] = process
        process.make_runnable()

    def _make_disk(self) -> "SimulatedDisk | None":
        try:
            from antecede.testing.simulated_disk import SimulatedDisk
        except ImportError:
            return None
        return SimulatedDisk(Random(self.random.getrandbits(64)))

    def is_running(self, name: str) -> bool:
        """Return whether a process was started, and has neither ended nor been killed."""
        process = self._processes.get(name)
        return process is not None and process.is_alive and not process.task.done()

    def pause(self, name: str) -> None:
        """Stop a process until :meth:`resume`; its clocks go on."""
        self._process(name).is_paused = True

    def resume(self, name: str) -> None:
        """Let a paused process go on."""
        process = self._process(name)
        process.is_paused = False
        process.make_runnable()

    def kill(self, name: str) -> None:
        """Kill a process at once; what it wrote to its disk stays."""
        process = self._process(name)
        process.kill()
        self._killed.append(process)

    def power_off(self, name: str) -> None:
        """Kill a process by a loss of power: writes that were not synced may be lost."""
        self.kill(name)
        disk = self._disks[name]
        if disk is not None:
            disk.lose_power()

    def restart(self, name: str, main: Main | None = None) -> None:
        """Start a process again that was killed or has ended, on the same machine."""
        process = self._process(name)
        if process.is_alive and not process.task.done():
            raise LocalError(f"the process {name} runs; kill it first")
        if process.is_alive:
            self.kill(name)
        self._start(name, main or process.main)

    def disk(self, name: str) -> "SimulatedDisk":
        """Return the disk of the machine of a process."""
        disk = self._disks.get(name)
        if disk is None:
            raise LocalError(f"{name} has no disk: install antecede[testing]")
        return disk

    def move(self, name: str) -> str:
        """Give the machine of a process another address, and return it.

        Datagrams to the old address are lost.
        """
        return self.network.move(self._process(name))

    def _process(self, name: str) -> SimulatedProcess:
        process = self._processes.get(name)
        if process is None:
            raise LocalError(f"no process {name} was started")
        return process

    # The network.

    def set_faults(
        self, faults: Faults, links: Iterable[tuple[str, str]] | None = None
    ) -> None:
        """Change the faults of some links, by source and target, or of all links."""
        injector = self.network.injector
        if links is None:
            injector.faults = faults
            injector.faults_of.clear()
        else:
            injector.faults_of.update(dict.fromkeys(links, faults))

    def partition(self, *sides: Iterable[str]) -> None:
        """Drop all datagrams between the sides, until :meth:`heal`."""
        self.network.injector.partition(*sides)

    def block(self, source: str, target: str) -> None:
        """Drop all datagrams from one process to another, until :meth:`heal`."""
        self.network.injector.block(source, target)

    def heal(self) -> None:
        """End every partition."""
        self.network.injector.heal()

    # Time.

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        """Call a function after some seconds of the simulation.

        The function may call the methods of the simulation, for instance :meth:`kill`.
        """
        heapq.heappush(self._queue, (self.now + delay_s, next(self._counter), callback))

    def run(self, limit_s: float = 3600.0) -> None:
        """Run until every process has ended, except daemons and killed processes.

        Raise what a process raises. Raise SimulationError if a process has not ended after
        ``limit_s`` seconds of the simulation, or waits for something that cannot happen.
        """
        end = self.now + limit_s
        while self._run_processes():
            if not self._queue or self._queue[0][0] > end:
                self.now = min(end, self.now) if not self._queue else end
                raise SimulationError(self._describe_unfinished(limit_s))
            self._step()

    def run_for(self, seconds: float) -> None:
        """Run for some seconds of the simulation; raise what a process raises."""
        end = self.now + seconds
        self._run_processes()
        while self._queue and self._queue[0][0] <= end:
            self._step()
            self._run_processes()
        self.now = end

    def spawn(self, name: str, coroutine: Coroutine[Any, Any, object]) -> None:
        """Start a task in a process, and do not wait for it."""
        process = self._process(name)
        if not process.is_alive:
            coroutine.close()
            return
        process.spawn(coroutine)

    def call(
        self, name: str, coroutine: Coroutine[Any, Any, T], limit_s: float = 3600.0
    ) -> T:
        """Run a coroutine in a process, and return its result when it has ended.

        The other processes run meanwhile. Raise what the coroutine raises, and
        SimulationError if it has not ended after ``limit_s`` seconds of the simulation.
        """
        process = self._process(name)
        task = process.loop.create_task(coroutine)
        process.make_runnable()
        end = self.now + limit_s
        self._run_processes()
        while not task.done():
            if not self._queue or self._queue[0][0] > end:
                task.cancel()
                raise SimulationError(
                    f"a call in the process {name} has not ended after {limit_s:g} s; run"
                    f" the simulation again with seed {self.seed}"
                )
            self._step()
            self._run_processes()
        return task.result()

    def _step(self) -> None:
        self.now, _, callback = heapq.heappop(self._queue)
        callback()

    def _run_processes(self) -> bool:
        """Run all processes that can run; return whether one has not ended."""
        while self._runnable:
            process = self._runnable.popleft()
            process.run()
            if process.is_alive and process.task.done():
                self._check(process)
        return any(
            process.is_alive and not process.task.done()
            for name, process in self._processes.items()
            if name not in self._daemons
        )

    def _check(self, process: SimulatedProcess) -> None:
        error = None if process.task.cancelled() else process.task.exception()
        if error is not None:
            error.add_note(
                f"raised by the process {process.name} after {self.now:.6f} s of the"
                f" simulation with seed {self.seed}"
            )
            raise error

    def _describe_unfinished(self, limit_s: float) -> str:
        names = [
            name
            for name, process in self._processes.items()
            if name not in self._daemons and process.is_alive and not process.task.done()
        ]
        reason = f"have not ended after {limit_s:g} s"
        if not self._queue:
            reason = "wait for something that cannot happen"
        return (
            f"the processes {', '.join(names)} {reason}; run the simulation again with"
            f" seed {self.seed}"
        )

    # Results.

    def events(self) -> list[Event]:
        """Return the events of all nodes so far, in order."""
        return self.record.events()

    def verdict(self) -> Verdict:
        """Verify causal order, FIFO order, no duplication and no creation so far."""
        return verify_events(self.events(), complete=False)

    def write_trace(self, directory: str | Path, run: str = "simulation") -> None:
        """Write the events as a trace, for ``antecede show`` and ``antecede verify``.

        This needs the extra ``antecede[trace]``.
        """
        from antecede.trace.run_info import RunInfo
        from antecede.trace.table import events_to_table
        from antecede.trace.writer import TraceWriter

        names = self.record.display_names()
        with TraceWriter(Path(directory), run) as writer:
            for batch in events_to_table(self.events(), run).to_batches():
                writer.write_batch(batch)
            info = RunInfo(run=run, seed=self.seed, processes=len(names), names=names)
            writer.close(info)
