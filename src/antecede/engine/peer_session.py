"""The session with one peer, and the states of a peer in the group."""

from enum import Enum
from typing import Final

from antecede.core.process import NEVER, ProcessId
from antecede.engine.credit import Credit
from antecede.engine.fragmentation import Reassembly
from antecede.engine.handshake import Handshake
from antecede.engine.limits import Limits
from antecede.engine.name_exchange import NameExchange
from antecede.engine.outbox import Outbox
from antecede.engine.path import Path
from antecede.engine.replay_window import ReplayWindow

__all__ = [
    "ACTIVE",
    "EPOCHS_PER_GENERATION",
    "EPOCH_MAX",
    "LEFT",
    "REMOVED",
    "REMOVING",
    "TRANSITIONS",
    "PeerSession",
    "SessionEvent",
    "SessionState",
    "generation_of",
]


class SessionState(Enum):
    """The state of a peer in the group."""

    ACTIVE = "active"
    """The node sends to the peer and receives from it."""
    REMOVING = "removing"
    """The node transmits nothing to the peer, and waits for the end of its lease."""
    REMOVED = "removed"
    """The peer was removed."""
    LEFT = "left"
    """The peer left the group with a BYE, or has acked the BYE of this node."""


class SessionEvent(Enum):
    """An event that may change the state of a peer."""

    ADDED = "added"
    """The application added the peer."""
    REMOVAL_STARTED = "removal started"
    """The application removed the peer, or the peer timed out."""
    REMOVAL_CANCELLED = "removal cancelled"
    """The node was restarted during the removal, and is configured with the peer."""
    LEASE_ENDED = "lease ended"
    """The peer refuses every datagram that was transmitted to it before."""
    BYE_RECEIVED = "bye received"
    BYE_ACKED = "bye acked"
    RETURNED = "returned"
    """Another incarnation of the peer completed the handshake."""
    HISTORY_LOST = "history lost"
    """The peer lost its history, and the protocol cannot continue without it."""


# Names bound once: compiled code reads them faster than attributes of an enumeration.
ACTIVE: Final = SessionState.ACTIVE
REMOVING: Final = SessionState.REMOVING
REMOVED: Final = SessionState.REMOVED
LEFT: Final = SessionState.LEFT

TRANSITIONS: Final[dict[tuple[SessionState, SessionEvent], SessionState]] = {
    (ACTIVE, SessionEvent.ADDED): ACTIVE,
    (ACTIVE, SessionEvent.REMOVAL_STARTED): REMOVING,
    (ACTIVE, SessionEvent.BYE_RECEIVED): LEFT,
    (ACTIVE, SessionEvent.BYE_ACKED): LEFT,
    (ACTIVE, SessionEvent.HISTORY_LOST): REMOVED,
    (REMOVING, SessionEvent.REMOVAL_STARTED): REMOVING,
    (REMOVING, SessionEvent.REMOVAL_CANCELLED): ACTIVE,
    (REMOVING, SessionEvent.LEASE_ENDED): REMOVED,
    (REMOVED, SessionEvent.ADDED): ACTIVE,
    (REMOVED, SessionEvent.REMOVAL_STARTED): REMOVING,
    (REMOVED, SessionEvent.HISTORY_LOST): REMOVED,
    (LEFT, SessionEvent.ADDED): ACTIVE,
    (LEFT, SessionEvent.REMOVAL_STARTED): REMOVING,
    (LEFT, SessionEvent.LEASE_ENDED): LEFT,
    (LEFT, SessionEvent.RETURNED): ACTIVE,
}
"""The next state for each state and event; an event that is not listed changes nothing."""


LINK_PREFIX: Final = "link "
EPOCHS_PER_GENERATION: Final = 256
EPOCH_MAX: Final = (1 << 32) - 1


def generation_of(epoch: int) -> int:
    """Return the generation of an epoch.

    An epoch increases by one when its node has removed the peer and still remembers what it
    has delivered from it. It starts another generation when the node has forgotten that.
    """
    return epoch // EPOCHS_PER_GENERATION


