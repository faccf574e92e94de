"""The events of a node about its paths."""

from dataclasses import dataclass
from typing import ClassVar

from antecede.engine.events import NodeEvent, format_address

__all__ = ["DatagramsTooLarge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatagramsTooLarge(NodeEvent):
    """The system refuses datagrams of the base size, so no messages can be transmitted."""

    needs_attention: ClassVar[bool] = True

    address: object
    """The address of the peer."""
    size: int
    """The size of the last refused datagram, in bytes."""

    def __str__(self) -> str:
        return (
            f"datagrams of {self.size} bytes to {self.peer} at"
            f" {format_address(self.address)} are refused by the system as too large: set"
            " Limits(datagram_bytes_base=...) to the MTU of the network minus 48, or less"
        )
