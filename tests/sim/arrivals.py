"""The flight times of first transmissions, for runs that are compared."""

from antecede.core import RetransmissionPolicy
from antecede.trace.event import Event, Kind

PATIENT = RetransmissionPolicy(initial_s=1000, minimum_s=1000, maximum_s=1000)
"""Only first transmissions arrive within 1000 seconds."""
Copy = tuple[int, int, int]
"""The source, target and number of a copy."""


def flight_times(events: list[Event]) -> dict[Copy, float | None]:
    """Return the flight time of each copy's first transmission, None if it was lost.

    For relayed messages, that is the time of the first hop.
    """
    released: dict[Copy, float] = {}
    result: dict[Copy, float | None] = {}
    for event in events:
        if event.kind is Kind.RELEASE:
            released[event.process, event.target or 0, event.number or 0] = event.time
        elif event.kind is Kind.ARRIVE:
            copy = (event.source or 0, event.process, event.number or 0)
            if copy in released:
                flight_time = event.time - released[copy]
                result.setdefault(copy, flight_time if flight_time < 1000 else None)
    return result
