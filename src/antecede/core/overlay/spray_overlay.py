"""A broadcast process on an overlay that Spray maintains.

:class:`SprayOverlay` runs a broadcast process and its :class:`.spray.Spray` as one process.
Rules:

1. Links are bidirectional, as in the experiment of PC-broadcast. A process that adds a peer
   to its view notifies the peer, and names the mediator that it knows; the peer adds a link
   back, and removes it on the opposite notice. So a process has a link to every peer in
   its view, and to every peer that has the process in its view.
2. Make before break: the link to a peer that leaves the view is kept for a while, because
   the pings for the links that replace it use this link.
3. A link that the broadcast gives up counts as a peer that is down.

The notices and the frames of Spray have kinds of their own::

    LINKED        mediator + 1, or 0 for none (LEB128)        flag: must be 0
    UNLINKED                                                  flag: must be 0
"""

from collections.abc import Iterable
from math import inf
from typing import ClassVar, Final

from antecede.core.codec import (
    Frame,
    FrameReader,
    Reader,
    varint_width,
    write_head,
    write_varint,
)
from antecede.core.config import LINGER_S, ProcessConfig
from antecede.core.input_checks import checked_peer
from antecede.core.overlay.spray import Spray
from antecede.core.overlay.spray_frames import OFFER, SprayFrame, read_spray
from antecede.core.process import (
    NO_PROCESS,
    Delivery,
    ProcessBase,
    ProcessId,
    Transmit,
    check_now,
)
from antecede.core.protocols.pc_broadcast.pc_broadcast import PcBroadcast
from antecede.errors import ConfigError, LocalError, PeerError

__all__ = [
    "LinkNotice",
    "SprayOverlay",
    "UnlinkNotice",
    "initial_links",
    "read_overlay_frame",
    "with_spray",
]

LINKED: Final = 12
UNLINKED: Final = 13


class LinkNotice(Frame):
    """The notice that its sender has added the receiver to its view."""

    __slots__ = ("mediator",)

    KIND: ClassVar[int] = LINKED

    mediator: int
    """A process with links to both, or NO_PROCESS."""

    def __init__(self, mediator: int) -> None:
        self.mediator = mediator

    def metadata_size(self) -> int:
        return 1 + varint_width(self.mediator + 1)

    def write(self, buffer: bytearray) -> None:
        write_head(buffer, LINKED, 1)
        write_varint(buffer, self.mediator + 1)


class UnlinkNotice(Frame):
    """The notice that its sender has removed the receiver from its view."""

    __slots__ = ()

    KIND: ClassVar[int] = UNLINKED

    def metadata_size(self) -> int:
        return 1

    def write(self, buffer: bytearray) -> None:
        write_head(buffer, UNLINKED, 1)


def read_overlay_frame(reader: Reader, read: FrameReader) -> Frame:
    """Read a frame of a SprayOverlay; ``read`` reads the frames of its broadcast."""
    if reader.position >= len(reader.data):
        raise PeerError("datagram cut short: a frame expected")
    kind = reader.data[reader.position] >> 4
    if kind < OFFER or kind > UNLINKED:
        return read(reader)
    if kind < LINKED:
        return read_spray(reader)
    reader.head()
    if reader.flag or reader.width != 1:
        raise reader.refuse()
    return LinkNotice(reader.varint() - 1) if kind == LINKED else UnlinkNotice()


