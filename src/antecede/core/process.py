"""The contract between a process and whoever drives it.

A *process* is one participant of a protocol: a pure state machine. It has these inputs,

* ``send``, ``broadcast``: the application hands a message over,
* ``connect``, ``disconnect``: an overlay has gained or lost a link out of this process,
* ``receive``: the network hands over a frame of some peer,
* ``handle_timer``: the time that ``next_timer`` asked for has come,

and three outputs, which are data that the driver drains after *every* input:

* ``frames_to_transmit``: what to put on the network,
* ``messages_to_deliver``: what to hand to the application, in this order,
* ``next_timer``: when to call ``handle_timer`` at the latest.

Time is an argument, in seconds from any origin, finite, and never runs backwards. A
process reads no clock, draws no random number, opens nothing and logs nothing; the same
inputs give the same outputs in the simulator, in the model checker and on a real socket.

The words for what happens to a message are fixed: it is *sent* by the application,
*released* onto the network, it *arrives* at the target's process, and it is *delivered* to
the target's application (docs/glossary.md).
"""

from collections.abc import Iterable
from typing import Final, NewType, Protocol

from mypy_extensions import mypyc_attr

from antecede.core.codec import Frame
from antecede.errors import LocalError

__all__ = [
    "NEVER",
    "UNBOUNDED",
    "Delivery",
    "Process",
    "ProcessBase",
    "ProcessId",
    "Transmit",
    "check_now",
    "checked_payload",
    "checked_targets",
]

NEVER: Final = 1e999
"""A moment that does not come: infinity, as a constant that compiled code has at hand."""

UNBOUNDED: Final = 1 << 60
"""More of anything than fits anywhere."""

ProcessId = NewType("ProcessId", int)
"""Names a process; chosen by the driver, never on the wire, at least 0."""


@mypyc_attr(acyclic=True)
class Transmit:
    """An output: put ``frame`` on the network, for ``target``."""

    __slots__ = ("frame", "repeat", "target")

    target: ProcessId
    """Whom the frame is for."""
    frame: Frame
    """What to transmit."""
    repeat: bool
    """It was transmitted before; a message's first transmission is its release."""

    def __init__(self, target: ProcessId, frame: Frame, repeat: bool = False) -> None:
        """Make the output; the fields are documented on the class."""
        self.target = target
        self.frame = frame
        self.repeat = repeat

    def __repr__(self) -> str:
        """Show the fields."""
        return f"Transmit({self.target}, {self.frame}{', repeat' * self.repeat})"


@mypyc_attr(acyclic=True)
class Delivery:
    """An output: hand this message to the application."""

    __slots__ = ("number", "payload", "source")

    source: ProcessId
    """Who sent it."""
    number: int
    """Its number among all messages of its source, from 1, the same at every target."""
    payload: bytes
    """The bytes that the source's application sent."""

    def __init__(self, source: ProcessId, number: int, payload: bytes) -> None:
        """Make the output; the fields are documented on the class."""
        self.source = source
        self.number = number
        self.payload = payload

    def __repr__(self) -> str:
        """Show the fields, with the payload by its length."""
        return f"Delivery({self.source}:{self.number}, {len(self.payload)} B)"


class Process(Protocol):
    """What every protocol's process offers its driver."""

    @property
    def id(self) -> ProcessId:
        """Which process this is."""

    def send(self, targets: Iterable[ProcessId], payload: bytes, now: float) -> int:
        """Accept a message for ``targets`` and return its number, from 1.

        Drain the outputs afterwards. A message to the process itself is among the
        deliveries already when this returns. Raise LocalError, and change nothing, if the
        targets are empty or not process ids, or the payload is not bytes.
        """

    def broadcast(self, payload: bytes, now: float) -> int:
        """Accept a message for all members of the moment and return its number, from 1.

        Drain the outputs afterwards; the process's own delivery is among them already,
        unless the protocol's order makes it wait (``newtop``).
        Raise LocalError, and change nothing, if the protocol has no broadcast, or the
        payload is not bytes.
        """

    def connect(self, peer: ProcessId, now: float) -> None:
        """Learn that the overlay has a link to ``peer`` from now on, and drain.

        Raise LocalError if the protocol uses no overlay.
        """

    def disconnect(self, peer: ProcessId, now: float) -> None:
        """Learn that the overlay has no link to ``peer`` any more, and drain.

        Raise LocalError if the protocol uses no overlay.
        """

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        """Take a frame that arrived from ``source``, and drain the outputs afterwards.

        Raise PeerError, and change nothing, if the frame makes no sense: drop it then.
        """

    def handle_timer(self, now: float) -> None:
        """Do what is due at ``now`` and drain the outputs; calling early is harmless."""

    def next_timer(self) -> float | None:
        """Tell when ``handle_timer`` wants to be called next, or None for never."""

    def frames_to_transmit(self) -> list[Transmit]:
        """Take the frames to transmit; they are the driver's now."""

    def messages_to_deliver(self) -> list[Delivery]:
        """Take the messages to deliver, in order; they are the driver's now."""


