"""One simulated process: its event loop, its clocks, and its part of the host."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol

from antecede.errors import LocalError
from antecede.net.database import Database
from antecede.net.udp import Address
from antecede.testing.run_record import NodeRecord, RunRecord
from antecede.testing.simulated_network import SimulatedNetwork, SimulatedSocket
from antecede.testing.virtual_loop import VirtualEventLoop

__all__ = ["Clock", "Disk", "SimulatedProcess", "SimulatedWorker"]

logger = logging.getLogger(__name__)

Main = Callable[[], Coroutine[Any, Any, object]]
"""A function without arguments that returns the coroutine of a process."""
ROUNDING_S: Final = 1e-7
"""How much later a timer expires, so that rounding errors never make it expire early."""
EPOCH_S: Final = 1_700_000_000.0
"""The wall time at which every simulation starts."""
DISK_LATENCY_S: Final = (0.0001, 0.005)
"""The shortest and the longest time that a commit waits for the disk."""


class Clock:
    """The clocks of one machine.

    Args:
        now_s: returns the time of the simulation.
        start_s: the time of the monotonic clock when the simulation starts.
        rate: how much faster the clocks run than the time of the simulation.
        wall_offset_s: the error of the wall clock when the simulation starts.
    """

    def __init__(
        self,
        now_s: Callable[[], float],
        start_s: float = 0.0,
        rate: float = 1.0,
        wall_offset_s: float = 0.0,
    ) -> None:
        self._now_s = now_s
        self.start_s = start_s
        self.rate = rate
        self.wall_offset_s = wall_offset_s

    def monotonic_s(self) -> float:
        """Return the time of the monotonic clock."""
        return self.start_s + self._now_s() * self.rate

    def wall_s(self) -> float:
        """Return the time of the wall clock."""
        return EPOCH_S + self.wall_offset_s + self._now_s() * self.rate


class Disk(Protocol):
    """The disk of one machine: :class:`antecede.testing.simulated_disk.SimulatedDisk`."""

    def open_database(self, path: Path) -> Database:
        """Open or create an SQLite file."""

    def stop_after(self, operations: int) -> None:
        """Let a job that a kill interrupts write only so much."""

    def release(self) -> None:
        """Close the files of a process that was killed, without writing anything."""


class SimulatedProcess:
    """A process of a simulation, from its start until it ends or is killed.

    It is also the host of the nodes that the process opens.

    Args:
        name: the name of the process, which also is a host name.
        main: what the process runs.
        clock: the clocks of its machine.
        disk: the disk of its machine; None if there is none.
        network: the network.
        record: receives the events of its nodes.
        random: the source of randomness.
        call_later: schedules a call after some seconds of the simulation.
        on_runnable: called when the process must be run.
        on_unhandled: called with the text of an unhandled exception.
    """

    def __init__(
        self,
        name: str,
        main: Main,
        *,
        clock: Clock,
        disk: Disk | None,
        network: SimulatedNetwork,
        record: RunRecord,
        random: Random,
        call_later: Callable[[float, Callable[[], None]], None],
        on_runnable: Callable[["SimulatedProcess"], None],
        on_unhandled: Callable[[str], None],
    ) -> None:
        self.name = name
        self.main = main
        self.is_alive = True
        self.is_paused = False
        self.is_runnable = False
        self._clock = clock
        self._disk = disk
        self._network = network
        self._record = record
        self._records: list[NodeRecord] = []
        self._random = random
        self._call_later = call_later
        self._on_runnable = on_runnable
        self._wake = 0  # Counts the timers that were set; only the last one counts.
        self._workers: list[SimulatedWorker] = []
        self.loop = VirtualEventLoop(self, clock.monotonic_s)
        self._on_unhandled = on_unhandled
        self.loop.set_exception_handler(self._report_unhandled)
        self._tasks: dict[asyncio.Task[object], None] = {}  # Else a task may vanish.
        self.task = self.loop.create_task(main(), name=name)

    @property
    def ip(self) -> str:
        """The address of the machine."""
        return self._network.ip_of(self.name)

    # Running.

    def post(self, callback: Callable[[], None]) -> None:
        """Call a function on the event loop of the process."""
        if self.is_alive:
            self.loop.call_soon(callback)
            self.make_runnable()

    def spawn(self, coroutine: Coroutine[Any, Any, object]) -> None:
        """Start a task."""
        task = self.loop.create_task(coroutine)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        self.make_runnable()

    def _report_unhandled(
        self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]
    ) -> None:
        error = context.get("exception")
        self._on_unhandled(f"{self.name}: {context.get('message')}: {error!r}")
        loop.default_exception_handler(context)

    def make_runnable(self) -> None:
        """Have the simulation run the process."""
        if self.is_alive and not self.is_paused and not self.is_runnable:
            self.is_runnable = True
            self._on_runnable(self)

    def run(self) -> None:
        """Run the process until it waits, and schedule its next timer."""
        self.is_runnable = False
        if not self.is_alive or self.is_paused:
            return
        idle_s = self.loop.run_until_idle()
        for record in self._records:
            self._record.collect(record)
        self._wake += 1
        if idle_s is not None:
            wake = self._wake
            delay_s = (idle_s + ROUNDING_S) / self._clock.rate
            self._call_later(delay_s, lambda: self._timer_expired(wake))

    def _timer_expired(self, wake: int) -> None:
        if wake == self._wake:
            self.make_runnable()

    def kill(self) -> None:
        """Stop the process at once, as ``kill -9`` does; what it was writing is torn."""
        if not self.is_alive:
            return
        self.is_alive = False
        for worker in self._workers:
            worker.interrupt()
        for socket in self._network.sockets_of(self):
            socket.close()
        if self._disk is not None:
            self._disk.release()

    def dispose(self) -> None:
        """Let the tasks of the process end, after the simulation, and close its loop."""
        self.is_alive = False
        if self.loop.is_closed():
            return
        self.loop.set_exception_handler(lambda loop, context: None)
        for _ in range(3):  # A task may ignore a cancellation, or await again.
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.run_until_idle()
        self.loop.close()

    # The host of its nodes.

    def now_s(self) -> float:
        return self._clock.monotonic_s()

    def wall_s(self) -> float:
        return self._clock.wall_s()

    def random_bits(self, bits: int) -> int:
        return self._random.getrandbits(bits)

    def bind_socket(self, bind: Address, *, segmentation: bool) -> SimulatedSocket:
        return self._network.bind(self, bind)

    def open_database(self, path: Path) -> Database:
        if self._disk is None:
            raise LocalError(
                "a simulated journal needs the package apsw: run"
                " pip install 'antecede[testing]'"
            )
        return self._disk.open_database(path)

    def start_worker(self) -> "SimulatedWorker":
        worker = SimulatedWorker(self, self._random, self._call_later, self._disk)
        self._workers.append(worker)
        return worker

    def open_record(
        self,
        name: str,
        history: int,
        incarnation: int,
        continues: tuple[int, int] | None,
    ) -> NodeRecord:
        record = self._record.open(name, history, incarnation, continues)
        self._records.append(record)
        return record


class SimulatedWorker:
    """A worker whose functions take as long as a disk does."""

    def __init__(
        self,
        process: SimulatedProcess,
        random: Random,
        call_later: Callable[[float, Callable[[], None]], None],
        disk: Disk | None,
    ) -> None:
        self._process = process
        self._random = random
        self._call_later = call_later
        self._disk = disk
        self._function: Callable[[], None] | None = None
        self._on_done: Callable[[BaseException | None], None] | None = None

    def run(
        self, function: Callable[[], None], on_done: Callable[[BaseException | None], None]
    ) -> None:
        self._function = function
        self._on_done = on_done
        delay_s = self._random.uniform(*DISK_LATENCY_S)
        self._call_later(delay_s, lambda: self._process.post(self._finish))

    def _finish(self) -> None:
        function, on_done = self._function, self._on_done
        if function is None or on_done is None:
            return
        self._function = self._on_done = None
        error: BaseException | None = None
        try:
            function()
        except Exception as raised:
            error = raised
        on_done(error)

    def interrupt(self) -> None:
        """Run a part of the current function: the process was killed meanwhile."""
        function = self._function
        self._function = self._on_done = None
        if function is None or self._disk is None:
            return
        self._disk.stop_after(self._random.randrange(40))
        try:
            function()
        except Exception as error:
            logger.debug("interrupted: %s", error)

    def close(self) -> None:
        if self._process.is_alive:
            self._finish()
        self._function = self._on_done = None
