"""The event queue of the simulator: scheduled events in the order of time.

This is a calendar queue (Brown, 1988): time is divided into buckets of equal width, an
event is appended to its bucket, and a bucket is sorted when its time comes. The buckets
share the slots of a ring, so a slot may also hold events of later rounds of the ring. The
cost of an event does not grow with the number of events, as it would in a heap. The width
of the buckets adapts to the number of events in them, the ring to the number of events.

Events of the same time are popped in the order in which they were pushed: a slot is a
list, sorting is stable, and events of the same time are always in the same bucket.
"""

from bisect import insort
from operator import attrgetter
from typing import Final

from mypy_extensions import i64, mypyc_attr

from antecede.core.codec import Frame
from antecede.core.process import NEVER
from antecede.sim.workloads.workload import PlannedSend

__all__ = [
    "ARRIVAL",
    "CONNECT",
    "CRASH",
    "DISCONNECT",
    "JOB_END",
    "JOB_START",
    "JOIN",
    "LEAVE",
    "PAUSE",
    "RESUME",
    "SEND",
    "TIMER",
    "EventQueue",
    "ScheduledEvent",
]

ARRIVAL: Final = 0
SEND: Final = 1
TIMER: Final = 2
JOB_END: Final = 3
JOB_START: Final = 4
PAUSE: Final = 5
CRASH: Final = 6
RESUME: Final = 7
JOIN: Final = 8
LEAVE: Final = 9
CONNECT: Final = 10
DISCONNECT: Final = 11

EVENTS_MAX: Final = 16
"""Narrow the buckets if they hold more events on average."""
EVENTS_MIN: Final = 2
"""Widen the buckets if they hold fewer events on average."""
BUCKETS_AVERAGED: Final = 64
"""The number of buckets of the average; fewer if they hold very many events."""
RESIZE_FACTOR: Final = 8.0
INITIAL_WIDTH_S: Final = 1e-3
INITIAL_SLOTS: Final = 256
"""The slots of the ring at first; their number is a power of two."""
EVENTS_PER_SLOT: Final = 4
"""Enlarge the ring if it holds more events per slot, by this factor."""
EMPTY_MAX: Final = 64
"""After this many empty buckets, search the ring for the next event."""
INSERTION_MAX: Final = 24
"""Up to this number of events, a bucket is sorted by insertion."""
COMPACT_AFTER: Final = 1 << 16
"""Compact the bucket after this many pops."""
BUCKET_MAX: Final = 1 << 52
"""The last bucket; it holds all later events."""
NARROW_BEFORE: Final = 1 << 40
"""Do not narrow the buckets beyond this bucket, or they would reach BUCKET_MAX."""
WIDEN_AFTER: Final = 1 << 46
"""Widen the buckets beyond this bucket, for the same reason."""

_time: Final = attrgetter("time")


@mypyc_attr(acyclic=True)
class ScheduledEvent:
    """An event at a process; which of the other attributes are used depends on the kind."""

    __slots__ = (
        "bucket",
        "frame",
        "id",
        "kind",
        "number",
        "planned",
        "process",
        "source",
        "time",
        "until",
    )

    kind: i64
    process: i64
    source: i64
    bucket: i64
    """The number of its bucket in the event queue."""

    def __init__(self, kind: i64, process: i64, time: float) -> None:
        self.kind = kind
        self.process = process
        self.time = time
        self.bucket = 0
        self.source = 0
        self.number = 0
        self.id = 0
        self.until = 0.0
        self.frame: Frame | None = None
        self.planned: PlannedSend | None = None


