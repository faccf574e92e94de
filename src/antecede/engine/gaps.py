"""The events of messages that are given up."""

from collections.abc import Iterable

from antecede.core.pending import PendingMessages
from antecede.core.process import UNBOUNDED, PeerRecovery, ProcessBase, ProcessId
from antecede.engine.event_collector import EventCollector
from antecede.engine.events import Gap

__all__ = ["report_gap_from", "report_gap_to"]


def report_gap_to(
    events: EventCollector, process: ProcessBase, name: str, id: ProcessId
) -> None:
    """Report the copies to a peer that are about to be abandoned, if there are any."""
    pending, recovery = _parts(process)
    numbers = [number for number, _ in pending.unacked_copies(id)]
    if numbers:
        _, acked, _, _ = recovery.channel_numbers(id)
        ranges = _ranges(numbers)
        events.add(Gap(peer=name, direction="to", numbers=ranges, after=acked))


def report_gap_from(
    events: EventCollector, process: ProcessBase, name: str, id: ProcessId
) -> None:
    """Report that a peer has abandoned its messages to this node, before they are dropped.

    Only the messages that are held are known.
    """
    pending, recovery = _parts(process)
    held = [
        number for source, number, _ in pending.held_messages(UNBOUNDED) if source == id
    ]
    _, _, delivered, _ = recovery.channel_numbers(id)
    ranges = _ranges(sorted(held))
    events.add(Gap(peer=name, direction="from", numbers=ranges, after=delivered))


def _parts(process: ProcessBase) -> tuple[PendingMessages, PeerRecovery]:
    pending = process.pending
    recovery = process.recovery
    assert pending is not None  # A protocol that can abandon messages can list them.
    assert recovery is not None
    return pending, recovery


def _ranges(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return increasing numbers as ranges, first and last."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] + 1 == number:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return tuple(ranges)
