"""The event queue of the simulator: scheduled events in the order of time.

This is a calendar queue (Brown, 1988): time is divided into buckets of equal width, an
event is appended to its bucket, and a bucket is sorted when its time comes. The cost of an
event does not grow with the number of events, as it would in a heap. The width of the
buckets adapts to the number of events in them.

Events of the same time are popped in the order in which they were pushed: a bucket is a
list, sorting is stable, and events of the same time are always in the same bucket.
"""

from bisect import insort
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Final

from mypy_extensions import mypyc_attr

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

EVENTS_MAX: Final = 256
"""Narrow the buckets if they hold more events on average."""
EVENTS_MIN: Final = 4
"""Widen the buckets if they hold fewer events on average."""
BUCKETS_AVERAGED: Final = 64
"""The number of buckets of the average; fewer if they hold very many events."""
RESIZE_FACTOR: Final = 8.0
INITIAL_WIDTH_S: Final = 1e-3
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

    def __init__(self, kind: int, process: int, time: float) -> None:
        self.kind = kind
        self.process = process
        self.time = time
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
        "_buckets",
        "_buckets_seen",
        "_events_seen",
        "_heap",
        "_index",
        "_position",
        "_width_s",
    )

    def __init__(self) -> None:
        self._width_s = INITIAL_WIDTH_S
        self._buckets: dict[int, list[ScheduledEvent]] = {}
        self._heap: list[int] = []  # A heap of the keys of `_buckets`.
        self._index = -1
        self._bucket: list[ScheduledEvent] = []  # The current bucket, sorted.
        self._position = 0
        self._buckets_seen = 0
        self._events_seen = 0

    @property
    def bucket_width_s(self) -> float:
        """The current width of a bucket."""
        return self._width_s

    def push(self, event: ScheduledEvent) -> None:
        """Add an event, which must not be earlier than the one popped last."""
        index = self._index_of(event.time)
        if index <= self._index:
            insort(self._bucket, event, lo=self._position, key=_time)
            return
        bucket = self._buckets.get(index)
        if bucket is None:
            self._buckets[index] = [event]
            heappush(self._heap, index)
        else:
            bucket.append(event)

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
        self._position += 1
        if self._position == COMPACT_AFTER:
            self._compact()
        return event

    def _index_of(self, time: float) -> int:
        index = time / self._width_s
        return int(index) if index < BUCKET_MAX else BUCKET_MAX

    def _next_bucket(self) -> bool:
        """Sort the next bucket and make it the current one; return whether there is one."""
        if not self._heap:
            return False
        self._events_seen += len(self._bucket)
        self._buckets_seen += 1
        self._adapt_width()
        self._index = heappop(self._heap)
        bucket = self._buckets.pop(self._index)
        if len(bucket) > 1:
            bucket.sort(key=_time)
        self._bucket = bucket
        self._position = 0
        return True

    def _compact(self) -> None:
        """Release the events of the current bucket that were popped."""
        del self._bucket[: self._position]
        self._events_seen += self._position
        self._position = 0

    def _adapt_width(self) -> None:
        """Change the width if the last buckets held too many or too few events."""
        if self._heap[0] > WIDEN_AFTER:
            self._resize(self._width_s * RESIZE_FACTOR)
            return
        enough = BUCKETS_AVERAGED * EVENTS_MAX
        if self._buckets_seen < BUCKETS_AVERAGED and self._events_seen < enough:
            return
        average = self._events_seen / self._buckets_seen
        self._buckets_seen = 0
        self._events_seen = 0
        if average > EVENTS_MAX:
            self._narrow()
        elif average < EVENTS_MIN and len(self._heap) > EVENTS_MIN:
            self._resize(self._width_s * RESIZE_FACTOR)

    def _narrow(self) -> None:
        """Narrow the buckets, unless all events of the bucket have the same time."""
        width_s = self._width_s / RESIZE_FACTOR
        bucket = self._bucket
        if bucket and bucket[0].time < bucket[-1].time < NARROW_BEFORE * width_s:
            self._resize(width_s)

    def _resize(self, width_s: float) -> None:
        old = self._buckets
        self._width_s = width_s
        self._buckets = {}
        for bucket in old.values():
            for event in bucket:
                self._buckets.setdefault(self._index_of(event.time), []).append(event)
        self._heap = list(self._buckets)
        heapify(self._heap)
