"""What an engine knows of one peer, and what waits to be transmitted to it."""

from typing import Final, Protocol

from antecede.core.codec import Frame
from antecede.core.link import LinkAck
from antecede.core.process import NEVER, ProcessId
from antecede.core.protocols.hybrid.frames import Ack, Permit

__all__ = ["ACTIVE", "GONE", "LEAVING", "LEFT", "STATES", "Cipher", "Remote"]

ACTIVE: Final = 0
"""A peer as any other."""
LEAVING: Final = 1
"""It is being removed: nothing is transmitted to it, and the lease has not run out."""
GONE: Final = 2
"""It was removed."""
LEFT: Final = 3
"""It has said goodbye."""
STATES: Final = ("active", "leaving", "gone", "left")

REPLAY_WINDOW: Final = 1024
"""How far a packet may come behind later ones and still be accepted."""
REPLAY_MASK: Final = (1 << REPLAY_WINDOW) - 1
INTRODUCED_MAX: Final = 8
"""How many incarnations of a peer may have said hello without anything following."""
RETIRED_MAX: Final = 16
"""How many former incarnations of a peer are recognised at first sight."""
HELLOS_MAX: Final = 8
"""How many hellos may be under way."""
NOWHERE: Final = -1


class Cipher(Protocol):
    """What seals and opens one direction between two incarnations."""

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        """Return the sealed data."""

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        """Return the data, or raise."""


