"""The registry of protocols and their capabilities.

A driver looks up a protocol by name, checks its capabilities against the workload, and
makes processes. To add a protocol, write its module and add an entry below.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from antecede.core.codec import Frame, FrameReader, Reader
from antecede.core.config import ProcessConfig
from antecede.core.link import ReliableLink
from antecede.core.link_frames import read_link_frame
from antecede.core.overlay.definition import read_named_frame
from antecede.core.overlay.named_overlay import with_names
from antecede.core.overlay.spray_overlay import (
    initial_links,
    read_overlay_frame,
    with_spray,
)
from antecede.core.process import ProcessBase, ProcessId
from antecede.core.protocols.baseline import Baseline, read_baseline
from antecede.core.protocols.buffer import Buffer, BufferFifo, read_buffer
from antecede.core.protocols.cykas import Cykas, read_cykas
from antecede.core.protocols.flood import Flood, read_flood
from antecede.core.protocols.hybrid.basic import make_hybrid_basic
from antecede.core.protocols.hybrid.bounded import make_bounded
from antecede.core.protocols.hybrid.dependency_frames import read_bounded_frame
from antecede.core.protocols.hybrid.frames import read_frame
from antecede.core.protocols.hybrid.hybrid import make_hybrid
from antecede.core.protocols.matrix import Matrix, read_matrix
from antecede.core.protocols.newtop import Newtop, read_newtop
from antecede.core.protocols.optimal.optimal import Optimal, read_optimal
from antecede.core.protocols.pc_broadcast.frames import read_pc_broadcast
from antecede.core.protocols.pc_broadcast.pc_broadcast import PcBroadcast
from antecede.core.protocols.tree import Tree, read_tree
from antecede.core.protocols.vector import Vector, read_vector
from antecede.errors import ConfigError

__all__ = ["Capabilities", "ProtocolInfo", "protocol", "protocols"]

ProcessFactory = Callable[[ProcessId, ProcessConfig], ProcessBase]


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """The features of a protocol, and its requirements on the network."""

    unicast: bool = False
    """A message may have one target."""
    multicast: bool = False
    """A message may have several targets, and counts as one message at all of them."""
    broadcast: bool = False
    """A message may go to all current members."""
    loss: bool = False
    """It tolerates lost and duplicated frames; otherwise it gets the link layer."""
    reordering: bool = False
    """It tolerates reordered frames; otherwise it gets a FIFO link."""
    bundles: bool = False
    """Consecutive messages to the same targets may travel as one, with one number each."""
    dynamic: bool = False
    """Processes may join and leave at any time."""
    causal: bool = True
    """It keeps causal order; baselines do not."""
    relays: bool = False
    """Other processes may forward a message to its targets."""
    names_processes: bool = False
    """Its frames contain the ids of third processes."""
    total_order: bool = False
    """All processes deliver all messages in the same order, including their own."""
    overlay: bool = False
    """It transmits on the links of an overlay only, which may change."""
    control_frames: tuple[str, ...] = ()
    """The frames other than messages, without those of the link layer."""


@dataclass(frozen=True, kw_only=True)
class ProtocolInfo:
    """A protocol: its name, reference, capabilities and factory."""

    name: str
    summary: str
    """One line for a table."""
    reference: str
    """The paper and the algorithm."""
    capabilities: Capabilities
    factory: ProcessFactory
    """Makes a process without the link layer."""
    read: FrameReader
    """Reads a frame of the protocol, without the link layer."""

    def make(self, id: ProcessId, config: ProcessConfig) -> ProcessBase:
        """Make one process, wrapped in the link layer if it needs one.

        Raise ConfigError if ``config`` lacks a value that the protocol needs.
        """
        process = self.factory(id, config)
        if self.capabilities.loss or config.reliable:
            return process
        fifo = not self.capabilities.reordering
        return ReliableLink(process, fifo, config.policy, config.reorder_buffer_max)

    def read_frame(self, reader: Reader, *, reliable: bool = False) -> Frame:
        """Read a frame of a process that was made with the same ``reliable``."""
        if self.capabilities.loss or reliable:
            return self.read(reader)
        return read_link_frame(reader, self.read)


HYBRID_CAPABILITIES: Final = Capabilities(
    unicast=True,
    multicast=True,
    loss=True,
    reordering=True,
    bundles=True,
    dynamic=True,
    control_frames=("ack", "permit", "request"),
)

HYBRIDS: Final = (
    ProtocolInfo(
        name="hybrid",
        summary="SPS-optimal hybrid buffering: the default",
        reference="Almeida, Algorithm 2 and docs/explanation/multicast.md",
        capabilities=HYBRID_CAPABILITIES,
        factory=lambda own, config: make_hybrid(
            own, config.policy, config.reorder_buffer_max
        ),
        read=read_frame,
    ),
    ProtocolInfo(
        name="hybrid-basic",
        summary="conservative hybrid buffering (CSPS)",
        reference="Almeida, Algorithms 1 and 3",
        capabilities=HYBRID_CAPABILITIES,
        factory=lambda own, config: make_hybrid_basic(
            own, config.policy, config.reorder_buffer_max
        ),
        read=read_frame,
    ),
    ProtocolInfo(
        name="bounded",
        summary="hybrid buffering with a byte budget for dependencies",
        reference="docs/explanation/bounded.md",
        capabilities=replace(
            HYBRID_CAPABILITIES,
            names_processes=True,
            control_frames=("ack", "permit", "request", "settled", "query"),
        ),
        factory=lambda own, config: make_bounded(
            own, config.policy, config.reorder_buffer_max, config.budget_bytes
        ),
        read=read_bounded_frame,
    ),
)

SENDER_SIDE: Final = (
    ProtocolInfo(
        name="buffer",
        summary="sender buffer: one message in flight at a time",
        reference="Mattern and Fünfrocken, §3.2",
        capabilities=Capabilities(
            unicast=True, reordering=True, dynamic=True, control_frames=("ack",)
        ),
        factory=lambda own, config: Buffer(own),
        read=read_buffer,
    ),
    ProtocolInfo(
        name="buffer-fifo",
        summary="sender buffer: messages in flight to one receiver at a time",
        reference="Mattern and Fünfrocken, footnote 4",
        capabilities=Capabilities(unicast=True, dynamic=True, control_frames=("ack",)),
        factory=lambda own, config: BufferFifo(own),
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
        factory=lambda own, config: Cykas(own),
        read=read_cykas,
    ),
)

RECEIVER_SIDE: Final = (
    ProtocolInfo(
        name="matrix",
        summary="earliest delivery, n by n counts on every message",
        reference="Raynal, Schiper and Toueg 1991",
        capabilities=Capabilities(unicast=True, multicast=True, reordering=True),
        factory=lambda own, config: Matrix(own, config.require_processes("matrix")),
        read=read_matrix,
    ),
    ProtocolInfo(
        name="optimal",
        summary="earliest delivery, fewest dependencies on every message",
        reference="Kshemkalyani and Singhal 1998",
        capabilities=Capabilities(
            unicast=True, multicast=True, reordering=True, names_processes=True
        ),
        factory=lambda own, config: Optimal(own),
        read=read_optimal,
    ),
    ProtocolInfo(
        name="vector",
        summary="causal broadcast with vector clocks",
        reference="Birman, Schiper and Stephenson 1991",
        capabilities=Capabilities(broadcast=True, reordering=True),
        factory=lambda own, config: Vector(own, config.require_processes("vector")),
        read=read_vector,
    ),
    ProtocolInfo(
        name="newtop",
        summary="total-order broadcast: Lamport clock, wait for everyone",
        reference="Ezhilchelvan et al. 1995, symmetric protocol",
        capabilities=Capabilities(
            broadcast=True, total_order=True, control_frames=("null",)
        ),
        factory=lambda own, config: Newtop(
            own, config.require_processes("newtop"), config.silence_s
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
        factory=lambda own, config: with_spray(
            Flood(own, initial_links(own, config)), config
        ),
        read=lambda reader: read_overlay_frame(reader, read_flood),
    ),
    ProtocolInfo(
        name="pc-broadcast",
        summary="PC-broadcast: flooding that uses a new link once it is safe",
        reference="Nédelec et al., Algorithms 2 and 3",
        capabilities=Capabilities(
            broadcast=True,
            dynamic=True,
            relays=True,
            overlay=True,
            control_frames=("ping", "pong", "newcomer", "welcome", "summary"),
        ),
        factory=lambda own, config: with_names(
            with_spray(
                PcBroadcast(
                    own,
                    initial_links(own, config),
                    newcomer=own in config.newcomers,
                    timeout_s=config.ping_timeout_s,
                ),
                config,
            ),
            config,
        ),
        read=lambda reader: read_named_frame(reader, read_pc_broadcast),
    ),
    ProtocolInfo(
        name="tree",
        summary="FIFO links on a spanning tree: no metadata, more hops",
        reference="Blessing et al., Figures 3 to 5",
        capabilities=Capabilities(
            unicast=True, multicast=True, broadcast=True, relays=True
        ),
        factory=lambda own, config: Tree(own, config.topology()),
        read=read_tree,
    ),
)

BASELINES: Final = (
    ProtocolInfo(
        name="fifo",
        summary="baseline: the order of each pair, and no other",
        reference="",
        capabilities=Capabilities(unicast=True, multicast=True, dynamic=True, causal=False),
        factory=lambda own, config: Baseline(own),
        read=read_baseline,
    ),
    ProtocolInfo(
        name="unordered",
        summary="baseline: no order at all",
        reference="",
        capabilities=Capabilities(
            unicast=True, multicast=True, reordering=True, dynamic=True, causal=False
        ),
        factory=lambda own, config: Baseline(own),
        read=read_baseline,
    ),
)

_PROTOCOLS: Final = HYBRIDS + SENDER_SIDE + RECEIVER_SIDE + BY_TOPOLOGY + BASELINES


def protocols() -> Sequence[ProtocolInfo]:
    """Return all protocols, the default first."""
    return _PROTOCOLS


def protocol(name: str) -> ProtocolInfo:
    """Return the protocol of that name; raise ConfigError if there is none."""
    for info in _PROTOCOLS:
        if info.name == name:
            return info
    names = ", ".join(info.name for info in _PROTOCOLS)
    raise ConfigError(f"unknown protocol {name!r}; choose one of: {names}")
