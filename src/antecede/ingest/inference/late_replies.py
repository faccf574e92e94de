"""Find the calls that ended before their reply.

Clocks of different processes are not compared directly. Let a process p call a process q,
and let d be the difference of their clocks, that of q minus that of p. A request from p to
q is received after it is sent; so if it is sent at s by the clock of p, and received at r
by that of q, then d <= r - s. The *bound* is the least r - s of several such requests. A
reply that is sent at t by the clock of q is sent at t - d or later by that of p, hence at
t - bound or later. If the call ended before that, the reply did not end it.

The request of the call itself is one of these requests. With it alone, the rule says that
the called span lasts longer than the call span. The other requests are those of the same
tree of spans, in which clocks hardly drift. A time in whole milliseconds may be up to a
millisecond too early.
"""

import numpy as np

from antecede.ingest.event_table import NONE
from antecede.ingest.inference.span_parents import Spans
from antecede.verify.kernels.slot_map import Longs
from antecede.verify.kernels.stream import Bools

__all__ = ["find_late_replies"]

NS_PER_MS = 1_000_000


def find_late_replies(spans: Spans, is_called: Bools, has_reply: Bools) -> Bools:
    """Return the called spans whose calls ended before their reply.

    Args:
        spans: The spans, whose parents have no cycles.
        is_called: By span, whether it was called by a call span.
        has_reply: By span, whether it was called, and sends a reply.
    """
    lasted = spans.end - spans.start
    is_late = has_reply & (lasted > lasted[spans.parent])
    called = np.flatnonzero(is_called & (lasted >= 0) & (lasted[spans.parent] >= 0))
    if not len(called):
        return is_late
    caller = spans.parent[called]
    root, count = _roots(spans.parent)[called], len(spans.names)
    pair = (root * count + spans.process[caller]) * count + spans.process[called]
    pairs, index = np.unique(pair, return_inverse=True)
    bound = np.full(len(pairs), np.iinfo(np.int64).max)
    np.minimum.at(bound, index, _latest(spans.start[called]) - spans.start[caller])
    is_after = spans.end[called] - _latest(spans.end[caller]) > bound[index]
    is_late[called] |= has_reply[called] & is_after
    return is_late


def _latest(time: Longs) -> Longs:
    """Return the latest times that the timestamps can stand for."""
    return time + np.where(time % NS_PER_MS == 0, NS_PER_MS, 0)


def _roots(parent: Longs) -> Longs:
    """Return by span the root of its tree."""
    root = np.where(parent == NONE, np.arange(len(parent)), parent)
    while True:
        above = root[root]
        if np.array_equal(above, root):
            return root
        root = above
