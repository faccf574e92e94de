"""A fuzz target: an engine that receives hostile datagrams.

An input of the target is a script. The first byte selects the protocol and whether the
group has a key. The other bytes are steps. A step passes one datagram to the engine: random
bytes, a body after a valid header, or a recorded datagram with modified bytes. Or the step
advances the time, or makes the engine send a message. After each step, the target calls the
methods that a driver calls, and checks the memory bounds of the engine. With a key, a
forged datagram must not change the state of the engine.

``python -m fuzz`` runs scripts from atheris, and the tests run scripts from Hypothesis.
"""

from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from antecede.check.snapshot import snapshot
from antecede.core import protocols
from antecede.engine import Engine, Limits
from antecede.engine.acknowledgements import NO_ACKS
from antecede.engine.crypto import AesGcmDatagramCipher
from antecede.engine.datagram import (
    ANSWER,
    DATA,
    DATA_PREFIX,
    HEADER,
    HELLO,
    HELLO_TIMES,
    PIECE,
    QUESTION,
    VERSION,
    Introduction,
    name_hash,
    protocol_hash,
    timestamp_ms,
)
from antecede.engine.handshake import HELLOS_MAX, INTRODUCED_MAX, RETIRED_MAX
from antecede.engine.limits import MESSAGE_BYTES_MIN
from antecede.engine.process_driver import UNREADY_FRAMES_MAX

__all__ = ["KEYED", "PROTOCOLS", "Victim", "run_script"]

PROTOCOLS: Final = [info.name for info in protocols()]
KEYED: Final = 0x80
"""The bit of the first byte that enables the key; the other bits select the protocol."""
LIMITS: Final = Limits(
    reorder_buffer_max=16, message_bytes_max=MESSAGE_BYTES_MIN, lease_s=5.0
)
KEY: Final = bytes(32)
NAMES: Final = ("ann", "bob", "cid")
ANN_INCARNATION: Final = 11
BOB_INCARNATION: Final = 22
SCRIPT_BYTES_MAX: Final = 4096
"""The maximum number of bytes of a script that run; the rest is ignored."""
UDP_PAYLOAD_BYTES_MAX: Final = 65_507


