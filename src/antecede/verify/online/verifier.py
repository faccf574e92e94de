"""Verify a run while its events arrive, in any order.

Order of processing. The events of a process are processed in the order of ``seq``; an event
waits for its predecessors. A delivery also waits for the send of its message. So events are
processed in a linear extension of happened-before, whatever the order of their arrival.

Violations. :mod:`antecede.verify.online.checker` finds them in that order, by the clocks of
the messages.

Bounded state. Every event is processed within the *delay* after its arrival: then the
verifier gives up the predecessors that are missing (a gap), or the send (an unsent
delivery). A message is kept for twice the delay, since a delivery may arrive one delay
after the send, and be processed one delay later; then its undelivered copies are given up.
What this leaves undecided is counted as unknown.

No false violation. Giving up removes knowledge, and never invents any:

* An entry of a clock counts only sends that were processed, and only along deliveries that
  were processed; so it is a lower bound, and "c happened before m" is true if it is found.
* A delivery that the verifier sees as the first of copy c at p may be the second, if the
  first was in a gap of p, or was an unsent delivery. So after a gap at p, c counts only if
  the clock of c at p includes a send of p after the gap; then p can have delivered c only
  after the gap. The delivery of m before it was seen, so it is a true early delivery.
* no-duplication: two deliveries with different ``seq`` were seen.
* no-creation: the send was seen, and the process is not among its targets. A delivery
  without a send is unknown until :meth:`OnlineVerifier.finish`.

Chains. :mod:`antecede.verify.online.event_log` keeps the sends and deliveries for as long
as the messages, so that the chain of a violation is known.

A message is expired only after all messages of its causal past that the verifier knows, so
a suspect is dropped, and is unknown, when its own message expires.

This module needs the extra ``antecede[trace]``.
"""

from collections import deque
from collections.abc import Collection, Iterable

import numpy as np
import pyarrow as pa

from antecede.errors import TraceError
from antecede.verify.kernels.slot_map import SlotMap
from antecede.verify.online.arrivals import find_segments
from antecede.verify.online.checker import DeliveryChecker
from antecede.verify.online.histories import insert_segment, oldest_stamp, skip_gap
from antecede.verify.online.records import ArrivedEvent, ProcessState
from antecede.verify.online.status import Counters, OnlineViolation

__all__ = ["OnlineVerifier"]


