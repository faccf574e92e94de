"""Frames to datagrams, without I/O: batching, fragments, sealing, flow control."""

from antecede.engine.engine import Engine, EngineStats
from antecede.engine.limits import Limits
from antecede.engine.message import Message

__all__ = ["Engine", "EngineStats", "Limits", "Message"]
