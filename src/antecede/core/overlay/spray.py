"""Spray: a peer-sampling protocol that keeps an overlay close to a random graph.

After Nédelec, Tanke, Frey, Molli and Mostéfaoui, "An adaptive peer-sampling protocol for
building networks of browsers" (2017); the experiment of PC-broadcast uses it. No process
knows the number of processes, yet the size of every view grows with its logarithm. Rules:

1. A process has a *view*: a list of peers, oldest first. Each entry is an *arc*; there may
   be several arcs to the same peer. (The paper stores an arc's age in periods; the order
   of the list contains this information.)
2. Join: the view of a newcomer is its contact. The contact forwards the newcomer to the
   peer of each arc in its view, and each of these adds an arc to the newcomer. With ln(n)
   arcs at the contact, a newcomer adds about ln(n) + 1 arcs, so views keep about ln(n).
3. Exchange: once per period, a process selects its oldest arc, to q, and random other arcs
   up to half of its view. It offers them to q, with itself in place of q. The partner q
   answers with a random half of its own view, with itself in place of the other process.
   Each side removes the arcs that it gave and adds those that it got as its youngest. An
   exchange preserves the number of arcs, and it balances the sizes of the views.
4. A partner that does not answer in time is down: all arcs to it are removed, and each is
   replaced by a copy of a random other arc, except with a probability of one divided by
   the number of arcs. So the number of arcs shrinks as if the peer had never joined.

The offered arcs stay in the view, and in use, until the answer arrives, but no other
exchange offers them.

A view change has a *mediator*: the process from which the arc came, which had a link to
the new peer, and has one to this process. Random numbers are keyed by the seed, the
process's id and a counter (:mod:`antecede.core.support.keyed_random`).
"""

from collections.abc import Iterable
from math import inf
from typing import Final

from antecede.core.codec import Frame
from antecede.core.input_checks import checked_peer
from antecede.core.overlay.spray_frames import (
    Answer,
    ExchangeFrame,
    Forward,
    Offer,
    Subscribe,
)
from antecede.core.process import NO_PROCESS, ProcessBase, ProcessId, Transmit, check_now
from antecede.core.support.keyed_random import fold_in, key, uniform
from antecede.errors import ConfigError, LocalError, PeerError

__all__ = ["Spray", "ViewChange"]

PERIOD_S: Final = 60.0
"""The period in the experiment of PC-broadcast."""
TIMEOUT_S: Final = 20.0
"""Four times the longest delay in that experiment."""


class ViewChange:
    """An output: a peer has entered or left the view."""

    __slots__ = ("added", "mediator", "peer")

    peer: ProcessId
    added: bool
    """True for the first arc to the peer, False if the last arc was removed."""
    mediator: int
    """A process with links to the added peer and to this one, or NO_PROCESS."""

    def __init__(self, peer: ProcessId, added: bool, mediator: int) -> None:
        self.peer = peer
        self.added = added
        self.mediator = mediator

    def __repr__(self) -> str:
        if not self.added:
            return f"ViewChange(-{self.peer})"
        return f"ViewChange(+{self.peer}, mediator {self.mediator})"


class _Arc:
    """An entry of a view."""

    __slots__ = ("offered", "peer")

    def __init__(self, peer: ProcessId) -> None:
        self.peer = peer
        self.offered = False  # Whether the current exchange offers it.


