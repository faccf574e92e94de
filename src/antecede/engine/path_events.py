"""The events of a node about its paths."""

from dataclasses import dataclass
from typing import ClassVar

from antecede.engine.events import NodeEvent, format_address

__all__ = ["DatagramsTooLarge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatagramsTooLarge(NodeEvent):
    """The system refuses datagrams of the base size, so that messages cannot leave."""

    needs_attention: ClassVar[bool] = True

    address: object
    """The address of the peer."""
    size: int
    """The bytes of the datagram that was refused last."""

    def __str__(self) -> str:
        return (
            f"datagrams of {self.size} bytes to {self.peer} at"
            f" {format_address(self.address)} do not leave: the network carries less; give"
            " Limits(datagram_bytes_base=...) at most its MTU minus 48"
        )
