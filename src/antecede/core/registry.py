"""Which protocols there are, and what each can do.

A driver looks a protocol up here by name, asks its capabilities before it accepts a
workload, and makes processes with its factory. To add a protocol, write its module and
add one entry to the table below.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from antecede.core.codec import Frame, FrameReader, Reader
from antecede.core.config import Setting
from antecede.core.link import Linked, read_linked
from antecede.core.overlay.graphs import first_links, on_overlay, read_sampled
from antecede.core.overlay.tree_topology import topology_for
from antecede.core.process import ProcessBase, ProcessId
from antecede.core.protocols.baseline import Plain, read_plain
from antecede.core.protocols.buffer import Buffer, BufferFifo, read_buffer
from antecede.core.protocols.cykas import Cykas, read_cykas
from antecede.core.protocols.flood import Flood, read_flood
from antecede.core.protocols.hybrid.basic import HybridBasic
from antecede.core.protocols.hybrid.frames import read_frame
from antecede.core.protocols.hybrid.hybrid import Hybrid
from antecede.core.protocols.matrix import Matrix, read_matrix
from antecede.core.protocols.newtop import Newtop, read_newtop
from antecede.core.protocols.optimal.optimal import Optimal, read_optimal
from antecede.core.protocols.pc_broadcast.frames import read_preventive
from antecede.core.protocols.pc_broadcast.pc_broadcast import Preventive
from antecede.core.protocols.tree import Tree, read_tree
from antecede.core.protocols.vector import Vector, read_vector
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
    overlay: bool = False
    """It transmits along the links of an overlay, which may change."""
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
        fifo = not self.capabilities.reordering
        return Linked(process, fifo, setting.policy, setting.early_max)

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
        factory=lambda place, setting: Hybrid(place, setting.policy, setting.early_max),
        read=read_frame,
    ),
    ProtocolInfo(
        name="hybrid-basic",
        summary="conservative hybrid buffering (CSPS)",
        reference="Almeida, Algorithms 1 and 3",
        capabilities=HYBRID_CAPABILITIES,
        factory=lambda place, setting: HybridBasic(
            place, setting.policy, setting.early_max
        ),
        read=read_frame,
    ),
)

SENDER_SIDE: Final = (
    ProtocolInfo(
        name="buffer",
        summary="sender buffer: one message in transit at a time",
        reference="Mattern and Fünfrocken, §3.2",
        capabilities=Capabilities(
            unicast=True, reordering=True, dynamic=True, control_frames=("ack",)
        ),
        factory=lambda place, setting: Buffer(place),
        read=read_buffer,
    ),
    ProtocolInfo(
        name="buffer-fifo",
        summary="sender buffer: messages in transit to one receiver at a time",
        reference="Mattern and Fünfrocken, footnote 4",
        capabilities=Capabilities(unicast=True, dynamic=True, control_frames=("ack",)),
        factory=lambda place, setting: BufferFifo(place),
        read=read_buffer,
    ),
    ProtocolInfo(
        name="cykas",
        summary="sender buffer with eager sends, secret mode and YCT",
        reference="Tong et al., Algorithms 1 to 5",
        capabilities=Capabilities(
            unicast=True,
            reordering=True,
            dynamic=True,
            control_frames=("ack", "you-can-tell"),
        ),
        factory=lambda place, setting: Cykas(place),
        read=read_cykas,
    ),
)

RECEIVER_SIDE: Final = (
    ProtocolInfo(
        name="matrix",
        summary="earliest delivery, n by n counts on every message",
        reference="Raynal, Schiper and Toueg 1991",
        capabilities=Capabilities(unicast=True, multicast=True, reordering=True),
        factory=lambda place, setting: Matrix(place, setting.group("matrix")),
        read=read_matrix,
    ),
    ProtocolInfo(
        name="optimal",
        summary="earliest delivery, fewest dependencies on every message",
        reference="Kshemkalyani and Singhal 1998",
        capabilities=Capabilities(unicast=True, multicast=True, reordering=True),
        factory=lambda place, setting: Optimal(place),
        read=read_optimal,
    ),
    ProtocolInfo(
        name="vector",
        summary="causal broadcast with vector clocks",
        reference="Birman, Schiper and Stephenson 1991",
        capabilities=Capabilities(broadcast=True, reordering=True),
        factory=lambda place, setting: Vector(place, setting.group("vector")),
        read=read_vector,
    ),
    ProtocolInfo(
        name="newtop",
        summary="total-order broadcast: Lamport clock, wait for everyone",
        reference="Ezhilchelvan et al. 1995, symmetric protocol",
        capabilities=Capabilities(broadcast=True, control_frames=("null",)),
        factory=lambda place, setting: Newtop(
            place, setting.group("newtop"), setting.silence_s
        ),
        read=read_newtop,
    ),
)

BY_TOPOLOGY: Final = (
    ProtocolInfo(
        name="flood",
        summary="forward once over the FIFO links of a static overlay",
        reference="Friedman and Manor; Nédelec et al., Algorithm 1",
        capabilities=Capabilities(broadcast=True, relays=True, overlay=True),
        factory=lambda place, setting: on_overlay(
            Flood(place, first_links(place, setting)), setting
        ),
        read=lambda reader: read_sampled(reader, read_flood),
    ),
    ProtocolInfo(
        name="preventive",
        summary="PC-broadcast: flooding that uses a new link once it is safe",
        reference="Nédelec et al., Algorithms 2 and 3",
        capabilities=Capabilities(
            broadcast=True,
            dynamic=True,
            relays=True,
            overlay=True,
            control_frames=("ping", "pong", "newcomer", "welcome", "summary"),
        ),
        factory=lambda place, setting: on_overlay(
            Preventive(
                place,
                first_links(place, setting),
                newcomer=place in setting.newcomers,
                timeout_s=setting.ping_timeout_s,
            ),
            setting,
        ),
        read=lambda reader: read_sampled(reader, read_preventive),
    ),
    ProtocolInfo(
        name="tree",
        summary="FIFO links on a spanning tree: no metadata, more hops",
        reference="Blessing et al., Figures 3 to 5",
        capabilities=Capabilities(
            unicast=True, multicast=True, broadcast=True, relays=True
        ),
        factory=lambda place, setting: Tree(place, topology_for(setting)),
        read=read_tree,
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

_PROTOCOLS: Final = HYBRIDS + SENDER_SIDE + RECEIVER_SIDE + BY_TOPOLOGY + BASELINES


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
