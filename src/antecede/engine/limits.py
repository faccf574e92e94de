"""The limits of an engine."""

from dataclasses import dataclass, field, replace
from typing import Final

from antecede.core.config import LINGER_S
from antecede.core.process import NEVER
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import ConfigError

__all__ = ["DATAGRAM_BYTES_MAX", "MESSAGE_BYTES_MIN", "Limits"]

DATAGRAM_BYTES_MAX: Final = 65_507
"""The largest payload of a UDP datagram over IPv4."""
DATAGRAM_BYTES_MIN: Final = 256
MESSAGE_BYTES_MIN: Final = 1 << 16
"""Every node accepts messages of this size, so a datagram never holds a larger one."""
MESSAGE_BYTES_MAX: Final = 1 << 30
TIMER_PATIENCE: Final = 8.0
"""How many timeouts the timers of a process wait under an engine, because the paths detect
losses earlier."""
KEEP_ALIVE_LEASES: Final = 0.4
"""Half a lease after the last datagram from a peer, a node transmits only HELLO to it."""
CONGESTION_CONTROLS: Final = ("cubic", "newreno", "fixed")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a node's memory, datagrams and timeouts."""

    datagram_bytes_base: int = 1232
    """The size of datagrams that every path carries, at most ``datagram_bytes_max``.
    Messages are cut into fragments of this size. The default fits into the smallest IPv6
    packet that every path carries unfragmented."""
    datagram_bytes_max: int = 1472
    """The largest datagram to transmit. A node finds out by probes whether a path carries
    more than the base size. The default fits into an Ethernet frame."""
    message_bytes_max: int = 4 << 20
    """The largest message to send or to accept, at least 64 KiB. A message that does not
    fit into one datagram travels in fragments. Nodes send each other their limits: ``send``
    raises LocalError for a message that a target does not accept."""
    window_copies_max: int = 1024
    """Copies to one peer, queued or in flight, at which ``send`` waits. Copies that have
    arrived before a lost one do not count, up to four windows."""
    window_bytes_max: int = 256 << 10
    """Payload bytes of these copies at which ``send`` waits."""
    retained_copies_max: int = 1 << 18
    """Copies to all peers, kept until an earlier copy is acked, at which ``send`` waits. A
    bundle of messages is one copy.
    A silent peer can thus stop the sends to every peer until it answers or is removed."""
    reorder_buffer_max: int = 8192
    """Out-of-order messages of one peer that are held until their predecessors arrive.
    Choose it larger than four times ``window_copies_max`` of every peer."""
    inbox_messages_max: int = 8192
    """Delivered messages that the application has not received, at most one bundle of 64
    more for each peer. Under the hybrid protocols, other nodes transmit nothing that a full
    inbox would drop. Under the others the node drops messages that arrive while its inbox
    is full, without an ack, so that their sources retransmit; it looks at the inbox before
    each datagram, not before each message."""
    lease_s: float = 20.0
    """The age of a timestamp echo at which a datagram is refused. Choose it much longer
    than any round trip, and equal at all nodes (docs/explanation/peer-removal.md)."""
    clock_drift_max: float = 0.05
    """How much faster or slower the clocks of two nodes may run, as a fraction."""
    peer_timeout_s: float = NEVER
    """Remove a peer that was silent for this long while copies to it were queued or in
    flight. Never by default, because removal loses the copies that the peer has not
    acked."""
    silence_s: float = 5.0
    """The time without an answer that is due after which a peer is reported as silent, and
    the time after which the oldest message that waits for a peer is reported as blocked."""
    forget_after_s: float = 300.0
    """How long the node remembers a peer that was removed, or that was added at run time
    and has left. A peer that is added again later begins anew: the messages that it had
    sent and that were not acked are given up."""
    hello_timeout_s: float = 0.25
    """The wait for a WELCOME before a HELLO is retransmitted. It doubles with every
    retransmission, up to 16 times this value."""
    links_max: int = 1024
    """The maximum number of links for rooms; the node refuses newcomers above it."""
    rooms_max: int = 64
    """The maximum number of rooms of the node."""
    keep_alive_s: float = 8.0
    """The time without a datagram to a peer after which the node transmits one, so that an
    idle pair needs no handshake; at most two fifths of the lease. Infinite for never."""
    exchange_s: float = 60.0
    """For ``pc-broadcast``: the period after which a node exchanges some of its
    neighbours."""
    linger_s: float = LINGER_S
    """For ``pc-broadcast``: the time for which a node keeps the link to a former neighbour.
    Choose it at least twice as long as ``ping_timeout_s``."""
    ping_timeout_s: float = 15.0
    """For ``pc-broadcast``: the time for which a node waits for the first pong on a new
    link. Choose it longer than three transmissions."""
    congestion_control: str = "cubic"
    """How the bytes in flight to each peer are limited: ``"cubic"`` (RFC 9438),
    ``"newreno"`` (RFC 9002), or ``"fixed"`` for no limit except the window of copies, on
    a network that is known to carry it."""
    ecn: bool = True
    """Mark datagrams as ECN-capable (RFC 3168), so that queues on the way mark them instead
    of dropping them, where both systems and the path support it. A node without congestion
    control (``"fixed"``) marks none."""
    policy: RetransmissionPolicy = field(
        default_factory=lambda: RetransmissionPolicy(
            initial_s=0.5, minimum_s=0.03, maximum_s=4.0
        )
    )
    """The limits of probe timeouts: how long a node waits for any acknowledgement."""

    @property
    def base_bytes(self) -> int:
        """The size of datagrams that need no probe."""
        return min(self.datagram_bytes_base, self.datagram_bytes_max)

    @property
    def keep_alive_interval_s(self) -> float:
        """The longest time between two datagrams to a peer; infinite for no limit."""
        if self.keep_alive_s == NEVER:
            return NEVER
        return min(self.keep_alive_s, KEEP_ALIVE_LEASES * self.lease_s)

    @property
    def timer_policy(self) -> RetransmissionPolicy:
        """The policy for the timers of the process, which wait for the paths to act."""
        return replace(self.policy, patience=TIMER_PATIENCE)

    def __post_init__(self) -> None:
        """Raise ConfigError if a limit is out of range."""
        for name in ("datagram_bytes_base", "datagram_bytes_max"):
            _check(name, getattr(self, name), DATAGRAM_BYTES_MIN, DATAGRAM_BYTES_MAX)
        _check(
            "message_bytes_max",
            self.message_bytes_max,
            MESSAGE_BYTES_MIN,
            MESSAGE_BYTES_MAX,
        )
        for name in (
            "window_copies_max",
            "window_bytes_max",
            "retained_copies_max",
            "reorder_buffer_max",
            "inbox_messages_max",
        ):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in (
            "lease_s",
            "peer_timeout_s",
            "silence_s",
            "forget_after_s",
            "hello_timeout_s",
            "keep_alive_s",
            "exchange_s",
            "linger_s",
            "ping_timeout_s",
        ):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be above 0, got {getattr(self, name)}")
        if self.congestion_control not in CONGESTION_CONTROLS:
            raise ConfigError(
                f"congestion_control must be one of {', '.join(CONGESTION_CONTROLS)}, got"
                f" {self.congestion_control!r}"
            )
        if not 0 <= self.clock_drift_max < 1:
            raise ConfigError(
                "clock_drift_max must be at least 0 and below 1, got"
                f" {self.clock_drift_max}"
            )


def _check(name: str, value: int, minimum: int, maximum: int) -> None:
    if not minimum <= value <= maximum:
        raise ConfigError(f"{name} must be {minimum} to {maximum}, got {value}")
