"""Removal of peers and restoring from a journal, for processes of hybrid buffering."""

from collections.abc import Sequence

from antecede.core.process import PeerRecovery, ProcessId, check_now
from antecede.core.protocols.hybrid.algorithm import HybridAlgorithm
from antecede.core.protocols.hybrid.gone_peers import (
    forget_held,
    forget_peer,
    give_up,
    mark_all_settled,
    replace_reporter,
    reset_channel,
)
from antecede.core.protocols.hybrid.peer import Copy
from antecede.core.protocols.hybrid.peer_ledger import DependentCopy

__all__ = ["HybridRecovery"]


class HybridRecovery(PeerRecovery):
    """The recovery operations of one process."""

    __slots__ = ("_algorithm",)

    def __init__(self, algorithm: HybridAlgorithm) -> None:
        self._algorithm = algorithm

    def abandon(self, peer: ProcessId, now: float) -> None:
        check_now(now)
        state = self._algorithm.state
        known = state.peers.get(peer)
        if known is None or known.sent == 0:
            return
        buffer = state.buffer
        ledger = self._algorithm.ledger
        if ledger is not None:
            ledger.copies.clear(ledger.peer(peer))
        for index in range(state.first_unacked, buffer.next):
            copy = buffer[index]
            if copy.peer is known and not copy.acked:
                copy.released = True  # It must never be released.
                copy.acked = True
                copy.payload = b""
                if ledger is not None:
                    ledger.unacked_copies -= 1
        while len(known.in_flight) > 0:
            known.in_flight.remove()
        known.waiting = 0
        known.transmit_timer.stop()
        known.acked = known.sent  # An ack that is still in flight counts as an old one.
        known.sent = 0
        known.backlog = 0
        known.backlog_bytes = 0
        known.early_copies = 0
        known.early_bytes = 0
        state.advance_unacked()
        self._algorithm.grant()
        if ledger is not None:
            ledger.mark_own_settled(known, now)
        self._algorithm.release(now)

    def reset_channel(self, peer: ProcessId, now: float) -> None:
        check_now(now)
        known = self._algorithm.state.peers.get(peer)
        if known is not None and known.is_receiving:
            ledger = self._algorithm.ledger
            if ledger is not None:
                reset_channel(ledger, known)
            known.delivered = 0
            known.held.clear()

    def forgo_permits(self, peer: ProcessId, now: float) -> None:
        check_now(now)
        state = self._algorithm.state
        known = state.peers.get(peer)
        ledger = self._algorithm.ledger
        if known is None and ledger is None:
            return
        if known is not None and known.is_receiving:
            while len(known.missing) > 0:
                state.permits.discard(known.missing.remove().index)
            known.request_timer.stop()
            # A process that returns under this id without its state begins with 1.
            known.is_receiving = False
            known.held.clear()
            known.delivered = 0
            known.permitted = 0
        if known is not None and known.sent == 0:
            del state.peers[peer]
        if ledger is not None:  # Others may have reported entries of an unknown peer.
            forget_held(ledger, peer)
            source = ledger.channels.source_of(peer)
            mark_all_settled(ledger, source, now)
            replace_reporter(ledger, peer)
            self._algorithm.deliver_ready(ledger, give_up(ledger, source), None, now)
            if peer not in state.peers:
                forget_peer(ledger, peer)
        self._algorithm.release(now)

    def assume_permits(self, peer: ProcessId, now: float) -> None:
        check_now(now)
        known = self._algorithm.state.peers.get(peer)
        if known is not None and known.is_receiving:
            for missing in known.missing.to_list():
                self._algorithm.receive_permit(known, missing.number, now)
        ledger = self._algorithm.ledger
        if ledger is not None:
            mark_all_settled(ledger, ledger.channels.source_of(peer), now)
            replace_reporter(ledger, peer)
            self._algorithm.release(now)

    def forget(self, peer: ProcessId) -> bool:
        state = self._algorithm.state
        known = state.peers.get(peer)
        if known is not None and (
            known.backlog > 0 or (known.is_receiving and len(known.missing) > 0)
        ):
            return False
        ledger = self._algorithm.ledger
        if ledger is not None and not forget_peer(ledger, peer):
            return False
        if known is not None:
            del state.peers[peer]
        return True

    def drop_held(self, peer: ProcessId) -> None:
        known = self._algorithm.state.peers.get(peer)
        if known is not None and known.is_receiving:
            known.held.clear()
            if self._algorithm.ledger is not None:
                forget_held(self._algorithm.ledger, peer)

    def peer_restored(self, peer: ProcessId) -> None:
        known = self._algorithm.state.peers.get(peer)
        if known is not None and known.sent > 0:
            for copy in known.in_flight.to_list():
                copy.arrived = False
            known.early_copies = 0
            known.early_bytes = 0

    def last_number(self) -> int:
        return self._algorithm.state.clock

    def last_received(self, peer: ProcessId) -> int:
        known = self._algorithm.state.peers.get(peer)
        if known is None or not known.is_receiving:
            return 0
        held = [message.number for message in known.held.values()]
        return max([known.delivered, *held])

    def channel_numbers(self, peer: ProcessId) -> tuple[int, int, int, int]:
        known = self._algorithm.state.peers.get(peer)
        if known is None:
            return 0, 0, 0, 0
        return known.sent, known.acked, known.delivered, known.permitted

    def restore(
        self,
        clock: int,
        channels: Sequence[tuple[ProcessId, int, int, int]],
        missing: Sequence[tuple[ProcessId, int]],
        copies: Sequence[tuple[ProcessId, int, int, int, bytes]],
        now: float,
        positions: Sequence[int] = (),
    ) -> None:
        check_now(now)
        ledger = self._algorithm.ledger
        state = self._algorithm.state
        state.clock = clock
        if ledger is not None:
            ledger.restored_number = clock
        for id, sent, delivered, permitted in channels:  # noqa: A001 (the word for it)
            peer = state.peer(id)
            if sent > 0:
                peer.open_send(state.ack_rtt)
            peer.sent = sent
            peer.acked = sent
            if delivered > 0 or permitted > 0:
                peer.open_receive(state.permit_rtt)
            peer.delivered = delivered
            peer.permitted = permitted
        for id, number in missing:  # noqa: A001
            # After a reset of the channel, a peer with delivered 0 may owe a permit.
            state.await_permit(state.receiving_peer(id), number, now)
        for index, (id, number, predecessor, before, payload) in enumerate(copies):  # noqa: A001
            peer = state.peers[id]
            copy = Copy(peer, number, predecessor, before, payload)
            if ledger is not None:
                position = positions[index]
                copy = DependentCopy(peer, number, predecessor, before, payload, position)
                ledger.add_copy(copy)
            state.add_copy(copy)
            if peer.backlog == 1:
                peer.acked = predecessor
        state.advance_unacked()
        self._algorithm.release(now)
