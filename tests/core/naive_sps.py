"""A naive implementation of the SPS rule: ``hybrid`` without its indexes.

Only the frames and the outputs are shared with the protocol. At every step it scans all
messages:

* **Release.** A process releases the copy of message m to j when, among the messages
  delivered before m was sent, only permits of j are missing. The permit of a message has
  arrived if its source has permitted its number or a higher one.
* **Frontier.** The frontier towards j is the highest number such that no message numbered
  up to it has an unacked copy to a process other than j; a queued copy counts as unacked.
  A copy to j above the frontier needs a permit; the flag of other copies says that they
  need none.
* **Permit.** The process transmits the permit up to the frontier in the step in which the
  frontier passes a released copy to j above everything granted to j.
* **FIFO.** A copy is delivered after its predecessor, the previous message of the same
  source to the same target. A message of a process to itself is delivered at once.
* **Ack.** The answer to each message that arrives is the last number delivered.
* **Retransmission.** If no ack has made progress for a timeout, the process retransmits
  the oldest unacked copy, and every other that is overdue and not known to have arrived.
* **Request.** If no permit has arrived for a timeout, the process requests the lowest
  missing one; the answer is a permit up to the frontier, if that covers it.

The *conservative* rule (CSPS, ``hybrid-basic``) differs in two points: a message is
released only when no such permit is missing at all, and no frontier passes the first
message with an unacked copy. A test may break each rule by overriding a method.
"""

from collections.abc import Sequence
from typing import NamedTuple

from antecede.core.codec import Frame
from antecede.core.process import Delivery, ProcessId, Transmit
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit, PermitRequest

__all__ = ["Copy", "NaiveProcess", "Sent"]


class Sent(NamedTuple):
    """A message that was sent."""

    number: int
    targets: tuple[ProcessId, ...]
    """The targets without the sender."""
    payload: bytes
    past: frozenset[tuple[ProcessId, int]]
    """The (source, number) of all messages delivered before the send."""


class Copy(NamedTuple):
    """A message for one of its targets."""

    target: ProcessId
    number: int


class Timer(NamedTuple):
    waits_for: int
    """The oldest number without an answer; the timer restarts when it changes."""
    deadline: float


