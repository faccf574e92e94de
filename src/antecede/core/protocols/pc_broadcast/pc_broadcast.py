"""``pc-broadcast``: PC-broadcast, a flood that uses a new link only once it is safe.

After Nédelec, Molli and Mostéfaoui, Algorithms 2 and 3. Rules:

1. A link from A to B is *safe* if B has received, or will receive before any frame that A
   transmits on it from now on, all messages that A has delivered (Definition 8). Messages
   flood over the safe links only, as in :mod:`antecede.core.protocols.flood`, and are
   delivered on arrival.
2. A new link is unsafe. Its owner A transmits a *ping* that travels to B over safe links,
   behind all messages that A has delivered; B answers with a *pong*, directly to A.
   Meanwhile A stores the messages that it delivers in a buffer. The pong implies that B
   has all messages from before the ping; A transmits the buffer on the new link, which is
   then safe.
3. A pong counts only if its number is that of the link's last ping. When a buffer exceeds
   its bound, or no pong arrives in time, A clears the buffer and pings again; after too
   many pings it gives the link up (Algorithm 3).
4. The links of a process that has delivered nothing are safe.

The paper does not specify how pings travel. Here a ping goes through the *mediator*, which
has links to both ends, if the overlay knows one (``connect_through``): two hops and a pong,
as in the paper's experiment. Otherwise, and on a retry, it floods over the safe links until
it reaches a process that has a safe link to B.

Where no ping can reach B, A transmits a *summary* on the unsafe link itself: the highest
number that it has delivered of each source. B answers it with a pong once B has delivered
all these messages. There are two such cases, which the paper does not consider:

* A has no safe link left, but has delivered messages.
* B is new. No safe link leads to it, so no ping can reach it. B starts as a *newcomer* and
  notifies each peer to which it gets a link. A member with a link to B transmits a summary,
  and B adopts it as its history: the messages in it count as received, and are never
  delivered. B's link back is then safe, since the other end has delivered all messages
  that B counts as received. With B's pong, the link to B becomes safe as well, and a
  *welcome* on it makes B a member. Until then B may adopt further summaries, in case the
  first sender has crashed, from any process that has delivered all messages of the first
  summary; B queues its own messages and transmits no summaries meanwhile.

The paper assumes an overlay that is never partitioned. For this protocol, that must hold
for the safe links: if the last safe path to a process is removed while another link is in
its ping phase, no ping gets through, and the process misses messages; the same holds for
the last path out of it. An overlay should make before break, as
:class:`antecede.core.overlay.spray_overlay.SprayOverlay` does.

Safe links carry each source's messages in the order of their numbers, so the highest number
of each source separates new messages from duplicates: if a message of a source reaches B
first over a safe link from A, then A has delivered all earlier ones before it, and B has
received them before it.
"""

from collections.abc import Iterable
from math import inf
from typing import Final

from antecede.core.codec import Frame
from antecede.core.input_checks import checked_payload, checked_peer
from antecede.core.process import (
    NO_PROCESS,
    Delivery,
    ProcessBase,
    ProcessId,
    Transmit,
    check_now,
)
from antecede.core.protocols.flood import RelayedMessage
from antecede.core.protocols.pc_broadcast.frames import (
    Newcomer,
    Ping,
    Pong,
    Summary,
    Welcome,
)
from antecede.core.protocols.pc_broadcast.links import Links, UnsafeLink
from antecede.core.protocols.pc_broadcast.summaries import (
    PendingSummaries,
    contains,
    missing_from,
)
from antecede.errors import ConfigError, LocalError, PeerError

__all__ = ["PcBroadcast"]

BUFFER_MAX: Final = 1000
"""The paper leaves maxSize infinite and asks for a sufficiently large one. A ping phase
takes about three hops: this is seconds of it at hundreds of messages per second."""
RETRIES_MAX: Final = 3
TIMEOUT_S: Final = 15.0
"""The first timeout, three hops of the longest delay in the paper's experiment: an
unnecessary ping costs more than a late one. Each retry doubles it, so that slow paths have
enough time, and the link to a dead peer is given up after four minutes."""


