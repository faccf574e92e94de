"""Opens sessions with the targets of frames, where a process selects its peers itself."""

from abc import abstractmethod

from antecede.core.process import Transmit

__all__ = ["SessionOpener"]


class SessionOpener:
    """Part of the driver of a process on an overlay."""

    __slots__ = ()

    @abstractmethod
    def open_for(self, transmits: list[Transmit], now: float) -> None:
        """Open a session with each target of these frames that has none."""
