"""The asyncio node over UDP."""

from antecede.net.node import Node

__all__ = ["Node"]
