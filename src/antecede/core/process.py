"""The contract between a process and its driver.

A *process* is one participant of a protocol: a pure state machine. It has these inputs,

* ``send``, ``broadcast``: the application sends a message,
* ``connect``, ``disconnect``: the overlay has added or removed a link of this process,
* ``receive``: a frame of a peer has arrived,
* ``handle_timer``: the time that ``next_timer`` returned has come,

and three outputs, which the driver drains after *every* input:

* ``frames_to_transmit``: the frames to transmit,
* ``messages_to_deliver``: the messages to deliver to the application, in this order,
* ``next_timer``: the latest time at which to call ``handle_timer``.

Time is an argument: finite seconds from any origin that never decrease. A process reads no
clock, performs no I/O and has no other source of randomness than its seed, so the same
inputs give the same outputs in the simulator, in the model checker and on a real socket.

The life cycle of a message has fixed names: the application *sends* it, the process
*releases* it to the network, it *arrives* at the target's process, which *delivers* it to
the target's application (docs/reference/glossary.md).
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from mypy_extensions import mypyc_attr

from antecede.core.codec import NO_PROCESS, Frame
from antecede.core.dependencies import PeerDependencies
from antecede.core.overlay_links import OverlayLinks
from antecede.core.pending import PendingMessages
from antecede.core.process_id import ProcessId
from antecede.core.windows import PeerWindows
from antecede.errors import LocalError

__all__ = [
    "NEVER",
    "NO_PROCESS",
    "UNBOUNDED",
    "Delivery",
    "PeerRecovery",
    "Process",
    "ProcessBase",
    "ProcessId",
    "Transmit",
    "check_now",
]

NEVER: Final = 1e999
"""Infinity, as a constant that mypyc inlines."""

UNBOUNDED: Final = 1 << 60
"""A bound that is never reached."""


@mypyc_attr(acyclic=True)
class Transmit:
    """An output: transmit ``frame`` to ``target``."""

    __slots__ = ("frame", "is_retransmission", "target")

    target: ProcessId
    frame: Frame
    is_retransmission: bool
    """False for the first transmission of a message, which is its release."""

    def __init__(
        self, target: ProcessId, frame: Frame, is_retransmission: bool = False
    ) -> None:
        self.target = target
        self.frame = frame
        self.is_retransmission = is_retransmission

    def __repr__(self) -> str:
        suffix = ", retransmission" if self.is_retransmission else ""
        return f"Transmit({self.target}, {self.frame}{suffix})"


@mypyc_attr(acyclic=True)
class Delivery:
    """An output: deliver this message to the application."""

    __slots__ = ("number", "payload", "source")

    source: ProcessId
    number: int
    """The number among all messages of the source, from 1, the same at every target."""
    payload: bytes

    def __init__(self, source: ProcessId, number: int, payload: bytes) -> None:
        self.source = source
        self.number = number
        self.payload = payload

    def __repr__(self) -> str:
        return f"Delivery({self.source}:{self.number}, {len(self.payload)} B)"


class Process(Protocol):
    """The interface of a process for its driver."""

    @property
    def id(self) -> ProcessId:
        """The id of this process."""

    def send(self, targets: Iterable[ProcessId], payload: bytes, now: float) -> int:
        """Accept a message for ``targets`` and return its number, from 1.

        Drain the outputs afterwards; a message to the process itself is among the
        deliveries. Raise LocalError, and change nothing, if the targets are empty or not
        process ids, or the payload is not bytes.
        """

    def broadcast(self, payload: bytes, now: float) -> int:
        """Accept a message for all current members and return its number, from 1.

        Drain the outputs afterwards; the delivery to the process itself is among them,
        unless the protocol holds it (``newtop``). Raise LocalError, and change nothing,
        if the protocol has no broadcast, or the payload is not bytes.
        """

    def connect(self, peer: ProcessId, now: float) -> None:
        """Add the overlay's new link to ``peer``; drain the outputs afterwards.

        Raise LocalError if the protocol uses no overlay.
        """

    def disconnect(self, peer: ProcessId, now: float) -> None:
        """Remove the overlay's link to ``peer``; drain the outputs afterwards.

        Raise LocalError if the protocol uses no overlay.
        """

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        """Process a frame that arrived from ``source``; drain the outputs afterwards.

        Raise PeerError, and change nothing, if the frame is invalid; drop it then. The
        link layer acks a segment whose frame the protocol refuses.
        """

    def handle_timer(self, now: float) -> None:
        """Do the work that is due at ``now``; drain the outputs afterwards.

        An early call is harmless.
        """

    def next_timer(self) -> float | None:
        """Return the latest time at which to call ``handle_timer``, or None for never."""

    def frames_to_transmit(self) -> list[Transmit]:
        """Remove and return the frames to transmit."""

    def messages_to_deliver(self) -> list[Delivery]:
        """Remove and return the messages to deliver, in order."""


class PeerRecovery:
    """Optional capability of a process: remove peers, and continue after a restart.

    Drain the outputs of the process after each call that takes ``now``.
    docs/explanation/peer-removal.md proves that the removal of a peer keeps causal order.
    """

    __slots__ = ()

    @abstractmethod
    def abandon(self, peer: ProcessId, now: float) -> None:
        """Drop every copy to ``peer`` as if the peer had acked it.

        Call this only when the peer can no longer accept a copy that was transmitted to
        it. The next message to the peer has no predecessor.
        """

    @abstractmethod
    def reset_channel(self, peer: ProcessId, now: float) -> None:
        """Expect a message without predecessor next: ``peer`` has called ``abandon``."""

    @abstractmethod
    def forgo_permits(self, peer: ProcessId, now: float) -> None:
        """Stop waiting for permits from ``peer``, and forget the messages received from it.

        Call this only when the peer has stopped for good and no process can still accept
        a message from it.
        """

    @abstractmethod
    def assume_permits(self, peer: ProcessId, now: float) -> None:
        """Treat every missing permit of ``peer`` as received.

        Call this only when every message of the peer has been delivered everywhere.
        """

    @abstractmethod
    def forget(self, peer: ProcessId) -> bool:
        """Delete the state of ``peer``, and return True; return False if it is needed.

        It is needed while a copy to the peer is not acked, or a permit of it is missing.
        """

    @abstractmethod
    def drop_held(self, peer: ProcessId) -> None:
        """Drop the messages of ``peer`` that are held: its history has ended."""

    @abstractmethod
    def peer_restored(self, peer: ProcessId) -> None:
        """Forget which unacked copies had arrived: ``peer`` restarted and lost them."""

    @abstractmethod
    def last_number(self) -> int:
        """Return the number of the last message sent, to any process."""

    @abstractmethod
    def last_received(self, peer: ProcessId) -> int:
        """Return the highest number delivered from ``peer``, or held."""

    @abstractmethod
    def channel_numbers(self, peer: ProcessId) -> tuple[int, int, int, int]:
        """Return the last number sent, acked, delivered and permitted, for a journal."""

    @abstractmethod
    def restore(
        self,
        clock: int,
        channels: Sequence[tuple[ProcessId, int, int, int]],
        missing: Sequence[tuple[ProcessId, int]],
        copies: Sequence[tuple[ProcessId, int, int, int, bytes]],
        now: float,
        positions: Sequence[int] = (),
    ) -> None:
        """Load the state of an earlier run from a journal into a new process.

        Args:
            clock: The number of the last message sent.
            channels: For each peer: its id, the last number sent to it, the last number
                delivered from it, and its highest permit.
            missing: Peer and number of the delivered messages without a permit, in the
                order of delivery.
            copies: Peer, number, predecessor, how many messages of ``missing`` were
                delivered before the send, and payload of the unacked copies, in the order
                of sending.
            now: The current time, for the timers.
            positions: For each copy, how many of the entries that
                :meth:`~antecede.core.dependencies.PeerDependencies.restore` has loaded were
                delivered before the send.
        """


class ProcessBase:
    """Base class of all processes: an id and the two output queues.

    A subclass implements the inputs that its protocol has, and ``next_timer`` if it has
    timers; :class:`Process` documents them. Compiled drivers call a process through this
    class.
    """

    __slots__ = ("_deliveries", "_id", "_transmits")

    def __init__(self, id: ProcessId) -> None:
        self._id = id
        self._transmits: list[Transmit] = []
        self._deliveries: list[Delivery] = []

    @property
    def id(self) -> ProcessId:
        """The id of this process."""
        return self._id

    def send(self, targets: Iterable[ProcessId], payload: object, now: float) -> int:
        raise LocalError("this protocol has broadcast only; call broadcast")

    def broadcast(self, payload: object, now: float) -> int:
        raise LocalError("this protocol has no broadcast; name the targets")

    def connect(self, peer: ProcessId, now: float) -> None:
        raise LocalError("this protocol uses no overlay")

    def disconnect(self, peer: ProcessId, now: float) -> None:
        raise LocalError("this protocol uses no overlay")

    def send_bundle(
        self, targets: Iterable[ProcessId], payload: bytes, count: int, now: float
    ) -> int:
        """Send consecutive messages as one, and return the number of the last one.

        They take ``count`` numbers; the message in the frame has the last one. The process
        must have the capability ``bundles``. Raise LocalError, and change nothing, if it
        has not, or the arguments are invalid.
        """
        raise LocalError("this protocol has no bundles; send each message alone")

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        raise TypeError("ProcessBase itself has no protocol")

    def backlog(self, peer: ProcessId) -> int:
        """Return the number of messages to ``peer`` that are queued or in flight.

        A protocol that does not track copies by peer counts the copies for all peers.
        """
        return 0

    def backlog_bytes(self, peer: ProcessId) -> int:
        """Return the payload bytes of those copies, or 0 if the protocol does not know."""
        return 0

    def early_copies(self, peer: ProcessId) -> int:
        """Return the number of these messages that have arrived before an earlier one."""
        return 0

    def early_bytes(self, peer: ProcessId) -> int:
        """Return the payload bytes of these, or 0 if the protocol does not know."""
        return 0

    def retained(self) -> int:
        """Return how many copies are kept: all since the first unacked one to any peer."""
        return 0

    def known_peers(self) -> int:
        """Return how many peers the process keeps a record of."""
        return 0

    def round_trip_s(self, peer: ProcessId) -> float:
        """Return the smoothed round trip to ``peer``, or -1 before the first sample."""
        return -1.0

    def frame_lost(self, peer: ProcessId, frame: Frame, sent_at: float, now: float) -> None:
        """Transmit again what is still true of a frame that was lost.

        A driver that detects losses calls this; timers cover what it does not detect.

        Args:
            peer: the target of the frame.
            frame: the frame.
            sent_at: when it was transmitted; what was transmitted again since then is not
                transmitted a third time.
            now: the current time.
        """

    def segments_dropped(self, peer: ProcessId, now: float) -> None:
        """Restart the links to ``peer``: the link layer has dropped frames to it."""

    def learn_round_trip(self, peer: ProcessId, round_trip_s: float, now: float) -> None:
        """Use a round trip to ``peer`` that the driver has measured."""

    @property
    def recovery(self) -> PeerRecovery | None:
        """The operations for peers that leave or restart; None if not supported."""
        return None

    @property
    def windows(self) -> PeerWindows | None:
        """The windows of the peers; None if not supported."""
        return None

    @property
    def dependencies(self) -> PeerDependencies | None:
        """The entries that name other processes; None if its frames have none."""
        return None

    @property
    def overlay(self) -> OverlayLinks | None:
        """The links of an overlay whose processes share no ids; None without one."""
        return None

    @property
    def pending(self) -> PendingMessages | None:
        """The lists of messages that wait for another process; None if not supported."""
        return None

    def handle_timer(self, now: float) -> None:
        check_now(now)

    def next_timer(self) -> float | None:
        return None

    def next_wake(self) -> float:
        """Return the same, infinity for None, which compiled needs no object."""
        due = self.next_timer()
        return due if due is not None else NEVER

    def frames_to_transmit(self) -> list[Transmit]:
        frames = self._transmits
        if frames:
            self._transmits = []
        return frames

    def messages_to_deliver(self) -> list[Delivery]:
        deliveries = self._deliveries
        if deliveries:
            self._deliveries = []
        return deliveries


def check_now(now: float) -> None:
    """Raise LocalError unless ``now`` is finite."""
    if not -NEVER < now < NEVER:
        raise LocalError(f"time must be finite, got {now}")
