"""Hostile datagrams for an engine: nothing breaks, nothing grows, and no key, no change.

An input is a script: a byte that chooses the protocol and whether there is a key, then
steps. A step feeds bytes as they are, or as the body of a datagram whose head is right, or
a genuine datagram with bytes changed; or it lets time pass, or the victim send. After each
step everything that an engine offers is called, and its bounds are looked at. With a key,
no step that feeds anything may change what the engine knows.

``python -m fuzz`` plays scripts that atheris makes, and the tests those of Hypothesis.
"""

from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from antecede.check.snapshot import snapshot
from antecede.core import protocols
from antecede.engine import Engine, Limits
from antecede.engine.crypto import AesGcmDatagramCipher
from antecede.engine.datagram import (
    DATA,
    DATA_PREFIX,
    HEADER,
    HELLO,
    HELLO_BODY,
    VERSION,
    name_hash,
    protocol_hash,
    timestamp_ms,
)
from antecede.engine.handshake import HELLOS_MAX, INTRODUCED_MAX, RETIRED_MAX
from antecede.engine.process_driver import UNREADY_FRAMES_MAX

__all__ = ["KEYED", "PROTOCOLS", "Victim", "play"]

PROTOCOLS: Final = [info.name for info in protocols() if info.capabilities.unicast]
KEYED: Final = 0x80
"""The bit of a script's first byte that asks for a key; the others choose the protocol."""
LIMITS: Final = Limits(reorder_buffer_max=16, message_bytes_max=5000, lease_s=5.0)
KEY: Final = bytes(32)
NAMES: Final = ("ann", "bob", "cid")
SCRIPT_MAX: Final = 4096


class Victim:
    """An engine that has met a peer and is fed what a script says."""

    def __init__(self, protocol_name: str, keyed: bool) -> None:
        """Let ann and bob meet and speak; ann is the one to be attacked."""
        self.now = 1000.0
        self.keyed = keyed
        self.genuine: list[bytes] = []
        self.packet = 1 << 20
        cipher = AesGcmDatagramCipher(KEY) if keyed else None
        self.protocol_name = protocol_name
        self.ann, self.bob = (
            Engine(
                name,
                incarnation,
                protocol_name=protocol_name,
                members=NAMES,
                limits=LIMITS,
                cipher=cipher,
            )
            for name, incarnation in (("ann", 11), ("bob", 22))
        )
        self.ann.add_peer("bob", "bob", self.now)
        self.ann.add_peer("cid", "cid", self.now)
        self.bob.add_peer("ann", "ann", self.now)
        for step in range(4):
            large = step == 2 and protocol_name != "unordered"
            self.bob.send(["ann"], bytes(1500 if large else step), self.now)
            self.ann.send(["bob"], b"x", self.now)
            self._exchange()

    def _exchange(self) -> None:
        for _ in range(3):
            self.now += 0.01
            for source, target in ((self.ann, self.bob), (self.bob, self.ann)):
                for address, datagram in source.flush(self.now):
                    if address == target.name:
                        target.receive_datagram(datagram, source.name, self.now)
                        if target is self.ann:
                            self.genuine.append(datagram)
        self.ann.poll_messages()

    # Steps.

    def receive_datagram(self, datagram: bytes) -> None:
        """Feed a datagram; with a key it must change nothing, unless it is genuine."""
        ann = self.ann
        watched = self.keyed and datagram not in self.genuine
        before = self.state() if watched else None
        ann.receive_datagram(datagram, "anywhere", self.now)
        if watched:
            assert self.state() == before, "bytes without a seal changed something"
            assert ann.poll_messages() == [], "bytes without a seal were delivered"

    def feed_body(self, body: bytes, kind: int, newcomer: int) -> None:
        """Feed a body behind a head, and a prefix, that bob might have made."""
        self.packet += 1
        incarnation = 22 if newcomer == 0 else 1000 + newcomer
        receiver = 0 if kind == HELLO else 11
        head = HEADER.pack(
            VERSION << 4 | kind, name_hash("bob"), incarnation, receiver, self.packet
        )
        reading = timestamp_ms(self.now)
        if kind == DATA:
            body = DATA_PREFIX.pack(reading, reading, 0) + body
        elif kind == HELLO and not body:
            tag = protocol_hash([self.protocol_name])
            body = HELLO_BODY.pack(reading, 0, incarnation, tag)
        self.receive_datagram(head + body)

    def feed_changed(self, which: int, changes: bytes, *, new_packet: bool) -> None:
        """Feed a genuine datagram with bytes changed, perhaps under a new number."""
        datagram = bytearray(self.genuine[which % len(self.genuine)])
        if new_packet:
            self.packet += 1
            datagram[25 : HEADER.size] = self.packet.to_bytes(8, "big")
            if len(datagram) >= HEADER.size + DATA_PREFIX.size:
                datagram[HEADER.size + 4 : HEADER.size + 8] = timestamp_ms(
                    self.now
                ).to_bytes(4, "big")
        for place, value in zip(changes[::2], changes[1::2], strict=False):
            datagram[place % len(datagram)] ^= value
        self.receive_datagram(bytes(datagram))

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self.ann.handle_timer(self.now)

    def settle(self) -> None:
        """Call what a driver calls, and look at the bounds."""
        ann = self.ann
        for _, datagram in ann.flush(self.now):
            assert len(datagram) <= 65_507
        ann.poll_messages()
        timer = ann.next_timer()
        if timer is not None and timer <= self.now:
            ann.handle_timer(self.now)
        ann.stats()
        for session in ann.sessions.values():
            assert len(session.outbox.frames) <= UNREADY_FRAMES_MAX + 1024
            assert len(session.handshake.introduced) <= INTRODUCED_MAX
            assert len(session.handshake.retired) <= RETIRED_MAX
            assert len(session.handshake.hellos) <= HELLOS_MAX
            assert session.reassembly.size_bytes <= LIMITS.message_bytes_max
        pending = ann.process.pending
        if pending is not None:
            assert len(pending.held_messages(1 << 30)) <= LIMITS.reorder_buffer_max * 64

    def state(self) -> object:
        """Return everything that the engine knows, counters aside."""
        return snapshot((self.ann.process, self.ann.sessions), without=(AESGCM,))


