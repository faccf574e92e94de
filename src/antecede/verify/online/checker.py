"""Check deliveries in a linear extension of happened-before, with bounded state.

:mod:`antecede.verify.online.verifier` finds such an order among the events that arrive, and
explains why no violation is false although events may be missing.

The *clock* of a message has, for each source, the number of its sends in the causal past of
the message. Copy c of source s happened before message m if the clock of m at s is at least
the ordinal of c. If a process delivers m while copy c to it is undelivered and happened
before m, the delivery is a *suspect*: it becomes a violation of causal order, and of FIFO
order if both have one source, when the process delivers c. A copy that is never delivered
is not a violation of order. A second delivery of a message, and a delivery at a process
that is not a target, are violations at once.
"""

from collections import deque

import numpy as np

from antecede.errors import TraceError
from antecede.verify.online.event_log import PROCESS_SHIFT, EventLog
from antecede.verify.online.records import (
    BROADCAST,
    NEVER,
    Message,
    ProcessState,
    Suspect,
    slots_of,
)
from antecede.verify.online.settled import SettledMessages
from antecede.verify.online.status import Counters, OnlineViolation
from antecede.verify.oracle import MessageId, Property

__all__ = ["RETENTION", "DeliveryChecker"]

RETENTION = 2
"""A message is kept for this number of delays."""
CAPACITY = 8
"""The first number of slots of a clock."""


