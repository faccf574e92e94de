"""Spray: a peer-sampling protocol that keeps an overlay close to a random graph.

After Nédelec, Tanke, Frey, Molli and Mostéfaoui, "An adaptive peer-sampling protocol for
building networks of browsers" (2017); PC-broadcast's experiment runs on it. Nobody knows
how many processes there are, yet everybody's view grows as the logarithm of that. Rules:

1. A process has a *view*: a bag of peers, in the order in which they came. Each entry is
   an *arc*; a peer may be there more than once. (The paper counts an arc's age in periods
   since it came. The order says the same, and more.)
2. Join: a newcomer's view is its contact. The contact tells each peer of its view, once
   for every arc, of the newcomer, and each adds an arc to it: with ln(n) arcs at the
   contact, a newcomer adds about ln(n) + 1 arcs, so views have about ln(n) of them.
3. Exchange: once in a period a process picks its oldest arc, to q, and a random half of
   its view, with that arc in it. It offers q the half, with itself for q. The partner q
   answers with a random half of its own, with itself for the other. Each gives up the arcs
   that it handed over and takes those that it got, as its youngest. An exchange makes no
   arc and loses none, and it levels the sizes of the views.
4. Who does not answer in time is down: all arcs to it go, and each is replaced by a copy
   of a random other one, save with a chance of one in as many as there were arcs. So the
   number of arcs shrinks as if the peer had never joined.

What an exchange has on offer stays in the view, and in use, until the answer comes, but is
offered to nobody else meanwhile.

A view change is told with a *mediator*: the process from which the arc came, which had a
link to the new peer, and has one to us. The randomness is that of :mod:`.chance`, from a
seed, the process's id and a counter.

::

    OFFER         number, count (LEB128), peers (LEB128)      flag: must be 0
    ANSWER        number, count (LEB128), peers (LEB128)      flag: must be 0
    SUBSCRIBE                                                 flag: must be 0
    FORWARD       peer (LEB128)                               flag: must be 0
"""

from collections.abc import Iterable
from math import inf
from typing import Final

from antecede.core.codec import (
    Frame,
    Reader,
    varint_width,
    width_of,
    write_head,
    write_number,
    write_varint,
)
from antecede.core.process import ProcessBase, ProcessId, Transmit, check_now
from antecede.core.protocols.flood import checked_peer
from antecede.core.support.keyed_random import begin, stir, uniform
from antecede.errors import ConfigError, LocalError, PeerError

__all__ = [
    "Answer",
    "Forward",
    "Offer",
    "Spray",
    "SprayFrame",
    "Subscribe",
    "ViewChange",
    "read_spray",
]

OFFER: Final = 8
ANSWER: Final = 9
SUBSCRIBE: Final = 10
FORWARD: Final = 11

PERIOD_S: Final = 60.0
"""As in the experiment of PC-broadcast."""
TIMEOUT_S: Final = 20.0
"""When a partner counts as down: four times the longest delay of that experiment."""
NOBODY: Final = -1


class SprayFrame(Frame):
    """A frame of this protocol."""

    __slots__ = ()


class _Exchange(SprayFrame):
    """Peers for the other side of an exchange."""

    __slots__ = ("number", "peers")

    number: int
    """The number of the exchange at the process that began it, from 1."""
    peers: list[ProcessId]
    """The peers of the arcs that are handed over."""

    def __init__(self, number: int, peers: list[ProcessId]) -> None:
        """Make the frame; the fields are documented on the class."""
        self.number = number
        self.peers = peers

    def __repr__(self) -> str:
        """Show the fields."""
        return f"{type(self).__name__}({self.number}, {self.peers})"

    def metadata_size(self) -> int:
        """Count the bytes of this frame on the wire."""
        size = 1 + width_of(self.number) + varint_width(len(self.peers))
        for peer in self.peers:
            size += varint_width(peer)
        return size

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        width = width_of(self.number)
        write_head(buffer, self.kind(), width)
        write_number(buffer, self.number, width)
        write_varint(buffer, len(self.peers))
        for peer in self.peers:
            write_varint(buffer, peer)


