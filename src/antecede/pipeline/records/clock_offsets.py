"""Find an offset for each clock, so that messages are received after they were sent.

Let a message from p to q be sent at time s by the clock of p, and received at time r by the
clock of q. Its *lead* is s - r; it is positive if the receive seems to be before the send.
With the offsets o, the lead becomes s + o(p) - r - o(q). It is at most w for all messages
from p to q if o(q) - o(p) >= lead(p, q) - w, where lead(p, q) is their greatest lead. Such
a system of difference constraints has a solution if no cycle of its graph has a positive
sum; the algorithm of Bellman and Ford finds one. A bisection finds the least w.

If every clock runs at the right speed, then w = 0 has a solution: the offsets that the
clocks really have.
"""

import numpy as np

from antecede.verify.kernels.slot_map import Longs

__all__ = ["find_offsets"]

PRECISION = 64
"""The greatest lead that remains is above the least possible one by at most one part in
this number."""


def find_offsets(processes: int, source: Longs, target: Longs, lead: Longs) -> Longs:
    """Return the offset of each clock.

    Args:
        processes: The number of processes.
        source: By pair of processes, the source.
        target: By pair of processes, the target.
        lead: By pair of processes, the greatest lead of their messages.
    """
    is_remote = source != target
    source, target, lead = source[is_remote], target[is_remote], lead[is_remote]
    most = max(0, int(lead.max(initial=0)))
    offsets = _solve(processes, source, target, lead)
    if offsets is not None:
        return offsets
    low, high = 0, most
    offsets = np.zeros(processes, np.int64)
    while high - low > max(1, high // PRECISION):
        middle = (low + high) // 2
        found = _solve(processes, source, target, lead - middle)
        if found is None:
            low = middle
        else:
            high, offsets = middle, found
    return offsets


def _solve(processes: int, source: Longs, target: Longs, lead: Longs) -> Longs | None:
    """Return offsets with which no lead remains; None if there are none."""
    offsets: Longs = np.zeros(processes, np.int64)
    for _ in range(processes + 1):
        wanted = offsets.copy()
        np.maximum.at(wanted, target, offsets[source] + lead)
        if np.array_equal(wanted, offsets):
            return offsets
        offsets = wanted
    return None
