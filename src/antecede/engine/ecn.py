"""Explicit congestion notification: a queue marks a datagram instead of dropping it.

The datagrams of a node have the mark ECT(0) in their IP header (RFC 3168). A queue that
grows too long changes it to CE. The receiver counts both marks in its ack blocks, and the
sender reacts to another CE as to a loss, but does not transmit anything again.

A network or a system may clear the marks, or drop marked datagrams. Each path is therefore
validated, as in RFC 9000, section 13.4.2. The node marks its datagrams to a peer, and
stops if an ack block counts fewer marked datagrams than it acknowledges, or if
:data:`UNANSWERED_MAX` probe timeouts in a row expire before a marked datagram was
acknowledged. It tries again after :data:`RETRY_S` seconds.
"""

from typing import Final

from antecede.core.process import NEVER
from antecede.engine.acknowledgements import AckBlock

__all__ = ["CE", "ECT", "NOT_ECT", "RETRY_S", "UNANSWERED_MAX", "Ecn"]

NOT_ECT: Final = 0
"""No mark."""
ECT: Final = 2
"""The mark ECT(0): the sender reacts to congestion marks."""
CE: Final = 3
"""Congestion experienced: a queue has changed the mark."""
UNANSWERED_MAX: Final = 3
"""The number of consecutive probe timeouts that ends the marking."""
RETRY_S: Final = 600.0
"""The time after which a path on which the validation failed is validated again."""


class Ecn:
    """The marks on one path, and their validation.

    Args:
        is_enabled: the node reacts to marks, and may transmit marked datagrams.
    """

    __slots__ = ("_ce", "_ect", "_retry_at", "is_enabled", "is_marking", "is_validated")

    is_enabled: bool
    is_marking: bool
    """The datagrams to the peer are to be marked."""
    is_validated: bool
    """A marked datagram has arrived since the node began to mark."""

    def __init__(self, is_enabled: bool) -> None:
        self.is_enabled = is_enabled
        self.is_marking = is_enabled
        self.is_validated = False
        self._ect = 0  # The counts that the peer has reported so far.
        self._ce = 0
        self._retry_at = NEVER

    def move(self) -> None:
        """Validate another path to the same incarnation, which continues its counts."""
        self.is_marking = self.is_enabled
        self.is_validated = False
        self._retry_at = NEVER

    def acknowledge(
        self, block: AckBlock, marked: int, is_newest: bool, now: float
    ) -> bool:
        """Use the counts of an ack block; return whether there is new congestion.

        Args:
            block: the ack block.
            marked: the number of marked datagrams that it acknowledges for the first time.
            is_newest: it acknowledges a higher packet than all earlier ack blocks.
            now: the current time.
        """
        if not self.is_enabled:
            return False
        if self._retry_at <= now:
            self.move()
        is_congested = block.ce > self._ce
        if is_newest:  # An ack block that was overtaken has older counts.
            added = block.ect - self._ect + block.ce - self._ce
            if marked > added:
                self._fail(now)
            elif marked > 0:
                self.is_validated = True
            self._ect = block.ect
        if is_newest or is_congested:
            self._ce = block.ce
        if self._retry_at == NEVER:
            self.is_marking = True  # Also after an interruption.
        return is_congested and self.is_validated

    def probe_expired(self, probes: int, now: float) -> None:
        """Stop marking if too many probe timeouts in a row have expired.

        The peer may be down. If marked datagrams have arrived before, the node marks again
        as soon as the peer answers.
        """
        if self.is_marking and probes >= UNANSWERED_MAX:
            if self.is_validated:
                self.is_validated = False
                self.is_marking = False
            else:
                self._fail(now)

    def _fail(self, now: float) -> None:
        self.is_marking = False
        self.is_validated = False
        self._retry_at = now + RETRY_S
