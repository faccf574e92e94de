"""Resumes the calls of an application that need not wait any more."""

from collections.abc import Callable

from antecede.engine.engine import Engine
from antecede.net.blocked_sends import BlockedSends
from antecede.net.receipts import Receipts
from antecede.net.waiters import Waiters

__all__ = ["resume_calls"]


def resume_calls(
    engine: Engine,
    waiters: Waiters,
    sends: BlockedSends,
    receipts: Receipts,
    now_s: Callable[[], float],
) -> bool:
    """Resume the calls that need not wait any more; return whether messages were sent."""
    has_sent = bool(sends.queues) and sends.send(engine, now_s())
    if waiters.flushers and not engine.backlog:
        waiters.wake_flushers()
    if waiters.meeters:
        waiters.wake_meeters()
    if receipts:
        receipts.update(engine)
    return has_sent
