"""The records of ``bounded``: copies with entries, and what concerns one peer."""

from typing import cast

from antecede.core.process import NEVER, ProcessId
from antecede.core.protocols.hybrid.entry import Entry
from antecede.core.protocols.hybrid.pair_table import Pair, Unsettled
from antecede.core.protocols.hybrid.peer import Copy, PeerState, last_up_to
from antecede.core.protocols.hybrid.wildcards import Wildcard
from antecede.core.support.retransmission import RetransmissionTimer
from antecede.core.support.sliding import SlidingArray

__all__ = ["DependentCopy", "PeerLedger"]


class DependentCopy(Copy):
    """A copy with the entries and wildcards that it carries."""

    __slots__ = ("inherited", "own", "position", "wildcards")

    position: int
    """The number of deliveries with entries before the send."""
    own: list[Entry]
    inherited: list[Entry]
    wildcards: list[int]

    def __init__(
        self,
        peer: PeerState,
        number: int,
        predecessor: int,
        permits_before: int,
        payload: bytes,
        position: int,
    ) -> None:
        super().__init__(peer, number, predecessor, permits_before, payload)
        self.position = position
        self.own = []
        self.inherited = []
        self.wildcards = []


class PeerLedger:
    """What the ledger of a process has for one peer."""

    __slots__ = (
        "cleared",
        "excess",
        "heard_at",
        "id",
        "noted_at",
        "pending_clears",
        "pending_pairs",
        "query_timer",
        "queue",
        "received",
        "source",
        "target",
        "unsettled",
    )

    id: ProcessId
    source: int
    """The id of the peer as the source of entries; NO_PROCESS if it is unknown."""
    target: int
    """The id of the peer as the target of entries and wildcards."""
    queue: SlidingArray[DependentCopy]
    """The copies to the peer that are not released, in order."""
    excess: int
    """By how many bytes the list of the first of them must become shorter, at least."""

    pending_pairs: dict[Pair, int]
    """The pairs to which a note to the peer refers, with the number reported."""
    pending_clears: dict[int, int]
    """The cleared wildcards in a note to the peer: by target, the last message."""
    noted_at: float
    """When the first of these notes was added."""

    unsettled: dict[Unsettled, Pair]
    """The unsettled entries that a message of the peer brought first."""
    received: dict[Wildcard, None]
    """The wildcards that messages of the peer brought."""
    cleared: dict[int, int]
    """Wildcards of messages that were cleared before they were delivered."""
    heard_at: float
    """When a frame of the peer arrived last."""
    query_timer: RetransmissionTimer
    """Runs while there are unsettled or received."""

    def __init__(self, id: ProcessId, query_timer: RetransmissionTimer) -> None:
        self.id = id
        self.source = id
        self.target = id
        self.queue = SlidingArray()
        self.excess = 0
        self.pending_pairs = {}
        self.pending_clears = {}
        self.noted_at = 0.0
        self.unsettled = {}
        self.received = {}
        self.cleared = {}
        self.heard_at = -NEVER
        self.query_timer = query_timer

    def last_queued(self, number: int) -> int:
        """Return the last queued copy numbered up to ``number``, or 0."""
        return last_up_to(cast("SlidingArray[Copy]", self.queue), number)