class Remote:
    """A peer: who it is now, what it has seen, and the frames that wait for it."""

    __slots__ = (
        "_ack_index",
        "_highest",
        "_permit_index",
        "_seen",
        "address",
        "bytes_in",
        "bytes_out",
        "closing",
        "dirty",
        "echo_at",
        "echo_ms",
        "epoch_in",
        "epoch_out",
        "former_at",
        "heard_at",
        "hello_at",
        "hello_wait_s",
        "hellos",
        "id",
        "incarnation",
        "introduced",
        "lease_ends",
        "life",
        "met_at",
        "name",
        "opening",
        "out",
        "packet",
        "parts",
        "parts_bytes",
        "retired",
        "state",
        "stopped",
        "tag",
        "waiting_since",
    )

    name: str
    tag: int
    """What stands for the name on the wire."""
    address: object
    """Where it is; the driver knows what that means."""
    id: ProcessId
    """Its process, in its present life."""
    state: int
    incarnation: int
    """Which of its starts we speak with; 0 while unknown."""
    life: int
    """Which history its numbers belong to; 0 while unknown."""
    introduced: dict[int, int]
    """Incarnations that have said hello, and their lives; nothing else is proven."""
    retired: dict[int, None]
    """The last incarnations that were followed by others; nothing of theirs is accepted."""
    met_at: float
    """When we began to speak with its present incarnation."""
    epoch_out: int
    """How many times we have let go of it and begun anew."""
    epoch_in: int
    """The same, the other way round."""
    packet: int
    """The last packet number used towards it."""
    echo_ms: int
    """The last reading of its clock that we have seen, or -1."""
    echo_at: float
    """When that was."""
    former_at: float
    """When an incarnation before ours may have transmitted to it last."""
    heard_at: float
    """When anything that is certainly its own came last."""
    hello_at: float
    """When to say hello (again); infinite if there is no need."""
    hello_wait_s: float
    hellos: dict[int, float]
    """Readings in the hellos that are under way, and when they were transmitted."""
    lease_ends: float
    """While leaving: when it refuses all that we have transmitted."""
    waiting_since: float
    """Since when copies for it wait, as far as somebody has looked; else infinite."""
    stopped: bool
    """While leaving: somebody vouches that it has stopped for good."""
    closing: Cipher | None
    """Seals what goes to it."""
    opening: Cipher | None
    """Opens what comes from it."""
    out: list[Frame]
    """What waits to be transmitted."""
    dirty: bool
    """It is in the engine's list of those that have something to transmit."""
    parts: list[bytes]
    """The fragments of a message so far."""
    parts_bytes: int
    bytes_in: int
    bytes_out: int

    def __init__(self, name: str, tag: int, id: ProcessId, address: object) -> None:
        """Make a peer of which nothing is known but its name and address."""
        self.name = name
        self.tag = tag
        self.id = id
        self.address = address
        self.state = ACTIVE
        self.life = 0
        self.introduced = {}
        self.retired = {}
        self.met_at = -NEVER
        self.former_at = -NEVER
        self.epoch_out = 0
        self.epoch_in = 0
        self.packet = 0
        self.out = []
        self.dirty = False
        self.stopped = False
        self.lease_ends = NEVER
        self.waiting_since = NEVER
        self.bytes_in = 0
        self.bytes_out = 0
        self._ack_index = NOWHERE
        self._permit_index = NOWHERE
        self.parts = []
        self.parts_bytes = 0
        self.forget_incarnation()

    def forget_incarnation(self) -> None:
        """Go back to not knowing which incarnation it is in."""
        self.incarnation = 0
        self.echo_ms = -1
        self.echo_at = -NEVER
        self.heard_at = -NEVER
        self.hello_at = NEVER
        self.hello_wait_s = 0.0
        self.hellos = {}
        self.closing = None
        self.opening = None
        self._highest = 0
        self._seen = 0

    def introduce(self, incarnation: int, life: int) -> None:
        """Remember a hello."""
        self.introduced.pop(incarnation, None)
        self.introduced[incarnation] = life
        if len(self.introduced) > INTRODUCED_MAX:
            del self.introduced[next(iter(self.introduced))]

    def begin(self, incarnation: int, life: int, now: float) -> None:
        """Speak with this incarnation from now on, and never with the one before."""
        if self.incarnation:
            self.retired[self.incarnation] = None
            if len(self.retired) > RETIRED_MAX:  # Older ones cannot prove to be alive.
                del self.retired[next(iter(self.retired))]
        self.met_at = now
        hellos = self.hellos
        self.forget_incarnation()
        self.hellos = hellos
        self.incarnation = incarnation
        self.life = life
        self.introduced.pop(incarnation, None)

    def note_hello(self, reading: int, now: float) -> None:
        """Remember a hello of ours, so that its answer is recognised."""
        if len(self.hellos) >= HELLOS_MAX:
            del self.hellos[next(iter(self.hellos))]
        self.hellos[reading] = now

    def is_new(self, packet: int) -> bool:
        """Tell whether a packet of the present incarnation has not been seen before."""
        behind = self._highest - packet
        if behind < 0:
            return True
        return behind < REPLAY_WINDOW and not self._seen >> behind & 1

    def saw(self, packet: int) -> None:
        """Never accept this packet again."""
        behind = self._highest - packet
        if behind < 0:
            if behind == -1:
                self._seen = (self._seen << 1 | 1) & REPLAY_MASK
            elif behind > -REPLAY_WINDOW:
                self._seen = (self._seen << -behind | 1) & REPLAY_MASK
            else:
                self._seen = 1
            self._highest = packet
        else:
            self._seen |= 1 << behind

    def queue(self, frame: Frame) -> None:
        """Let a frame wait for the next flush, in place of an older one that it covers."""
        if isinstance(frame, Ack):
            index = self._ack_index
            if index >= 0:
                last = self.out[index]
                if isinstance(last, Ack) and last.arrived <= frame.delivered:
                    self.out[index] = frame
                    return
            self._ack_index = len(self.out)
        elif isinstance(frame, Permit):
            index = self._permit_index
            if index >= 0:
                self.out[index] = frame
                return
            self._permit_index = len(self.out)
        elif isinstance(frame, LinkAck):
            index = self._ack_index
            if index >= 0:
                acked = self.out[index]
                if isinstance(acked, LinkAck) and acked.arrived <= frame.acked:
                    self.out[index] = frame
                    return
            self._ack_index = len(self.out)
        self.out.append(frame)

    def drop_parts(self) -> None:
        """Forget the fragments so far."""
        self.parts.clear()
        self.parts_bytes = 0

    def take(self) -> list[Frame]:
        """Take what waits to be transmitted."""
        frames = self.out
        self.out = []
        self._ack_index = NOWHERE
        self._permit_index = NOWHERE
        return frames