class DeliveryChecker:
    """Processes sends and deliveries, and collects violations in :attr:`found`."""

    counters: Counters
    found: list[OnlineViolation]
    """The violations that the caller has not taken yet."""
    now: float
    """The time, which the caller sets."""
    processes: list[ProcessState]
    """By slot."""
    messages: list[dict[int, Message]]
    """By slot of the source and number, the messages that are not settled."""
    retained: deque[Message]
    """The same messages, in the order in which they were sent."""
    settled: SettledMessages
    log: EventLog
    order: int
    """The number of sends that were processed."""

    def __init__(self, delay: float, location: str) -> None:
        """See :class:`antecede.verify.online.verifier.OnlineVerifier`."""
        self.delay, self.location = delay, location
        self.counters = Counters()
        self.found = []
        self.now = NEVER
        self.processes = []
        self.messages = []
        self.retained = deque()
        self.settled = SettledMessages()
        self.log = EventLog()
        self.order = 0
        self._capacity = CAPACITY

    @property
    def undelivered(self) -> int:
        """The number of copies that are sent and not delivered, without broadcasts."""
        return sum(
            (message.targets & ~message.delivered).bit_count()
            for message in self.retained
            if message.targets != BROADCAST
        )

    @property
    def pending(self) -> int:
        """The number of deliveries that an undelivered copy can make violations."""
        return sum(
            suspect.is_causal or suspect.is_fifo
            for process in self.processes
            for suspect in process.suspects
        )

    def add_process(self, id: int) -> ProcessState:
        """Create the state of a process, in the next slot."""
        slot = len(self.processes)
        if slot == self._capacity:
            self._grow(2 * self._capacity)
        process = ProcessState(id, slot, self._capacity)
        self.processes.append(process)
        self.messages.append({})
        for message in self.retained:
            if message.targets == BROADCAST:
                process.add_copy(message)
        return process

    def _grow(self, capacity: int) -> None:
        self._capacity = capacity
        for process in self.processes:
            process.grow(capacity)
        for message in self.retained:
            longer = np.zeros(capacity, np.int64)
            longer[: len(message.clock)] = message.clock
            message.clock = longer

    def send(self, process: ProcessState, targets: int, number: int, time: float) -> None:
        """Process a send; raise TraceError if the message was sent before."""
        slot = process.slot
        own = self.messages[slot]
        if number > process.number_max:
            process.number_max = number
        elif number in own or self.settled.find(slot, number) is not None:
            name = MessageId(process.id, number)
            raise TraceError(f"{self.location}: message {name} is sent twice")
        self.counters.messages += 1
        self.order += 1
        process.sends += 1
        process.clock[slot] = process.sends
        message = Message(
            slot, number, process.sends, self.order, process.clock.copy(), targets, 0,
            time, self.now, process.inexact_until, process.gap_until,
        )  # fmt: skip
        own[number] = message
        log = self.log
        log.processes.append(slot << PROCESS_SHIFT | slot << 1 | 1)
        log.numbers.append(number)
        self.retained.append(message)
        processes = self.processes
        if targets == BROADCAST:
            for target in processes:
                target.add_copy(message)
        else:
            while targets:
                lowest = targets & -targets
                processes[lowest.bit_length() - 1].add_copy(message)
                targets ^= lowest

    def deliver(self, process: ProcessState, source: int, number: int, time: float) -> bool:
        """Process a delivery; return False, and do nothing, if its send must come first."""
        message = self.messages[source].get(number)
        if message is None:
            return self._deliver_settled(process, source, number, time)
        self.counters.deliveries += 1
        slot = process.slot
        log = self.log
        log.processes.append(slot << PROCESS_SHIFT | source << 1)
        log.numbers.append(number)
        bit = 1 << slot
        clock = message.clock
        if message.delivered & bit or not message.targets & bit:
            self._report_delivery_error(process, source, number, time, message.targets)
            np.maximum(process.clock, clock, out=process.clock)
            self._inherit(process, message)
            return True
        message.delivered |= bit
        reach = process.own_delivered if source == slot else process.clock[source]
        own = clock[slot]
        is_certain = own > process.gap_ordinal
        if not is_certain:
            self.counters.unknown["no-duplication"] += 1
        elif message.ordinal <= reach and process.suspects:
            self._report_early(process, message, time)
        np.maximum(process.clock, clock, out=process.clock)
        if own > process.own_delivered:
            process.own_delivered = int(own)
        self._inherit(process, message)
        if process.copies[source][0] is message:
            process.drop_delivered(source)
        if process.copies and (process.oldest <= clock).any():
            is_fifo = bool(process.oldest[source] < message.ordinal)
            process.suspects.append(Suspect(message, self.order, time, True, is_fifo))
            message.suspected += 1
            return True
        if message.inexact_until > self.now:
            self.counters.unknown["causal"] += 1
        if message.gap_until > self.now:
            self.counters.unknown["fifo"] += 1
        return True

    def _inherit(self, process: ProcessState, message: Message) -> None:
        if message.inexact_until > process.inexact_until:
            process.inexact_until = message.inexact_until

    def lose_past(self, process: ProcessState) -> None:
        """Note that a message in the past of the process is unknown."""
        process.inexact_until = self.now + RETENTION * self.delay

    def lose_events(self, process: ProcessState) -> None:
        """Note that the next events of the process are unknown."""
        self.lose_past(process)
        process.gap_ordinal = process.sends

    def lose_gap(self, process: ProcessState) -> None:
        """Note that the next events of the process, also sends, are unknown."""
        self.lose_events(process)
        process.gap_until = process.inexact_until

    def _deliver_settled(
        self, process: ProcessState, source: int, number: int, time: float
    ) -> bool:
        """Process a delivery of a message that is settled or expired, if it is either."""
        sender = self.processes[source]
        if number > sender.number_max:
            return False
        found = self.settled.find(source, number)
        if found is None:
            if number <= sender.number_expired:
                self.deliver_unsent(process)
                return True
            return False
        targets, reached = found
        self.counters.deliveries += 1
        self.lose_past(process)
        if targets == BROADCAST and process.slot >= reached:
            for name in ("causal", "fifo", "no-duplication"):
                self.counters.unknown[name] += 1
        else:
            self._report_delivery_error(process, source, number, time, targets)
        return True

    def deliver_unsent(self, process: ProcessState) -> None:
        """Process a delivery whose send is missing: all properties are unknown."""
        self.counters.deliveries += 1
        self.counters.unsent += 1
        for name in self.counters.unknown:
            self.counters.unknown[name] += 1
        # If the send arrives later, this was the first delivery.
        self.lose_events(process)

    def deliver_created(
        self, process: ProcessState, source: int, number: int, time: float
    ) -> None:
        """Process a delivery of a message that was certainly not sent."""
        self.counters.deliveries += 1
        self._report_delivery_error(process, source, number, time, 0)

    def _report_delivery_error(
        self, process: ProcessState, source: int, number: int, time: float, targets: int
    ) -> None:
        is_target = targets >> process.slot & 1
        which = Property.NO_DUPLICATION if is_target else Property.NO_CREATION
        message = self.messages[source].get(number)
        self.counters.violated[which.value] += 1
        self.found.append(
            OnlineViolation(
                property=which,
                process=process.id,
                message=self.message_id(source, number),
                sent_time=None if message is None else message.time,
                delivered_time=time,
            )
        )

    def _report_early(self, process: ProcessState, late: Message, time: float) -> None:
        """Report the suspects that the delivery of ``late`` proves to be violations."""
        for suspect in reversed(process.suspects):
            if suspect.order < late.order:
                return
            message = suspect.message
            if message.clock[late.source] < late.ordinal:
                continue
            if suspect.is_causal:
                suspect.is_causal = False
                self._report_order(Property.CAUSAL, process, suspect, late, time)
            if suspect.is_fifo and message.source == late.source:
                suspect.is_fifo = False
                self._report_order(Property.FIFO, process, suspect, late, time)

    def _report_order(
        self,
        which: Property,
        process: ProcessState,
        suspect: Suspect,
        late: Message,
        time: float,
    ) -> None:
        self.counters.violated[which.value] += 1
        message = suspect.message
        chain = self.log.find_chain(
            (late.source, late.number), late.order,
            (message.source, message.number), message.order,
        )  # fmt: skip
        self.found.append(
            OnlineViolation(
                property=which,
                process=process.id,
                message=self.message_id(message.source, message.number),
                sent_time=message.time,
                delivered_time=suspect.time,
                earlier=self.message_id(late.source, late.number),
                earlier_sent_time=late.time,
                earlier_delivered_time=time,
                chain=tuple(self.message_id(*each) for each in chain),
            )
        )

    def message_id(self, source: int, number: int) -> MessageId:
        """Return the identity of a message, by the slot of its source."""
        return MessageId(self.processes[source].id, number)

    def expire(self) -> None:
        """Give up the messages that were sent too long ago."""
        before = self.now - RETENTION * self.delay
        retained = self.retained
        while retained and retained[0].stamp < before:
            message = retained.popleft()
            message.is_expired = True
            sender = self.processes[message.source]
            sender.number_expired = max(sender.number_expired, message.number)
            del self.messages[message.source][message.number]
            if message.targets == BROADCAST:
                for process in self.processes:
                    process.drop_delivered(message.source)
                continue
            for target in slots_of(message.targets & ~message.delivered):
                self.counters.lost_copies += 1
                self.processes[target].drop_delivered(message.source)
        for source, highest in self.settled.expire(before).items():
            sender = self.processes[source]
            sender.number_expired = max(sender.number_expired, highest)

    def compact(self) -> None:
        """Drop the suspects that are decided or expired, and compress settled messages."""
        self.log.compact(self.now, self.order, self.now - RETENTION * self.delay)
        for process in self.processes:
            if process.suspects:
                self._drop_suspects(process)
        everyone = (1 << len(self.processes)) - 1
        old = self.now - self.delay
        settled: list[Message] = []
        kept: deque[Message] = deque()
        for message in self.retained:
            is_delivered = message.delivered == message.targets or (
                message.targets == BROADCAST
                and message.delivered == everyone
                and message.stamp < old
            )
            if is_delivered and not message.suspected:
                settled.append(message)
            else:
                kept.append(message)
        if settled:
            for message in settled:
                del self.messages[message.source][message.number]
            self.settled.add(settled, len(self.processes))
            self.retained = kept

    def _drop_suspects(self, process: ProcessState) -> None:
        kept: deque[Suspect] = deque()
        for suspect in process.suspects:
            if not suspect.message.is_expired and (suspect.is_causal or suspect.is_fifo):
                kept.append(suspect)
                continue
            self.count_unknown(suspect)
            suspect.message.suspected -= 1
        process.suspects = kept

    def count_unknown(self, suspect: Suspect) -> None:
        """Count a suspect that will not be decided."""
        self.counters.unknown["causal"] += suspect.is_causal
        self.counters.unknown["fifo"] += suspect.is_fifo
