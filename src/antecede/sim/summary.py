"""What a run cost, computed from its events."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from antecede.trace import Event, Kind

__all__ = ["Summary", "summarise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Means over all delivered copies of messages to other processes, and totals."""

    messages: int
    """Messages sent."""
    copies: int
    """Copies delivered at other processes."""
    sender_wait_s: float
    """From send to release."""
    wire_s: float
    """From release to the first arrival, losses and retransmissions included."""
    receiver_wait_s: float
    """From the first arrival to delivery."""
    control_frames: int
    """Frames without a message."""
    retransmissions: int
    """Messages transmitted again."""
    metadata_bytes_per_copy: float
    """Bytes beside the payload, in all frames, per copy delivered."""
    duration_s: float
    """Virtual time from the start to the last event."""


def summarise(history: Iterable[Event]) -> Summary:
    """Compute the summary of a run from its events."""
    moments: dict[tuple[Kind, int | None, int | None, int | None], float] = {}
    counts = dict.fromkeys(Kind, 0)
    metadata = 0
    duration = 0.0
    for event in history:
        counts[event.kind] += 1
        metadata += event.metadata_bytes or 0
        duration = max(duration, event.time)
        moments.setdefault(
            (event.kind, event.source, event.number, event.target), event.time
        )
    waits: list[tuple[float, float, float]] = []
    for (kind, source, number, target), delivered in moments.items():
        if kind is Kind.DELIVER and source != target:
            sent = moments[Kind.SEND, source, number, None]
            released = moments[Kind.RELEASE, source, number, target]
            arrived = moments[Kind.ARRIVE, source, number, target]
            waits.append((released - sent, arrived - released, delivered - arrived))
    sender, wire, receiver = (
        (fmean(column) for column in zip(*waits, strict=True)) if waits else (0.0,) * 3
    )
    return Summary(
        messages=counts[Kind.SEND],
        copies=len(waits),
        sender_wait_s=sender,
        wire_s=wire,
        receiver_wait_s=receiver,
        control_frames=counts[Kind.CONTROL],
        retransmissions=counts[Kind.TRANSMIT],
        metadata_bytes_per_copy=metadata / len(waits) if waits else 0.0,
        duration_s=duration,
    )