class EventQueue:
    """A calendar queue of scheduled events."""

    __slots__ = (
        "_bucket",
        "_buckets_seen",
        "_count",
        "_events_seen",
        "_first_s",
        "_free",
        "_index",
        "_mask",
        "_now",
        "_position",
        "_ring",
        "_width_s",
    )

    _bucket: list[ScheduledEvent]
    """The current bucket, sorted."""
    _index: i64
    """The number of the current bucket."""
    _position: i64
    """The position in the current bucket."""
    _first_s: float
    """The first time in the current bucket."""
    _now: float
    """The time of the event popped last."""
    _ring: list[list[ScheduledEvent] | None]
    """The events of later buckets: bucket b is in slot b modulo the number of slots."""
    _mask: i64
    """The number of slots, minus 1."""
    _count: i64
    """The number of events in the ring."""
    _free: list[ScheduledEvent]
    """The events to reuse."""

    def __init__(self) -> None:
        self._width_s = INITIAL_WIDTH_S
        self._ring = [None] * INITIAL_SLOTS
        self._mask = INITIAL_SLOTS - 1
        self._count = 0
        self._index = -1
        self._bucket = []
        self._position = 0
        self._first_s = 0.0
        self._now = 0.0
        self._buckets_seen = 0
        self._events_seen = 0
        self._free = []

    @property
    def bucket_width_s(self) -> float:
        """The current width of a bucket."""
        return self._width_s

    def make(self, kind: i64, process: i64, time: float) -> ScheduledEvent:
        """Return an event, perhaps a recycled one: set the attributes of its kind."""
        free = self._free
        if not free:
            return ScheduledEvent(kind, process, time)
        event = free.pop()
        event.kind = kind
        event.process = process
        event.time = time
        return event

    def recycle(self, event: ScheduledEvent) -> None:
        """Let :meth:`make` reuse a popped event, which the caller no longer needs."""
        event.frame = None
        event.planned = None
        self._free.append(event)

    def push(self, event: ScheduledEvent) -> None:
        """Add an event, which must not be earlier than the one popped last."""
        number = self._number_of(event.time)
        if number <= self._index:
            bucket = self._bucket
            if self._position == len(bucket) or bucket[-1].time <= event.time:
                bucket.append(event)
            else:
                insort(bucket, event, lo=self._position, key=_time)
            return
        event.bucket = number
        self._add(event)
        self._count += 1
        if self._count > EVENTS_PER_SLOT * (self._mask + 1):
            self._rebuild((self._mask + 1) * EVENTS_PER_SLOT)

    def next_time(self) -> float:
        """Return the time of the next event, infinite if the queue is empty."""
        if self._position == len(self._bucket) and not self._next_bucket():
            return NEVER
        return self._bucket[self._position].time

    def pop(self) -> ScheduledEvent:
        """Remove and return the next event; raise IndexError if the queue is empty."""
        if self._position == len(self._bucket) and not self._next_bucket():
            raise IndexError("pop from an empty event queue")
        event = self._bucket[self._position]
        self._now = event.time
        self._position += 1
        if self._position == COMPACT_AFTER:
            self._compact()
        return event

    def _number_of(self, time: float) -> i64:
        number = time / self._width_s
        return int(number) if number < BUCKET_MAX else BUCKET_MAX

    def _add(self, event: ScheduledEvent) -> None:
        slot = event.bucket & self._mask
        events = self._ring[slot]
        if events is None:
            self._ring[slot] = [event]
        else:
            events.append(event)

    def _next_bucket(self) -> bool:
        """Sort the next bucket and make it the current one; return whether there is one."""
        if self._count == 0:
            return False
        self._events_seen += len(self._bucket)
        self._adapt_width()
        number = self._index + 1
        empty = 0
        bucket = self._take(number)
        while bucket is None:
            empty += 1
            number = number + 1 if empty < EMPTY_MAX else self._first_number()
            bucket = self._take(number)
        self._buckets_seen += empty + 1
        self._index = number
        if len(bucket) > INSERTION_MAX:
            bucket.sort(key=_time)
        elif len(bucket) > 1:
            _sort(bucket)
        self._bucket = bucket
        self._first_s = bucket[0].time
        self._position = 0
        return True

    def _take(self, number: i64) -> list[ScheduledEvent] | None:
        """Remove the events of a bucket from the ring and return them; None without any."""
        slot = number & self._mask
        events = self._ring[slot]
        if events is None:
            return None
        later: list[ScheduledEvent] | None = None
        for event in events:
            if event.bucket != number:
                later = [event for event in events if event.bucket != number]
                if len(later) == len(events):
                    return None
                events = [event for event in events if event.bucket == number]
                break
        self._ring[slot] = later
        self._count -= len(events)
        return events

    def _first_number(self) -> i64:
        """Return the number of the first bucket in the ring."""
        first: i64 = BUCKET_MAX
        for events in self._ring:
            if events is not None:
                for event in events:
                    if event.bucket < first:
                        first = event.bucket
        return first

    def _compact(self) -> None:
        """Release the events of the current bucket that were popped."""
        del self._bucket[: self._position]
        self._events_seen += self._position
        self._position = 0

    def _adapt_width(self) -> None:
        """Change the width if the last buckets held too many or too few events."""
        if self._index > WIDEN_AFTER:
            self._resize(self._width_s * RESIZE_FACTOR)
            return
        enough = BUCKETS_AVERAGED * EVENTS_MAX
        if self._buckets_seen < BUCKETS_AVERAGED and self._events_seen < enough:
            return
        average = self._events_seen / max(self._buckets_seen, 1)
        self._buckets_seen = 0
        self._events_seen = 0
        if average > EVENTS_MAX:
            width_s = self._width_s / RESIZE_FACTOR
            # Narrower buckets cannot separate events of the same time.
            if self._first_s < self._now < NARROW_BEFORE * width_s:
                self._resize(width_s)
        elif average < EVENTS_MIN:
            self._resize(self._width_s * RESIZE_FACTOR)

    def _resize(self, width_s: float) -> None:
        """Change the width, after the last event of the current bucket was popped."""
        self._width_s = width_s
        self._index = self._number_of(self._now) - 1
        for events in self._ring:
            if events is not None:
                for event in events:
                    event.bucket = self._number_of(event.time)
        self._rebuild(self._mask + 1)

    def _rebuild(self, slots: i64) -> None:
        """Distribute the events of the ring to this number of slots."""
        old = self._ring
        self._ring = [None] * slots
        self._mask = slots - 1
        for events in old:
            if events is not None:
                for event in events:
                    self._add(event)


def _sort(bucket: list[ScheduledEvent]) -> None:
    """Sort a few events by time, those of the same time in their order."""
    end: i64 = len(bucket)
    index: i64 = 1
    while index < end:
        event = bucket[index]
        time = event.time
        free = index
        while free > 0 and bucket[free - 1].time > time:
            bucket[free] = bucket[free - 1]
            free -= 1
        if free < index:
            bucket[free] = event
        index += 1
