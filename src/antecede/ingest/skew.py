"""Clock skew: messages that were received before they were sent, by the timestamps.

Skew is no error, because timestamps of different processes are never compared to order
events.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Skew", "SkewedPair", "find_skew"]

NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewedPair:
    """The skew of the messages from one process to another."""

    source: str
    target: str
    count: int
    """The number of messages whose receive is before their send, by the timestamps."""
    worst_ns: int
    """The longest time by which a receive is before its send. The clocks of the two
    processes differ by at least this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """The skew of all messages of a run."""

    messages: int
    """The number of deliveries with both timestamps."""
    count: int
    """The number of these whose receive is before their send."""
    pairs: tuple[SkewedPair, ...]
    """The pairs of processes with such messages, the worst first."""

    def __str__(self) -> str:
        if not self.count:
            return f"skew: none of {self.messages:,} messages contradicts the timestamps"
        worst = self.pairs[0]
        return (
            f"skew: {self.count:,} of {self.messages:,} messages received before they were"
            f" sent, by the timestamps; at worst {worst.worst_ns / NS_PER_MS:.3f} ms,"
            f" {worst.source} to {worst.target}; {len(self.pairs)} pairs of processes"
        )

    def to_json(self) -> dict[str, object]:
        """Return the skew as JSON values."""
        pairs = [
            {
                "source": pair.source,
                "target": pair.target,
                "count": pair.count,
                "worst_ms": pair.worst_ns / NS_PER_MS,
            }
            for pair in self.pairs
        ]
        return {"messages": self.messages, "count": self.count, "pairs": pairs}


def find_skew(
    source: np.ndarray,
    target: np.ndarray,
    lead_ns: np.ndarray,
    names: Sequence[str],
) -> Skew:
    """Find the pairs of processes whose timestamps contradict their messages.

    Args:
        source: By delivery, the process that sent the message.
        target: By delivery, the process that received it.
        lead_ns: By delivery, the time of its send minus its own.
        names: By process, its name.
    """
    early = np.flatnonzero(lead_ns > 0)
    width = len(names)
    key = source[early].astype(np.int64) * width + target[early]
    pair, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    worst = np.zeros(len(pair), np.int64)
    np.maximum.at(worst, inverse, lead_ns[early])
    pairs = [
        SkewedPair(
            source=names[pair[i] // width],
            target=names[pair[i] % width],
            count=int(counts[i]),
            worst_ns=int(worst[i]),
        )
        for i in np.lexsort((pair, -worst))
    ]
    return Skew(messages=len(lead_ns), count=len(early), pairs=tuple(pairs))
