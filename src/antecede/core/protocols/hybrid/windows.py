"""The windows of peers, for processes of hybrid buffering."""

from antecede.core.process import ProcessId, check_now
from antecede.core.protocols.hybrid.algorithm import HybridAlgorithm
from antecede.core.windows import PeerWindows

__all__ = ["HybridWindows"]


class HybridWindows(PeerWindows):
    """The windows of the peers of one process."""

    __slots__ = ("_algorithm",)

    def __init__(self, algorithm: HybridAlgorithm) -> None:
        self._algorithm = algorithm

    def enable(self) -> None:
        self._algorithm.state.initial_window = 0

    def set_window(self, peer: ProcessId, copies: int, now: float) -> None:
        check_now(now)
        known = self._algorithm.state.peer(peer)
        known.window = copies
        if known.waiting > 0:
            self._algorithm.transmit_waiting(known, now)

    def allows(self, peer: ProcessId, number: int, is_retransmission: bool) -> bool:
        known = self._algorithm.state.peers.get(peer)
        if known is None or known.sent == 0:
            return True
        index = known.find_unacked(number)
        window = max(known.window, 1) if is_retransmission else known.window
        return index < 0 or known.is_in_window(known.in_flight[index], window)

    @property
    def has_blocked_peers(self) -> bool:
        return bool(self._algorithm.state.blocked)

    def blocked_peers(self) -> list[ProcessId]:
        state = self._algorithm.state
        blocked = list(state.blocked)
        state.blocked.clear()
        return blocked
