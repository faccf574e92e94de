"""The events about requests of other nodes to join the group."""

from dataclasses import dataclass
from typing import ClassVar

from antecede.engine.events import NodeEvent, format_address

__all__ = ["JoinRefused", "JoinUnreadable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinUnreadable(NodeEvent):
    """Requests to join the group cannot be decrypted; ``peer`` is None."""

    needs_attention: ClassVar[bool] = True

    address: object
    """The source address of the last datagram."""
    count: int
    """The number of datagrams since the last event."""

    def __str__(self) -> str:
        return (
            f"{self.count} requests to join from {format_address(self.address)} cannot be"
            " decrypted: give all nodes of the group the same key"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRefused(NodeEvent):
    """This node has refused a link to a newcomer, whose name is ``peer``."""

    needs_attention: ClassVar[bool] = True

    address: object
    reason: str
    """What the newcomer gets as the reason: its name is taken, or a parameter differs."""

    def __str__(self) -> str:
        return f"refused {self.peer} at {format_address(self.address)}: {self.reason}"
