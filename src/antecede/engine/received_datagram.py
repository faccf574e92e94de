"""A datagram that the session layer has accepted, or is examining."""

from typing import Final

from antecede.engine.acknowledgements import AckBlock, read_ack_block
from antecede.engine.datagram import (
    BYE,
    BYE_ACK,
    CHALLENGE,
    DATA_PREFIX,
    RESPONSE,
    TOKEN_BYTES,
    Introduction,
)
from antecede.engine.ecn import NOT_ECT
from antecede.engine.peer_session import PeerSession

__all__ = ["DROP_REASONS", "ReceivedDatagram"]

DROP_REASONS: Final = (
    "malformed",
    "unknown_sender",
    "authentication",
    "replay",
    "incarnation",
    "expired",
    "epoch",
    "protocol",
    "frame",
    "names",
    "false_ack",
    "inbox",
    "removed",
    "late",
)
"""Why a datagram or a frame was dropped."""


class ReceivedDatagram:
    """A datagram from a known peer."""

    __slots__ = (
        "acks",
        "body",
        "epoch",
        "epoch_echo",
        "incarnation",
        "introduction",
        "is_new_history",
        "kind",
        "mark",
        "packet",
        "previous_history",
        "receiver",
        "session",
        "window",
    )

    acks: AckBlock | None
    """The ack block; None in HELLO and WELCOME."""
    body: bytes
    """The body, once it is decrypted."""
    epoch: int
    epoch_echo: int
    """The epoch of this node that the peer knew; -1 if the datagram does not say."""
    introduction: Introduction | None
    """What the peer says about itself, if the datagram completes a handshake."""
    is_new_history: bool
    """The peer has started a history that this node did not know."""
    mark: int
    """The mark of its IP header; see :mod:`antecede.engine.ecn`."""
    previous_history: int
    """The history before, if the session was bound to another incarnation; else 0."""

    window: int
    """How many messages this node may have transmitted that the peer has not delivered;
    -1 if the datagram is not newer than an earlier one."""

    def __init__(
        self, session: PeerSession, kind: int, incarnation: int, receiver: int, packet: int
    ) -> None:
        self.session = session
        self.kind = kind
        self.incarnation = incarnation
        self.receiver = receiver
        self.packet = packet
        self.acks = None
        self.body = b""
        self.epoch = 0
        self.epoch_echo = -1
        self.introduction = None
        self.is_new_history = False
        self.mark = NOT_ECT
        self.previous_history = 0
        self.window = -1

    def read_acks(self) -> bool:
        """Read the ack block; return whether a body other than HELLO's is well formed."""
        acks = read_ack_block(self.body, DATA_PREFIX.size)
        self.acks = acks
        if acks is None:
            return False
        if CHALLENGE <= self.kind <= RESPONSE:
            return acks.end + TOKEN_BYTES == len(self.body)
        return self.kind not in (BYE, BYE_ACK) or acks.end == len(self.body)

    def read_window(self, window: int) -> None:
        """Report the window in the datagram, if no later datagram has arrived."""
        if self.packet > self.session.window_packet:
            self.session.window_packet = self.packet
            self.window = window
