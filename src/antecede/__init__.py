"""Causal message delivery for Python: run it, prove it, size it."""

from antecede.core import sliding as _sliding
from antecede.errors import (
    AntecedeError,
    ConfigError,
    InternalError,
    LocalError,
    PeerError,
)

__all__ = [
    "AntecedeError",
    "ConfigError",
    "InternalError",
    "LocalError",
    "PeerError",
    "__version__",
    "compiled",
]

__version__ = "0.1.0"

compiled: bool = not (_sliding.__file__ or "").endswith(".py")
"""Whether the core runs as compiled by mypyc; the same source interpreted otherwise."""
