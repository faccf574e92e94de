"""Every bound of an engine, in one place."""

from dataclasses import dataclass, field
from typing import Final

from antecede.core.process import NEVER
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import ConfigError

__all__ = ["DATAGRAM_MAX", "Limits"]

DATAGRAM_MAX: Final = 65_507
"""What one UDP datagram over IPv4 can carry."""
DATAGRAM_MIN: Final = 256
MESSAGE_MAX: Final = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much of everything a node allows; the defaults suit most."""

    datagram: int = 1232
    """Bytes of a datagram at most: what the smallest IPv6 path carries in one piece."""
    message: int = 4 << 20
    """Bytes of a message at most. One that does not fit into a datagram is cut into
    fragments, and put together again at its target."""
    window: int = 1024
    """Copies to one peer that may wait or be unacked before ``send`` waits."""
    window_bytes: int = 256 << 10
    """The same in bytes of payload."""
    retained: int = 1 << 18
    """Copies to all peers together that may be kept until one before them is acked, before
    ``send`` waits: a silent peer stops the sends to everybody then, until it is heard or
    removed."""
    early: int = 8192
    """Messages of one peer that may wait for one before them; it is to be larger than
    any peer's window."""
    inbox: int = 8192
    """Messages that the application has not taken yet. While there are more, messages that
    arrive are dropped, their acks are withheld, and they come again."""
    lease_s: float = 20.0
    """How old an echo may be before a datagram is refused (docs/removal.md). Let it be
    much longer than any round trip, and the same at all nodes."""
    drift: float = 0.05
    """How much faster or slower than another's a node's clock may run."""
    give_up_s: float = NEVER
    """Remove a peer that has not been heard for so long while copies for it wait; by
    default never, because what it has not acked is lost then."""
    hello_s: float = 0.25
    """How long to wait for a WELCOME before the first repetition; doubles, up to 16 times
    as long."""
    policy: RetransmissionPolicy = field(
        default_factory=lambda: RetransmissionPolicy(
            initial_s=0.5, minimum_s=0.03, maximum_s=4.0
        )
    )
    """When to transmit again."""

    def __post_init__(self) -> None:
        """Raise ConfigError if a bound makes no sense."""
        if not DATAGRAM_MIN <= self.datagram <= DATAGRAM_MAX:
            raise ConfigError(
                f"datagram is {DATAGRAM_MIN} to {DATAGRAM_MAX} bytes, not {self.datagram}"
            )
        if not 1 <= self.message <= MESSAGE_MAX:
            raise ConfigError(f"message is 1 to {MESSAGE_MAX} bytes, not {self.message}")
        for name in ("window", "window_bytes", "retained", "early", "inbox"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is at least 1, not {getattr(self, name)}")
        if not self.give_up_s > 0:
            raise ConfigError(f"give_up_s is above 0, not {self.give_up_s}")
        if not self.lease_s > 0 or not 0 <= self.drift < 1 or not self.hello_s > 0:
            raise ConfigError(
                "lease_s and hello_s are above 0, and drift from 0 to below 1; got"
                f" {self.lease_s}, {self.hello_s}, {self.drift}"
            )
