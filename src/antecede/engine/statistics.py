"""The counters of an engine."""

from dataclasses import dataclass

__all__ = ["EngineStats"]


@dataclass(frozen=True, kw_only=True)
class EngineStats:
    """Counters of an engine since its start."""

    sent: int
    """Messages that the application sent; every fragment counts."""
    released: int
    """Copies of messages that were transmitted for the first time."""
    retransmitted: int
    delivered: int
    """Messages that were delivered to the application; all fragments count as one."""
    control_frames: int
    datagrams_in: int
    datagrams_out: int
    lost: int
    """Datagrams with frames that were taken for lost; the frames were transmitted again."""
    probes: int
    """How often a peer did not answer for a probe timeout."""
    marks: int
    """The number of times that peers reported marks of queues on the path."""
    dropped: dict[str, int]
    """Datagrams and frames that were dropped, by reason."""
