"""How long the first transmission of each copy takes, for runs that are compared."""

from antecede.core import RetransmissionPolicy
from antecede.trace.event import Event, Kind

PATIENT = RetransmissionPolicy(initial_s=1000, minimum_s=1000, maximum_s=1000)
"""Whatever arrives within 1000 seconds is a first transmission."""
Key = tuple[int, int, int]
"""A copy: its source, its target, its number."""


def flights(events: list[Event]) -> dict[Key, float | None]:
    """Return how long each copy's first transmission took, None if it was lost.

    Of relayed messages, that is the first hop's.
    """
    released: dict[Key, float] = {}
    result: dict[Key, float | None] = {}
    for event in events:
        if event.kind is Kind.RELEASE:
            released[event.process, event.target or 0, event.number or 0] = event.time
        elif event.kind is Kind.ARRIVE:
            key = (event.source or 0, event.process, event.number or 0)
            if key in released:
                flight = event.time - released[key]
                result.setdefault(key, flight if flight < 1000 else None)
    return result
