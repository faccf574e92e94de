"""The windows of peers: how many unacked copies a process may transmit to each."""

from abc import abstractmethod

from antecede.core.process_id import ProcessId

__all__ = ["PeerWindows"]


class PeerWindows:
    """Optional capability of a process: transmit only what the peers have room for.

    A copy is *released* as without windows, but transmitted later. An unacked copy that
    was transmitted is retransmitted as before.
    """

    __slots__ = ()

    @abstractmethod
    def enable(self) -> None:
        """Let the window of a peer be 0 until it is set, instead of unbounded."""

    @abstractmethod
    def set_window(self, peer: ProcessId, copies: int, now: float) -> None:
        """Transmit to ``peer`` only while fewer than ``copies`` messages are not acked.

        A bundle counts all its messages, and may exceed the window with all but the first.
        Drain the outputs of the process afterwards.
        """

    @abstractmethod
    def allows(self, peer: ProcessId, number: int, is_retransmission: bool) -> bool:
        """Return whether the window still allows to transmit a message to ``peer``.

        A driver that has held a message back asks this: the peer may have taken room back
        since the process has transmitted the message.
        """

    @property
    @abstractmethod
    def has_blocked_peers(self) -> bool:
        """Whether :meth:`blocked_peers` would return any."""

    @abstractmethod
    def blocked_peers(self) -> list[ProcessId]:
        """Remove and return the peers for which copies wait while none is transmitted.

        The window of such a peer was used up; no ack will report when it grows.
        """
