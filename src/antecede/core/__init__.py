"""The pure core: protocols as state machines, their frames and their registry.

Nothing in here reads a clock, a socket or a random number, and nothing imports anything
of antecede above it. Start with :mod:`antecede.core.process`.
"""

from antecede.core.codec import Frame, decode, encode
from antecede.core.config import Setting
from antecede.core.process import Delivery, Process, ProcessId, Transmit
from antecede.core.protocols.hybrid.basic import HybridBasic
from antecede.core.protocols.hybrid.frames import Ack, Message, Permit, Request, read_frame
from antecede.core.protocols.hybrid.hybrid import Hybrid
from antecede.core.registry import Capabilities, ProtocolInfo, protocol, protocols
from antecede.core.support.retransmission import RetransmissionPolicy

__all__ = [
    "Ack",
    "Capabilities",
    "Delivery",
    "Frame",
    "Hybrid",
    "HybridBasic",
    "Message",
    "Permit",
    "Process",
    "ProcessId",
    "ProtocolInfo",
    "Request",
    "RetransmissionPolicy",
    "Setting",
    "Transmit",
    "decode",
    "encode",
    "protocol",
    "protocols",
    "read_frame",
]