class Spray(ProcessBase):
    """The view of one process.

    It is driven like a process, with one more input, :meth:`join`, and one more output,
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
        """Start with a view, which may be empty.

        Args:
            id: The id of this process.
            seed: The seed of the random numbers, the same for all processes of a run.
            view: The peers of the first arcs.
            period_s: The time between two exchanges; the first one starts at a random time
                within a period.
            timeout_s: How long a partner may take to answer.
            start_s: The time of the start.
            until_s: The time after which no exchange starts.
        """
        if not 0 < period_s < inf or not 0 < timeout_s < inf:
            raise ConfigError(
                f"period_s and timeout_s must be above 0, got {period_s}, {timeout_s}"
            )
        super().__init__(id)
        self._random = fold_in(key(seed), id)
        self._draws = 0
        self._period_s = period_s
        self._timeout_s = timeout_s
        self._until_s = until_s
        self._view: list[_Arc] = []  # The oldest first.
        self._counts: dict[ProcessId, int] = {}  # The number of arcs to each peer.
        self._changes: list[ViewChange] = []
        self._exchange = 0  # The number of the last exchange that started here.
        self._partner = NO_PROCESS  # The process that has not answered it yet.
        self._deadline = inf  # For that answer.
        for peer in view:
            self._add(checked_peer(id, peer), NO_PROCESS)
        self._period_start = start_s + period_s * uniform(self._draw())

    @property
    def view(self) -> list[ProcessId]:
        """The peers of all arcs, oldest first."""
        return [arc.peer for arc in self._view]

    def view_changes(self) -> list[ViewChange]:
        """Remove and return the changes of the view."""
        changes = self._changes
        if changes:
            self._changes = []
        return changes

    def join(self, contact: ProcessId, now: float) -> None:
        """Join the overlay through ``contact``."""
        check_now(now)
        checked_peer(self._id, contact)
        self._add(contact, NO_PROCESS)
        self._transmits.append(Transmit(contact, Subscribe()))

    def peer_down(self, peer: ProcessId, now: float) -> None:
        """Replace the arcs to ``peer``, which has left or crashed (rule 4)."""
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
                self._add(self._view[self._draw_below(len(self._view))].peer, NO_PROCESS)

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        check_now(now)
        if source == self._id:
            raise LocalError(f"source {source} is this process itself")
        if isinstance(frame, Offer):
            self._receive_offer(source, frame)
        elif isinstance(frame, Answer):
            self._receive_answer(source, frame)
        elif isinstance(frame, Subscribe):
            self._receive_subscribe(source)
        elif isinstance(frame, Forward):
            if frame.peer < 0 or frame.peer == source:
                raise PeerError(f"invalid {frame}: the newcomer must not be its sender")
            if frame.peer != self._id:
                self._add(frame.peer, source)
        else:
            raise PeerError(f"{type(frame).__name__} is not a frame of this protocol")

    def handle_timer(self, now: float) -> None:
        check_now(now)
        if self._deadline <= now:
            self.peer_down(ProcessId(self._partner), now)
        if self._period_start <= now and self._period_start < self._until_s:
            self._period_start += self._period_s
            if self._period_start <= now:  # The process was paused for over a period.
                self._period_start = now + self._period_s
            if self._partner == NO_PROCESS and self._view:
                self._start_exchange(now)

    def next_timer(self) -> float | None:
        due = self._deadline
        if self._period_start < self._until_s and self._period_start < due:
            due = self._period_start
        return due if due < inf else None

    # Exchanges.

    def _start_exchange(self, now: float) -> None:
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
        self._check_exchange(offer)
        free = [arc for arc in self._view if not arc.offered]
        given = self._sample(free, min((len(self._view) + 1) // 2, len(free)))
        peers = self._peers_for(source, given)
        self._transmits.append(Transmit(source, Answer(offer.number, peers)))
        self._replace(given, offer.peers, source)

    def _receive_answer(self, source: ProcessId, answer: Answer) -> None:
        self._check_exchange(answer)
        if answer.number > self._exchange:
            raise PeerError(f"invalid {answer}: no such exchange was started")
        if source != self._partner or answer.number != self._exchange:
            return  # Too late: the exchange has ended.
        offered = [arc for arc in self._view if arc.offered]
        self._end_exchange()
        self._replace(offered, answer.peers, source)

    def _check_exchange(self, frame: ExchangeFrame) -> None:
        if frame.number < 1 or self._id in frame.peers or min(frame.peers, default=0) < 0:
            raise PeerError(f"invalid {frame} for process {self._id}")

    def _replace(self, given: list[_Arc], got: list[ProcessId], mediator: int) -> None:
        """Add the new arcs, then remove the old ones, so that links overlap in time."""
        for peer in got:
            self._add(peer, mediator)
        for arc in given:
            self._remove(arc)

    def _end_exchange(self) -> None:
        self._partner = NO_PROCESS
        self._deadline = inf
        for arc in self._view:
            arc.offered = False

    def _peers_for(self, partner: ProcessId, arcs: list[_Arc]) -> list[ProcessId]:
        """Return the peers of ``arcs``, with this process in place of the partner."""
        return [self._id if arc.peer == partner else arc.peer for arc in arcs]

    # Joining.

    def _receive_subscribe(self, source: ProcessId) -> None:
        if not self._view:
            self._add(source, NO_PROCESS)
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
            if mediator == peer:  # The other side of an exchange.
                mediator = NO_PROCESS
            self._changes.append(ViewChange(peer, True, mediator))

    def _remove(self, arc: _Arc) -> None:
        self._view.remove(arc)
        count = self._counts[arc.peer] - 1
        if count == 0:
            del self._counts[arc.peer]
            self._changes.append(ViewChange(arc.peer, False, NO_PROCESS))
        else:
            self._counts[arc.peer] = count

    # Random numbers.

    def _draw(self) -> int:
        self._draws += 1
        return fold_in(self._random, self._draws)

    def _draw_below(self, bound: int) -> int:
        """Draw an integer from 0 to ``bound - 1``."""
        return int(uniform(self._draw()) * bound)

    def _sample(self, arcs: list[_Arc], count: int) -> list[_Arc]:
        """Draw ``count`` different elements of ``arcs``, and reorder the list."""
        for index in range(count):
            other = index + self._draw_below(len(arcs) - index)
            arcs[index], arcs[other] = arcs[other], arcs[index]
        return arcs[:count]
