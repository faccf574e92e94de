"""Overlays: who has links to whom, fixed or sampled live.

A fixed overlay is data: for each process, the peers that it has links to. The functions
here make some, and check them. A live one is a :class:`.spray.Spray` beneath a broadcast:
:class:`Sampled` runs both as one process. Rules of the latter:

1. Links lead both ways, as in PC-broadcast's experiment. Who gets a peer into its view
   tells it, with the mediator it knows, and the peer gets a link back; the same when it
   goes. A process has a link to everybody in its view and to everybody in whose view it
   is.
2. Make before break: a peer that goes from the view keeps its link for a while, since
   pings for the links that replace it take this very one.
3. A link that the broadcast gives up counts as a peer that is down.

A message is nobody's business but the broadcast's; Spray's and these frames have kinds of
their own::

    LINKED        mediator + 1, or 0 for none (LEB128)        flag: must be 0
    UNLINKED                                                  flag: must be 0
"""

from collections.abc import Iterable, Sequence
from math import inf
from typing import Final

from antecede.core.codec import (
    Frame,
    FrameReader,
    Reader,
    varint_width,
    write_head,
    write_varint,
)
from antecede.core.config import LINGER_S, Setting
from antecede.core.overlay.spray import Spray, SprayFrame, read_spray
from antecede.core.process import (
    Delivery,
    ProcessBase,
    ProcessId,
    Transmit,
    check_now,
)
from antecede.core.protocols.flood import checked_peer
from antecede.core.protocols.pc_broadcast.pc_broadcast import Preventive
from antecede.core.support.keyed_random import begin, stir, uniform
from antecede.errors import ConfigError, LocalError, PeerError

__all__ = [
    "LinkNotice",
    "Sampled",
    "UnlinkNotice",
    "check_links",
    "first_links",
    "full",
    "is_connected",
    "on_overlay",
    "random_graph",
    "read_sampled",
    "reversed_links",
    "ring",
]

Links = Sequence[Sequence[int]]

FIRST_OF_SPRAY: Final = 8
LINKED: Final = 12
UNLINKED: Final = 13


# Fixed overlays.


def ring(processes: int, *, both_ways: bool = True) -> list[list[int]]:
    """Link each process to the next one, and to the one before, too, if ``both_ways``."""
    _check_processes(processes)
    links: list[list[int]] = []
    for member in range(processes):
        peers = [(member + 1) % processes]
        if both_ways:
            peers.append((member - 1) % processes)
        links.append([peer for peer in dict.fromkeys(peers) if peer != member])
    return links


def full(processes: int) -> list[list[int]]:
    """Link each process to all others."""
    _check_processes(processes)
    members = range(processes)
    return [[peer for peer in members if peer != member] for member in members]


def random_graph(
    processes: int, degree: int, seed: int, *, both_ways: bool = False
) -> list[list[int]]:
    """Link each process to ``degree`` random others, and them to it if ``both_ways``.

    One link of each follows a random ring through all processes, so that the graph is
    connected, however small the degree. Raise ConfigError if there are not as many others,
    or several processes and no links.
    """
    _check_processes(processes)
    if not min(1, processes - 1) <= degree < processes:
        raise ConfigError(f"each of {processes} processes cannot have {degree} links")
    state = stir(begin(seed), degree)
    order = list(range(processes))
    for place in range(processes - 1, 0, -1):
        other = int(uniform(stir(stir(state, processes), place)) * (place + 1))
        order[place], order[other] = order[other], order[place]
    links: list[list[int]] = [[] for _ in range(processes)]
    if degree > 0:
        for place, member in enumerate(order):
            successor = order[(place + 1) % processes]
            first = stir(state, member)
            links[member] = _draw_peers(first, member, successor, processes, degree)
    if both_ways:
        back = reversed_links(links)
        links = [list(dict.fromkeys(links[i] + back[i])) for i in range(processes)]
    return links


def _draw_peers(
    state: int, member: int, successor: int, processes: int, degree: int
) -> list[int]:
    peers: dict[int, None] = {successor: None}
    draw = 0
    while len(peers) < degree:
        draw += 1
        peer = int(uniform(stir(state, draw)) * processes)
        if peer != member:
            peers[peer] = None
    return list(peers)


def reversed_links(links: Links) -> list[list[int]]:
    """For each process, list who has a link to it."""
    back: list[list[int]] = [[] for _ in links]
    for member, peers in enumerate(links):
        for peer in peers:
            back[peer].append(member)
    return back


def is_connected(links: Links) -> bool:
    """Tell whether a way leads from every process to every other."""
    return _all_reached(links) and _all_reached(reversed_links(links))


def _all_reached(links: Links) -> bool:
    reached = [False] * len(links)
    waiting = [0] if links else []
    count = len(waiting)
    if links:
        reached[0] = True
    while waiting:
        for peer in links[waiting.pop()]:
            if not reached[peer]:
                reached[peer] = True
                count += 1
                waiting.append(peer)
    return count == len(links)


def check_links(links: Links, processes: int) -> None:
    """Raise ConfigError, which says why, unless ``links`` is a connected overlay."""
    _check_processes(processes)
    if len(links) != processes:
        raise ConfigError(
            f"an overlay for {len(links)} processes, but there are {processes}"
        )
    for member, peers in enumerate(links):
        for peer in peers:
            if not 0 <= peer < processes or peer == member:
                raise ConfigError(f"process {member} cannot have a link to {peer}")
        if len(set(peers)) < len(peers):
            raise ConfigError(f"process {member} has two links to the same peer")
    if not is_connected(links):
        raise ConfigError("the overlay is not connected: some message reaches not everyone")


def _check_processes(processes: int) -> None:
    if processes < 1:
        raise ConfigError(f"an overlay has at least one process, not {processes}")


# Live overlays.


class LinkNotice(Frame):
    """Who transmits this has the other in its view now."""

    __slots__ = ("mediator",)

    mediator: int
    """Who has links to both, or -1 if nobody is known to."""

    def __init__(self, mediator: int) -> None:
        """Make the frame; the fields are documented on the class."""
        self.mediator = mediator

    def __repr__(self) -> str:
        """Show the fields."""
        return f"LinkNotice({self.mediator})"

    def kind(self) -> int:
        """Return the number of this kind."""
        return LINKED

    def metadata_size(self) -> int:
        """Count the bytes of this frame on the wire."""
        return 1 + varint_width(self.mediator + 1)

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        write_head(buffer, LINKED, 1)
        write_varint(buffer, self.mediator + 1)


class UnlinkNotice(Frame):
    """Who transmits this has the other in its view no more."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Show what it is."""
        return "UnlinkNotice()"

    def kind(self) -> int:
        """Return the number of this kind."""
        return UNLINKED

    def metadata_size(self) -> int:
        """Count the bytes of this frame on the wire."""
        return 1

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        write_head(buffer, UNLINKED, 1)


def read_sampled(reader: Reader, read: FrameReader) -> Frame:
    """Read a frame of a sampled process; ``read`` reads those of its broadcast."""
    if reader.position >= len(reader.data):
        raise PeerError("datagram cut short: a frame promised")
    kind = reader.data[reader.position] >> 4
    if kind < FIRST_OF_SPRAY or kind > UNLINKED:
        return read(reader)
    if kind < LINKED:
        return read_spray(reader)
    reader.head()
    if reader.flag or reader.width != 1:
        raise reader.refuse()
    return LinkNotice(reader.varint() - 1) if kind == LINKED else UnlinkNotice()


class Sampled(ProcessBase):
    """A process of a broadcast over the links that Spray finds for it.

    For a driver, ``connect`` means: join by this contact. ``disconnect`` means: this peer
    is known to be down.
    """

    __slots__ = (
        "_incoming",
        "_inner",
        "_linger_s",
        "_lingering",
        "_outgoing",
        "_preventive",
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
        """Run ``inner`` on the view of ``spray``; both are of the same process, and new.

        Args:
            inner: The broadcast, without links.
            spray: The view, which may have peers in it already.
            incoming: In whose views this process is at first.
            linger_s: How long a link outlives its place in the view.
            start_s: The time at which both start.
        """
        if inner.id != spray.id:
            raise ConfigError(f"process {inner.id} cannot use the view of {spray.id}")
        if not 0 <= linger_s < inf:
            raise ConfigError(f"a link cannot outlive its place by {linger_s} seconds")
        super().__init__(inner.id)
        self._inner = inner
        self._preventive = inner if isinstance(inner, Preventive) else None
        self._spray = spray
        self._linger_s = linger_s
        self._outgoing: dict[ProcessId, None] = {}  # Who is in the view, or lingers.
        self._incoming: dict[ProcessId, None] = {}  # In whose view we are.
        self._lingering: dict[ProcessId, float] = {}  # Until when.
        for change in spray.view_changes():
            self._outgoing[change.peer] = None
            self._inner.connect(change.peer, start_s)
        for peer in incoming:
            self._incoming[checked_peer(self._id, peer)] = None
            self._inner.connect(peer, start_s)

    @property
    def inner(self) -> ProcessBase:
        """The broadcast's own process."""
        return self._inner

    @property
    def spray(self) -> Spray:
        """The view's own process."""
        return self._spray

    @property
    def links(self) -> list[ProcessId]:
        """To whom the overlay gives this process links, safe or not."""
        return list(dict.fromkeys(list(self._outgoing) + list(self._incoming)))

    def broadcast(self, payload: object, now: float) -> int:
        """Accept a message for all members and return its number, from 1."""
        number = self._inner.broadcast(payload, now)
        self._collect(now)
        return number

    def connect(self, peer: ProcessId, now: float) -> None:
        """Join those among whom ``peer`` is."""
        self._spray.join(peer, now)
        self._collect(now)

    def disconnect(self, peer: ProcessId, now: float) -> None:
        """Learn that ``peer`` has left or crashed."""
        self._spray.peer_down(peer, now)
        self._drop_incoming(peer, now)
        self._collect(now)

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        """Take a frame that arrived from ``source``."""
        check_now(now)
        if source == self._id:
            raise LocalError("a process transmits nothing to itself")
        if isinstance(frame, LinkNotice):
            self._receive_link(source, frame, now)
        elif isinstance(frame, UnlinkNotice):
            self._drop_incoming(source, now)
        elif isinstance(frame, SprayFrame):
            self._spray.receive(source, frame, now)
        else:
            self._inner.receive(source, frame, now)
        self._collect(now)

    def handle_timer(self, now: float) -> None:
        """Let the view, the broadcast and the lingering links do what is due."""
        check_now(now)
        self._spray.handle_timer(now)
        self._inner.handle_timer(now)
        expired = [peer for peer, until in self._lingering.items() if until <= now]
        for peer in expired:
            self._drop_outgoing(peer, now)
        self._collect(now)

    def next_timer(self) -> float | None:
        """Tell when ``handle_timer`` wants to be called next, or None for never."""
        due = inf
        for timer in (self._spray.next_timer(), self._inner.next_timer()):
            if timer is not None and timer < due:
                due = timer
        for until in self._lingering.values():
            if until < due:
                due = until
        return due if due < inf else None

    def messages_to_deliver(self) -> list[Delivery]:
        """Take the messages to deliver, in order; they are the driver's now."""
        return self._inner.messages_to_deliver()

    # Links.

    def _collect(self, now: float) -> None:
        """Turn the view's changes into links, and gather what there is to transmit."""
        self._give_up(now)
        for change in self._spray.view_changes():
            if change.added:
                self._add_outgoing(change.peer, change.mediator, now)
            else:
                self._lingering[change.peer] = now + self._linger_s
        self._transmits += self._spray.frames_to_transmit()
        self._transmits += self._inner.frames_to_transmit()

    def _give_up(self, now: float) -> None:
        """Treat a link that the broadcast has given up as a peer that is down."""
        if self._preventive is None:
            return
        for peer in self._preventive.links_given_up():
            self._spray.peer_down(peer, now)
            self._incoming.pop(peer, None)

    def _add_outgoing(self, peer: ProcessId, mediator: int, now: float) -> None:
        if self._lingering.pop(peer, None) is not None:
            return  # It is back before it was gone, and the peer was told nothing.
        self._outgoing[peer] = None
        if peer not in self._incoming:
            self._connect(peer, mediator, now)
        # Behind what the broadcast says of the new link, so that a newcomer says so first.
        self._transmits += self._inner.frames_to_transmit()
        self._transmits.append(Transmit(peer, LinkNotice(mediator)))

    def _drop_outgoing(self, peer: ProcessId, now: float) -> None:
        del self._lingering[peer]
        del self._outgoing[peer]
        if peer not in self._incoming:
            self._inner.disconnect(peer, now)
        self._transmits.append(Transmit(peer, UnlinkNotice()))

    def _receive_link(self, source: ProcessId, notice: LinkNotice, now: float) -> None:
        if notice.mediator < -1 or notice.mediator == source:
            raise PeerError(f"{notice} from {source} cannot be")
        if source in self._incoming:
            return
        self._incoming[source] = None
        if source not in self._outgoing:
            mediator = notice.mediator if notice.mediator != self._id else -1
            self._connect(source, mediator, now)

    def _drop_incoming(self, peer: ProcessId, now: float) -> None:
        if peer in self._incoming:
            del self._incoming[peer]
            if peer not in self._outgoing:
                self._inner.disconnect(peer, now)

    def _connect(self, peer: ProcessId, mediator: int, now: float) -> None:
        if self._preventive is not None and mediator >= 0:
            self._preventive.connect_through(peer, ProcessId(mediator), now)
        else:
            self._inner.connect(peer, now)


_latest: tuple[Setting, list[list[int]]] | None = None  # What `_incoming` returned last.


def _incoming(setting: Setting) -> list[list[int]]:
    """Return who has links to each process; all processes of a run share one list."""
    global _latest
    latest = _latest
    if latest is None or latest[0] is not setting:
        links = [setting.links_of(ProcessId(i)) for i in range(setting.processes)]
        latest = (setting, reversed_links(links))
        _latest = latest
    return latest[1]


def first_links(id: ProcessId, setting: Setting) -> list[ProcessId]:
    """Return the links that a broadcast process is made with.

    None under Spray, which brings its own, or for a newcomer.
    """
    if setting.exchange_s > 0 or id in setting.newcomers:
        return []
    peers = setting.links_of(id)
    return [ProcessId(peer) for peer in peers if peer not in setting.newcomers]


def on_overlay(inner: ProcessBase, setting: Setting) -> ProcessBase:
    """Let Spray renew the links of a broadcast process, if the setting says so."""
    if setting.exchange_s <= 0:
        return inner
    place = inner.id
    view: list[ProcessId] = []
    incoming: list[ProcessId] = []
    if place not in setting.newcomers:
        view = [ProcessId(peer) for peer in setting.links_of(place)]
        incoming = [ProcessId(peer) for peer in _incoming(setting)[place]]
    spray = Spray(
        place,
        setting.seed,
        view,
        period_s=setting.exchange_s,
        until_s=setting.exchange_until_s,
    )
    return Sampled(inner, spray, incoming=incoming, linger_s=setting.linger_s)