class SprayOverlay(ProcessBase):
    """A broadcast process with the links that Spray selects.

    ``connect`` joins the overlay through a contact; ``disconnect`` reports that a peer is
    down.
    """

    __slots__ = (
        "_incoming",
        "_inner",
        "_linger_s",
        "_lingering",
        "_outgoing",
        "_pc_broadcast",
        "_spray",
    )

    def __init__(
        self,
        inner: ProcessBase,
        spray: Spray,
        *,
        incoming: Iterable[ProcessId] = (),
        linger_s: float = LINGER_S,
        start_s: float = 0.0,
    ) -> None:
        """Connect ``inner`` to the view of ``spray``; neither has seen an input yet.

        Args:
            inner: The broadcast process, without links.
            spray: The view of the same process.
            incoming: The peers that have this process in their views at the start.
            linger_s: How long a link is kept after its peer has left the view.
            start_s: The time of the start.
        """
        if inner.id != spray.id:
            raise ConfigError(f"process {inner.id} cannot use the view of {spray.id}")
        if not 0 <= linger_s < inf:
            raise ConfigError(f"linger_s must be finite and at least 0, got {linger_s}")
        super().__init__(inner.id)
        self._inner = inner
        self._pc_broadcast = inner if isinstance(inner, PcBroadcast) else None
        self._spray = spray
        self._linger_s = linger_s
        self._outgoing: dict[ProcessId, None] = {}  # Peers in the view, or lingering.
        self._incoming: dict[ProcessId, None] = {}  # Peers with this process in the view.
        self._lingering: dict[ProcessId, float] = {}  # The end of lingering.
        for change in spray.view_changes():
            self._outgoing[change.peer] = None
            self._inner.connect(change.peer, start_s)
        for peer in incoming:
            self._incoming[checked_peer(self._id, peer)] = None
            self._inner.connect(peer, start_s)

    @property
    def inner(self) -> ProcessBase:
        """The broadcast process."""
        return self._inner

    @property
    def spray(self) -> Spray:
        """The view."""
        return self._spray

    @property
    def links(self) -> list[ProcessId]:
        """The peers that the overlay links to this process, by safe links or not."""
        return list(dict.fromkeys(list(self._outgoing) + list(self._incoming)))

    def broadcast(self, payload: object, now: float) -> int:
        number = self._inner.broadcast(payload, now)
        self._collect(now)
        return number

    def connect(self, peer: ProcessId, now: float) -> None:
        self._spray.join(peer, now)
        self._collect(now)

    def disconnect(self, peer: ProcessId, now: float) -> None:
        self._spray.peer_down(peer, now)
        self._drop_incoming(peer, now)
        self._collect(now)

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        check_now(now)
        if source == self._id:
            raise LocalError(f"source {source} is this process itself")
        if isinstance(frame, LinkNotice):
            self._receive_link(source, frame, now)
        elif isinstance(frame, UnlinkNotice):
            self._drop_incoming(source, now)
        elif isinstance(frame, SprayFrame):
            self._spray.receive(source, frame, now)
        else:
            self._inner.receive(source, frame, now)
        self._collect(now)

    def segments_dropped(self, peer: ProcessId, now: float) -> None:
        self._inner.segments_dropped(peer, now)
        self._collect(now)

    def handle_timer(self, now: float) -> None:
        check_now(now)
        self._spray.handle_timer(now)
        self._inner.handle_timer(now)
        expired = [peer for peer, until in self._lingering.items() if until <= now]
        for peer in expired:
            self._drop_outgoing(peer, now)
        self._collect(now)

    def next_timer(self) -> float | None:
        due = inf
        for timer in (self._spray.next_timer(), self._inner.next_timer()):
            if timer is not None and timer < due:
                due = timer
        for until in self._lingering.values():
            if until < due:
                due = until
        return due if due < inf else None

    def messages_to_deliver(self) -> list[Delivery]:
        return self._inner.messages_to_deliver()

    # Links.

    def _collect(self, now: float) -> None:
        """Update the links after changes of the view, and collect the frames."""
        self._report_peers_down(now)
        for change in self._spray.view_changes():
            if change.added:
                self._add_outgoing(change.peer, change.mediator, now)
            else:
                self._lingering[change.peer] = now + self._linger_s
        self._transmits += self._spray.frames_to_transmit()
        self._transmits += self._inner.frames_to_transmit()

    def _report_peers_down(self, now: float) -> None:
        if self._pc_broadcast is None:
            return
        for peer in self._pc_broadcast.links_given_up():
            self._spray.peer_down(peer, now)
            self._incoming.pop(peer, None)

    def _add_outgoing(self, peer: ProcessId, mediator: int, now: float) -> None:
        if self._lingering.pop(peer, None) is not None:
            return  # The link still exists, and the peer got no notice.
        self._outgoing[peer] = None
        if peer not in self._incoming:
            self._connect(peer, mediator, now)
        # After the frames of the broadcast, so that a newcomer's notice comes first.
        self._transmits += self._inner.frames_to_transmit()
        self._transmits.append(Transmit(peer, LinkNotice(mediator)))

    def _drop_outgoing(self, peer: ProcessId, now: float) -> None:
        del self._lingering[peer]
        del self._outgoing[peer]
        if peer not in self._incoming:
            self._inner.disconnect(peer, now)
        self._transmits.append(Transmit(peer, UnlinkNotice()))

    def _receive_link(self, source: ProcessId, notice: LinkNotice, now: float) -> None:
        if notice.mediator < NO_PROCESS or notice.mediator == source:
            raise PeerError(f"invalid {notice}: the mediator must not be its sender")
        if source in self._incoming:
            return
        self._incoming[source] = None
        if source not in self._outgoing:
            mediator = notice.mediator if notice.mediator != self._id else NO_PROCESS
            self._connect(source, mediator, now)

    def _drop_incoming(self, peer: ProcessId, now: float) -> None:
        if peer in self._incoming:
            del self._incoming[peer]
            if peer not in self._outgoing:
                self._inner.disconnect(peer, now)

    def _connect(self, peer: ProcessId, mediator: int, now: float) -> None:
        if self._pc_broadcast is not None and mediator >= 0:
            self._pc_broadcast.connect_through(peer, ProcessId(mediator), now)
        else:
            self._inner.connect(peer, now)


def initial_links(id: ProcessId, config: ProcessConfig) -> list[ProcessId]:
    """Return the links that a broadcast process has at the start.

    A newcomer has none, and neither has a process under Spray, which adds the links.
    """
    if config.exchange_s > 0 or id in config.newcomers:
        return []
    peers = config.links_of(id)
    return [ProcessId(peer) for peer in peers if peer not in config.newcomers]


def with_spray(inner: ProcessBase, config: ProcessConfig) -> ProcessBase:
    """Return ``inner``, in a SprayOverlay if the configuration has exchanges."""
    if config.exchange_s <= 0:
        return inner
    own = inner.id
    view: list[ProcessId] = []
    incoming: list[ProcessId] = []
    if own not in config.newcomers:
        view = [ProcessId(peer) for peer in config.links_of(own)]
        incoming = [ProcessId(peer) for peer in config.links_to(own)]
    spray = Spray(
        own,
        config.seed,
        view,
        period_s=config.exchange_s,
        timeout_s=config.exchange_timeout_s,
        until_s=config.exchange_until_s,
    )
    return SprayOverlay(inner, spray, incoming=incoming, linger_s=config.linger_s)
