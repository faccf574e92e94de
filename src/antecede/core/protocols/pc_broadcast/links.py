"""The links of a process of ``pc-broadcast``, and their ping phases.

This is Algorithm 2, lines 5 to 20, and Algorithm 3 (see :mod:`.pc_broadcast`).
"""

from math import inf
from typing import Final

from antecede.core.process import ProcessId, Transmit
from antecede.core.protocols.flood import RelayedMessage
from antecede.core.protocols.pc_broadcast.frames import Ping, Pong, Summary, Welcome
from antecede.core.protocols.pc_broadcast.summaries import delivered_before
from antecede.errors import PeerError

__all__ = ["Links", "UnsafeLink"]

DOUBLINGS_MAX: Final = 10
WINDOW: Final = 64
"""How many of the latest numbers of each source's flooded pings are stored. A process has
far fewer unsafe links at once, and an older ping has timed out."""
WINDOW_MASK: Final = (1 << WINDOW) - 1


class UnsafeLink:
    """A link in its ping phase; the paper's B, I and R for one link."""

    __slots__ = ("buffer", "deadline", "mediator", "ping", "pings", "retries")

    def __init__(self, mediator: int) -> None:
        self.mediator = mediator  # NO_PROCESS if the overlay knows none.
        self.buffer: list[RelayedMessage] = []  # The messages delivered since the ping.
        self.ping = 0  # The number that the pong must have, or 0 without a ping.
        self.retries = 0
        self.deadline = inf
        self.pings: list[Ping] = []  # Mediated pings, queued until the link is safe.


class _SeenPings:
    """The numbers of the latest pings of one source."""

    __slots__ = ("bits", "highest")

    def __init__(self) -> None:
        self.highest = 0
        self.bits = 0  # Bit i stands for the number highest - i.

    def add(self, number: int) -> bool:
        """Add a number; return whether it is new."""
        behind = self.highest - number
        if behind < 0:
            self.bits = (self.bits << -behind | 1) & WINDOW_MASK if -behind < WINDOW else 1
            self.highest = number
            return True
        if behind >= WINDOW or self.bits >> behind & 1:
            return False
        self.bits |= 1 << behind
        return True


class Links:
    """The safe and the unsafe links of one process.

    Methods append the frames to transmit to the list ``out``.
    """

    __slots__ = (
        "_id",
        "_received",
        "_retries_max",
        "_seen_pings",
        "_timeout_s",
        "counter",
        "given_up",
        "is_newcomer",
        "newcomers",
        "safe",
        "unsafe",
    )

    counter: int
    """The number of the last ping or summary."""
    given_up: list[ProcessId]
    """The peers whose links were given up, until the process reports them."""
    is_newcomer: bool
    """Whether no safe link is known to lead to this process."""
    newcomers: dict[ProcessId, None]
    """The peers known to be newcomers."""
    safe: dict[ProcessId, None]
    """The paper's Q."""
    unsafe: dict[ProcessId, UnsafeLink]
    """The paper's B, I and R."""

    def __init__(
        self,
        id: ProcessId,
        received: dict[ProcessId, int],
        *,
        is_newcomer: bool,
        retries_max: int,
        timeout_s: float,
    ) -> None:
        """Start without links; ``received`` is that of the process, which updates it."""
        self._id = id
        self._received = received
        self._retries_max = retries_max
        self._timeout_s = timeout_s
        self._seen_pings: dict[ProcessId, _SeenPings] = {}
        self.counter = 0
        self.given_up = []
        self.is_newcomer = is_newcomer
        self.newcomers = {}
        self.safe = {}
        self.unsafe = {}

    def next_timer(self) -> float | None:
        """Return the earliest deadline of a ping phase, or None."""
        due = inf
        for link in self.unsafe.values():
            if link.deadline < due:
                due = link.deadline
        return due if due < inf else None

    def handle_timer(self, out: list[Transmit], now: float) -> None:
        """Ping again where no pong came in time (Algorithm 3 lines 27 and 28)."""
        due = [peer for peer, link in self.unsafe.items() if link.deadline <= now]
        for peer in due:
            self.retry(peer, out, now)

    def ping(
        self, peer: ProcessId, link: UnsafeLink, out: list[Transmit], now: float
    ) -> None:
        """Start a ping phase (Algorithm 2 lines 8 to 11)."""
        if self.safe:
            link.buffer = []  # The safe links carry all of it.
        if self.is_newcomer and (peer in self.newcomers or not self.safe):
            link.ping = 0  # Until this process is a member.
            link.deadline = inf
            return
        self.counter += 1
        link.ping = self.counter
        timeout_s = self._timeout_s * float(1 << min(link.retries, DOUBLINGS_MAX))
        link.deadline = now + timeout_s
        if peer in self.newcomers or not self.safe:
            delivered = delivered_before(self._received, link.buffer)
            out.append(Transmit(peer, Summary(link.ping, delivered)))
            return
        mediator = ProcessId(link.mediator)
        mediated = link.retries == 0 and (mediator in self.safe or mediator in self.unsafe)
        ping = Ping(self._id, peer, link.ping, mediated)
        if mediated:
            self._transmit_mediated(mediator, ping, out)
        else:
            out += [Transmit(neighbour, ping) for neighbour in self.safe]

    def retry(self, peer: ProcessId, out: list[Transmit], now: float) -> None:
        """Restart the ping phase, or give the link up (Algorithm 3 lines 20 to 25)."""
        link = self.unsafe[peer]
        link.retries += 1
        if link.retries <= self._retries_max:
            self.ping(peer, link, out, now)
        else:
            del self.unsafe[peer]
            self.given_up.append(peer)

    def _transmit_mediated(self, peer: ProcessId, ping: Ping, out: list[Transmit]) -> None:
        """Transmit a ping to ``peer`` once the link is safe; drop it without a link."""
        if peer in self.safe:
            out.append(Transmit(peer, ping))
        elif peer in self.unsafe:
            self.unsafe[peer].pings.append(ping)

    def receive_ping(self, source: ProcessId, ping: Ping, out: list[Transmit]) -> None:
        """Answer or forward a valid ping, over safe links only (lines 12 and 13)."""
        if not ping.mediated:
            seen = self._seen_pings.get(ping.source)
            if seen is None:
                seen = _SeenPings()
                self._seen_pings[ping.source] = seen
            if not seen.add(ping.number):
                return
        if ping.target == self._id:
            out.append(Transmit(ping.source, Pong(ping.number)))
        elif ping.mediated or ping.target in self.safe:
            self._transmit_mediated(ping.target, ping, out)
        else:
            excluded = (source, ping.source)
            out += [Transmit(peer, ping) for peer in self.safe if peer not in excluded]

    def receive_pong(self, source: ProcessId, pong: Pong, out: list[Transmit]) -> None:
        """Make a link safe (lines 14 to 18), unless the pong answers an earlier ping."""
        if not 1 <= pong.number <= self.counter:
            raise PeerError(f"invalid {pong}: no such ping was transmitted")
        link = self.unsafe.get(source)
        if link is None or link.ping != pong.number:
            return
        if source in self.newcomers:
            del self.newcomers[source]
            out.append(Transmit(source, Welcome()))
        out += [Transmit(source, message) for message in link.buffer]
        out += [Transmit(source, ping) for ping in link.pings]
        del self.unsafe[source]
        self.safe[source] = None
