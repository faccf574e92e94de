"""A few processes joined in memory, with every step under the caller's control."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from antecede.core.codec import Frame
from antecede.core.config import ProcessConfig
from antecede.core.driver import drain
from antecede.core.process import (
    Delivery,
    PeerRecovery,
    Process,
    ProcessBase,
    ProcessId,
    Transmit,
)
from antecede.core.registry import protocol
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import InternalError, LocalError
from antecede.trace import Event, Kind
from antecede.trace.recorders import EventCounter, MemoryRecorder
from antecede.verify import Verdict, verify_events

__all__ = ["Cluster", "Packet"]

DEFAULT_POLICY = RetransmissionPolicy()

IDLE_STEPS_MAX = 200_000
"""A cluster that is not idle after this many steps never will be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """A frame in flight."""

    source: int
    target: int
    frame: Frame


class Cluster:
    """Processes, the frames in flight between them, and the history of the run.

    Nothing happens by itself: call :meth:`send`, choose which packet of :attr:`in_flight`
    arrives, is dropped or is duplicated, and advance the time. Then call
    :meth:`run_until_idle`, which runs the cluster on a perfect network, and
    :meth:`verdict`, which verifies the whole run.

    Example:
        >>> cluster = Cluster("hybrid", 3)
        >>> cluster.send(0, [1, 2], b"hello")
        1
        >>> cluster.run_until_idle()
        >>> cluster.verdict().held
        True
    """

    in_flight: list[Packet]
    """The frames that were transmitted and have neither arrived nor been dropped, in
    order."""
    now: float
    """The time in seconds that is passed to every process."""
    paused: set[int]
    """The processes whose timers do not fire; :meth:`run_until_idle` ends the pause."""

    def __init__(
        self,
        name: str,
        processes: int,
        *,
        policy: RetransmissionPolicy | None = None,
        config: ProcessConfig | None = None,
        make: Callable[[ProcessId], Process] | None = None,
    ) -> None:
        """Join processes of one protocol.

        Args:
            name: A protocol of the registry.
            processes: The number of processes; their ids are 0 and up.
            policy: The retransmission policy, None for the default.
            config: The configuration of every process, in place of ``policy`` and
                ``processes``.
            make: Makes a process that is not in the registry.
        """
        self.processes: list[Process]
        if make is None:
            info = protocol(name)
            if config is None:
                config = ProcessConfig(processes=processes, policy=policy or DEFAULT_POLICY)
            self.processes = [info.make(ProcessId(i), config) for i in range(processes)]
        else:
            self.processes = [make(ProcessId(i)) for i in range(processes)]
        self.in_flight = []
        self._recorder = MemoryRecorder()
        self._observer = EventCounter(self._recorder)
        self.now = 0.0
        self.paused = set()

    @property
    def history(self) -> list[Event]:
        """All events, in a linear extension of happened-before."""
        return self._recorder.events

    def send(self, source: int, targets: Sequence[int], payload: bytes = b"") -> int:
        """Send a message at ``source``, and return its number.

        Raise LocalError, and change nothing, if a process is not in the cluster.
        """
        for index in (source, *targets):
            if index not in range(len(self.processes)):
                raise LocalError(f"no process {index!r} among {len(self.processes)}")
        process = self.processes[source]
        number = process.send([ProcessId(t) for t in targets], payload, self.now)
        self._observer.sent(source, number, targets, self.now)
        self._drain(source)
        return number

    def broadcast(self, source: int, payload: bytes = b"") -> int:
        """Send a message at ``source`` to all members, and return its number."""
        number = self.processes[source].broadcast(payload, self.now)
        self._observer.sent(source, number, None, self.now)
        self._drain(source)
        return number

    def connect(self, source: int, target: int) -> None:
        """Add a link from ``source`` to ``target`` to the overlay."""
        self.processes[source].connect(ProcessId(target), self.now)
        self._drain(source)

    def disconnect(self, source: int, target: int) -> None:
        """Remove the link from ``source`` to ``target`` from the overlay."""
        self.processes[source].disconnect(ProcessId(target), self.now)
        self._drain(source)

    def abandon(self, source: int, peer: int) -> None:
        """Give up the copies of ``source`` for ``peer``.

        First drop the packets in flight from ``source`` to ``peer``: an abandoned copy that
        arrives may violate causal order.
        """
        self._recovery(source).abandon(ProcessId(peer), self.now)
        self._drain(source)

    def reset_channel(self, source: int, peer: int) -> None:
        """Reset the channel from ``peer`` at ``source``, after ``peer`` abandoned it."""
        self._recovery(source).reset_channel(ProcessId(peer), self.now)
        self._drain(source)

    def forgo_permits(self, source: int, peer: int) -> None:
        """Stop waiting at ``source`` for permits of ``peer``, which must have stopped."""
        self._recovery(source).forgo_permits(ProcessId(peer), self.now)
        self._drain(source)

    def replace(self, index: int, process: Process) -> None:
        """Replace the process at ``index``, and drain the new one."""
        self.processes[index] = process
        self._drain(index)

    def arrive(self, index: int = 0) -> None:
        """Pass the packet at ``index`` of :attr:`in_flight` to its target."""
        packet = self.in_flight.pop(index)
        self._observer.arrived(packet.target, packet.source, packet.frame, self.now)
        process = self.processes[packet.target]
        process.receive(ProcessId(packet.source), packet.frame, self.now)
        self._drain(packet.target)

    def drop(self, index: int = 0) -> None:
        """Drop the packet at ``index`` of :attr:`in_flight`."""
        packet = self.in_flight.pop(index)
        self._observer.dropped(packet.source, packet.target, packet.frame, self.now)

    def duplicate(self, index: int = 0) -> None:
        """Append another instance of the packet at ``index`` to :attr:`in_flight`."""
        self.in_flight.append(self.in_flight[index])

    def pass_time(self, seconds: float) -> None:
        """Advance the time, and then fire every timer that is due."""
        self.now += seconds
        for index, process in enumerate(self.processes):
            due = process.next_timer()
            if due is not None and due <= self.now and index not in self.paused:
                process.handle_timer(self.now)
                self._drain(index)

    def fire(self, index: int) -> None:
        """Advance the time to the next timer of one process, and fire that timer alone.

        Raise LocalError if the process has no timer.
        """
        process = self.processes[index]
        due = process.next_timer()
        if due is None:
            raise LocalError(f"process {index} has no timer to fire")
        self.now = max(self.now, due)
        process.handle_timer(self.now)
        self._drain(index)

    def run_until_idle(self, random: Random | None = None) -> None:
        """Run until no packet is in flight and no process has a timer.

        Paused processes resume first. Packets arrive in the order in which they were
        transmitted, or in an order that ``random`` draws. Time advances only while nothing
        is in flight. Raise InternalError if the cluster does not become idle.
        """
        self.paused.clear()
        for _ in range(IDLE_STEPS_MAX):
            if self.in_flight:
                count = len(self.in_flight)
                self.arrive(random.randrange(count) if random else 0)
                continue
            timers = [process.next_timer() for process in self.processes]
            due = min((timer for timer in timers if timer is not None), default=None)
            if due is None:
                return
            self.pass_time(max(due - self.now, 0.0))
        raise InternalError(f"the cluster is not idle after {IDLE_STEPS_MAX} steps")

    def verdict(self, *, complete: bool = True) -> Verdict:
        """Verify the run so far; if ``complete``, an undelivered message is a violation."""
        return verify_events(self.history, complete=complete, processes=len(self.processes))

    def delivered(self, process: int) -> list[tuple[int, int]]:
        """Return the deliveries of ``process`` so far, as (source, number), in order."""
        return [
            (event.source, event.number)
            for event in self.history
            if event.kind is Kind.DELIVER
            and event.process == process
            and event.source is not None
            and event.number is not None
        ]

    def _recovery(self, index: int) -> PeerRecovery:
        process = self.processes[index]
        recovery = process.recovery if isinstance(process, ProcessBase) else None
        if recovery is None:
            raise LocalError(f"process {index} cannot remove a peer")
        return recovery

    def _drain(self, index: int) -> None:
        def deliver(delivery: Delivery) -> None:
            self._observer.delivered(index, delivery, self.now)

        def transmit(output: Transmit) -> None:
            self._observer.transmitted(index, output, self.now)
            packet = Packet(source=index, target=output.target, frame=output.frame)
            self.in_flight.append(packet)

        drain(self.processes[index], deliver, transmit)