class Offer(_Exchange):
    """The half of a view with which an exchange begins."""

    __slots__ = ()

    def kind(self) -> int:
        """Return the number of this kind."""
        return OFFER


class Answer(_Exchange):
    """The half of the other view, with which an exchange ends."""

    __slots__ = ()

    def kind(self) -> int:
        """Return the number of this kind."""
        return ANSWER


class Subscribe(SprayFrame):
    """A newcomer's word to its contact."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Show what it is."""
        return "Subscribe()"

    def kind(self) -> int:
        """Return the number of this kind."""
        return SUBSCRIBE

    def metadata_size(self) -> int:
        """Count the bytes of this frame on the wire."""
        return 1

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        write_head(buffer, SUBSCRIBE, 1)


class Forward(SprayFrame):
    """A contact's word to one of its peers that there is a newcomer."""

    __slots__ = ("peer",)

    peer: ProcessId
    """The newcomer."""

    def __init__(self, peer: ProcessId) -> None:
        """Make the frame; the fields are documented on the class."""
        self.peer = peer

    def __repr__(self) -> str:
        """Show the fields."""
        return f"Forward({self.peer})"

    def kind(self) -> int:
        """Return the number of this kind."""
        return FORWARD

    def metadata_size(self) -> int:
        """Count the bytes of this frame on the wire."""
        return 1 + varint_width(self.peer)

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        write_head(buffer, FORWARD, 1)
        write_varint(buffer, self.peer)


def read_spray(reader: Reader) -> Frame:
    """Read one frame of this protocol."""
    kind = reader.head()
    if reader.flag or (kind in (SUBSCRIBE, FORWARD) and reader.width != 1):
        raise reader.refuse()
    if kind == SUBSCRIBE:
        return Subscribe()
    if kind == FORWARD:
        return Forward(ProcessId(reader.varint()))
    if kind != OFFER and kind != ANSWER:
        raise reader.refuse()
    number = reader.number()
    peers = [ProcessId(reader.varint()) for _ in range(reader.varint(5))]
    return Offer(number, peers) if kind == OFFER else Answer(number, peers)


class ViewChange:
    """An output: a peer has come into the view, or has gone from it."""

    __slots__ = ("added", "mediator", "peer")

    peer: ProcessId
    """Who."""
    added: bool
    """It was not there before, not even once; else it was, and is not any more."""
    mediator: int
    """Of an added one: who has links to it and to us, or -1 if nobody is known to."""

    def __init__(self, peer: ProcessId, added: bool, mediator: int) -> None:
        """Make the output; the fields are documented on the class."""
        self.peer = peer
        self.added = added
        self.mediator = mediator

    def __repr__(self) -> str:
        """Show the fields."""
        if not self.added:
            return f"ViewChange(-{self.peer})"
        return f"ViewChange(+{self.peer}, mediator {self.mediator})"


class _Arc:
    """An entry of a view."""

    __slots__ = ("offered", "peer")

    def __init__(self, peer: ProcessId) -> None:
        self.peer = peer
        self.offered = False  # It is on offer in the exchange under way.


