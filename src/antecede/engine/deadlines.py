"""The deadlines of an engine: of its process, its paths, its peers and its events."""

from antecede.core.process import NEVER
from antecede.engine.departures import Departures
from antecede.engine.loss_recovery import LossRecovery
from antecede.engine.process_driver import ProcessDriver
from antecede.engine.watch import Watch

__all__ = ["Deadlines"]


class Deadlines:
    """The deadlines of all parts of one engine.

    Args:
        driver: drives the process.
        recovery: has the deadlines of the paths.
        departures: has the deadlines of HELLOs, leases and removals.
        watch: has the deadlines of silent peers and blocked messages.
    """

    __slots__ = ("_departures", "_driver", "_process", "_recovery", "_watch")

    def __init__(
        self,
        driver: ProcessDriver,
        recovery: LossRecovery,
        departures: Departures,
        watch: Watch,
    ) -> None:
        self._driver = driver
        self._process = driver.process
        self._recovery = recovery
        self._departures = departures
        self._watch = watch

    def next_deadline(self) -> float | None:
        """Return the time at which to call :meth:`handle` next, or None for never."""
        earliest = min(self._departures.next_deadline(), self._recovery.next_deadline())
        earliest = min(earliest, self._watch.next_deadline())
        timer = self._process.next_timer()
        if timer is not None and timer < earliest:
            earliest = timer
        return earliest if earliest < NEVER else None

    def handle(self, now: float) -> None:
        """Meet all deadlines up to ``now``; an early call does nothing."""
        due = self._process.next_timer()
        if due is not None and due <= now:
            self._process.handle_timer(now)
            self._driver.drain(now)
            self._watch.arm(now)
        if self._recovery.next_deadline() <= now:
            self._recovery.handle_deadlines(now)
            self._watch.arm(now)
        self._departures.handle_deadlines(now)
        self._watch.handle_deadlines(now)
