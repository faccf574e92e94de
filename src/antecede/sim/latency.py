"""Sums of the times of all copies, from which mean waiting times follow.

Means need no record of each copy: the sum of all release times minus the sum of all send
times is the sum of all waits at the sender, provided that every copy was delivered
(:attr:`LatencySums.is_complete`).
"""

__all__ = ["LatencySums"]


class LatencySums:
    """The sums of the send, release, arrival and delivery times of a run."""

    __slots__ = (
        "_in_flight",
        "_preserves_order",
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
    """The number of copies of messages for processes other than their source."""
    delivered_copies: int
    """The number of those copies that were delivered."""

    def __init__(self, preserves_order: bool, relays: bool) -> None:
        """Start all sums at 0.

        Args:
            preserves_order: The first transmission of a copy is the first to arrive.
            relays: Processes forward messages. A message is then released when its source
                transmits the first frame, and arrives when it is delivered.
        """
        self._preserves_order = preserves_order
        self._relays = relays
        # The number of copies by source and number; for relays only.
        self._unreleased: dict[tuple[int, int], int] = {}
        self._in_flight: set[tuple[int, int, int]] = set()
        self.copies = 0
        self.delivered_copies = 0
        self.sent_s = 0.0
        self.released_s = 0.0
        self.arrived_s = 0.0
        self.delivered_s = 0.0

    @property
    def is_complete(self) -> bool:
        """Whether every copy was delivered; else the sums have no meaning."""
        return self.delivered_copies == self.copies

    def sent(self, source: int, number: int, copies: int, now: float) -> None:
        """Add a send with this number of copies for other processes."""
        self.copies += copies
        self.sent_s += copies * now
        if self._relays and copies > 0:
            self._unreleased[source, number] = copies

    def released(
        self, source: int, target: int, number: int, origin: int, now: float
    ) -> None:
        """Add the first transmission of a message of ``origin`` by ``source``.

        ``origin`` is negative if it is ``source``, unless processes forward messages.
        """
        if not self._relays:
            self.released_s += now
            if not self._preserves_order:
                self._in_flight.add((source, target, number))
        elif origin == source:
            self.released_s += self._unreleased.pop((source, number), 0) * now

    def arrived(
        self, source: int, target: int, number: int, is_retransmission: bool, now: float
    ) -> None:
        """Add an arrival of a message, if it is the first of its copy."""
        if self._relays:
            return
        if self._preserves_order:
            if not is_retransmission:
                self.arrived_s += now
            return
        copy = (source, target, number)
        if copy in self._in_flight:
            self._in_flight.remove(copy)
            self.arrived_s += now

    def delivered(self, now: float) -> None:
        """Add a delivery at a process other than the source."""
        self.delivered_copies += 1
        self.delivered_s += now
        if self._relays:
            self.arrived_s += now
