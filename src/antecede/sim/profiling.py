"""How much processor time the processes of a run take themselves, apart from the loop.

A :class:`Stopwatch` stands between the loop and a process. What the sender of a message
does, is its send, and taking the control frames that answer; what a target does, is taking
the frame with the message. Encoding and decoding are not in it: frames are handed over as
they are.
"""

from collections.abc import Iterable
from time import thread_time_ns

from antecede.core.codec import Frame
from antecede.core.process import Delivery, ProcessBase, ProcessId, Transmit

__all__ = ["Stopwatch", "WorkDone", "clock_cost_ns"]

CALIBRATIONS = 2000


class WorkDone:
    """What all processes of a run have done together."""

    __slots__ = (
        "control_calls",
        "control_ns",
        "receive_calls",
        "receive_ns",
        "send_calls",
        "send_ns",
    )

    def __init__(self) -> None:
        """Start with nothing."""
        self.send_calls = 0
        self.send_ns = 0
        self.control_calls = 0
        self.control_ns = 0
        self.receive_calls = 0
        self.receive_ns = 0


class Stopwatch(ProcessBase):
    """A process that is timed."""

    __slots__ = ("_done", "_inner")

    def __init__(self, inner: ProcessBase, done: WorkDone) -> None:
        """Time ``inner``, and add it up in ``done``."""
        super().__init__(inner.id)
        self._inner = inner
        self._done = done

    def send(self, targets: Iterable[ProcessId], payload: object, now: float) -> int:
        """Accept a message for ``targets`` and return its number, from 1."""
        start = thread_time_ns()
        number = self._inner.send(targets, payload, now)
        self._done.send_ns += thread_time_ns() - start
        self._done.send_calls += 1
        return number

    def broadcast(self, payload: object, now: float) -> int:
        """Accept a message for all members and return its number, from 1."""
        start = thread_time_ns()
        number = self._inner.broadcast(payload, now)
        self._done.send_ns += thread_time_ns() - start
        self._done.send_calls += 1
        return number

    def connect(self, peer: ProcessId, now: float) -> None:
        """Learn that the overlay has a link to ``peer`` from now on."""
        self._inner.connect(peer, now)

    def disconnect(self, peer: ProcessId, now: float) -> None:
        """Learn that the overlay has no link to ``peer`` any more."""
        self._inner.disconnect(peer, now)

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        """Take a frame that arrived from ``source``."""
        message = frame.message_number() > 0
        start = thread_time_ns()
        self._inner.receive(source, frame, now)
        elapsed = thread_time_ns() - start
        if message:
            self._done.receive_ns += elapsed
            self._done.receive_calls += 1
        else:
            self._done.control_ns += elapsed
            self._done.control_calls += 1

    def handle_timer(self, now: float) -> None:
        """Do what is due at ``now``."""
        start = thread_time_ns()
        self._inner.handle_timer(now)
        self._done.control_ns += thread_time_ns() - start
        self._done.control_calls += 1

    def next_timer(self) -> float | None:
        """Tell when ``handle_timer`` wants to be called next, or None for never."""
        return self._inner.next_timer()

    def frames_to_transmit(self) -> list[Transmit]:
        """Take the frames to transmit; they are the driver's now."""
        return self._inner.frames_to_transmit()

    def messages_to_deliver(self) -> list[Delivery]:
        """Take the messages to deliver, in order; they are the driver's now."""
        return self._inner.messages_to_deliver()


def clock_cost_ns() -> float:
    """Return what reading the clock twice costs by itself, to be taken off each call."""
    total = 0
    for _ in range(CALIBRATIONS):
        start = thread_time_ns()
        total += thread_time_ns() - start
    return total / CALIBRATIONS