class OnlineVerifier:
    """Verifies one run while its events arrive.

    Pass events to :meth:`add`, then the time to :meth:`advance`; both return the violations
    that have become known. The time is any clock that does not go back: the wall clock, or
    the highest time of the events so far.
    """

    checker: DeliveryChecker
    has_ended: bool
    """:meth:`finish` was called."""
    slots: SlotMap
    """The slot of each process."""

    def __init__(self, delay: float, *, location: str = "run") -> None:
        """Start a run.

        Args:
            delay: How long an event may wait for another, in the unit of the time.
            location: The text that error messages begin with.
        """
        self.checker = DeliveryChecker(delay, location)
        self.has_ended = False
        self.slots = SlotMap()
        self._waiting: dict[tuple[int, int], list[ProcessState]] = {}
        """By source and number, the processes whose next event is the delivery."""
        self._ready: deque[ProcessState] = deque()

    @property
    def counters(self) -> Counters:
        """What was counted so far."""
        return self.checker.counters

    @property
    def waiting(self) -> int:
        """The number of sends and deliveries that wait for other events."""
        return sum(
            len(segment.events) - segment.position
            for process in self.checker.processes
            for segment in process.segments
        )

    def add(self, batches: Iterable[pa.RecordBatch], now: float) -> list[OnlineViolation]:
        """Process the events that arrived; return the violations that they prove.

        Args:
            batches: Rows with the columns of a trace; ``kind`` is dictionary-encoded.
            now: The time of their arrival.

        Raises:
            TraceError: The events are not a run: a message is sent twice, or by a process
                other than its source. Use another verifier afterwards.
        """
        checker = self.checker
        checker.now = max(checker.now, now)
        for batch in batches:
            found = list(find_segments(batch, self.slots, checker.now, checker.location))
            for slot in range(len(checker.processes), len(self.slots)):
                checker.add_process(int(self.slots.first[slot]))
            for slot, segment in found:
                process = checker.processes[slot]
                insert_segment(process, segment, checker.counters)
                self._queue(process)
        self._drain()
        return self._take()

    def lose_events(self, ids: Collection[int], now: float) -> None:
        """Note that events of some processes, before their next ones, are unknown.

        Args:
            ids: The processes.
            now: The time.
        """
        checker = self.checker
        checker.now = max(checker.now, now)
        slots = self.slots.add(np.array(ids, np.int64), np.zeros(len(ids), np.int64))
        for slot in range(len(checker.processes), len(self.slots)):
            checker.add_process(int(self.slots.first[slot]))
        for slot in slots.tolist():
            process = checker.processes[slot]
            checker.lose_gap(process)

    def advance(self, now: float) -> list[OnlineViolation]:
        """Give up what has waited too long; return the violations that this proves."""
        checker = self.checker
        checker.now = max(checker.now, now)
        before = checker.now - checker.delay
        while self._skip_gaps(before) or self._skip_send(before):
            self._drain()
        checker.expire()
        checker.compact()
        for process in checker.processes:
            process.given_up = [gap for gap in process.given_up if gap[2] >= before]
        return self._take()

    def finish(self, *, unrecorded: Collection[int] = ()) -> list[OnlineViolation]:
        """End the run: all its events have arrived. Return the last violations.

        Without a gap, a delivery whose send has not arrived violates no-creation.

        Args:
            unrecorded: The processes whose events are not all recorded; the delivery of
                one of their messages without a send is unknown.

        Raises:
            TraceError: A message was delivered before it can have been sent.
        """
        checker = self.checker
        while self._skip_gaps(np.inf):
            self._drain()
        while True:
            unsent = self._find_unsent()
            if unsent is None:
                break
            process, event = unsent
            is_recorded = checker.processes[event[2]].id not in unrecorded
            if checker.counters.missing or checker.counters.unsent or not is_recorded:
                checker.deliver_unsent(process)
            else:
                checker.deliver_created(process, event[2], event[3], event[4])
            self._pass_event(process)
            self._drain()
        self.has_ended = True
        for process in checker.processes:
            if checker.counters.missing or checker.counters.unsent:
                for suspect in process.suspects:
                    checker.count_unknown(suspect)
            process.suspects.clear()
        return self._take()

    def resume(self) -> None:
        """Process the events that do not wait, after the state was restored."""
        for process in self.checker.processes:
            self._queue(process)
        self._drain()

    def _take(self) -> list[OnlineViolation]:
        found, self.checker.found = self.checker.found, []
        return found

    def _queue(self, process: ProcessState) -> None:
        if not process.is_queued:
            process.is_queued = True
            self._ready.append(process)

    def _drain(self) -> None:
        """Process all events that do not wait."""
        while self._ready:
            process = self._ready.popleft()
            process.is_queued = False
            self._run(process)

    def _run(self, process: ProcessState) -> None:
        """Process the next events of a process, until one waits."""
        send, deliver = self.checker.send, self.checker.deliver
        slot = process.slot
        segments = process.segments
        while segments:
            segment = segments[0]
            if segment.first > process.next_seq:
                return
            events = segment.events
            for i in range(segment.position, len(events)):
                is_send, targets, source, number, time = events[i]
                if is_send:
                    send(process, targets, number, time)
                    if self._waiting:
                        for waiting in self._waiting.pop((slot, number), ()):
                            self._queue(waiting)
                elif not deliver(process, source, number, time):
                    segment.position = i
                    self._waiting.setdefault((source, number), []).append(process)
                    return
            process.next_seq = segment.end
            del segments[0]

    def _skip_gaps(self, before: float) -> bool:
        """Give up the missing predecessors of events that arrived before a time."""
        has_skipped = False
        for process in self.checker.processes:
            segments = process.segments
            if (
                segments
                and segments[0].first > process.next_seq
                and oldest_stamp(process) < before
            ):
                skip_gap(process, self.checker.now, self.checker.counters)
                self.checker.lose_gap(process)
                self._queue(process)
                has_skipped = True
        return has_skipped

    def _skip_send(self, before: float) -> bool:
        """Give up the send for which the oldest event that arrived before a time waits."""
        blocked = [process for process in self.checker.processes if process.segments]
        oldest = min(blocked, key=oldest_stamp, default=None)
        if oldest is None or oldest_stamp(oldest) >= before:
            return False
        self.checker.deliver_unsent(oldest)
        self._pass_event(oldest)
        return True

    def _find_unsent(self) -> tuple[ProcessState, ArrivedEvent] | None:
        """Return a delivery that waits for a send that has not arrived, and its process.

        Return None if no event waits; raise TraceError if all wait for each other.
        """
        blocked = [process for process in self.checker.processes if process.segments]
        arrived = {
            (event[2], event[3])
            for process in blocked
            for segment in process.segments
            for event in segment.events[segment.position :]
            if event[0]
        }
        heads = [each.segments[0].events[each.segments[0].position] for each in blocked]
        for process, event in zip(blocked, heads, strict=True):
            if (event[2], event[3]) not in arrived:
                return process, event
        if not blocked:
            return None
        message = self.checker.message_id(heads[0][2], heads[0][3])
        raise TraceError(
            f"{self.checker.location}: process {blocked[0].id} delivered {message} before"
            " it can have been sent"
        )

    def _pass_event(self, process: ProcessState) -> None:
        """Continue after the event that waits."""
        segment = process.segments[0]
        _, _, source, number, _ = segment.events[segment.position]
        self._waiting[source, number].remove(process)
        if not self._waiting[source, number]:
            del self._waiting[source, number]
        segment.position += 1
        self._queue(process)
