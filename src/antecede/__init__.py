"""Causal message delivery for Python: run it, prove it, size it.

``antecede.simulate(protocol="hybrid", processes=20, loss=0.05)`` runs a protocol in
virtual time; ``antecede.Scenario`` lists its parameters. ``antecede.Node`` is a node of a
causal group over UDP, ``antecede.Limits`` its bounds, and ``antecede.Room`` a room that it
has joined. All are loaded when first used.
"""

import importlib
import typing

from antecede.core.support import sliding as _sliding
from antecede.errors import (
    AntecedeError,
    ConfigError,
    DecodeError,
    InternalError,
    JoinError,
    LocalError,
    PeerError,
    StorageError,
    TraceError,
    WindowFull,
)

if typing.TYPE_CHECKING:
    from antecede.engine.limits import Limits
    from antecede.engine.message import Message
    from antecede.group.settings import MembershipSettings
    from antecede.net.node import Node
    from antecede.net.rooms.room import Room
    from antecede.net.rooms.when_silent import WhenSilent
    from antecede.sim.simulate import Scenario, simulate

__all__ = [
    "AntecedeError",
    "ConfigError",
    "DecodeError",
    "InternalError",
    "JoinError",
    "Limits",
    "LocalError",
    "MembershipSettings",
    "Message",
    "Node",
    "PeerError",
    "Room",
    "Scenario",
    "StorageError",
    "TraceError",
    "WhenSilent",
    "WindowFull",
    "__version__",
    "compiled",
    "simulate",
]

__version__ = "0.1.0"

compiled: bool = not (_sliding.__file__ or "").endswith(".py")
"""Whether the core runs as compiled by mypyc; the same source interpreted otherwise."""

_LAZY = {
    "Limits": "antecede.engine.limits",
    "MembershipSettings": "antecede.group.settings",
    "Message": "antecede.engine.message",
    "Node": "antecede.net.node",
    "Room": "antecede.net.rooms.room",
    "Scenario": "antecede.sim.simulate",
    "WhenSilent": "antecede.net.rooms.when_silent",
    "simulate": "antecede.sim.simulate",
}
"""What is loaded when it is first asked for, and from where."""


def __getattr__(name: str) -> object:
    """Load what is lazy."""
    if name not in _LAZY:
        raise AttributeError(f"module 'antecede' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
