"""The last reduction of a congestion window, and whether it was a mistake."""

from antecede.core.process import NEVER
from antecede.engine.loss_detection import SentPacket

__all__ = ["Reduction"]


class Reduction:
    """The lost packets that a window was reduced for, once in a round trip.

    The reduction was a mistake if all of them were only late. If one of them was lost, the
    path is congested, whatever else was late.
    """

    __slots__ = ("_at", "_packets")

    def __init__(self) -> None:
        self._at = -NEVER
        self._packets: set[int] = set()

    def add(self, lost: list[SentPacket], last_at: float, now: float) -> None:
        """Note lost packets with messages; the last was transmitted at ``last_at``."""
        if last_at > self._at:
            self._at = now
            self._packets.clear()
        for packet in lost:
            if packet.is_counted:
                self._packets.add(packet.number)

    def is_mistaken(self, late: list[int]) -> bool:
        """Return whether now all of these packets were late; then forget the reduction."""
        if not self._packets:
            return False
        self._packets.difference_update(late)
        if self._packets:
            return False
        self._at = -NEVER
        return True
