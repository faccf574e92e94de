"""What a process of hybrid buffering keeps, and what its driver may do with it.

The protocol itself is in :mod:`antecede.core.protocols.hybrid.basic` and :mod:`antecede.core.protocols.hybrid.hybrid`.
Here is the state that both work on, and what a driver asks for beside the protocol: how
much is under way and what it waits for, to let go of a peer (docs/removal.md), and to take
up where a process was stopped.
"""

from collections.abc import Sequence
from typing import TypeVar

from antecede.core.process import (
    UNBOUNDED,
    ProcessBase,
    ProcessId,
    check_now,
)
from antecede.core.protocols.hybrid.peer import Copy, MissingPermit, Peer
from antecede.core.support.retransmission import (
    Experience,
    RetransmissionPolicy,
    TimerQueue,
)
from antecede.core.support.sliding import SlidingArray, SlidingMap

__all__ = ["HybridState"]

E = TypeVar("E")


class HybridState(ProcessBase):
    """The state of a process of hybrid buffering."""

    __slots__ = (
        "_ack_experience",
        "_buffer",
        "_clock",
        "_early_max",
        "_granting",
        "_peers",
        "_permit_experience",
        "_permits",
        "_timers",
        "_unacked",
        "_unacked_other",
        "_unreleased",
    )

    def __init__(
        self,
        id: ProcessId,
        policy: RetransmissionPolicy | None = None,
        early_max: int = UNBOUNDED,
    ) -> None:
        """Start a process with no history and no peers.

        At most ``early_max`` messages of a peer wait for one before them; what arrives
        beyond that is refused, and comes again.
        """
        super().__init__(id)
        self._early_max = early_max
        self._ack_experience = Experience(policy)
        self._permit_experience = Experience(policy)
        self._timers = TimerQueue()
        self._peers: dict[ProcessId, Peer] = {}
        self._clock = 0  # ck: the number of the last message sent.
        self._permits: SlidingMap[MissingPermit] = SlidingMap()  # p
        self._buffer: SlidingArray[Copy] = SlidingArray()  # u: until the frontier passes.
        # Indexes into the buffer, none of which ever moves back.
        self._unacked = 0  # The first unacked copy.
        self._unacked_other = 0  # u2: the first unacked one to another process than it.
        self._unreleased = 0  # m1: the first unreleased copy.
        self._granting = 0  # Up to here, permits for the first one's target are out.

    # What the protocol does, and this part of it needs.

    def _release(self, now: float) -> None:
        """Release what waits for no permit any more."""
        raise TypeError("a bare HybridState has no protocol")

    def _advance_unacked(self) -> None:
        """Let ``_unacked`` and ``_unacked_other`` point again at what their names say."""
        raise TypeError("a bare HybridState has no protocol")

    def _grant(self) -> None:
        """Transmit the permits that the frontiers now allow, one per peer."""
        raise TypeError("a bare HybridState has no protocol")

    # How much is under way, and what it waits for.

    def backlog(self, peer: ProcessId) -> int:
        """Count the copies for ``peer`` that wait here or are not acked."""
        known = self._peers.get(peer)
        return known.pending if known is not None else 0

    def backlog_bytes(self, peer: ProcessId) -> int:
        """Count the payload of those copies."""
        known = self._peers.get(peer)
        return known.pending_bytes if known is not None else 0

    def retained(self) -> int:
        """Count the copies that are kept because one before them is not acked."""
        return len(self._buffer)

    def round_trip_s(self, peer: ProcessId) -> float:
        """Return the smoothed round trip to ``peer``, or -1 where none has been seen."""
        known = self._peers.get(peer)
        if known is None:
            return -1.0
        return known.transmit_timer.round_trip_s if known.sent > 0 else known.round_trip_s

    def learn_round_trip(self, peer: ProcessId, round_trip_s: float, now: float) -> None:
        """Learn what the driver has measured: the peer is there, and how far away.

        Time-outs that had doubled while it was silent are as short again as they should be.
        """
        known = self._peer(peer)
        known.round_trip_s = round_trip_s
        if known.sent > 0:
            known.transmit_timer.sample(round_trip_s)
            if len(known.outstanding) > 0:
                known.transmit_timer.restart(now)
                self._timers.file(known.transmit_timer)
        if known.heard and len(known.missing) > 0:
            known.request_timer.sample(round_trip_s)
            known.request_timer.restart(now)
            self._timers.file(known.request_timer)

    def waiting_copies(
        self, limit: int
    ) -> list[tuple[int, ProcessId, list[tuple[ProcessId, int]]]]:
        """Return number, target and missing permits of copies that are not released.

        A missing permit is told by who owes it and the number it is for.
        """
        owed = [
            (index, missing)
            for peer in self._peers.values()
            if peer.heard
            for missing in _all(peer.missing)
            if (index := self._permits.index(missing)) is not None
        ]
        owed.sort(key=_first)
        buffer = self._buffer
        waiting: list[tuple[int, ProcessId, list[tuple[ProcessId, int]]]] = []
        for place in range(buffer.first, buffer.next):
            copy = buffer[place]
            if not copy.released and len(waiting) < limit:
                permits = [
                    (missing.peer.id, missing.number)
                    for index, missing in owed
                    if index < copy.depends and self._waits_for(copy, missing)
                ]
                waiting.append((copy.number, copy.peer.id, permits))
        return waiting

    def _waits_for(self, copy: Copy, missing: MissingPermit) -> bool:
        """Tell whether the protocol keeps a copy back for this permit."""
        return True

    def unacked_copies(self, limit: int) -> list[tuple[int, ProcessId]]:
        """Return number and target of copies that are released and not acked."""
        return [
            (copy.number, peer.id)
            for peer in self._peers.values()
            if peer.sent > 0
            for copy in _all(peer.outstanding)
        ][:limit]

    def early_messages(self, limit: int) -> list[tuple[ProcessId, int, int]]:
        """Return source, number and predecessor of messages that have come too early."""
        return [
            (peer.id, message.number, message.predecessor)
            for peer in self._peers.values()
            if peer.heard
            for message in peer.held.values()
        ][:limit]

    def missing_permits(self, limit: int) -> list[tuple[ProcessId, int, float]]:
        """Return source, number and time of delivered messages without a permit."""
        return [
            (peer.id, missing.number, missing.since)
            for peer in self._peers.values()
            if peer.heard
            for missing in _all(peer.missing)
        ][:limit]

    def forget_arrivals(self, peer: ProcessId) -> None:
        """Learn that ``peer`` may have forgotten what arrived there and was not acked."""
        known = self._peers.get(peer)
        if known is not None and known.sent > 0:
            for copy in _all(known.outstanding):
                copy.held = False

    # Letting go of a peer.

    def abandon(self, peer: ProcessId, now: float) -> None:
        """Give up every copy to ``peer`` as if it had been acked."""
        check_now(now)
        known = self._peers.get(peer)
        if known is None or known.sent == 0:
            return
        buffer = self._buffer
        for index in range(self._unacked, buffer.next):
            copy = buffer[index]
            if copy.peer is known and not copy.acked:
                copy.released = True  # It never will be.
                copy.acked = True
                copy.payload = b""
        while len(known.outstanding) > 0:
            known.outstanding.remove()
        known.transmit_timer.stop()
        known.acked = known.sent  # An ack that is still on its way is an old one.
        known.sent = 0
        known.pending = 0
        known.pending_bytes = 0
        self._advance_unacked()
        self._grant()
        self._release(now)

    def renew(self, peer: ProcessId, now: float) -> None:
        """Learn that ``peer`` has abandoned its copies for us and begins anew."""
        check_now(now)
        known = self._peers.get(peer)
        if known is not None and known.heard:
            known.delivered = 0
            known.held.clear()

    def waive(self, peer: ProcessId, now: float) -> None:
        """Wait for no permit of ``peer`` any more: it has stopped for good."""
        check_now(now)
        known = self._peers.get(peer)
        if known is None:
            return
        if known.heard:
            while len(known.missing) > 0:
                self._permits.remove(known.missing.remove())
            known.request_timer.stop()
            # Should a process of that name come back without its state, it begins with 1.
            known.heard = False
            known.delivered = 0
            known.permitted = 0
        if known.sent == 0:
            del self._peers[peer]
        self._release(now)

    # Taking up where a process was stopped.

    def numbers(self, peer: ProcessId) -> tuple[int, int, int, int]:
        """Return the last sent, acked, delivered and permitted, for a journal."""
        known = self._peer(peer)
        return known.sent, known.acked, known.delivered, known.permitted

    def restore(
        self,
        clock: int,
        pairs: Sequence[tuple[ProcessId, int, int, int]],
        missing: Sequence[tuple[ProcessId, int]],
        copies: Sequence[tuple[ProcessId, int, int, int, bytes]],
        now: float,
    ) -> None:
        """Take up where a process that kept a journal was stopped; drain afterwards.

        Args:
            clock: the number of the last message sent.
            pairs: peer, last number sent to it, last of its delivered, its highest permit.
            missing: peer and number of what was delivered and has no permit, in order.
            copies: peer, number, predecessor, how many of ``missing`` were delivered
                before the send, and payload, of what is not acked, in order of sending.
            now: the time, for the timers.
        """
        check_now(now)
        self._clock = clock
        for whom, sent, delivered, permitted in pairs:
            peer = self._peer(whom)
            if sent > 0:
                peer.begin_to_send(self._ack_experience)
            peer.sent = sent
            peer.released = clock  # It may ask for permits from before an abandonment.
            peer.acked = sent
            if delivered > 0 or permitted > 0:
                peer.begin_to_hear(self._permit_experience)
            peer.delivered = delivered
            peer.permitted = permitted
        for whom, number in missing:
            # A peer that began anew may have delivered nothing, and owe a permit.
            self._await_permit(self._peer_heard(whom), number, now)
        for whom, number, predecessor, depends, payload in copies:
            peer = self._peers[whom]
            self._buffer.add(Copy(peer, number, predecessor, depends, payload))
            peer.pending += 1
            peer.pending_bytes += len(payload)
            if peer.pending == 1:
                peer.acked = predecessor
        self._advance_unacked()
        self._release(now)

    # What the protocol shares with this part.

    def _await_permit(self, peer: Peer, number: int, now: float) -> None:
        missing = MissingPermit(peer, number, now)
        self._permits.add(missing)
        peer.missing.add(missing)
        if len(peer.missing) == 1:
            peer.asked = False
            peer.request_timer.restart(now)
            self._timers.file(peer.request_timer)

    def _peer(self, id: ProcessId) -> Peer:
        peer = self._peers.get(id)
        if peer is None:
            peer = Peer(id)
            self._peers[id] = peer
        return peer

    def _peer_heard(self, id: ProcessId) -> Peer:
        peer = self._peer(id)
        if not peer.heard:
            peer.begin_to_hear(self._permit_experience)
        return peer


def _all(window: SlidingArray[E]) -> list[E]:
    return [window[index] for index in range(window.first, window.next)]


def _first(entry: tuple[int, MissingPermit]) -> int:
    return entry[0]
