"""``preventive``: PC-broadcast, a flood that uses a new link only once it is safe.

After Nédelec, Molli and Mostéfaoui, Algorithms 2 and 3. Rules:

1. A link from A to B is *safe* if B has received, or will receive before anything that A
   transmits on it from now on, all that A has delivered (Definition 8). Messages flood
   over all safe links and no others, as in :mod:`.flood`, and are delivered on arrival.
2. A new link is unsafe at first. Its owner A transmits a *ping* that travels to B over
   safe links, behind all that A has delivered; B answers with a *pong*, straight to A.
   Meanwhile A keeps what it delivers in a buffer. The pong says that B has all from before
   the ping; the buffer, transmitted on the new link, adds the rest: the link is safe.
3. A pong counts only if its number is that of the link's last ping. When a buffer grows
   beyond its bound, or no pong comes in time, A empties the buffer and pings again, and
   after too many pings it gives the link up (Algorithm 3).
4. What has delivered nothing at all has nothing to be late with: its links are safe.

How pings travel is left open by the paper. Here a ping goes through the *mediator*, who
has links to both ends, where the overlay knows one (``connect_through``): two hops and a
pong, as in the paper's experiment. Else, and on a second try, it floods over the safe
links until it meets a process that has a safe link to B.

Where no ping can come through, A transmits a *summary* on the unsafe link itself: the
highest number it has delivered of each source. B answers it, with a pong, once it has
delivered all that too. There are two such cases, on which the paper is silent:

* A has no safe link left, but has delivered something.
* B is new. No safe link leads to it, so no ping can reach it. B starts as a *newcomer*
  and tells everyone it gets a link to. A member with a link to it transmits a summary,
  which B takes over: what is in it counts as received, and is never delivered. B's link
  back is safe then, since the other end has delivered all that B counts as received. With
  B's pong, the link to B becomes safe as well, and a *welcome* on it tells B that it is a
  member now. Until then it may take over more, should the first one have crashed, from
  whoever has delivered all of the first summary; it keeps its own messages so long, and
  transmits no summaries.

The paper assumes an overlay that is never partitioned. For this protocol that must hold of
the safe links: when the last safe way to a process goes while another link is in its ping
phase, no ping gets through any more, and messages pass it by; the same for the last way
out of it. An overlay should make before break (:class:`.overlay.Sampled` does).

Safe links bring each source's messages in the order of their numbers, so the highest
number of each source tells new messages from old ones: for each source and any B, what
arrives first over a safe link from A has all earlier ones delivered at A before it, and
hence received at B before it.
"""

from collections.abc import Iterable
from math import inf
from typing import Final

from antecede.core.codec import Frame
from antecede.core.process import (
    Delivery,
    ProcessBase,
    ProcessId,
    Transmit,
    check_now,
    checked_payload,
)
from antecede.core.protocols.flood import RelayedMessage, checked_peer
from antecede.core.protocols.pc_broadcast.frames import (
    Newcomer,
    Ping,
    Pong,
    Summary,
    Welcome,
)
from antecede.errors import ConfigError, LocalError, PeerError

__all__ = ["Preventive"]

WINDOW: Final = 64
"""Of each source's flooded pings, so many of the latest numbers are remembered. A process
has far fewer links than that unsafe at once, and an older ping has timed out."""
WINDOW_MASK: Final = (1 << WINDOW) - 1

BUFFER_MAX: Final = 1000
"""The paper leaves maxSize infinite and asks for a sufficiently large one. A ping phase
takes three hops or so: this is seconds of it at hundreds of messages a second."""
RETRIES_MAX: Final = 3
TIMEOUT_S: Final = 15.0
"""The first time-out, three hops of the longest delay in the paper's experiment: a ping in
vain costs more than a late one. Each retry doubles it, so that slow paths are given their
time and a dead peer is given up after four minutes."""
DOUBLINGS_MAX: Final = 10