class Script:
    """Bytes, taken one after the other; there are zeros behind the end."""

    def __init__(self, data: bytes) -> None:
        """Start at the beginning."""
        self.data = data[:SCRIPT_MAX]
        self.position = 0

    @property
    def ended(self) -> bool:
        """Whether all has been taken."""
        return self.position >= len(self.data)

    def byte(self) -> int:
        """Take a byte."""
        taken = self.take(1)
        return taken[0] if taken else 0

    def take(self, count: int) -> bytes:
        """Take so many bytes, or what is left."""
        start = self.position
        self.position += count
        return self.data[start : start + count]


def play(data: bytes) -> Victim:
    """Play a script; whatever it raises is a defect."""
    script = Script(data)
    choice = script.byte()
    name = PROTOCOLS[(choice & ~KEYED) % len(PROTOCOLS)]
    victim = Victim(name, bool(choice & KEYED))
    while not script.ended:
        step = script.byte() % 8
        if step == 0:
            victim.receive_datagram(script.take(script.byte()))
        elif step in (1, 2):
            victim.feed_body(script.take(script.byte()), DATA, 0)
        elif step == 3:
            kind = script.byte() & 15
            newcomer = script.byte() % 32
            victim.feed_body(script.take(script.byte()), kind, newcomer)
        elif step in (4, 5):
            which = script.byte()
            changes = script.take(script.byte() % 32)
            victim.feed_changed(which, changes, new_packet=step == 4)
        elif step == 6:
            victim.wait(script.byte() / 16)
        else:
            target = NAMES[1 + script.byte() % 2]
            if target in victim.ann.peers():
                victim.ann.send([target], script.take(script.byte()), victim.now)
        victim.settle()
    return victim
