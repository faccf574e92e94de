"""Which datagrams get in: incarnations, handshake, seals, replays and leases.

Nothing of a peer is taken in before each side has proven to the other that it is there
*now*. A HELLO asks; the WELCOME that answers it repeats the hello's clock reading and names
the incarnations of both, so it can answer no other. From then on every datagram is bound to
both incarnations and carries an echo of the receiver's own clock, younger than a lease, or
it is refused. A datagram is opened before anything in it is believed, and nothing changes
until it has been.

What the engine is told is small: a peer has begun a new life, or has gone on with its old
one; a body of frames has come.
"""

from typing import Final, Protocol

from antecede.core.process import NEVER
from antecede.engine.datagram import (
    BYE,
    DATA_PREFIX,
    FAREWELL,
    HEAD,
    HELLO,
    HELLO_BODY,
    VERSION,
    WELCOME,
    WELCOME_BODY,
    elapsed_ms,
    read_head,
    reading_ms,
)
from antecede.engine.limits import Limits
from antecede.engine.peer_session import ACTIVE, LEFT, Cipher, Remote
from antecede.errors import PeerError

__all__ = ["DROPS", "READING_S", "Accepted", "Gate", "Sealing"]

DROPS: Final = (
    "malformed",
    "stranger",
    "seal",
    "replay",
    "incarnation",
    "expired",
    "protocol",
    "frame",
    "inbox",
    "removed",
)
"""Why something was dropped."""
READINGS_HALF: Final = 1 << 31
READING_S: Final = 0.001
"""What a reading, in whole milliseconds, leaves open."""
HELLO_DOUBLINGS: Final = 16


class Sealing(Protocol):
    """What derives ciphers from a group key: :class:`antecede.engine.crypto.Seal`."""

    def cipher(
        self, sender: str, incarnation: int, receiver: str, receiver_incarnation: int
    ) -> Cipher:
        """Derive the cipher for one direction between two incarnations."""

    def close(self, cipher: Cipher, packet: int, head: bytes, body: bytes) -> bytes:
        """Return the sealed datagram."""

    def open(self, cipher: Cipher, packet: int, datagram: bytes) -> bytes:
        """Return the body, or raise PeerError."""


class Accepted:
    """A datagram that got in."""

    __slots__ = ("body", "epoch", "kind", "new_life", "previous", "remote")

    def __init__(self, remote: Remote, kind: int, body: bytes) -> None:
        """Start with a datagram that says nothing new of its sender."""
        self.remote = remote
        self.kind = kind
        self.body = body
        self.epoch = 0
        self.new_life = False
        self.previous = 0  # The life before, if there was one.


