"""The naive rules of ``bounded`` for the removal of a peer.

They are those of "Removal of a peer" in docs/explanation/bounded.md. A process that has
stopped or left is *gone*: all entries with it as the source are settled, now and later, and
the entries that it has reported do not count against the budget.
"""

from math import inf

from antecede.core.codec import Frame
from antecede.core.process import ProcessId
from antecede.core.protocols.hybrid.frames import Ack
from tests.core.naive_bounded import NaiveBounded
from tests.core.naive_bounded_records import Content

__all__ = ["NaiveRemoval"]


class NaiveRemoval(NaiveBounded):
    """A process of the naive rules that removes peers."""

    def __init__(self, id: ProcessId, budget_bytes: int) -> None:
        super().__init__(id, budget_bytes)
        self.hold_s = inf
        self.heard_at: dict[int, float] = {}
        self.now = 0.0

    @property
    def recovery(self) -> "NaiveRemoval":
        """The operations below, under the name that they have in the protocol."""
        return self

    # Held copies: the lease.

    def is_silent(self, source: int) -> bool:
        """Return whether no frame of a process has arrived for a lease."""
        return self.now - self.heard_at.get(source, -inf) > self.hold_s

    def may_deliver(self, source: int, message: Content) -> bool:
        return super().may_deliver(source, message) and not self.is_silent(source)

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        self.now = now
        before = dict(self.delivered)
        was_silent = self.is_silent(source)
        self.heard_at[source] = now
        if was_silent:
            self.deliver_and_release(now)
        super().receive(source, frame, now)
        self.ack_since(before)

    def handle_timer(self, now: float) -> None:
        self.now = now
        super().handle_timer(now)

    def deliver_and_release(self, now: float) -> None:
        self.deliver(now)
        self.release(now)

    def ack_since(self, before: dict[int, int]) -> None:
        """Ack all deliveries of this step that are not acked."""
        for peer, last in self.delivered.items():
            if last > before.get(peer, 0):
                self.acks.setdefault(peer, Ack(last, last))

    # The operations.

    def abandon(self, peer: ProcessId, now: float) -> None:
        """Count all copies to a peer as acked; the next one has no predecessor."""
        for copy in self.copies:
            if copy.target == peer:
                copy.is_abandoned = not copy.is_acked or copy.is_abandoned
                copy.is_acked = True
                copy.is_in_channel = False
        self.remove_settled(now)
        self.grant()
        self.release(now)

    def reset_channel(self, peer: ProcessId, now: float) -> None:
        """Expect a message without predecessor; what was delivered before counts."""
        delivered = self.delivered.pop(peer, 0)
        self.floors[peer] = max(delivered, self.floors.get(peer, 0))
        self.arrived.pop(peer, None)

    def drop_held(self, peer: ProcessId) -> None:
        """Drop the messages of a peer that are held."""
        self.arrived.pop(peer, None)

    def forgo_permits(self, peer: ProcessId, now: float) -> None:
        """Use the fact that each copy of a peer is delivered or never will be."""
        self.delivered.pop(peer, None)
        self.arrived.pop(peer, None)
        self.end(peer, now)

    def assume_permits(self, peer: ProcessId, now: float) -> None:
        """Use the fact that all copies of a peer are delivered."""
        self.end(peer, now)

    def end(self, peer: ProcessId, now: float) -> None:
        self.now = now
        before = dict(self.delivered)
        self.gone.add(peer)
        self.missing = [m for m in self.missing if m[0] != peer]
        self.remove_settled(now)
        self.forget_notes(peer)
        self.deliver_and_release(now)
        self.ack_since(before)

    def forget_notes(self, peer: ProcessId) -> None:
        """Owe no notes to a peer, now and later."""
        self.reported = [each for each in self.reported if each[0] != peer]
        self.owed = {k: since for k, since in self.owed.items() if k[0] != peer}
        clears = self.owed_clears.items()
        self.owed_clears = {sent: since for sent, since in clears if sent.peer != peer}
