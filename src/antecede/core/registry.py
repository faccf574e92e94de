"""Which protocols there are, and what each can do.

A driver looks a protocol up here by name, asks its capabilities before it accepts a
workload, and makes processes with its factory. To add a protocol, write its module and
add one entry to the table below.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from antecede.core.contract import ProcessBase, ProcessId
from antecede.core.hybrid import Hybrid
from antecede.core.hybrid_basic import HybridBasic
from antecede.core.retransmission import RetransmissionPolicy
from antecede.errors import ConfigError

__all__ = ["Capabilities", "ProtocolInfo", "protocol", "protocols"]

ProcessFactory = Callable[[ProcessId, RetransmissionPolicy | None], ProcessBase]


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a protocol offers, and what it asks of the network."""

    multicast: bool
    """A message may have several targets, and counts as one message at all of them."""
    broadcast: bool
    """A message may go to all members of the moment without naming them."""
    loss: bool
    """It copes with lost frames by itself."""
    duplication: bool
    """It copes with duplicated frames by itself."""
    reordering: bool
    """It copes with frames that overtake each other."""
    dynamic: bool
    """Processes may appear at any time, unannounced."""
    control_frames: tuple[str, ...]
    """The frames it transmits beside the messages."""


@dataclass(frozen=True, kw_only=True)
class ProtocolInfo:
    """A protocol: its name, where it comes from, what it can do, how to make a process."""

    name: str
    summary: str
    """One line for a table."""
    reference: str
    """The paper and the algorithm."""
    capabilities: Capabilities
    factory: ProcessFactory
    """Makes one process from its id and a retransmission policy, None for the default."""


HYBRID_CAPABILITIES: Final = Capabilities(
    multicast=True,
    broadcast=False,
    loss=True,
    duplication=True,
    reordering=True,
    dynamic=True,
    control_frames=("ack", "permit", "request"),
)

_PROTOCOLS: Final = (
    ProtocolInfo(
        name="hybrid",
        summary="SPS-optimal hybrid buffering: the default",
        reference="Almeida, Algorithm 2 and docs/multicast.md",
        capabilities=HYBRID_CAPABILITIES,
        factory=Hybrid,
    ),
    ProtocolInfo(
        name="hybrid-basic",
        summary="conservative hybrid buffering (CSPS)",
        reference="Almeida, Algorithms 1 and 3",
        capabilities=HYBRID_CAPABILITIES,
        factory=HybridBasic,
    ),
)


def protocols() -> Sequence[ProtocolInfo]:
    """List every protocol, the default first."""
    return _PROTOCOLS


def protocol(name: str) -> ProtocolInfo:
    """Look a protocol up by name; raise ConfigError, with the names, if there is none."""
    for info in _PROTOCOLS:
        if info.name == name:
            return info
    names = ", ".join(info.name for info in _PROTOCOLS)
    raise ConfigError(f"unknown protocol {name!r}; choose one of: {names}")
