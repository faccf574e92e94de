"""The asyncio node over UDP."""

from antecede.net.node import Node
from antecede.net.rooms.room import Room

__all__ = ["Node", "Room"]
