"""The pure core: protocols as state machines, their frames and their registry.

Nothing in here reads a clock, a socket or a random number, and nothing imports anything
of antecede above it. Start with :mod:`antecede.core.contract`.
"""

from antecede.core.contract import Delivery, Process, ProcessId, Transmit
from antecede.core.encoding import Frame, decode, encode
from antecede.core.frames import Ack, Message, Permit, Request, read_frame
from antecede.core.hybrid import Hybrid
from antecede.core.hybrid_basic import HybridBasic
from antecede.core.registry import Capabilities, ProtocolInfo, protocol, protocols
from antecede.core.retransmission import RetransmissionPolicy
from antecede.core.setting import Setting

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
