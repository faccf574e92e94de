"""Summaries of ``pc-broadcast``: from each source to the highest number delivered."""

from antecede.core.process import ProcessId
from antecede.core.protocols.flood import RelayedMessage

__all__ = ["PendingSummaries", "contains", "delivered_before", "missing_from"]


class _PendingSummary:
    """A received summary, and the part of it that is not delivered here."""

    __slots__ = ("missing", "number")

    def __init__(self, number: int, missing: dict[ProcessId, int]) -> None:
        self.number = number
        self.missing = missing


class PendingSummaries:
    """The received summaries that are not answered yet, at most one per peer."""

    __slots__ = ("_summaries",)

    def __init__(self) -> None:
        self._summaries: dict[ProcessId, _PendingSummary] = {}

    def __len__(self) -> int:
        return len(self._summaries)

    def add(self, peer: ProcessId, number: int, missing: dict[ProcessId, int]) -> None:
        """Store a summary of ``peer``, in place of an earlier one."""
        self._summaries[peer] = _PendingSummary(number, missing)

    def discard(self, peer: ProcessId) -> None:
        """Remove the summary of ``peer``, if there is one."""
        self._summaries.pop(peer, None)

    def pop_complete(self, received: dict[ProcessId, int]) -> list[tuple[ProcessId, int]]:
        """Remove the summaries of which nothing is missing; return peers and numbers."""
        complete: list[tuple[ProcessId, int]] = []
        for peer, summary in self._summaries.items():
            summary.missing = missing_from(received, summary.missing)
            if not summary.missing:
                complete.append((peer, summary.number))
        for peer, _ in complete:
            del self._summaries[peer]
        return complete


def delivered_before(
    received: dict[ProcessId, int], buffer: list[RelayedMessage]
) -> dict[ProcessId, int]:
    """Return the summary of ``received`` before the messages in ``buffer``."""
    delivered = received.copy()
    for message in reversed(buffer):
        delivered[message.source] = message.number - 1
        if message.number == 1:
            del delivered[message.source]
    return delivered


def missing_from(
    received: dict[ProcessId, int], delivered: dict[ProcessId, int]
) -> dict[ProcessId, int]:
    """Return the part of ``delivered`` that is not in ``received``."""
    return {o: number for o, number in delivered.items() if number > received.get(o, 0)}


def contains(
    delivered: dict[ProcessId, int], received: dict[ProcessId, int], own: ProcessId
) -> bool:
    """Return whether ``delivered`` contains ``received``, except messages of ``own``."""
    for source, number in received.items():
        if source != own and number > delivered.get(source, 0):
            return False
    return True
