"""Messages that are given up: their numbers, and the events that report them."""

from collections.abc import Iterable
from typing import Final

from antecede.core.process import UNBOUNDED, ProcessBase, ProcessId
from antecede.engine.event_collector import EventCollector
from antecede.engine.events import Gap

__all__ = ["Gaps"]

REMEMBERED_MAX: Final = 256
"""The number of ranges of messages given up that are remembered for each peer."""

Range = tuple[int, int]
"""The first and the last number."""


class Gaps:
    """The messages that one node or its peers have given up.

    Args:
        process: the process of the node.
        events: takes the events.
    """

    __slots__ = ("_events", "_given_up", "_process")

    def __init__(self, process: ProcessBase, events: EventCollector) -> None:
        self._process = process
        self._events = events
        self._given_up: dict[str, list[Range]] = {}

    def report_to(self, name: str, id: ProcessId) -> None:
        """Report the copies to a peer that are about to be abandoned, if there are any."""
        process = self._process
        assert process.pending is not None  # A protocol that can abandon can list them.
        assert process.recovery is not None
        ranges = _ranges(number for number, _ in process.pending.unacked_copies(id))
        if ranges:
            _, acked, _, _ = process.recovery.channel_numbers(id)
            found = self._given_up.pop(name, []) + ranges
            if len(self._given_up) >= REMEMBERED_MAX:
                del self._given_up[next(iter(self._given_up))]
            self._given_up[name] = found[-max(REMEMBERED_MAX, len(ranges)) :]
            event = Gap(peer=name, direction="to", numbers=tuple(ranges), after=acked)
            self._events.add(event)

    def report_from(self, name: str, id: ProcessId) -> None:
        """Report that a peer has abandoned its messages to this node, which drops them.

        The node knows only those that it holds.
        """
        process = self._process
        assert process.pending is not None
        assert process.recovery is not None
        held = [
            number
            for source, number, _ in process.pending.held_messages(UNBOUNDED)
            if source == id
        ]
        _, _, delivered, _ = process.recovery.channel_numbers(id)
        ranges = tuple(_ranges(sorted(held)))
        self._events.add(Gap(peer=name, direction="from", numbers=ranges, after=delivered))

    def has_given_up(self, name: str, number: int) -> bool:
        """Return whether the copy of a message to a peer is one of those given up last."""
        ranges = self._given_up.get(name, [])
        return any(first <= number <= last for first, last in ranges)


def _ranges(numbers: Iterable[int]) -> list[Range]:
    """Return increasing numbers as ranges."""
    ranges: list[Range] = []
    for number in numbers:
        if ranges and ranges[-1][1] + 1 == number:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges
