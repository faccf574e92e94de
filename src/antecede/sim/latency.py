"""How long messages wait at the sender, on the wire and at the receiver, in sums.

Means need no record of each copy: the sum of all times of release less the sum of all
times of sending is the sum of all waits at the sender, provided that every copy went all
the way (:attr:`Waits.whole`).
"""

from antecede.core.codec import Frame

__all__ = ["Waits"]


class Waits:
    """The sums of a run."""

    __slots__ = (
        "_flying",
        "_orderly",
        "_relays",
        "_unreleased",
        "arrived_s",
        "copies",
        "delivered_copies",
        "delivered_s",
        "released_s",
        "sent_s",
    )

    copies: int
    """Copies of messages for other processes than their source."""
    delivered_copies: int
    """How many of them were delivered."""

    def __init__(self, orderly: bool, relays: bool) -> None:
        """Start with nothing.

        Args:
            orderly: The first transmission of a copy is the first to arrive.
            relays: Messages travel by way of others. A message is then released when its
                source lets the first frame go, and the rest of its way is the wire's.
        """
        self._orderly = orderly
        self._relays = relays
        # By source and number, how many copies there are; kept for relays only.
        self._unreleased: dict[tuple[int, int], int] = {}
        self._flying: set[tuple[int, int, int]] = set()
        self.copies = 0
        self.delivered_copies = 0
        self.sent_s = 0.0
        self.released_s = 0.0
        self.arrived_s = 0.0
        self.delivered_s = 0.0

    @property
    def whole(self) -> bool:
        """Whether every copy was delivered; else the sums say nothing."""
        return self.delivered_copies == self.copies

    def sent(self, source: int, number: int, copies: int, now: float) -> None:
        """Count a message that goes to so many other processes."""
        self.copies += copies
        self.sent_s += copies * now
        if self._relays and copies > 0:
            self._unreleased[source, number] = copies

    def transmitted(
        self, source: int, target: int, frame: Frame, repeat: bool, now: float
    ) -> None:
        """Count a release, if it is one."""
        if repeat:
            return
        number = frame.message_number()
        if number == 0:
            return
        if not self._relays:
            self.released_s += now
            if not self._orderly:
                self._flying.add((source, target, number))
        elif frame.message_source() == source:
            self.released_s += self._unreleased.pop((source, number), 0) * now

    def arrived(
        self, source: int, target: int, frame: Frame, repeat: bool, now: float
    ) -> None:
        """Count the first arrival of a copy, if it is one."""
        if self._relays:
            return
        if self._orderly:
            if not repeat and frame.message_number() > 0:
                self.arrived_s += now
            return
        flight = (source, target, frame.message_number())
        if flight in self._flying:
            self._flying.remove(flight)
            self.arrived_s += now

    def delivered(self, now: float) -> None:
        """Count a delivery at another process than the source."""
        self.delivered_copies += 1
        self.delivered_s += now
        if self._relays:
            self.arrived_s += now
