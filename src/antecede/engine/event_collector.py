"""The events of an engine, until its driver polls them."""

from typing import Final

from antecede.engine.events import EventsDropped, NodeEvent

__all__ = ["REPORT_GAP_S", "EventCollector"]

EVENTS_MAX: Final = 1024
"""The maximum number of events that wait for :meth:`EventCollector.poll`."""
CAUSES_MAX: Final = 1024
"""The number of causes whose last report :meth:`EventCollector.count` remembers."""
REPORT_GAP_S: Final = 10.0
"""The time for which a cause that outsiders can repeat is not reported again."""


class EventCollector:
    """Collects events, and limits the rate of those that a stranger could cause."""

    __slots__ = ("_causes", "_dropped", "_events")

    def __init__(self) -> None:
        self._events: list[NodeEvent] = []
        self._dropped = 0
        # By cause, the time of the last report and the number of occurrences since then.
        self._causes: dict[str, tuple[float, int]] = {}

    @property
    def has_events(self) -> bool:
        """Whether :meth:`poll` would return any."""
        return bool(self._events)

    def add(self, event: NodeEvent) -> None:
        """Add an event; drop it if the queue is full."""
        if len(self._events) >= EVENTS_MAX:
            self._dropped += 1
            return
        self._events.append(event)

    def poll(self) -> list[NodeEvent]:
        """Remove and return the events, in order."""
        events = self._events
        self._events = []
        if self._dropped > 0:
            events.append(EventsDropped(count=self._dropped))
            self._dropped = 0
        return events

    def count(self, cause: str, now: float, gap_s: float = REPORT_GAP_S) -> int:
        """Count an occurrence of a cause; return 0 if it was reported recently.

        Otherwise it is to be reported now: return how often it occurred since the last
        report.
        """
        reported_at, count = self._causes.pop(cause, (now - gap_s, 0))
        if len(self._causes) >= CAUSES_MAX:
            del self._causes[next(iter(self._causes))]  # The oldest report.
        count += 1
        if now - reported_at < gap_s:
            self._causes[cause] = (reported_at, count)
            return 0
        self._causes[cause] = (now, 0)
        return count
