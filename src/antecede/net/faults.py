"""The faults of a network: which datagrams arrive, and when."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import permutations, product
from random import Random

__all__ = ["FaultInjector", "Faults"]


@dataclass(frozen=True, kw_only=True)
class Faults:
    """The faults of a network."""

    loss: float = 0.0
    """Probability that a datagram is lost."""
    burst: float = 1.0
    """Mean number of datagrams that are lost in a row; ``loss`` is then the probability
    that such a burst begins."""
    duplicate: float = 0.0
    """Probability that a datagram arrives twice."""
    delay_s: float = 0.0
    """Minimum delay."""
    jitter_s: float = 0.0
    """Maximum random addition to the delay; makes datagrams overtake each other."""
    bytes_per_s: float = 0.0
    """Bandwidth of each link; 0 for no limit."""
    queue_s: float = 0.0
    """The longest time that a datagram waits for the link: the queue drops a datagram that
    would wait longer. 0 for a queue without limit."""
    mark_s: float = 0.0
    """The queue marks a datagram that waits longer, if its sender reacts to marks (ECN); 0
    for a queue that marks nothing. Only a simulated network has marks."""
    datagram_bytes_max: int = 0
    """Larger datagrams are lost, and their sender gets no error; 0 for no limit."""
    bottleneck: str = ""
    """Links with the same bottleneck share its bandwidth and its queue."""


class FaultInjector:
    """Decides, by a seeded random generator, whether and when each datagram arrives."""

    def __init__(self, faults: Faults, seed: int) -> None:
        self.faults = faults
        self.faults_of: dict[tuple[str, str], Faults] = {}
        """The faults of the links, by source and target, that differ from the others."""
        self.counts: Counter[str] = Counter()
        """Datagrams by outcome: all, partitioned, oversized, lost, overflowed, marked,
        duplicated, reordered."""
        self._random = Random(seed)
        self._blocked: set[tuple[str, str]] = set()
        self._link_free_at: dict[tuple[str, str] | str, float] = {}
        self._in_burst: set[tuple[str, str]] = set()
        self._latest_arrival: dict[tuple[str, str], float] = {}

    def partition(self, *sides: Iterable[str]) -> None:
        """Drop all datagrams between the sides, until :meth:`heal`."""
        for one, other in permutations([set(side) for side in sides], 2):
            self._blocked.update(product(one, other))

    def block(self, source: str, target: str) -> None:
        """Drop all datagrams in one direction, until :meth:`heal`."""
        self._blocked.add((source, target))

    def heal(self) -> None:
        """End every partition."""
        self._blocked.clear()

    def _waiting_s(self, link: tuple[str, str], faults: Faults, now: float) -> float:
        """Return the time for which a datagram waits for its link now."""
        return max(self._link_free_at.get(faults.bottleneck or link, now) - now, 0.0)

    def marks(self, source: str, target: str, now: float) -> bool:
        """Return whether the queue of a link would mark a datagram now."""
        link = (source, target)
        faults = self.faults_of.get(link, self.faults)
        is_marked = 0 < faults.mark_s < self._waiting_s(link, faults, now)
        self.counts["marked"] += is_marked
        return is_marked

    def delays(self, source: str, target: str, size: int, now: float) -> list[float]:
        """Return the delay of each copy of a datagram that arrives; empty if it is lost."""
        link = (source, target)
        faults = self.faults_of.get(link, self.faults) if self.faults_of else self.faults
        self.counts["all"] += 1
        if link in self._blocked:
            self.counts["partitioned"] += 1
            return []
        if 0 < faults.datagram_bytes_max < size:
            self.counts["oversized"] += 1
            return []
        if self._is_lost(link, faults):
            self.counts["lost"] += 1
            return []
        copies = 1
        if self._random.random() < faults.duplicate:
            self.counts["duplicated"] += 1
            copies = 2
        queueing_s = 0.0
        if faults.bytes_per_s:
            waiting_s = self._waiting_s(link, faults, now)
            if 0 < faults.queue_s < waiting_s:
                self.counts["overflowed"] += 1
                return []
            queueing_s = waiting_s + size / faults.bytes_per_s
            self._link_free_at[faults.bottleneck or link] = now + queueing_s
        delays = [
            queueing_s + faults.delay_s + self._random.random() * faults.jitter_s
            for _ in range(copies)
        ]
        latest = self._latest_arrival.get(link, 0.0)
        if now + delays[0] < latest:
            self.counts["reordered"] += 1
        self._latest_arrival[link] = max(latest, now + max(delays))
        return delays

    def _is_lost(self, link: tuple[str, str], faults: Faults) -> bool:
        """Return whether a datagram is lost, alone or with those before it."""
        if link in self._in_burst:
            if self._random.random() < 1 / faults.burst:
                self._in_burst.discard(link)
            else:
                return True
        if self._random.random() >= faults.loss:
            return False
        if faults.burst > 1:
            self._in_burst.add(link)
        return True