class Victim:
    """The engine of ann, which receives hostile datagrams after a handshake with bob."""

    def __init__(self, protocol_name: str, keyed: bool) -> None:
        self.now = 1000.0
        self.keyed = keyed
        self.recorded: list[bytes] = []
        """The datagrams from bob to ann."""
        self.packet_number = 1 << 20
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
            for name, incarnation in (("ann", ANN_INCARNATION), ("bob", BOB_INCARNATION))
        )
        self.ann.add_peer("bob", "bob", self.now)
        self.ann.add_peer("cid", "cid", self.now)
        self.bob.add_peer("ann", "ann", self.now)
        for step in range(4):
            large = step == 2 and protocol_name != "unordered"
            self.send(self.bob, "ann", bytes(1500 if large else step))
            self.send(self.ann, "bob", b"x")
            self._exchange()

    def send(self, source: Engine, target: str, data: bytes) -> None:
        """Send a message, to all peers if the protocol has broadcast only."""
        if source.info.capabilities.unicast:
            source.send([target], data, self.now)
        else:
            for payload in source.fragment(data):
                source.send_fragment(None, payload, self.now)

    def _exchange(self) -> None:
        """Pass datagrams between ann and bob, and record those to ann."""
        for _ in range(3):
            self.now += 0.01
            for source, target in ((self.ann, self.bob), (self.bob, self.ann)):
                for address, datagram in source.flush(self.now):
                    if address == target.name:
                        target.receive_datagram(datagram, source.name, self.now)
                        if target is self.ann:
                            self.recorded.append(datagram)
        self.ann.poll_messages()

    # Steps.

    def receive_datagram(self, datagram: bytes) -> None:
        """Pass a datagram to ann; check that a forged one does not change the state."""
        ann = self.ann
        is_forged = self.keyed and datagram not in self.recorded
        before = self.state() if is_forged else None
        ann.receive_datagram(datagram, "anywhere", self.now)
        if is_forged:
            assert self.state() == before, "unauthenticated datagram changed the state"
            assert ann.poll_messages() == [], "unauthenticated message delivered"

    def receive_body(self, body: bytes, kind: int, new_incarnation: int) -> None:
        """Pass a body to ann, after a header and a prefix that are valid for bob."""
        self.packet_number += 1
        incarnation = BOB_INCARNATION if new_incarnation == 0 else 1000 + new_incarnation
        receiver = 0 if kind == HELLO else ANN_INCARNATION
        header = HEADER.pack(
            VERSION << 4 | kind, name_hash("bob"), incarnation, receiver, self.packet_number
        )
        timestamp = timestamp_ms(self.now)
        if kind in (DATA, PIECE, QUESTION, ANSWER):
            # A node of an overlay forgets a peer that does not answer.
            sessions = self.bob.sessions.get("ann"), self.ann.sessions.get("bob")
            epochs = [0 if session is None else session.epoch_out for session in sessions]
            prefix = DATA_PREFIX.pack(timestamp, timestamp, *epochs, 1 << 16)
            body = prefix + NO_ACKS + body
        elif kind == HELLO and not body:
            tag = protocol_hash([self.protocol_name])
            introduction = Introduction(
                incarnation, tag, 256, 0, 0, 0, 0, MESSAGE_BYTES_MIN, 1 << 16, 20_000
            )
            body = HELLO_TIMES.pack(timestamp) + introduction.encode()
        self.receive_datagram(header + body)

    def receive_modified(self, which: int, changes: bytes, *, new_packet: bool) -> None:
        """Pass a recorded datagram with modified bytes to ann.

        Args:
            which: The index of the datagram.
            changes: Pairs of a position and a value, which is combined by XOR.
            new_packet: Whether the datagram gets a new packet number and timestamp echo.
        """
        datagram = bytearray(self.recorded[which % len(self.recorded)])
        if new_packet:
            self.packet_number += 1
            datagram[HEADER.size - 8 : HEADER.size] = self.packet_number.to_bytes(8, "big")
            if len(datagram) >= HEADER.size + DATA_PREFIX.size:
                datagram[HEADER.size + 8 : HEADER.size + 16] = timestamp_ms(
                    self.now
                ).to_bytes(8, "big")
        for position, value in zip(changes[::2], changes[1::2], strict=False):
            datagram[position % len(datagram)] ^= value
        self.receive_datagram(bytes(datagram))

    def wait(self, seconds: float) -> None:
        """Advance the time and run the timers."""
        self.now += seconds
        self.ann.handle_timer(self.now)

    def check(self) -> None:
        """Call the methods that a driver calls, and check the memory bounds of ann."""
        ann = self.ann
        for _, datagram in ann.flush(self.now):
            assert len(datagram) <= UDP_PAYLOAD_BYTES_MAX
        ann.poll_messages()
        ann.watch.poll_events()
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
        """Return a snapshot of the protocol process and the sessions, without counters."""
        return snapshot((self.ann.process, self.ann.sessions), without=(AESGCM,))


class Script:
    """A reader of the bytes of a script."""

    def __init__(self, data: bytes) -> None:
        self.data = data[:SCRIPT_BYTES_MAX]
        self.position = 0

    @property
    def ended(self) -> bool:
        """Whether all bytes have been read."""
        return self.position >= len(self.data)

    def byte(self) -> int:
        """Read a byte; return 0 at the end."""
        read = self.read(1)
        return read[0] if read else 0

    def read(self, count: int) -> bytes:
        """Read ``count`` bytes, or fewer at the end."""
        start = self.position
        self.position += count
        return self.data[start : start + count]


def run_script(data: bytes) -> Victim:
    """Run a script, and return the engine after it; every exception is a defect."""
    script = Script(data)
    first = script.byte()
    name = PROTOCOLS[(first & ~KEYED) % len(PROTOCOLS)]
    victim = Victim(name, bool(first & KEYED))
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
                victim.send(victim.ann, target, script.read(script.byte()))
        victim.check()
    return victim