class ProcessBase:
    """What the protocols share: an identity, and the two output queues.

    A subclass implements the inputs that its protocol has, and ``next_timer`` if it has
    timers, as :class:`Process` says. Drivers that are compiled call a process through
    this class.
    """

    __slots__ = ("_deliveries", "_id", "_transmits")

    def __init__(self, id: ProcessId) -> None:
        """Start a process with no history."""
        self._id = id
        self._transmits: list[Transmit] = []
        self._deliveries: list[Delivery] = []

    @property
    def id(self) -> ProcessId:
        """Which process this is."""
        return self._id

    def send(self, targets: Iterable[ProcessId], payload: object, now: float) -> int:
        """Accept a message for ``targets`` and return its number, from 1."""
        raise LocalError("this protocol has broadcast only")

    def broadcast(self, payload: object, now: float) -> int:
        """Accept a message for all members and return its number, from 1."""
        raise LocalError("this protocol has no broadcast; name the targets")

    def connect(self, peer: ProcessId, now: float) -> None:
        """Learn that the overlay has a link to ``peer`` from now on."""
        raise LocalError("this protocol uses no overlay")

    def disconnect(self, peer: ProcessId, now: float) -> None:
        """Learn that the overlay has no link to ``peer`` any more."""
        raise LocalError("this protocol uses no overlay")

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        """Take a frame that arrived from ``source``."""
        raise TypeError("a bare ProcessBase has no protocol")

    def backlog(self, peer: ProcessId) -> int:
        """Count the copies for ``peer`` that wait here or are not known to be delivered.

        A protocol that cannot tell one peer's from another's counts them all.
        """
        return 0

    def backlog_bytes(self, peer: ProcessId) -> int:
        """Count the payload of those copies, where the protocol knows it."""
        return 0

    def retained(self) -> int:
        """Count the copies that are kept because one before them is not acked.

        They grow with what is sent to anybody for as long as one peer is silent.
        """
        return 0

    def round_trip_s(self, peer: ProcessId) -> float:
        """Return the smoothed round trip to ``peer``, or -1 where none has been seen."""
        return -1.0

    def learn_round_trip(self, peer: ProcessId, round_trip_s: float, now: float) -> None:
        """Learn what the driver has measured: the peer is there, and how far away."""

    def forget_arrivals(self, peer: ProcessId) -> None:
        """Learn that ``peer`` may have forgotten what arrived there and was not acked."""

    def abandon(self, peer: ProcessId, now: float) -> None:
        """Give up every copy to ``peer`` as if it had been acked, and drain.

        Nothing of what was transmitted to the peer may be accepted there any more: the
        driver sees to that first (docs/removal.md). Later sends to it begin anew. Raise
        LocalError if the protocol cannot let go of a peer.
        """
        raise LocalError("this protocol cannot let go of a peer")

    def renew(self, peer: ProcessId, now: float) -> None:
        """Learn that ``peer`` has abandoned its copies for us and begins anew.

        Raise LocalError if the protocol cannot let go of a peer.
        """
        raise LocalError("this protocol cannot let go of a peer")

    def waive(self, peer: ProcessId, now: float) -> None:
        """Wait for no permit of ``peer`` any more, and drain: it has stopped for good.

        Nothing that it transmitted may be accepted anywhere any more (docs/removal.md).
        Raise LocalError if the protocol cannot let go of a peer.
        """
        raise LocalError("this protocol cannot let go of a peer")

    def handle_timer(self, now: float) -> None:
        """Do what is due at ``now``: nothing, without timers."""
        check_now(now)

    def next_timer(self) -> float | None:
        """Tell when ``handle_timer`` wants to be called next, or None for never."""
        return None

    def frames_to_transmit(self) -> list[Transmit]:
        """Take the frames to transmit; they are the driver's now."""
        frames = self._transmits
        if frames:
            self._transmits = []
        return frames

    def messages_to_deliver(self) -> list[Delivery]:
        """Take the messages to deliver, in order; they are the driver's now."""
        deliveries = self._deliveries
        if deliveries:
            self._deliveries = []
        return deliveries


def check_now(now: float) -> None:
    """Raise LocalError unless ``now`` is a time: finite, and a number at all."""
    if not -NEVER < now < NEVER:
        raise LocalError(f"time must be finite, got {now}")


def checked_targets(targets: Iterable[object]) -> list[ProcessId]:
    """Return ``targets`` as a list, or raise LocalError unless they are process ids."""
    checked: list[ProcessId] = []
    if isinstance(targets, bytes) or isinstance(targets, str):  # noqa: SIM101 (faster)
        raise LocalError(f"targets are a collection of process ids, not {targets!r}")
    try:
        remaining = iter(targets)
    except TypeError:
        raise LocalError(
            f"targets are a collection of process ids, not {targets!r}"
        ) from None
    for target in remaining:
        if not isinstance(target, int) or isinstance(target, bool) or target < 0:
            raise LocalError(f"a target is a process id of at least 0, not {target!r}")
        checked.append(ProcessId(target))
    if not checked:
        raise LocalError("a message needs at least one target")
    return checked


def checked_payload(payload: object) -> bytes:
    """Return ``payload``, or raise LocalError unless it is bytes."""
    if not isinstance(payload, bytes):
        raise LocalError(f"payload must be bytes, not {type(payload).__name__}")
    return payload