class PeerSession:
    """A peer: its state in the group, its handshake, its outbox and the path to it."""

    __slots__ = (
        "abandonments",
        "acked_base",
        "address",
        "bytes_in",
        "bytes_out",
        "credit",
        "echoed",
        "epoch_in",
        "epoch_known",
        "epoch_out",
        "former_at",
        "handshake",
        "heard_at",
        "history",
        "id",
        "is_configured",
        "is_kept",
        "is_link",
        "is_silent",
        "keep_alive_at",
        "last_packet",
        "lease_ends",
        "marked_address",
        "message_bytes_max",
        "name",
        "name_hash",
        "names",
        "number_before",
        "outbox",
        "path",
        "reassembly",
        "replay_window",
        "skip_at",
        "skipped",
        "state",
        "stopped",
        "suspected_at",
        "transmitted_at",
        "unacked_since",
        "unordered_packet",
        "window",
        "window_packet",
    )

    name: str
    name_hash: int
    """Identifies the peer on the wire."""
    address: object
    """Where the peer is reached, as the driver understands it; None if unknown."""
    id: ProcessId
    """The peer's process id in its current history."""
    path: Path
    """What is in flight to the peer, and what may be transmitted."""
    state: SessionState
    history: int
    """The history that the peer's message numbers belong to; 0 while unknown."""
    epoch_out: int
    """The epoch of the messages to the peer; see :func:`generation_of`."""
    epoch_in: int
    """The epoch of the messages from the peer; 0 until it is known."""
    epoch_known: int
    """The epoch of this node that the peer's current incarnation knows; -1 for none."""
    abandonments: int
    """How often the copies to the peer were abandoned in its current history."""
    acked_base: int
    """Acks up to this number belong to an earlier epoch of this node."""
    number_before: int
    """The last number that former incarnations of this node may have transmitted to the
    peer, or that this one may have before it forgot the peer."""
    marked_address: object
    """The address to which datagrams are marked; None for none."""
    message_bytes_max: int
    """The largest message that the peer accepts; 0 until it is known."""
    is_configured: bool
    """The node was created with this peer, so it is not forgotten when it has left."""
    is_kept: bool
    """The session is kept alive although it is only a link: a room of both nodes needs
    it."""
    is_link: bool
    """The session only carries datagrams of rooms: the application has not added the peer,
    and no message outside of rooms goes to it."""
    last_packet: int
    """The last packet number used towards the peer."""
    skip_at: int
    """The next packet number that is left out; 0 before it was drawn."""
    skipped: list[int]
    """The last packet numbers that were left out."""
    former_at: float
    """When a former incarnation of this node may have transmitted to the peer last."""
    heard_at: float
    """When the last accepted datagram of the current incarnation arrived."""
    is_silent: bool
    """The peer owed an answer for ``Limits.silence_s``, and was reported as silent."""
    suspected_at: float
    """The time since which the peer owes an answer, unless a datagram arrived later;
    infinite if it owes none."""
    lease_ends: float
    """When the peer refuses every datagram transmitted to it; infinite unless it leaves."""
    unacked_since: float
    """Since when copies to the peer are queued or in flight, as of the last check;
    infinite if there are none."""
    keep_alive_at: float
    """The time at which to transmit if the session is idle; infinite for never."""
    transmitted_at: float
    """The time at which the last datagram, other than a handshake, was transmitted."""
    stopped: bool
    """The application guarantees that the peer has stopped for good."""
    bytes_in: int
    bytes_out: int
    echoed: int
    """The latest timestamp of this node that the current incarnation has echoed."""
    credit: Credit
    """The room for messages of the peer in the inbox of this node."""
    unordered_packet: int
    """The packet number of the last unordered message from the current incarnation."""
    names: NameExchange | None
    """The names of processes in the datagrams; None if frames contain none."""
    window: int
    """How many messages to the peer may be transmitted and not acked; -1 if unknown."""
    window_packet: int
    """The packet number of that window; 0 if unknown."""

    def __init__(
        self,
        name: str,
        name_hash: int,
        id: ProcessId,
        address: object,
        path: Path | None = None,
    ) -> None:
        self.name = name
        self.name_hash = name_hash
        self.id = id
        self.address = address
        self.state = ACTIVE
        self.history = 0
        self.handshake = Handshake()
        self.replay_window = ReplayWindow()
        self.outbox = Outbox()
        self.path = path if path is not None else Path(Limits())
        self.reassembly = Reassembly()
        self.epoch_out = 0
        self.epoch_in = 0
        self.epoch_known = -1
        self.abandonments = 0
        self.acked_base = 0
        self.number_before = 0
        self.marked_address = None
        self.message_bytes_max = 0
        self.is_configured = False
        self.is_kept = False
        self.is_link = False
        self.last_packet = 0
        self.skip_at = 0
        self.skipped = []
        self.former_at = -NEVER
        self.heard_at = -NEVER
        self.is_silent = False
        self.suspected_at = NEVER
        self.lease_ends = NEVER
        self.unacked_since = NEVER
        self.keep_alive_at = NEVER
        self.transmitted_at = -NEVER
        self.stopped = False
        self.echoed = -1
        self.credit = Credit()
        self.names = None
        self.unordered_packet = 0
        self.window = -1
        self.window_packet = 0
        self.bytes_in = 0
        self.bytes_out = 0

    @property
    def saved_state(self) -> str:
        """The state as a journal records it."""
        return f"{LINK_PREFIX}{self.state.value}" if self.is_link else self.state.value

    def restore_state(self, saved: str) -> None:
        """Restore the state from :attr:`saved_state`."""
        self.is_link = saved.startswith(LINK_PREFIX)
        self.state = SessionState(saved.removeprefix(LINK_PREFIX))

    def apply(self, event: SessionEvent) -> bool:
        """Make the transition for an event, and return whether there is one."""
        state = TRANSITIONS.get((self.state, event))
        if state is None:
            return False
        self.state = state
        return True

    def bind(self, incarnation: int, history: int, now: float) -> None:
        """Accept this incarnation of the peer only, from now on."""
        self.handshake.bind(incarnation, now)
        self.replay_window.reset()
        self.path.restart()
        self.unordered_packet = 0
        self.epoch_known = -1
        if self.names is not None:
            self.names.reset(history)
        self.window = -1
        self.window_packet = 0
        self.echoed = -1
        self.heard_at = -NEVER
        self.history = history
