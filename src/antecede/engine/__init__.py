"""A node without I/O: sessions, membership, fragments, encryption and flow control."""

from antecede.engine.engine import Engine
from antecede.engine.limits import Limits
from antecede.engine.message import Message
from antecede.engine.statistics import EngineStats

__all__ = ["Engine", "EngineStats", "Limits", "Message"]
