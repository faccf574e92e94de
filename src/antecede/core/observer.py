"""The observer: the interface through which a driver reports events.

All drivers (engine, simulator, test cluster) call the same methods, in the order of the
events. The recorders of :mod:`antecede.trace.recorders` are observers.
"""

from collections.abc import Sequence

from mypy_extensions import mypyc_attr

from antecede.core.codec import Frame
from antecede.core.process import Delivery, Transmit

__all__ = ["Observer"]


@mypyc_attr(allow_interpreted_subclasses=True)
class Observer:
    """Base of all observers; its methods do nothing."""

    __slots__ = ()

    def sent(
        self, process: int, number: int, targets: Sequence[int] | None, now: float
    ) -> None:
        """Record that the application at ``process`` sent its message ``number``.

        ``targets`` is None for a broadcast.
        """

    def arrived(self, process: int, source: int, frame: Frame, now: float) -> None:
        """Record that a frame from ``source`` arrived at ``process``."""

    def dropped(self, process: int, target: int, frame: Frame, now: float) -> None:
        """Record that the network lost a frame from ``process`` to ``target``."""

    def delivered(self, process: int, delivery: Delivery, now: float) -> None:
        """Record that ``process`` delivered a message to its application."""

    def transmitted(self, process: int, transmit: Transmit, now: float) -> None:
        """Record that ``process`` put a frame on the network."""
