"""The state of a process of hybrid buffering.

:mod:`antecede.core.protocols.hybrid.algorithm` changes it, the rules read it, and
:mod:`antecede.core.protocols.hybrid.recovery` saves and restores it.
"""

from typing import Final

from mypy_extensions import i64

from antecede.core.process import UNBOUNDED, ProcessId
from antecede.core.protocols.hybrid.peer import Copy, MissingPermit, PeerState
from antecede.core.support.retransmission import (
    RetransmissionPolicy,
    RetransmissionTimer,
    SharedRttEstimate,
    TimerQueue,
)
from antecede.core.support.sliding import SlidingArray, SparseSlidingArray

__all__ = ["HybridState"]

COMPACT_MIN: Final = 128
"""A shorter buffer is not compacted."""


class HybridState:
    """Peers, copies and missing permits of one process."""

    __slots__ = (
        "ack_rtt",
        "awaiting_permit",
        "blocked",
        "buffer",
        "clock",
        "first_queued",
        "first_unacked",
        "first_unacked_other",
        "first_ungranted",
        "initial_window",
        "peers",
        "permit_rtt",
        "permits",
        "timers",
    )

    clock: int
    """The number of the last message sent (``ck``)."""
    peers: dict[ProcessId, PeerState]
    permits: SparseSlidingArray[MissingPermit]
    """The missing permits of all peers, in the order of delivery (``p``)."""
    buffer: SlidingArray[Copy]
    """The copies that the frontier has not passed, in the order of sending (``u``)."""

    awaiting_permit: int
    """How many acked copies the last call of :meth:`compact` has kept."""

    initial_window: int
    """The window of a peer until the driver sets it."""
    blocked: dict[ProcessId, None]
    """The peers whose copies all wait for their windows, since the driver last asked."""

    # Indexes into the buffer, none of which ever moves back.
    first_unacked: i64
    first_unacked_other: i64
    """The first unacked copy with another target than the first unacked copy (``u2``)."""
    first_queued: i64
    """The first copy that is not released (``m1``)."""
    first_ungranted: i64
    """Every copy before it for the target of the first unacked copy has its permit."""

    def __init__(self, policy: RetransmissionPolicy | None) -> None:
        self.ack_rtt = SharedRttEstimate(policy)
        self.permit_rtt = SharedRttEstimate(policy)
        self.timers = TimerQueue()
        self.clock = 0
        self.awaiting_permit = 0
        self.peers = {}
        self.initial_window = UNBOUNDED
        self.blocked = {}
        self.permits = SparseSlidingArray()
        self.buffer = SlidingArray()
        self.first_unacked = 0
        self.first_unacked_other = 0
        self.first_queued = 0
        self.first_ungranted = 0

    def peer(self, id: ProcessId) -> PeerState:
        """Return the state of a peer; create it if there is none."""
        peer = self.peers.get(id)
        if peer is None:
            peer = PeerState(id, self.initial_window)
            self.peers[id] = peer
        return peer

    def receiving_peer(self, id: ProcessId) -> PeerState:
        """Return the state of a peer with the receive side allocated."""
        peer = self.peer(id)
        if not peer.is_receiving:
            peer.open_receive(self.permit_rtt)
        return peer

    def add_copy(self, copy: Copy) -> None:
        """Append a copy to the buffer, queued."""
        self.buffer.add(copy)
        peer = copy.peer
        peer.backlog += copy.count
        peer.backlog_bytes += len(copy.payload)

    def restart(self, timer: RetransmissionTimer, now: float) -> None:
        """Restart a timer and schedule it."""
        timer.restart(now)
        self.timers.schedule(timer)

    def await_permit(self, peer: PeerState, number: int, now: float) -> None:
        """Add a missing permit, and start the request timer for the peer's first one."""
        missing = MissingPermit(peer, number, now)
        missing.index = self.permits.add(missing)
        peer.missing.add(missing)
        if len(peer.missing) == 1:
            peer.permit_requested = False
            self.restart(peer.request_timer, now)

    def advance_unacked(self) -> None:
        """Move ``first_unacked`` and ``first_unacked_other`` past acked copies."""
        buffer = self.buffer
        end = buffer.next
        first = self.first_unacked
        while first < buffer.next and buffer[first].acked:
            first += 1
        self.first_unacked = first
        other = self.first_unacked_other
        if other <= first:
            other = first + 1 if first < end else first
        if other < end:
            peer = buffer[first].peer
            while other < end:
                copy = buffer[other]
                if not copy.acked and copy.peer is not peer:
                    break
                other += 1
        self.first_unacked_other = other

    def compact(self, unacked: int) -> None:
        """Remove acked copies that need no permit, if the buffer has too many of them.

        Without this, one peer that does not ack would make the buffer grow with the
        messages to all others. Under ``bounded`` only few copies need a permit. The rule
        must not keep indexes into the buffer.
        """
        if len(self.buffer) < 2 * (unacked + self.awaiting_permit) + COMPACT_MIN:
            return
        buffer: SlidingArray[Copy] = SlidingArray()
        for copy in self.buffer.to_list():
            if not copy.acked or (copy.needs_permit and copy.number > copy.peer.granted):
                buffer.add(copy)
        self.buffer = buffer
        self.awaiting_permit = len(buffer) - unacked
        self.first_unacked = 0
        self.first_unacked_other = 0
        self.first_queued = 0
        self.first_ungranted = 0
        self.advance_unacked()

    def learn_round_trip(self, id: ProcessId, round_trip_s: float, now: float) -> None:
        """Sample a round trip that the driver measured, and restart the running timers.

        The restart shortens timeouts that had doubled while the peer was silent.
        """
        peer = self.peer(id)
        peer.round_trip_s = round_trip_s
        if peer.sent > 0:
            peer.transmit_timer.sample(round_trip_s)
            if peer.transmitted > 0:
                self.restart(peer.transmit_timer, now)
        if peer.is_receiving and len(peer.missing) > 0:
            peer.request_timer.sample(round_trip_s)
            self.restart(peer.request_timer, now)
