"""The pure core: protocols as state machines, their frames and their registry.

Nothing in here reads a clock, a socket or a random number, and nothing imports anything
of antecede above it. Start with :mod:`antecede.core.process`.
"""

from antecede.core.codec import Frame, decode, encode
from antecede.core.config import ProcessConfig
from antecede.core.process import Delivery, Process, ProcessId, Transmit
from antecede.core.protocols.hybrid.basic import make_hybrid_basic
from antecede.core.protocols.hybrid.frames import (
    Ack,
    MessageFrame,
    Permit,
    PermitRequest,
    read_frame,
)
from antecede.core.protocols.hybrid.hybrid import make_hybrid
from antecede.core.protocols.hybrid.process import HybridProcess
from antecede.core.registry import Capabilities, ProtocolInfo, protocol, protocols
from antecede.core.support.retransmission import RetransmissionPolicy

__all__ = [
    "Ack",
    "Capabilities",
    "Delivery",
    "Frame",
    "HybridProcess",
    "MessageFrame",
    "Permit",
    "PermitRequest",
    "Process",
    "ProcessConfig",
    "ProcessId",
    "ProtocolInfo",
    "RetransmissionPolicy",
    "Transmit",
    "decode",
    "encode",
    "make_hybrid",
    "make_hybrid_basic",
    "protocol",
    "protocols",
    "read_frame",
]