class NaiveProcess:
    """A process of the naive rule; see :class:`antecede.core.process.Process`."""

    def __init__(self, id: ProcessId, *, conservative: bool, timeout_s: float) -> None:
        self._id = id
        self.conservative = conservative
        self.timeout_s = timeout_s
        # As a sender.
        self.sent: list[Sent] = []
        self.transmitted_at: dict[Copy, float] = {}  # Of the released copies.
        self.acked: set[Copy] = set()
        self.arrived_there: set[Copy] = set()  # Known to have arrived.
        self.granted: dict[
            ProcessId, int
        ] = {}  # The highest number granted to each target.
        self.transmit_timers: dict[ProcessId, Timer] = {}
        # As a target.
        self.arrived: dict[ProcessId, dict[int, MessageFrame]] = {}
        self.delivered: dict[ProcessId, int] = {}  # The last number of each source.
        self.past: set[tuple[ProcessId, int]] = set()  # All delivered messages.
        self.permits: dict[ProcessId, int] = {}  # The highest permit of each source.
        self.request_timers: dict[ProcessId, Timer] = {}
        self._transmits: list[Transmit] = []
        self._deliveries: list[Delivery] = []

    # The rules.

    def missing(self, past: frozenset[tuple[ProcessId, int]]) -> set[tuple[ProcessId, int]]:
        """Return the messages of ``past`` whose permit is missing."""
        return {(s, number) for s, number in past if number > self.permits.get(s, 0)}

    def may_release(self, message: Sent, target: ProcessId) -> bool:
        missing = self.missing(message.past)
        if self.conservative:
            return not missing
        return all(source == target for source, _ in missing)

    def frontier(self, target: ProcessId) -> int:
        for message in self.sent:
            unacked = [t for t in message.targets if not self.is_acked(message, t)]
            if any(other != target for other in unacked):
                return message.number - 1
            if unacked and self.conservative:
                return message.number
        return len(self.sent)

    def is_acked(self, message: Sent, target: ProcessId) -> bool:
        return Copy(target, message.number) in self.acked

    def is_permitted(self, copy: Copy) -> bool:
        """Return whether ``copy`` needs no permit if it is transmitted now."""
        return copy.number <= self.frontier(copy.target)

    def permit_is_due(self, target: ProcessId) -> bool:
        """Return whether the frontier covers a released copy that is not granted."""
        granted = self.granted.get(target, 0)
        open_ = [copy.number for copy in self.released(target) if copy.number > granted]
        return bool(open_) and min(open_) <= self.frontier(target)

    def is_overdue(self, copy: Copy, now: float) -> bool:
        """Return whether to retransmit ``copy``, which is not the oldest one."""
        silent = now - self.transmitted_at[copy] >= self.timeout_s
        return silent and copy not in self.arrived_there

    def receive_permit(self, source: ProcessId, number: int) -> None:
        self.permits[source] = max(self.permits.get(source, 0), number)

    # Inputs.

    def send(self, targets: Sequence[ProcessId], payload: bytes, now: float) -> int:
        number = len(self.sent) + 1
        others = tuple(dict.fromkeys(t for t in targets if t != self._id))
        self.sent.append(Sent(number, others, payload, frozenset(self.past)))
        if self._id in targets:
            self._deliveries.append(Delivery(self._id, number, payload))
        self._apply_rules(now)
        return number

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        if isinstance(frame, MessageFrame):
            if frame.permitted:
                self.receive_permit(source, frame.number)
            self.arrived.setdefault(source, {})[frame.number] = frame
            self._deliver(source)
            self._transmit(source, Ack(self.delivered.get(source, 0), frame.number))
        elif isinstance(frame, Ack):
            self.arrived_there.add(Copy(source, frame.arrived))
            self.acked |= {c for c in self.released(source) if c.number <= frame.delivered}
        elif isinstance(frame, Permit):
            self.receive_permit(source, frame.number)
        elif isinstance(frame, PermitRequest) and frame.number <= self.frontier(source):
            self._permit(source)
        self._apply_rules(now)

    def handle_timer(self, now: float) -> None:
        deadline = now + self.timeout_s
        for target, timer in self.transmit_timers.items():
            if timer.deadline <= now:
                for copy in self.in_flight(target):
                    if copy.number == timer.waits_for or self.is_overdue(copy, now):
                        self._transmit_copy(copy, now)
                self.transmit_timers[target] = timer._replace(deadline=deadline)
        for source, timer in self.request_timers.items():
            if timer.deadline <= now:
                self._transmit(source, PermitRequest(timer.waits_for))
                self.request_timers[source] = timer._replace(deadline=deadline)

    # Outputs.

    @property
    def id(self) -> ProcessId:
        return self._id

    def next_timer(self) -> float | None:
        timers = [*self.transmit_timers.values(), *self.request_timers.values()]
        return min((timer.deadline for timer in timers), default=None)

    def frames_to_transmit(self) -> list[Transmit]:
        frames, self._transmits = self._transmits, []
        return frames

    def messages_to_deliver(self) -> list[Delivery]:
        deliveries, self._deliveries = self._deliveries, []
        return deliveries

    # Scans.

    def released(self, target: ProcessId) -> list[Copy]:
        """Return the released copies to ``target``, in order."""
        return sorted(copy for copy in self.transmitted_at if copy.target == target)

    def in_flight(self, target: ProcessId) -> list[Copy]:
        """Return the copies to ``target`` that are in flight, in order."""
        return [copy for copy in self.released(target) if copy not in self.acked]

    def _apply_rules(self, now: float) -> None:
        """Release copies, transmit permits and start timers as the rules demand."""
        for message in self.sent:
            for target in message.targets:
                copy = Copy(target, message.number)
                if copy not in self.transmitted_at and self.may_release(message, target):
                    self._transmit_copy(copy, now)
        for target in {target for message in self.sent for target in message.targets}:
            if self.permit_is_due(target):
                self._permit(target)
            numbers = [copy.number for copy in self.in_flight(target)]
            self._wait(self.transmit_timers, target, numbers, now)
        missing = self.missing(frozenset(self.past))
        for source in self.delivered:
            numbers = [number for s, number in missing if s == source]
            self._wait(self.request_timers, source, numbers, now)

    def _wait(
        self,
        timers: dict[ProcessId, Timer],
        peer: ProcessId,
        numbers: list[int],
        now: float,
    ) -> None:
        """Run a timer while ``numbers`` are without an answer.

        Answers are cumulative, so there was progress if the lowest number has changed.
        """
        if not numbers:
            timers.pop(peer, None)
        elif peer not in timers or timers[peer].waits_for != min(numbers):
            timers[peer] = Timer(min(numbers), now + self.timeout_s)

    def _deliver(self, source: ProcessId) -> None:
        """Deliver the messages from ``source`` whose predecessor was delivered."""
        last = self.delivered.get(source, 0)
        for number, message in sorted(self.arrived[source].items()):
            if number > last and message.predecessor == last:
                self._deliveries.append(Delivery(source, number, message.payload))
                self.past.add((source, number))
                self.delivered[source] = last = number

    def _transmit_copy(self, copy: Copy, now: float) -> None:
        message = self.sent[copy.number - 1]
        earlier = [
            m.number for m in self.sent[: copy.number - 1] if copy.target in m.targets
        ]
        permitted = self.is_permitted(copy)
        if permitted:
            self.granted[copy.target] = max(self.granted.get(copy.target, 0), copy.number)
        frame = MessageFrame(
            copy.number, max(earlier, default=0), permitted, message.payload
        )
        self._transmit(copy.target, frame, is_retransmission=copy in self.transmitted_at)
        self.transmitted_at[copy] = now

    def _permit(self, target: ProcessId) -> None:
        self.granted[target] = self.frontier(target)
        self._transmit(target, Permit(self.granted[target]))

    def _transmit(
        self, target: ProcessId, frame: Frame, is_retransmission: bool = False
    ) -> None:
        self._transmits.append(Transmit(target, frame, is_retransmission))