class _UnsafeLink:
    """A link in its ping phase; the paper's B, I and R of one link."""

    __slots__ = ("buffer", "deadline", "mediator", "ping", "pings", "retries")

    def __init__(self, mediator: int) -> None:
        self.mediator = mediator  # -1 where the overlay knows none.
        self.buffer: list[RelayedMessage] = []  # What was delivered since the ping.
        self.ping = 0  # The number of the ping that a pong must answer, 0 if none is out.
        self.retries = 0
        self.deadline = inf
        self.pings: list[Ping] = []  # Mediated ones that wait until the link is safe.


class _PingsSeen:
    """Which of one source's pings were here, as far back as matters."""

    __slots__ = ("bits", "highest")

    def __init__(self) -> None:
        self.highest = 0
        self.bits = 0  # Bit i: the ping numbered highest - i was here.

    def add(self, number: int) -> bool:
        """Note a ping; tell whether it was new."""
        behind = self.highest - number
        if behind < 0:
            self.bits = (self.bits << -behind | 1) & WINDOW_MASK if -behind < WINDOW else 1
            self.highest = number
            return True
        if behind >= WINDOW or self.bits >> behind & 1:
            return False
        self.bits |= 1 << behind
        return True


class _Question:
    """A summary that is not answered yet: what of it is missing here."""

    __slots__ = ("missing", "number")

    def __init__(self, number: int, missing: dict[ProcessId, int]) -> None:
        self.number = number
        self.missing = missing


