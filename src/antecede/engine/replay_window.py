"""The replay window: refuses a packet that was accepted before (as in RFC 4303, 3.4.3)."""

from typing import Final

__all__ = ["REPLAY_WINDOW", "ReplayWindow"]

REPLAY_WINDOW: Final = 1024
"""How many packet numbers a packet may be behind the highest one accepted."""
REPLAY_MASK: Final = (1 << REPLAY_WINDOW) - 1


class ReplayWindow:
    """The packet numbers accepted from one incarnation of a peer."""

    __slots__ = ("_seen", "highest")

    highest: int
    """The highest packet number that was accepted; 0 for none."""

    def __init__(self) -> None:
        self.highest = 0
        self._seen = 0  # Bit i stands for packet highest - i.

    def is_new(self, packet: int) -> bool:
        """Return whether the packet is in the window and was not accepted before."""
        behind = self.highest - packet
        if behind < 0:
            return True
        return behind < REPLAY_WINDOW and not self._seen >> behind & 1

    def record(self, packet: int) -> None:
        """Refuse this packet from now on."""
        behind = self.highest - packet
        if behind < 0:
            if behind == -1:
                self._seen = (self._seen << 1 | 1) & REPLAY_MASK
            elif behind > -REPLAY_WINDOW:
                self._seen = (self._seen << -behind | 1) & REPLAY_MASK
            else:
                self._seen = 1
            self.highest = packet
        else:
            self._seen |= 1 << behind

    def reset(self) -> None:
        """Start the window of another incarnation."""
        self.highest = 0
        self._seen = 0
