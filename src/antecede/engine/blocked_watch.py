"""Detects messages that wait too long for a peer, and an application that receives none."""

from typing import Final

from antecede.core.process import NEVER
from antecede.engine.event_collector import EventCollector
from antecede.engine.events import Blocked, InboxFull
from antecede.engine.flow_control import FlowControl
from antecede.engine.process_driver import ProcessDriver

__all__ = ["BlockedWatch"]

CHECKS: Final = 2
"""The number of checks during the time after which a message counts as blocked."""


class _Oldest:
    """The oldest message in one stage that waits for a peer."""

    __slots__ = ("is_reported", "number", "since", "source")

    def __init__(self, source: str, number: int, since: float) -> None:
        self.source = source
        self.number = number
        self.since = since
        self.is_reported = False


class BlockedWatch:
    """Compares the oldest waiting messages from time to time, while messages wait.

    Args:
        driver: drives the process.
        flow: the room in the inbox.
        limit_s: the time after which a message is blocked.
        events: takes the events.
    """

    __slots__ = (
        "_driver",
        "_events",
        "_flow",
        "_is_inbox_reported",
        "_limit_s",
        "_oldest",
        "_received",
        "_received_at",
        "deadline",
    )

    deadline: float
    """The time at which to call :meth:`handle_deadline`; infinite for never."""

    def __init__(
        self,
        driver: ProcessDriver,
        flow: FlowControl,
        limit_s: float,
        events: EventCollector,
    ) -> None:
        self._driver = driver
        self._flow = flow
        self._limit_s = limit_s
        self._events = events
        self._oldest: dict[tuple[str, str], _Oldest] = {}
        self._received = -1
        self._received_at = 0.0
        self._is_inbox_reported = False
        self.deadline = NEVER

    def arm(self, now: float) -> None:
        """Begin to check: a timer has expired, so a message may wait."""
        if self.deadline == NEVER:
            self.deadline = now + self._limit_s / CHECKS

    def handle_deadline(self, now: float) -> None:
        """Compare the oldest waiting messages with those of the last check."""
        if self.deadline > now:
            return
        is_limiting = self._check_inbox(now)
        self._check_messages(now)
        is_watching = is_limiting or bool(self._oldest)
        self.deadline = now + self._limit_s / CHECKS if is_watching else NEVER

    def _check_messages(self, now: float) -> None:
        """Report the messages that were the oldest of their stage for too long."""
        before = self._oldest
        self._oldest = {}
        pending = self._driver.process.pending
        if pending is None:
            return
        name_of = self._driver.name_of
        for peer_id, stage, source_id, number in pending.oldest_messages():
            peer = name_of(peer_id)
            source = name_of(source_id)
            key = (peer, stage)
            oldest = before.get(key)
            if oldest is None or (oldest.source, oldest.number) != (source, number):
                oldest = _Oldest(source, number, now)
            elif now - oldest.since >= self._limit_s and not oldest.is_reported:
                oldest.is_reported = True
                event = Blocked(
                    peer=peer,
                    source=source,
                    number=number,
                    stage=stage,
                    blocked_s=now - oldest.since,
                )
                self._events.add(event)
            self._oldest[key] = oldest

    def _check_inbox(self, now: float) -> bool:
        """Report an inbox that is full while the application receives nothing."""
        flow = self._flow
        received = self._driver.deliveries.count - flow.polled - flow.unpolled
        if not flow.is_limiting or received != self._received:
            self._received = received
            self._received_at = now
            self._is_inbox_reported = False
        elif now - self._received_at >= self._limit_s and not self._is_inbox_reported:
            self._is_inbox_reported = True
            self._events.add(InboxFull(messages=flow.polled))
        return flow.is_limiting