class Preventive(ProcessBase):
    """A process of ``preventive``; see :class:`antecede.core.process.Process`."""

    __slots__ = (
        "_buffer_max",
        "_clock",
        "_counter",
        "_early",
        "_given_up",
        "_newcomer",
        "_newcomers",
        "_pings_seen",
        "_questions",
        "_received",
        "_retries_max",
        "_safe",
        "_timeout_s",
        "_unsafe",
        "_welcomed",
    )

    def __init__(
        self,
        id: ProcessId,
        links: Iterable[ProcessId] = (),
        *,
        newcomer: bool = False,
        buffer_max: int = BUFFER_MAX,
        retries_max: int = RETRIES_MAX,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Start a process with no history.

        Args:
            id: Which process this is.
            links: To whom it has links at first, all of them safe: it is there from the
                beginning, before anyone has delivered anything.
            newcomer: It joins others who may have a history. Connect it to one of them,
                and that one to it.
            buffer_max: How many messages are kept for one unsafe link (maxSize).
            retries_max: How often to ping again before a link is given up (maxRetry).
            timeout_s: How long to wait for the first pong; each retry doubles it.
        """
        if buffer_max < 0 or retries_max < 0 or not 0 < timeout_s < inf:
            raise ConfigError("bounds are at least 0, and a time-out is above 0")
        super().__init__(id)
        self._buffer_max = buffer_max
        self._retries_max = retries_max
        self._timeout_s = timeout_s
        self._clock = 0
        self._counter = 0  # The number of the last ping or summary.
        self._safe: dict[ProcessId, None] = {}  # Q
        self._unsafe: dict[ProcessId, _UnsafeLink] = {}  # B, I and R
        for peer in links:
            self._safe[checked_peer(id, peer)] = None
        if newcomer and self._safe:
            raise ConfigError("a newcomer starts without links")
        self._received: dict[ProcessId, int] = {}  # Per source, the highest number.
        self._pings_seen: dict[ProcessId, _PingsSeen] = {}
        self._questions: dict[ProcessId, _Question] = {}  # At most one per asking peer.
        self._newcomers: dict[ProcessId, None] = {}  # Who is new, as far as we know.
        self._given_up: list[ProcessId] = []
        self._newcomer = newcomer
        self._welcomed = not newcomer
        self._early: list[RelayedMessage] = []  # A newcomer's own messages.

    @property
    def links(self) -> list[ProcessId]:
        """To whom this process has safe links."""
        return list(self._safe)

    @property
    def unsafe_links(self) -> list[ProcessId]:
        """To whom this process has links that it cannot use yet."""
        return list(self._unsafe)

    @property
    def buffered(self) -> int:
        """How many messages are kept for unsafe links, and as a newcomer's own."""
        return sum([len(link.buffer) for link in self._unsafe.values()]) + len(self._early)

    def buffered_for(self, peer: ProcessId) -> int:
        """Count the messages kept for the unsafe link to ``peer``."""
        return len(self._unsafe[peer].buffer)

    @property
    def newcomer(self) -> bool:
        """Whether this process is no member yet: no safe link is known to lead to it."""
        return self._newcomer

    def links_given_up(self) -> list[ProcessId]:
        """Take the links that were given up since the last call."""
        given_up = self._given_up
        self._given_up = []
        return given_up

    # Inputs.

    def broadcast(self, payload: object, now: float) -> int:
        """Accept a message for all members and return its number, from 1."""
        check_now(now)
        data = checked_payload(payload)
        self._clock += 1
        message = RelayedMessage(self._id, self._clock, data)
        if self._newcomer:
            self._early.append(message)
        self._deliver(message, now)
        return self._clock

    def connect(self, peer: ProcessId, now: float) -> None:
        """Learn of a link to ``peer``, and use it as soon as it is safe."""
        self._open(peer, -1, now)

    def connect_through(self, peer: ProcessId, mediator: ProcessId, now: float) -> None:
        """Learn of a link to ``peer``, to whom ``mediator`` has one, as we have to it."""
        if mediator == peer:
            raise LocalError(f"{peer} cannot be its own mediator")
        self._open(peer, checked_peer(self._id, mediator), now)

    def disconnect(self, peer: ProcessId, now: float) -> None:
        """Use the link to ``peer`` no more (close, from Q too)."""
        check_now(now)
        checked_peer(self._id, peer)
        self._safe.pop(peer, None)
        self._unsafe.pop(peer, None)

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        """Take a frame that arrived from ``source``."""
        check_now(now)
        if source == self._id:
            raise LocalError("a process transmits nothing to itself")
        if isinstance(frame, RelayedMessage):
            self._receive_message(frame, now)
        elif isinstance(frame, Ping):
            self._receive_ping(source, frame, now)
        elif isinstance(frame, Pong):
            self._receive_pong(source, frame.number)
        elif isinstance(frame, Newcomer):
            self._receive_newcomer(source, now)
        elif isinstance(frame, Summary):
            self._receive_summary(source, frame, now)
        elif isinstance(frame, Welcome):
            self._hear(now)
        else:
            raise PeerError(f"a {type(frame).__name__} is no frame of this protocol")

    def handle_timer(self, now: float) -> None:
        """Ping again where no pong came in time (Algorithm 3 lines 27 and 28)."""
        check_now(now)
        due = [peer for peer, link in self._unsafe.items() if link.deadline <= now]
        for peer in due:
            self._retry(peer, now)

    def next_timer(self) -> float | None:
        """Tell when ``handle_timer`` wants to be called next, or None for never."""
        due = inf
        for link in self._unsafe.values():
            if link.deadline < due:
                due = link.deadline
        return due if due < inf else None

    # Safety (Algorithm 2 lines 5 to 20, Algorithm 3).

    def _open(self, peer: ProcessId, mediator: int, now: float) -> None:
        check_now(now)
        checked_peer(self._id, peer)
        if peer in self._safe or peer in self._unsafe:
            return
        if self._newcomer:
            self._transmits.append(Transmit(peer, Newcomer()))
        elif not self._received:
            # The listing asks whether this is the only link (line 7), which does not make
            # it safe: messages may be on their way over links that were removed.
            self._safe[peer] = None
            return
        link = _UnsafeLink(mediator)
        self._unsafe[peer] = link
        if self._welcomed:
            self._ping(peer, link, now)

    def _ping(self, peer: ProcessId, link: _UnsafeLink, now: float) -> None:
        """Start a ping phase (Algorithm 2 lines 8 to 11)."""
        if self._safe:
            link.buffer = []  # All of it is on its way over the safe links.
        if self._newcomer and (peer in self._newcomers or not self._safe):
            link.ping = 0  # Until this process is a member.
            link.deadline = inf
            return
        self._counter += 1
        link.ping = self._counter
        timeout_s = self._timeout_s * float(1 << min(link.retries, DOUBLINGS_MAX))
        link.deadline = now + timeout_s
        if peer in self._newcomers or not self._safe:
            delivered = self._delivered_before(link.buffer)
            self._transmits.append(Transmit(peer, Summary(link.ping, delivered)))
            return
        mediator = ProcessId(link.mediator)
        mediated = link.retries == 0 and (
            mediator in self._safe or mediator in self._unsafe
        )
        ping = Ping(self._id, peer, link.ping, mediated)
        if mediated:
            self._transmit_mediated(mediator, ping)
        else:
            for neighbour in self._safe:
                self._transmits.append(Transmit(neighbour, ping))

    def _transmit_mediated(self, peer: ProcessId, ping: Ping) -> None:
        """Transmit a ping on one link, as soon as that is safe; without a link, do not."""
        if peer in self._safe:
            self._transmits.append(Transmit(peer, ping))
        elif peer in self._unsafe:
            self._unsafe[peer].pings.append(ping)

    def _receive_ping(self, source: ProcessId, ping: Ping, now: float) -> None:
        """Answer a ping or pass it on, over safe links only (lines 12 and 13)."""
        if ping.number < 1 or ping.source < 0 or ping.source in (ping.target, self._id):
            raise PeerError(f"{ping} cannot be")
        self._hear(now)
        if not ping.mediated:
            seen = self._pings_seen.get(ping.source)
            if seen is None:
                seen = _PingsSeen()
                self._pings_seen[ping.source] = seen
            if not seen.add(ping.number):
                return
        if ping.target == self._id:
            self._transmits.append(Transmit(ping.source, Pong(ping.number)))
        elif ping.mediated or ping.target in self._safe:
            self._transmit_mediated(ping.target, ping)
        else:
            for neighbour in self._safe:
                if neighbour != source and neighbour != ping.source:
                    self._transmits.append(Transmit(neighbour, ping))

    def _receive_pong(self, source: ProcessId, number: int) -> None:
        """Make a link safe (lines 14 to 18), unless the pong answers an earlier ping."""
        if not 1 <= number <= self._counter:
            raise PeerError(f"pong for ping {number}, which was never transmitted")
        link = self._unsafe.get(source)
        if link is None or link.ping != number:
            return
        if source in self._newcomers:
            del self._newcomers[source]
            self._transmits.append(Transmit(source, Welcome()))
        for message in link.buffer:
            self._transmits.append(Transmit(source, message))
        for ping in link.pings:
            self._transmits.append(Transmit(source, ping))
        del self._unsafe[source]
        self._safe[source] = None

    def _retry(self, peer: ProcessId, now: float) -> None:
        """Start the ping phase anew, or give the link up (Algorithm 3 lines 20 to 25)."""
        link = self._unsafe[peer]
        link.retries += 1
        if link.retries <= self._retries_max:
            self._ping(peer, link, now)
        else:
            del self._unsafe[peer]
            self._given_up.append(peer)

    # Newcomers, and pings that have no way.

    def _receive_newcomer(self, source: ProcessId, now: float) -> None:
        """Welcome a newcomer, now or when there is a link to it."""
        if source in self._safe:
            self._welcome_over_safe_link(source)
            return
        self._newcomers[source] = None
        link = self._unsafe.get(source)
        if link is not None and self._welcomed:
            self._ping(source, link, now)

    def _receive_summary(self, source: ProcessId, summary: Summary, now: float) -> None:
        """Answer once all in the summary is here; a newcomer takes it as its history."""
        delivered = summary.delivered
        if (
            summary.number < 1
            or (delivered and min(delivered.values()) < 1)
            or delivered.get(self._id, 0) > self._clock
        ):
            raise PeerError(f"{summary} cannot be")
        missing = self._missing_of(delivered)
        if self._newcomer and (missing or not self._welcomed):
            linked = source in self._unsafe or source in self._safe
            if linked and self._is_level(delivered):
                self._take_over(source, delivered, now)
                missing = {}
        if missing:
            self._questions[source] = _Question(summary.number, missing)
        else:
            self._questions.pop(source, None)
            self._transmits.append(Transmit(source, Pong(summary.number)))

    def _delivered_before(self, buffer: list[RelayedMessage]) -> dict[ProcessId, int]:
        """Return what had been delivered here before all that is in ``buffer``."""
        delivered = self._received.copy()
        for message in reversed(buffer):
            delivered[message.source] = message.number - 1
            if message.number == 1:
                del delivered[message.source]
        return delivered

    def _missing_of(self, delivered: dict[ProcessId, int]) -> dict[ProcessId, int]:
        """Return what of ``delivered`` has not been received here."""
        received = self._received
        return {o: number for o, number in delivered.items() if number > received.get(o, 0)}

    def _is_level(self, delivered: dict[ProcessId, int]) -> bool:
        """Tell whether all that counts as received here is in ``delivered``."""
        for source, number in self._received.items():
            if source != self._id and number > delivered.get(source, 0):
                return False
        return True

    def _take_over(
        self, source: ProcessId, delivered: dict[ProcessId, int], now: float
    ) -> None:
        """Count as received all that ``source`` has delivered, and start over from it."""
        for origin, number in self._missing_of(delivered).items():
            self._received[origin] = number
        self._welcomed = True
        for message in self._early:  # They depend on nothing but each other.
            self._transmits.append(Transmit(source, message))
        for peer in self._safe:
            self._unsafe[peer] = _UnsafeLink(-1)
        self._unsafe.pop(source, None)
        self._safe.clear()
        self._safe[source] = None
        self._answer_questions()
        for peer, link in self._unsafe.items():
            self._ping(peer, link, now)

    def _welcome_over_safe_link(self, peer: ProcessId) -> None:
        """Welcome a newcomer to whom all that was delivered here has been transmitted."""
        self._counter += 1
        summary = Summary(self._counter, self._received.copy())
        self._transmits.append(Transmit(peer, summary))
        self._transmits.append(Transmit(peer, Welcome()))

    def _hear(self, now: float) -> None:
        """Note that a safe link leads here: this process is a member."""
        if not self._newcomer:
            return
        self._newcomer = False
        if not self._welcomed:
            self._start_without_history()
        for peer, link in self._unsafe.items():
            if link.ping == 0:
                link.buffer = self._early.copy()
                self._ping(peer, link, now)
        self._early = []

    def _start_without_history(self) -> None:
        """Use all links: a message is here ahead of any summary.

        Whoever transmitted it had delivered nothing when it got its link to this process,
        so there is no history to take over. All that was delivered here is early messages,
        which make every link safe that carries them.
        """
        self._welcomed = True
        for peer in self._unsafe:
            self._safe[peer] = None
            for message in self._early:
                self._transmits.append(Transmit(peer, message))
            if peer in self._newcomers:
                del self._newcomers[peer]
                self._welcome_over_safe_link(peer)
        self._unsafe.clear()

    def _answer_questions(self) -> None:
        """Answer the summaries of which nothing is missing here any more."""
        answered: list[ProcessId] = []
        for peer, question in self._questions.items():
            missing = question.missing
            for origin in list(missing):
                if missing[origin] <= self._received.get(origin, 0):
                    del missing[origin]
            if not missing:
                answered.append(peer)
        for peer in answered:
            number = self._questions.pop(peer).number
            self._transmits.append(Transmit(peer, Pong(number)))

    # Dissemination (Algorithm 2 lines 21 to 26 on top of Algorithm 1).

    def _receive_message(self, message: RelayedMessage, now: float) -> None:
        source = message.source
        if message.number < 1 or source < 0:
            raise PeerError(f"{message} cannot be")
        if source == self._id and message.number > self._clock:
            raise PeerError(f"{message} was never sent")
        self._hear(now)
        if message.number > self._received.get(source, 0):
            self._deliver(message, now)

    def _deliver(self, message: RelayedMessage, now: float) -> None:
        """Pass a message on over the safe links, keep it for the unsafe ones, deliver."""
        self._received[message.source] = message.number
        for peer in self._safe:
            self._transmits.append(Transmit(peer, message))
        self._deliveries.append(Delivery(message.source, message.number, message.payload))
        if self._questions:
            self._answer_questions()
        if not self._welcomed or not self._unsafe:
            return
        full: list[ProcessId] = []
        for peer, link in self._unsafe.items():
            if link.ping == 0:
                continue
            link.buffer.append(message)
            if len(link.buffer) > self._buffer_max and self._safe:
                full.append(peer)  # Algorithm 3 lines 14 to 16.
        for peer in full:
            self._retry(peer, now)
