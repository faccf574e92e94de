"""A few processes joined in memory, with every step in the caller's hands."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from antecede.core.codec import Frame
from antecede.core.config import Setting
from antecede.core.process import Process, ProcessBase, ProcessId
from antecede.core.registry import protocol
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import InternalError, LocalError
from antecede.trace import Event, Kind, Recorder
from antecede.verify import Verdict, judge

__all__ = ["Cluster", "Packet"]

DEFAULT_POLICY = RetransmissionPolicy()

SETTLE_STEPS_MAX = 200_000
"""A cluster that needs more steps than this to come to rest never will."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """A frame in flight."""

    source: int
    target: int
    frame: Frame


class Cluster:
    """Processes, the frames in flight between them, and the history of the run.

    Nothing happens by itself: call :meth:`send`, choose which packet of
    :attr:`in_flight` arrives, is lost or is duplicated, and let time pass. Then call
    :meth:`settle`, which lets everything come to rest on a perfect network, and
    :meth:`verdict`, which judges the whole run.

    Example:
        >>> cluster = Cluster("hybrid", 3)
        >>> cluster.send(0, [1, 2], b"hello")
        1
        >>> cluster.settle()
        >>> cluster.verdict().held
        True
    """

    in_flight: list[Packet]
    """Frames that were transmitted and have neither arrived nor been lost, in order."""
    now: float
    """The time that every process is told, in seconds."""
    paused: set[int]
    """Processes whose timers do not expire; :meth:`settle` ends the pause."""

    def __init__(
        self,
        name: str,
        processes: int,
        *,
        policy: RetransmissionPolicy | None = None,
        setting: Setting | None = None,
        make: Callable[[ProcessId], Process] | None = None,
    ) -> None:
        """Join ``processes`` processes of the protocol called ``name``.

        Args:
            name: A protocol of the registry.
            processes: How many; their ids are 0 and up.
            policy: The retransmission policy, None for the default.
            setting: What every process is told, in place of the policy and the number of
                processes.
            make: Makes a process, for tests of a process outside the registry.
        """
        self.processes: list[Process]
        if make is None:
            info = protocol(name)
            if setting is None:
                setting = Setting(processes=processes, policy=policy or DEFAULT_POLICY)
            self.processes = [info.make(ProcessId(i), setting) for i in range(processes)]
        else:
            self.processes = [make(ProcessId(i)) for i in range(processes)]
        self.in_flight = []
        self._recorder = Recorder()
        self.now = 0.0
        self.paused = set()

    @property
    def history(self) -> list[Event]:
        """Everything that happened, in a linear extension of happened-before."""
        return self._recorder.events

    def send(self, source: int, targets: Sequence[int], payload: bytes = b"") -> int:
        """Let ``source`` send a message, and return its number.

        Raise LocalError, and change nothing, if one of them is not in the cluster.
        """
        for member in (source, *targets):
            if member not in range(len(self.processes)):
                raise LocalError(f"no process {member!r} among {len(self.processes)}")
        process = self.processes[source]
        number = process.send([ProcessId(t) for t in targets], payload, self.now)
        self._recorder.sent(source, number, targets, self.now)
        self._drain(source)
        return number

    def broadcast(self, source: int, payload: bytes = b"") -> int:
        """Let ``source`` send a message to all members, and return its number."""
        number = self.processes[source].broadcast(payload, self.now)
        self._recorder.sent(source, number, None, self.now)
        self._drain(source)
        return number

    def connect(self, source: int, target: int) -> None:
        """Give the overlay a link from ``source`` to ``target``."""
        self.processes[source].connect(ProcessId(target), self.now)
        self._drain(source)

    def disconnect(self, source: int, target: int) -> None:
        """Take the link from ``source`` to ``target`` out of the overlay."""
        self.processes[source].disconnect(ProcessId(target), self.now)
        self._drain(source)

    def abandon(self, source: int, peer: int) -> None:
        """Let ``source`` give up its copies for ``peer``.

        Lose first what is in flight from ``source`` to ``peer``: an abandoned copy that
        still arrives may break causal order.
        """
        self._base(source).abandon(ProcessId(peer), self.now)
        self._drain(source)

    def renew(self, source: int, peer: int) -> None:
        """Let ``source`` learn that ``peer`` has abandoned it and begins anew."""
        self._base(source).renew(ProcessId(peer), self.now)
        self._drain(source)

    def waive(self, source: int, peer: int) -> None:
        """Let ``source`` wait for no permit of ``peer``, which must have stopped."""
        self._base(source).waive(ProcessId(peer), self.now)
        self._drain(source)

    def replace(self, index: int, process: Process) -> None:
        """Put ``process``, which may have outputs already, in the place of another."""
        self.processes[index] = process
        self._drain(index)

    def arrive(self, index: int = 0) -> None:
        """Let the packet at ``index`` of :attr:`in_flight` arrive."""
        packet = self.in_flight.pop(index)
        self._recorder.arrived(packet.target, packet.source, packet.frame, self.now)
        process = self.processes[packet.target]
        process.receive(ProcessId(packet.source), packet.frame, self.now)
        self._drain(packet.target)

    def lose(self, index: int = 0) -> None:
        """Lose the packet at ``index`` of :attr:`in_flight`."""
        packet = self.in_flight.pop(index)
        self._recorder.dropped(packet.source, packet.target, packet.frame, self.now)

    def duplicate(self, index: int = 0) -> None:
        """Put another copy of the packet at ``index`` in flight."""
        self.in_flight.append(self.in_flight[index])

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and every timer that comes due meanwhile expire at its end."""
        self.now += seconds
        for index, process in enumerate(self.processes):
            due = process.next_timer()
            if due is not None and due <= self.now and index not in self.paused:
                process.handle_timer(self.now)
                self._drain(index)

    def fire(self, index: int) -> None:
        """Let time pass until the next timer of a process, and that one alone expire."""
        process = self.processes[index]
        due = process.next_timer()
        if due is None:
            raise LocalError(f"process {index} waits for no timer")
        self.now = max(self.now, due)
        process.handle_timer(self.now)
        self._drain(index)

    def settle(self, random: Random | None = None) -> None:
        """Let everything in flight arrive, and time pass, until nothing is left to do.

        Paused processes go on first. Packets arrive in the order they were transmitted,
        or in any order that ``random`` draws. Time passes only while nothing is in
        flight. Raise InternalError if there is no end to it.
        """
        self.paused.clear()
        for _ in range(SETTLE_STEPS_MAX):
            if self.in_flight:
                count = len(self.in_flight)
                self.arrive(random.randrange(count) if random else 0)
                continue
            timers = [process.next_timer() for process in self.processes]
            due = min((timer for timer in timers if timer is not None), default=None)
            if due is None:
                return
            self.pass_time(max(due - self.now, 0.0))
        raise InternalError(f"not at rest after {SETTLE_STEPS_MAX} steps")

    def verdict(self, *, complete: bool = True) -> Verdict:
        """Judge the run so far; ``complete`` if what is undelivered counts as lost."""
        return judge(self.history, complete=complete, processes=len(self.processes))

    def delivered(self, process: int) -> list[tuple[int, int]]:
        """Return what ``process`` has delivered so far, as (source, number), in order."""
        return [
            (event.source, event.number)
            for event in self.history
            if event.kind is Kind.DELIVER
            and event.process == process
            and event.source is not None
            and event.number is not None
        ]

    def _base(self, index: int) -> ProcessBase:
        process = self.processes[index]
        if not isinstance(process, ProcessBase):
            raise LocalError(f"process {index} is not of the core's making")
        return process

    def _drain(self, index: int) -> None:
        process = self.processes[index]
        for delivery in process.messages_to_deliver():
            self._recorder.delivered(index, delivery, self.now)
        for transmit in process.frames_to_transmit():
            self._recorder.transmitted(index, transmit, self.now)
            self.in_flight.append(
                Packet(source=index, target=transmit.target, frame=transmit.frame)
            )
