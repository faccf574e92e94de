"""The protocols of rooms: their capabilities, and the choice of ``auto``."""

from typing import Final

from antecede.core.config import DEFAULT_PROTOCOL
from antecede.core.registry import protocol as find_protocol

__all__ = ["AUTO", "LARGE_ABOVE", "RoomProtocol", "choose_protocol"]

AUTO: Final = "auto"
"""The name that stands for a protocol that the room or its founder chooses."""
LARGE_ABOVE: Final = 64
"""The size above which ``auto`` chooses an overlay. In a smaller room, a link between each
pair of members costs little, and the members can name each other as targets."""


class RoomProtocol:
    """A protocol, as rooms use it; ConfigError if there is none of that name."""

    __slots__ = ("is_fixed", "is_overlay", "name")

    def __init__(self, name: str) -> None:
        can = find_protocol(name).capabilities
        self.name: Final = name
        self.is_overlay: Final = can.overlay and can.dynamic
        """Nodes join through any member, and no member knows all others."""
        self.is_fixed: Final = not self.is_overlay and not (
            can.dynamic and can.multicast and can.causal
        )
        """The application names all members, which never change."""


def choose_protocol(size: int, *, may_be_overlay: bool) -> RoomProtocol:
    """Return the protocol of a room of a size; 0 for an unknown one."""
    is_large = size > LARGE_ABOVE and may_be_overlay
    return RoomProtocol("pc-broadcast" if is_large else DEFAULT_PROTOCOL)