class Gate:
    """One node's identity, and its judgement of datagrams."""

    __slots__ = (
        "_by_tag",
        "_lease_ms",
        "_limits",
        "_protocol",
        "_seal",
        "_tag",
        "_watched",
        "answers",
        "asking",
        "drops",
        "incarnation",
        "life",
        "name",
        "rtt_s",
    )

    def __init__(
        self,
        name: str,
        tag: int,
        incarnation: int,
        life: int,
        protocol: int,
        limits: Limits,
        seal: Sealing | None,
    ) -> None:
        """Stand for a node; see :class:`antecede.engine.engine.Engine`."""
        self.name = name
        self._tag = tag
        self.incarnation = incarnation
        self.life = life
        self._protocol = protocol
        self._limits = limits
        self._lease_ms = int(limits.lease_s * 1000)
        self._seal = seal
        self._by_tag: dict[int, Remote] = {}
        self.drops: dict[str, int] = dict.fromkeys(DROPS, 0)
        self.answers: list[tuple[object, bytes]] = []
        self.asking: dict[int, Remote] = {}  # Those to whom a hello is due or under way.
        self._watched: dict[int, Remote] = {}  # Those whose lease is to run out.
        self.rtt_s = -1.0  # What the last WELCOME took.

    def add(self, remote: Remote) -> None:
        """Let datagrams of ``remote`` in from now on."""
        self._by_tag[remote.tag] = remote

    # Out.

    def ready(self, remote: Remote, now: float) -> bool:
        """Tell whether the peer is known, and will accept what is transmitted now."""
        return (
            remote.incarnation != 0
            and now - remote.echo_at < self._limits.lease_s / 2
            and remote.address is not None
        )

    def hello(self, remote: Remote, now: float) -> bytes:
        """Make a HELLO, and see to it that it is repeated."""
        reading = reading_ms(now)
        remote.note_hello(reading, now)
        wait_s = self._limits.hello_s
        if remote.hello_wait_s > 0:
            wait_s = min(2 * remote.hello_wait_s, HELLO_DOUBLINGS * self._limits.hello_s)
        remote.hello_wait_s = wait_s
        remote.hello_at = now + wait_s
        self.asking[remote.tag] = remote
        body = HELLO_BODY.pack(reading, remote.epoch_out, self.life, self._protocol)
        if self._seal is None:
            return self._head(HELLO, remote, 0) + body
        cipher = self._seal.cipher(self.name, self.incarnation, remote.name, 0)
        head = self._head(HELLO, remote, 0)
        return self._seal.close(cipher, remote.packet, head, body)

    def prefix(self, remote: Remote, now: float) -> bytes:
        """Return what every body but those of the handshake begins with."""
        return DATA_PREFIX.pack(reading_ms(now), remote.echo_ms, remote.epoch_out)

    def close(self, kind: int, remote: Remote, body: bytes) -> bytes:
        """Make a datagram for the peer's present incarnation."""
        head = self._head(kind, remote, remote.incarnation)
        if self._seal is None:
            datagram = head + body
        else:
            if remote.closing is None:
                remote.closing = self._seal.cipher(
                    self.name, self.incarnation, remote.name, remote.incarnation
                )
            datagram = self._seal.close(remote.closing, remote.packet, head, body)
        remote.bytes_out += len(datagram)
        return datagram

    def _head(self, kind: int, remote: Remote, receiver: int) -> bytes:
        remote.packet += 1
        return HEAD.pack(
            VERSION << 4 | kind, self._tag, self.incarnation, receiver, remote.packet
        )

    def _welcome(
        self, remote: Remote, incarnation: int, echo: int, address: object, now: float
    ) -> None:
        body = WELCOME_BODY.pack(
            reading_ms(now), echo, remote.epoch_out, self.life, self._protocol
        )
        head = self._head(WELCOME, remote, incarnation)
        if self._seal is not None:
            cipher = self._seal.cipher(
                self.name, self.incarnation, remote.name, incarnation
            )
            self.answers.append(
                (address, self._seal.close(cipher, remote.packet, head, body))
            )
        else:
            self.answers.append((address, head + body))

    # In.

    def judge(self, datagram: bytes, address: object, now: float) -> Accepted | None:
        """Let a datagram in, or count why not; answers to it are in ``answers``."""
        try:
            kind, tag, incarnation, receiver, packet = read_head(datagram)
        except PeerError:
            return self._drop("malformed")
        if incarnation == 0:
            return self._drop("malformed")
        remote = self._by_tag.get(tag)
        if remote is None:
            return self._drop("stranger")
        if incarnation in remote.retired:
            return self._drop("incarnation")
        if kind == HELLO:
            return self._judge_hello(
                remote, incarnation, receiver, packet, datagram, address, now
            )
        if receiver != self.incarnation:
            return self._judge_misdirected(
                remote, incarnation, receiver, packet, datagram, now
            )
        known = incarnation == remote.incarnation
        if known and not remote.is_new(packet):
            return self._drop("replay")
        cipher: Cipher | None = None
        if self._seal is None:
            body = datagram[HEAD.size :]
        else:
            cipher = remote.opening if known else None
            if cipher is None:
                cipher = self._seal.cipher(
                    remote.name, incarnation, self.name, self.incarnation
                )
            try:
                body = self._seal.open(cipher, packet, datagram)
            except PeerError:
                return self._drop("seal")
        accepted = Accepted(remote, kind, body)
        if kind == WELCOME:
            if not self._judge_welcome(accepted, incarnation, now):
                return None
        elif not self._judge_data(accepted, incarnation, now):
            return None
        remote.opening = cipher
        remote.saw(packet)
        remote.heard_at = now
        remote.bytes_in += len(datagram)
        return accepted

    def _judge_misdirected(
        self,
        remote: Remote,
        incarnation: int,
        receiver: int,
        packet: int,
        datagram: bytes,
        now: float,
    ) -> Accepted | None:
        """Let a peer that speaks with one that we were before learn better."""
        if self._body(remote, incarnation, receiver, packet, datagram) is None:
            return self._drop("seal")
        self.want_hello(remote, now)
        return self._drop("incarnation")

    def _body(
        self,
        remote: Remote,
        incarnation: int,
        receiver: int,
        packet: int,
        datagram: bytes,
    ) -> bytes | None:
        """Open a datagram whose cipher is needed once; return None if it does not open."""
        if self._seal is None:
            return datagram[HEAD.size :]
        cipher = self._seal.cipher(remote.name, incarnation, self.name, receiver)
        try:
            return self._seal.open(cipher, packet, datagram)
        except PeerError:
            return None

    def _judge_hello(
        self,
        remote: Remote,
        incarnation: int,
        receiver: int,
        packet: int,
        datagram: bytes,
        address: object,
        now: float,
    ) -> Accepted | None:
        body = self._body(remote, incarnation, 0, packet, datagram)
        if body is None:
            return self._drop("seal")
        if receiver != 0 or len(body) != HELLO_BODY.size:
            return self._drop("malformed")
        reading, _, life, protocol = HELLO_BODY.unpack(body)
        if protocol != self._protocol:
            return self._drop("protocol")
        if incarnation != remote.incarnation:
            # It may be an old hello; nothing else is believed until it speaks again, and
            # our own hello tells us whether it is there.
            remote.introduce(incarnation, life)
            self.want_hello(remote, now)
        self._welcome(remote, incarnation, reading, address, now)
        return None

    def _judge_welcome(self, accepted: Accepted, incarnation: int, now: float) -> bool:
        remote = accepted.remote
        if len(accepted.body) != WELCOME_BODY.size:
            self._drop("malformed")
            return False
        reading, echo, epoch, life, protocol = WELCOME_BODY.unpack(accepted.body)
        if protocol != self._protocol:
            self._drop("protocol")
            return False
        asked_at = remote.hellos.pop(echo, -1.0)
        if asked_at < 0 or now - asked_at > self._limits.lease_s:
            self._drop("expired")
            return False
        if not self._meet(accepted, incarnation, life, asked_at, now):
            return False
        accepted.epoch = epoch
        self.rtt_s = now - asked_at
        remote.hello_at = NEVER
        remote.hello_wait_s = 0.0
        self.asking.pop(remote.tag, None)
        self._note_reading(remote, reading, now)
        return True

    def _judge_data(self, accepted: Accepted, incarnation: int, now: float) -> bool:
        remote = accepted.remote
        body = accepted.body
        if len(body) < DATA_PREFIX.size or (
            accepted.kind in (BYE, FAREWELL) and len(body) != DATA_PREFIX.size
        ):
            self._drop("malformed")
            return False
        reading, echo, epoch = DATA_PREFIX.unpack_from(body)
        age_ms = elapsed_ms(echo, reading_ms(now))
        if age_ms >= self._lease_ms:
            self._drop("expired")
            return False
        if incarnation != remote.incarnation:
            life = remote.introduced.get(incarnation, 0)
            if life == 0:
                self.want_hello(remote, now)
                self._drop("incarnation")
                return False
            if not self._meet(accepted, incarnation, life, now - age_ms / 1000, now):
                return False
        if epoch < remote.epoch_in and not accepted.new_life:
            self._drop("incarnation")
            return False
        accepted.epoch = epoch
        self._note_reading(remote, reading, now)
        return True

    def _meet(
        self, accepted: Accepted, incarnation: int, life: int, alive_at: float, now: float
    ) -> bool:
        """Speak with this incarnation from now on, unless it is not the latest.

        It was alive after ``alive_at``: it has repeated what our clock read then. Of two
        incarnations, one that was alive after we had met the other is the later one; what
        proves less may be late, and our own hello tells who is there.
        """
        remote = accepted.remote
        if incarnation == remote.incarnation:
            return True
        if remote.incarnation != 0 and alive_at - READING_S <= remote.met_at:
            self.want_hello(remote, now)
            self._drop("incarnation")
            return False
        accepted.previous = remote.life
        accepted.new_life = life != remote.life
        remote.begin(incarnation, life, now)
        if remote.state == LEFT:  # It is back.
            remote.state = ACTIVE
            self.unwatch(remote)
        return True

    def _note_reading(self, remote: Remote, reading: int, now: float) -> None:
        if remote.echo_ms < 0 or elapsed_ms(remote.echo_ms, reading) < READINGS_HALF:
            remote.echo_ms = reading
            remote.echo_at = now

    def want_hello(self, remote: Remote, now: float) -> None:
        """See to it that the peer is asked who it is, unless that is under way.

        One of a journal whose address is not known yet is asked when it is added.
        """
        if remote.address is None:
            return
        if remote.hello_at == NEVER and remote.state in (ACTIVE, LEFT):
            remote.hello_at = now
            self.asking[remote.tag] = remote

    def stop_asking(self, remote: Remote) -> None:
        """Say no hello to a peer any more that is about to go."""
        remote.hello_at = NEVER
        self.asking.pop(remote.tag, None)

    def due_hellos(self, now: float) -> list[Remote]:
        """Return the peers that a hello is due to."""
        for remote in list(self.asking.values()):
            if remote.state not in (ACTIVE, LEFT):
                self.stop_asking(remote)
        return [remote for remote in self.asking.values() if remote.hello_at <= now]

    def watch(self, remote: Remote) -> None:
        """See to it that the end of the peer's lease is noticed."""
        self._watched[remote.tag] = remote

    def unwatch(self, remote: Remote) -> None:
        """Let the peer's lease be renewed: it stays."""
        remote.lease_ends = NEVER
        self._watched.pop(remote.tag, None)

    def ended_leases(self, now: float) -> list[Remote]:
        """Return the peers whose lease has run out, once."""
        if not self._watched:
            return []
        ended = [peer for peer in self._watched.values() if peer.lease_ends <= now]
        for remote in ended:
            del self._watched[remote.tag]
        return ended

    def next_deadline(self) -> float:
        """Tell when a hello is due or a lease runs out, infinity if never."""
        earliest = NEVER
        for remote in self.asking.values():
            earliest = min(earliest, remote.hello_at)
        for remote in self._watched.values():
            earliest = min(earliest, remote.lease_ends)
        return earliest

    def _drop(self, reason: str) -> Accepted | None:
        self.drops[reason] += 1
        return None
