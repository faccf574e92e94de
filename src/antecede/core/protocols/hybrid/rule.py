"""The interface of the permit rules, in which ``hybrid`` and ``hybrid-basic`` differ."""

from abc import abstractmethod

from antecede.core.protocols.hybrid.peer import Copy, MissingPermit, PeerState
from antecede.core.protocols.hybrid.state import HybridState

__all__ = ["PermitRule"]


class PermitRule:
    """Decides which messages need a permit, and which copies wait for one."""

    __slots__ = ()

    @abstractmethod
    def frontier(self, state: HybridState, peer: PeerState) -> int:
        """Return the highest number that needs no permit towards ``peer``."""

    @abstractmethod
    def next_in_order(self, state: HybridState, now: float) -> Copy | None:
        """Return the next copy to release in the order of sending, or None.

        Release the copy before the next call.
        """

    def next_out_of_order(self, state: HybridState) -> Copy | None:
        """Return the next copy to release ahead of an earlier one, or None.

        Call it after ``next_in_order`` has returned None, and release the copy before the
        next call.
        """
        return None

    def waits_for(self, copy: Copy, missing: MissingPermit) -> bool:
        """Return whether a copy that was sent after the delivery waits for the permit."""
        return True
