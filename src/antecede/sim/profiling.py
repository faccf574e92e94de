"""The processor time of the processes of a run, without that of the simulator.

The work of a sender is its send, and the handling of the control frames that answer it. The
work of a target is the handling of the frame with the message. Encoding and decoding are
not included, because the simulator passes frames as objects.
"""

from collections.abc import Iterable
from time import thread_time_ns

from antecede.core.codec import Frame
from antecede.core.process import Delivery, ProcessBase, ProcessId, Transmit

__all__ = ["ProfiledProcess", "WorkTimes", "clock_cost_ns"]

CALIBRATIONS = 2000


class WorkTimes:
    """The calls, and their processor time, of all processes of a run."""

    __slots__ = (
        "control_calls",
        "control_ns",
        "receive_calls",
        "receive_ns",
        "send_calls",
        "send_ns",
    )

    def __init__(self) -> None:
        self.send_calls = 0
        self.send_ns = 0
        self.control_calls = 0
        self.control_ns = 0
        self.receive_calls = 0
        self.receive_ns = 0


class ProfiledProcess(ProcessBase):
    """A process between the simulator and another process, whose calls it measures."""

    __slots__ = ("_inner", "_times")

    def __init__(self, inner: ProcessBase, times: WorkTimes) -> None:
        super().__init__(inner.id)
        self._inner = inner
        self._times = times

    def send(self, targets: Iterable[ProcessId], payload: object, now: float) -> int:
        start = thread_time_ns()
        number = self._inner.send(targets, payload, now)
        self._times.send_ns += thread_time_ns() - start
        self._times.send_calls += 1
        return number

    def broadcast(self, payload: object, now: float) -> int:
        start = thread_time_ns()
        number = self._inner.broadcast(payload, now)
        self._times.send_ns += thread_time_ns() - start
        self._times.send_calls += 1
        return number

    def connect(self, peer: ProcessId, now: float) -> None:
        self._inner.connect(peer, now)

    def disconnect(self, peer: ProcessId, now: float) -> None:
        self._inner.disconnect(peer, now)

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        is_message = frame.message_number() > 0
        start = thread_time_ns()
        self._inner.receive(source, frame, now)
        elapsed = thread_time_ns() - start
        if is_message:
            self._times.receive_ns += elapsed
            self._times.receive_calls += 1
        else:
            self._times.control_ns += elapsed
            self._times.control_calls += 1

    def handle_timer(self, now: float) -> None:
        start = thread_time_ns()
        self._inner.handle_timer(now)
        self._times.control_ns += thread_time_ns() - start
        self._times.control_calls += 1

    def next_timer(self) -> float | None:
        return self._inner.next_timer()

    def next_wake(self) -> float:
        return self._inner.next_wake()

    def frames_to_transmit(self) -> list[Transmit]:
        return self._inner.frames_to_transmit()

    def messages_to_deliver(self) -> list[Delivery]:
        return self._inner.messages_to_deliver()


def clock_cost_ns() -> float:
    """Return the mean cost of two readings of the clock, to subtract from each call."""
    total = 0
    for _ in range(CALIBRATIONS):
        start = thread_time_ns()
        total += thread_time_ns() - start
    return total / CALIBRATIONS
