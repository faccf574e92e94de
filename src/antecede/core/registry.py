"""Which protocols there are, and what each can do.

A driver looks a protocol up here by name, asks its capabilities before it accepts a
workload, and makes processes with its factory. To add a protocol, write its module and
add one entry to the table below.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from antecede.core.contract import ProcessBase, ProcessId
from antecede.core.encoding import Frame, FrameReader, Reader
from antecede.core.frames import read_frame
from antecede.core.hybrid import Hybrid
from antecede.core.hybrid_basic import HybridBasic
from antecede.core.link import Linked, read_linked
from antecede.core.plain import Plain, read_plain
from antecede.core.setting import Setting
from antecede.errors import ConfigError

__all__ = ["Capabilities", "ProtocolInfo", "protocol", "protocols"]

ProcessFactory = Callable[[ProcessId, Setting], ProcessBase]


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a protocol offers, and what it asks of the network."""

    unicast: bool = False
    """A message may have one target."""
    multicast: bool = False
    """A message may have several targets, and counts as one message at all of them."""
    broadcast: bool = False
    """A message may go to all members of the moment without naming them."""
    loss: bool = False
    """It copes with lost and duplicated frames by itself; else the link layer does."""
    reordering: bool = False
    """It copes with frames that overtake each other; else it gets a FIFO link."""
    dynamic: bool = False
    """Processes may appear and leave at any time."""
    causal: bool = True
    """It keeps causal order; baselines do not."""
    relays: bool = False
    """Messages may reach their targets by way of other processes."""
    control_frames: tuple[str, ...] = ()
    """The frames it transmits beside the messages, those of the link layer aside."""


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
    """Makes the protocol's own process, without the link layer."""
    read: FrameReader
    """Reads the protocol's own frames."""

    def make(self, id: ProcessId, setting: Setting) -> ProcessBase:
        """Make one process, on top of the link layer if it needs one.

        Raise ConfigError if the setting lacks something that the protocol needs.
        """
        process = self.factory(id, setting)
        if self.capabilities.loss or setting.reliable:
            return process
        return Linked(process, not self.capabilities.reordering, setting.policy)

    def read_frame(self, reader: Reader, *, reliable: bool = False) -> Frame:
        """Read a frame that a process transmitted, made with the same ``reliable``."""
        if self.capabilities.loss or reliable:
            return self.read(reader)
        return read_linked(reader, self.read)


HYBRID_CAPABILITIES: Final = Capabilities(
    unicast=True,
    multicast=True,
    loss=True,
    reordering=True,
    dynamic=True,
    control_frames=("ack", "permit", "request"),
)

HYBRIDS: Final = (
    ProtocolInfo(
        name="hybrid",
        summary="SPS-optimal hybrid buffering: the default",
        reference="Almeida, Algorithm 2 and docs/multicast.md",
        capabilities=HYBRID_CAPABILITIES,
        factory=lambda place, setting: Hybrid(place, setting.policy),
        read=read_frame,
    ),
    ProtocolInfo(
        name="hybrid-basic",
        summary="conservative hybrid buffering (CSPS)",
        reference="Almeida, Algorithms 1 and 3",
        capabilities=HYBRID_CAPABILITIES,
        factory=lambda place, setting: HybridBasic(place, setting.policy),
        read=read_frame,
    ),
)

BASELINES: Final = (
    ProtocolInfo(
        name="fifo",
        summary="baseline: the order of each pair, and no other",
        reference="",
        capabilities=Capabilities(unicast=True, multicast=True, dynamic=True, causal=False),
        factory=lambda place, setting: Plain(place),
        read=read_plain,
    ),
    ProtocolInfo(
        name="unordered",
        summary="baseline: no order at all",
        reference="",
        capabilities=Capabilities(
            unicast=True, multicast=True, reordering=True, dynamic=True, causal=False
        ),
        factory=lambda place, setting: Plain(place),
        read=read_plain,
    ),
)

_PROTOCOLS: Final = HYBRIDS + BASELINES


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
