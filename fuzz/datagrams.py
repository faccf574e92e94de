"""A fuzz target: an engine that receives hostile datagrams.

An input is a script. Its first byte selects the protocol and whether the group has a key;
the steps follow. A step passes to the engine arbitrary bytes, a body behind a valid header,
or a genuine datagram with modified bytes; or it advances the time, or lets the engine send.
After each step the target calls all methods of the engine and checks its memory bounds.
With a key, no datagram of a step may change the state of the engine.

``python -m fuzz`` runs scripts from atheris, and the tests run scripts from Hypothesis.
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

__all__ = ["KEYED", "PROTOCOLS", "Victim", "run_script"]

PROTOCOLS: Final = [info.name for info in protocols() if info.capabilities.unicast]
KEYED: Final = 0x80
"""The bit of the first byte that selects a key; the other bits select the protocol."""
LIMITS: Final = Limits(reorder_buffer_max=16, message_bytes_max=5000, lease_s=5.0)
KEY: Final = bytes(32)
NAMES: Final = ("ann", "bob", "cid")
SCRIPT_BYTES_MAX: Final = 4096


class Victim:
    """The engine of ann, under attack, after a handshake with bob."""

    def __init__(self, protocol_name: str, keyed: bool) -> None:
        """Let ann and bob exchange messages."""
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
        """Pass a datagram to ann; with a key only a genuine one may change her state."""
        ann = self.ann
        is_forged = self.keyed and datagram not in self.genuine
        before = self.state() if is_forged else None
        ann.receive_datagram(datagram, "anywhere", self.now)
        if is_forged:
            assert self.state() == before, "unauthenticated datagram changed the state"
            assert ann.poll_messages() == [], "unauthenticated message delivered"

    def receive_body(self, body: bytes, kind: int, new_incarnation: int) -> None:
        """Pass a body to ann, with a header and a prefix that bob could have made."""
        self.packet += 1
        incarnation = 22 if new_incarnation == 0 else 1000 + new_incarnation
        receiver = 0 if kind == HELLO else 11
        header = HEADER.pack(
            VERSION << 4 | kind, name_hash("bob"), incarnation, receiver, self.packet
        )
        timestamp = timestamp_ms(self.now)
        if kind == DATA:
            body = DATA_PREFIX.pack(timestamp, timestamp, 0) + body
        elif kind == HELLO and not body:
            tag = protocol_hash([self.protocol_name])
            body = HELLO_BODY.pack(timestamp, 0, incarnation, tag)
        self.receive_datagram(header + body)

    def receive_modified(self, which: int, changes: bytes, *, new_packet: bool) -> None:
        """Pass a genuine datagram with modified bytes to ann, maybe with a new number."""
        datagram = bytearray(self.genuine[which % len(self.genuine)])
        if new_packet:
            self.packet += 1
            datagram[25 : HEADER.size] = self.packet.to_bytes(8, "big")
            if len(datagram) >= HEADER.size + DATA_PREFIX.size:
                datagram[HEADER.size + 4 : HEADER.size + 8] = timestamp_ms(
                    self.now
                ).to_bytes(4, "big")
        for position, value in zip(changes[::2], changes[1::2], strict=False):
            datagram[position % len(datagram)] ^= value
        self.receive_datagram(bytes(datagram))

    def wait(self, seconds: float) -> None:
        """Advance the time."""
        self.now += seconds
        self.ann.handle_timer(self.now)

    def check(self) -> None:
        """Call the methods that a driver calls, and check the memory bounds."""
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
        """Return the state of the engine without its counters."""
        return snapshot((self.ann.process, self.ann.sessions), without=(AESGCM,))


class Script:
    """The bytes of a script, read in order; zeros follow the end."""

    def __init__(self, data: bytes) -> None:
        self.data = data[:SCRIPT_BYTES_MAX]
        self.position = 0

    @property
    def ended(self) -> bool:
        """Whether all bytes were read."""
        return self.position >= len(self.data)

    def byte(self) -> int:
        """Read a byte."""
        read = self.read(1)
        return read[0] if read else 0

    def read(self, count: int) -> bytes:
        """Read ``count`` bytes, or fewer at the end."""
        start = self.position
        self.position += count
        return self.data[start : start + count]


def run_script(data: bytes) -> Victim:
    """Run a script; every exception is a defect."""
    script = Script(data)
    choice = script.byte()
    name = PROTOCOLS[(choice & ~KEYED) % len(PROTOCOLS)]
    victim = Victim(name, bool(choice & KEYED))
    while not script.ended:
        step = script.byte() % 8
        if step == 0:
            victim.receive_datagram(script.read(script.byte()))
        elif step in (1, 2):
            victim.receive_body(script.read(script.byte()), DATA, 0)
        elif step == 3:
            kind = script.byte() & 15
            new_incarnation = script.byte() % 32
            victim.receive_body(script.read(script.byte()), kind, new_incarnation)
        elif step in (4, 5):
            which = script.byte()
            changes = script.read(script.byte() % 32)
            victim.receive_modified(which, changes, new_packet=step == 4)
        elif step == 6:
            victim.wait(script.byte() / 16)
        else:
            target = NAMES[1 + script.byte() % 2]
            if target in victim.ann.peers():
                victim.ann.send([target], script.read(script.byte()), victim.now)
        victim.check()
    return victim