class PcBroadcast(ProcessBase):
    """A process of ``pc-broadcast``."""

    __slots__ = (
        "_buffer_max",
        "_clock",
        "_has_history",
        "_links",
        "_queued",
        "_received",
        "_summaries",
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
        """Start a process.

        Args:
            id: The id of this process.
            links: The peers that it has links to at the start, before any process has
                delivered a message; these links are safe.
            newcomer: Whether it joins processes that may have delivered messages. Connect
                it to one of them, and that one to it.
            buffer_max: The maximum number of messages in one link's buffer (maxSize).
            retries_max: The maximum number of retries before a link is given up (maxRetry).
            timeout_s: How long to wait for the first pong; each retry doubles it.
        """
        if buffer_max < 0 or retries_max < 0 or not 0 < timeout_s < inf:
            raise ConfigError(
                "buffer_max and retries_max must be at least 0, timeout_s above 0, got"
                f" {buffer_max}, {retries_max}, {timeout_s}"
            )
        super().__init__(id)
        self._buffer_max = buffer_max
        self._clock = 0
        self._received: dict[ProcessId, int] = {}  # Per source, the highest number.
        self._links = Links(
            id,
            self._received,
            is_newcomer=newcomer,
            retries_max=retries_max,
            timeout_s=timeout_s,
        )
        for peer in links:
            self._links.safe[checked_peer(id, peer)] = None
        if newcomer and self._links.safe:
            raise ConfigError("a newcomer must start without links; connect it later")
        self._summaries = PendingSummaries()
        self._has_history = not newcomer
        self._queued: list[RelayedMessage] = []  # A newcomer's own messages.

    @property
    def links(self) -> list[ProcessId]:
        """The peers that this process has safe links to."""
        return list(self._links.safe)

    @property
    def unsafe_links(self) -> list[ProcessId]:
        """The peers that this process has unsafe links to."""
        return list(self._links.unsafe)

    @property
    def buffered(self) -> int:
        """The number of messages in the buffers of unsafe links, and queued ones."""
        return sum([len(link.buffer) for link in self._links.unsafe.values()]) + len(
            self._queued
        )

    def buffered_for(self, peer: ProcessId) -> int:
        """Return the number of messages in the buffer of the unsafe link to ``peer``."""
        return len(self._links.unsafe[peer].buffer)

    @property
    def newcomer(self) -> bool:
        """Whether no safe link is known to lead to this process."""
        return self._links.is_newcomer

    def links_given_up(self) -> list[ProcessId]:
        """Return the peers whose links were given up since the last call."""
        given_up = self._links.given_up
        self._links.given_up = []
        return given_up

    # Inputs.

    def broadcast(self, payload: object, now: float) -> int:
        check_now(now)
        data = checked_payload(payload)
        self._clock += 1
        message = RelayedMessage(self._id, self._clock, data)
        if self._links.is_newcomer:
            self._queued.append(message)
        self._deliver(message, now)
        return self._clock

    def connect(self, peer: ProcessId, now: float) -> None:
        self._add_link(peer, NO_PROCESS, now)

    def connect_through(self, peer: ProcessId, mediator: ProcessId, now: float) -> None:
        """Add a link to ``peer``, for which pings can go through ``mediator``.

        This process has a link to the mediator, and the mediator has one to the peer.
        """
        if mediator == peer:
            raise LocalError(f"the mediator must not be the peer {peer} itself")
        self._add_link(peer, checked_peer(self._id, mediator), now)

    def disconnect(self, peer: ProcessId, now: float) -> None:
        """Remove the link to ``peer`` (close, from Q too)."""
        check_now(now)
        checked_peer(self._id, peer)
        self._links.safe.pop(peer, None)
        self._links.unsafe.pop(peer, None)

    def segments_dropped(self, peer: ProcessId, now: float) -> None:
        """Restart the ping phase of a link: the link layer has dropped frames on it."""
        if peer in self._links.safe or peer in self._links.unsafe:
            self.disconnect(peer, now)
            self._add_link(peer, NO_PROCESS, now)

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        check_now(now)
        if source == self._id:
            raise LocalError(f"source {source} is this process itself")
        if isinstance(frame, RelayedMessage):
            self._receive_message(frame, now)
        elif isinstance(frame, Ping):
            self._receive_ping(source, frame, now)
        elif isinstance(frame, Pong):
            self._links.receive_pong(source, frame, self._transmits)
        elif isinstance(frame, Newcomer):
            self._receive_newcomer(source, now)
        elif isinstance(frame, Summary):
            self._receive_summary(source, frame, now)
        elif isinstance(frame, Welcome):
            self._become_member(now)
        else:
            raise PeerError(f"{type(frame).__name__} is not a frame of this protocol")

    def handle_timer(self, now: float) -> None:
        check_now(now)
        self._links.handle_timer(self._transmits, now)

    def next_timer(self) -> float | None:
        return self._links.next_timer()

    # Links.

    def _add_link(self, peer: ProcessId, mediator: int, now: float) -> None:
        check_now(now)
        checked_peer(self._id, peer)
        if peer in self._links.safe or peer in self._links.unsafe:
            return
        if self._links.is_newcomer:
            self._transmits.append(Transmit(peer, Newcomer()))
        elif not self._received:
            # The listing tests whether this is the only link (line 7), which does not make
            # it safe: messages may be in flight on links that were removed.
            self._links.safe[peer] = None
            if peer in self._links.newcomers:
                del self._links.newcomers[peer]
                self._welcome_over_safe_link(peer)
            return
        link = UnsafeLink(mediator)
        self._links.unsafe[peer] = link
        if self._has_history:
            self._links.ping(peer, link, self._transmits, now)

    def _receive_ping(self, source: ProcessId, ping: Ping, now: float) -> None:
        if ping.number < 1 or ping.source < 0 or ping.source in (ping.target, self._id):
            raise PeerError(f"invalid {ping} at process {self._id}")
        self._become_member(now)
        self._links.receive_ping(source, ping, self._transmits)

    # Newcomers and summaries.

    def _receive_newcomer(self, source: ProcessId, now: float) -> None:
        """Transmit a summary to a newcomer, now or once there is a link to it."""
        if source in self._links.safe:
            self._welcome_over_safe_link(source)
            return
        self._links.newcomers[source] = None
        link = self._links.unsafe.get(source)
        if link is not None and self._has_history:
            self._links.ping(source, link, self._transmits, now)

    def _receive_summary(self, source: ProcessId, summary: Summary, now: float) -> None:
        """Answer once its messages are received; a newcomer adopts it as its history."""
        delivered = summary.delivered
        if (
            summary.number < 1
            or (delivered and min(delivered.values()) < 1)
            or delivered.get(self._id, 0) > self._clock
        ):
            raise PeerError(f"invalid {summary} at process {self._id}")
        missing = missing_from(self._received, delivered)
        if self._links.is_newcomer and (missing or not self._has_history):
            linked = source in self._links.unsafe or source in self._links.safe
            if linked and contains(delivered, self._received, self._id):
                self._adopt_history(source, missing, now)
                missing = {}
        if missing:
            self._summaries.add(source, summary.number, missing)
        else:
            self._summaries.discard(source)
            self._transmits.append(Transmit(source, Pong(summary.number)))

    def _adopt_history(
        self, source: ProcessId, missing: dict[ProcessId, int], now: float
    ) -> None:
        """Count all messages that ``source`` has delivered as received."""
        self._received.update(missing)
        self._has_history = True
        for message in self._queued:  # They depend only on each other.
            self._transmits.append(Transmit(source, message))
        for peer in self._links.safe:
            self._links.unsafe[peer] = UnsafeLink(NO_PROCESS)
        self._links.unsafe.pop(source, None)
        self._links.safe.clear()
        self._links.safe[source] = None
        self._answer_summaries()
        for peer, link in self._links.unsafe.items():
            self._links.ping(peer, link, self._transmits, now)

    def _welcome_over_safe_link(self, peer: ProcessId) -> None:
        """Welcome a newcomer that got all messages delivered here over its safe link."""
        self._links.counter += 1
        summary = Summary(self._links.counter, self._received.copy())
        self._transmits.append(Transmit(peer, summary))
        self._transmits.append(Transmit(peer, Welcome()))

    def _become_member(self, now: float) -> None:
        """Stop being a newcomer, because a safe link leads to this process."""
        if not self._links.is_newcomer:
            return
        self._links.is_newcomer = False
        if not self._has_history:
            self._start_without_history()
        for peer, link in self._links.unsafe.items():
            if link.ping == 0:
                link.buffer = self._queued.copy()
                self._links.ping(peer, link, self._transmits, now)
        self._queued = []

    def _start_without_history(self) -> None:
        """Make all links safe, because a message has arrived before any summary.

        Its sender had delivered nothing when it got its link to this process, so there is
        no history to adopt. This process has delivered only its own queued messages, and
        transmits them on each link, which makes the link safe.
        """
        self._has_history = True
        for peer in self._links.unsafe:
            self._links.safe[peer] = None
            for message in self._queued:
                self._transmits.append(Transmit(peer, message))
            if peer in self._links.newcomers:
                del self._links.newcomers[peer]
                self._welcome_over_safe_link(peer)
        self._links.unsafe.clear()

    def _answer_summaries(self) -> None:
        for peer, number in self._summaries.pop_complete(self._received):
            self._transmits.append(Transmit(peer, Pong(number)))

    # Dissemination (Algorithm 2 lines 21 to 26 on top of Algorithm 1).

    def _receive_message(self, message: RelayedMessage, now: float) -> None:
        source = message.source
        if message.number < 1 or source < 0:
            raise PeerError(f"invalid {message}: number must be at least 1")
        if source == self._id and message.number > self._clock:
            raise PeerError(f"invalid {message}: this process has not sent it")
        self._become_member(now)
        if message.number > self._received.get(source, 0):
            self._deliver(message, now)

    def _deliver(self, message: RelayedMessage, now: float) -> None:
        """Deliver a message, transmit it on the safe links, buffer it for the others."""
        self._received[message.source] = message.number
        for peer in self._links.safe:
            self._transmits.append(Transmit(peer, message))
        self._deliveries.append(Delivery(message.source, message.number, message.payload))
        if len(self._summaries):
            self._answer_summaries()
        if not self._has_history or not self._links.unsafe:
            return
        full: list[ProcessId] = []
        for peer, link in self._links.unsafe.items():
            if link.ping == 0:
                continue
            link.buffer.append(message)
            if len(link.buffer) > self._buffer_max and self._links.safe:
                full.append(peer)  # Algorithm 3 lines 14 to 16.
        for peer in full:
            self._links.retry(peer, self._transmits, now)
