"""The replay window: refuses a packet that was accepted before (as in RFC 4303, 3.4.3)."""

from typing import Final

__all__ = ["REPLAY_WINDOW", "ReplayWindow"]

REPLAY_WINDOW: Final = 1024
"""How many packet numbers a packet may be behind the highest one accepted."""


class ReplayWindow:
    """The packet numbers accepted from one incarnation of a peer."""

    __slots__ = ("_seen", "highest")

    highest: int
    """The highest packet number that was accepted; 0 for none."""

    def __init__(self) -> None:
        self.highest = 0
        self._seen = bytearray(REPLAY_WINDOW)  # A ring: one byte for each packet number.

    def is_new(self, packet: int) -> bool:
        """Return whether the packet is in the window and was not accepted before."""
        behind = self.highest - packet
        if behind < 0:
            return True
        return behind < REPLAY_WINDOW and self._seen[packet % REPLAY_WINDOW] == 0

    def record(self, packet: int) -> None:
        """Refuse this packet from now on."""
        ahead = packet - self.highest
        if ahead >= REPLAY_WINDOW:
            self._seen = bytearray(REPLAY_WINDOW)
        elif ahead > 1:
            for skipped in range(self.highest + 1, packet):
                self._seen[skipped % REPLAY_WINDOW] = 0
        if ahead > 0:
            self.highest = packet
        self._seen[packet % REPLAY_WINDOW] = 1

    def reset(self) -> None:
        """Start the window of another incarnation."""
        self.highest = 0
        self._seen = bytearray(REPLAY_WINDOW)
