"""The introduction of a node in a HELLO or a WELCOME."""

from antecede.core.process import PeerRecovery
from antecede.engine.datagram import Introduction
from antecede.engine.limits import Limits
from antecede.engine.peer_session import PeerSession

__all__ = ["Introducer"]


class Introducer:
    """Makes the introductions of one node.

    Args:
        history: the history of the node.
        protocol: the hash of its protocol.
        limits: its limits.
        recovery: has the numbers of the channels; None if the protocol has none.
    """

    __slots__ = ("_history", "_limits", "_protocol", "_recovery")

    def __init__(
        self, history: int, protocol: int, limits: Limits, recovery: PeerRecovery | None
    ) -> None:
        self._history = history
        self._protocol = protocol
        self._limits = limits
        self._recovery = recovery

    def introduce(self, session: PeerSession, window: int) -> bytes:
        """Return the introduction for a peer, with its receive window."""
        received = 0
        acked = 0
        if self._recovery is not None:
            _, acked, _, _ = self._recovery.channel_numbers(session.id)
            received = self._recovery.last_received(session.id)
        return Introduction(
            self._history,
            self._protocol,
            session.epoch_out,
            session.epoch_in,
            session.history,
            received,
            acked if acked > session.acked_base else 0,
            self._limits.message_bytes_max,
            window,
            int(self._limits.lease_s * 1000),
        ).encode()