class Spray(ProcessBase):
    """One process's view, and its part in keeping everybody's views random.

    It is driven like a process. It has one more input, :meth:`join`, and one more output,
    :meth:`view_changes`, to drain after every input.
    """

    __slots__ = (
        "_changes",
        "_counts",
        "_deadline",
        "_draws",
        "_exchange",
        "_partner",
        "_period_s",
        "_period_start",
        "_random",
        "_timeout_s",
        "_until_s",
        "_view",
    )

    def __init__(
        self,
        id: ProcessId,
        seed: int,
        view: Iterable[ProcessId] = (),
        *,
        period_s: float = PERIOD_S,
        timeout_s: float = TIMEOUT_S,
        start_s: float = 0.0,
        until_s: float = inf,
    ) -> None:
        """Start with some view, which may be empty.

        Args:
            id: Which process this is.
            seed: For its random numbers; the same for all processes of a run.
            view: Whom it knows at first, each as often as it is named.
            period_s: How often to begin an exchange; the first one begins at a random
                time within a period.
            timeout_s: How long a partner may take to answer.
            start_s: The time at which it starts.
            until_s: From this time on, begin no more exchanges.
        """
        if not 0 < period_s < inf or not 0 < timeout_s < inf:
            raise ConfigError("a period and a time-out are above 0")
        super().__init__(id)
        self._random = stir(begin(seed), id)
        self._draws = 0
        self._period_s = period_s
        self._timeout_s = timeout_s
        self._until_s = until_s
        self._view: list[_Arc] = []  # The oldest first.
        self._counts: dict[ProcessId, int] = {}  # Of each peer in the view: how often.
        self._changes: list[ViewChange] = []
        self._exchange = 0  # The number of the last exchange begun here.
        self._partner = NOBODY  # Who owes the answer to it.
        self._deadline = inf  # By when.
        for peer in view:
            self._add(checked_peer(id, peer), NOBODY)
        self._period_start = start_s + period_s * uniform(self._draw())

    @property
    def view(self) -> list[ProcessId]:
        """The peers of all arcs, a peer as often as there are arcs to it."""
        return [arc.peer for arc in self._view]

    def view_changes(self) -> list[ViewChange]:
        """Take the changes of the view; they are the driver's now."""
        changes = self._changes
        if changes:
            self._changes = []
        return changes

    def join(self, contact: ProcessId, now: float) -> None:
        """Join those among whom ``contact`` is."""
        check_now(now)
        checked_peer(self._id, contact)
        self._add(contact, NOBODY)
        self._transmits.append(Transmit(contact, Subscribe()))

    def peer_down(self, peer: ProcessId, now: float) -> None:
        """Learn that ``peer`` has left or crashed, and replace its arcs (rule 4)."""
        check_now(now)
        checked_peer(self._id, peer)
        if self._partner == peer:
            self._end_exchange()
        arcs = [arc for arc in self._view if arc.peer == peer]
        for arc in arcs:
            self._remove(arc)
        count = len(self._view) + len(arcs)
        for _ in arcs:
            if self._view and uniform(self._draw()) > 1.0 / count:
                self._add(self._view[self._below(len(self._view))].peer, NOBODY)

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        """Take a frame that arrived from ``source``."""
        check_now(now)
        if source == self._id:
            raise LocalError("a process transmits nothing to itself")
        if isinstance(frame, Offer):
            self._receive_offer(source, frame)
        elif isinstance(frame, Answer):
            self._receive_answer(source, frame)
        elif isinstance(frame, Subscribe):
            self._receive_subscribe(source)
        elif isinstance(frame, Forward):
            if frame.peer < 0 or frame.peer == source:
                raise PeerError(f"{frame} cannot be")
            if frame.peer != self._id:
                self._add(frame.peer, source)
        else:
            raise PeerError(f"a {type(frame).__name__} is no frame of this protocol")

    def handle_timer(self, now: float) -> None:
        """Begin an exchange if it is time, or give up a partner who does not answer."""
        check_now(now)
        if self._deadline <= now:
            self.peer_down(ProcessId(self._partner), now)
        if self._period_start <= now and self._period_start < self._until_s:
            self._period_start += self._period_s
            if self._period_start <= now:  # A pause has passed more than one by.
                self._period_start = now + self._period_s
            if self._partner == NOBODY and self._view:
                self._begin_exchange(now)

    def next_timer(self) -> float | None:
        """Tell when ``handle_timer`` wants to be called next, or None for never."""
        due = self._deadline
        if self._period_start < self._until_s and self._period_start < due:
            due = self._period_start
        return due if due < inf else None

    # Exchanges.

    def _begin_exchange(self, now: float) -> None:
        oldest = self._view[0]
        offered = self._sample(self._view[1:], (len(self._view) + 1) // 2 - 1)
        offered.append(oldest)
        for arc in offered:
            arc.offered = True
        partner = oldest.peer
        self._exchange += 1
        self._partner = partner
        self._deadline = now + self._timeout_s
        peers = self._peers_for(partner, offered)
        self._transmits.append(Transmit(partner, Offer(self._exchange, peers)))

    def _receive_offer(self, source: ProcessId, offer: Offer) -> None:
        self._check_peers(offer)
        free = [arc for arc in self._view if not arc.offered]
        handed = self._sample(free, min((len(self._view) + 1) // 2, len(free)))
        peers = self._peers_for(source, handed)
        self._transmits.append(Transmit(source, Answer(offer.number, peers)))
        self._trade(handed, offer.peers, source)

    def _receive_answer(self, source: ProcessId, answer: Answer) -> None:
        self._check_peers(answer)
        if answer.number > self._exchange:
            raise PeerError(f"{answer}, but no such exchange was begun")
        if source != self._partner or answer.number != self._exchange:
            return  # It was given up: too late.
        offered = [arc for arc in self._view if arc.offered]
        self._end_exchange()
        self._trade(offered, answer.peers, source)

    def _check_peers(self, frame: _Exchange) -> None:
        if frame.number < 1 or self._id in frame.peers or min(frame.peers, default=0) < 0:
            raise PeerError(f"{frame} cannot be")

    def _trade(self, handed: list[_Arc], got: list[ProcessId], mediator: int) -> None:
        """Take the new arcs before giving up the old ones: links overlap in time."""
        for peer in got:
            self._add(peer, mediator)
        for arc in handed:
            self._remove(arc)

    def _end_exchange(self) -> None:
        self._partner = NOBODY
        self._deadline = inf
        for arc in self._view:
            arc.offered = False

    def _peers_for(self, partner: ProcessId, arcs: list[_Arc]) -> list[ProcessId]:
        """Name the peers of ``arcs``, with ourselves in place of the partner."""
        return [self._id if arc.peer == partner else arc.peer for arc in arcs]

    # Joining.

    def _receive_subscribe(self, source: ProcessId) -> None:
        if not self._view:
            self._add(source, NOBODY)
            return
        for arc in self._view:
            if arc.peer != source:
                self._transmits.append(Transmit(arc.peer, Forward(source)))

    # The view.

    def _add(self, peer: ProcessId, mediator: int) -> None:
        self._view.append(_Arc(peer))
        count = self._counts.get(peer, 0)
        self._counts[peer] = count + 1
        if count == 0:
            known = mediator != peer  # An arc to the other side of an exchange.
            self._changes.append(ViewChange(peer, True, mediator if known else NOBODY))

    def _remove(self, arc: _Arc) -> None:
        self._view.remove(arc)
        count = self._counts[arc.peer] - 1
        if count == 0:
            del self._counts[arc.peer]
            self._changes.append(ViewChange(arc.peer, False, NOBODY))
        else:
            self._counts[arc.peer] = count

    # Randomness.

    def _draw(self) -> int:
        self._draws += 1
        return stir(self._random, self._draws)

    def _below(self, bound: int) -> int:
        """Draw a number from 0 to ``bound``, that one not included."""
        return int(uniform(self._draw()) * bound)

    def _sample(self, arcs: list[_Arc], count: int) -> list[_Arc]:
        """Draw so many of ``arcs``, none twice; their list is used up."""
        for index in range(count):
            other = index + self._below(len(arcs) - index)
            arcs[index], arcs[other] = arcs[other], arcs[index]
        return arcs[:count]
