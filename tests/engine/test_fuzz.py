"""Hostile datagrams: no exception, bounded memory, and with a key no change of state."""

import gc
import tracemalloc

import pytest
from fuzz.datagrams import KEYED, PROTOCOLS, Victim, run_script
from hypothesis import example, given, settings
from hypothesis import strategies as st

from antecede.core.codec import Frame
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit, PermitRequest
from antecede.engine.datagram import BYE, BYE_ACK, DATA, HELLO, WELCOME

numbers = st.one_of(
    st.integers(0, 8), st.integers(0, 2**63 - 1), st.sampled_from([2**31, 2**62])
)
payloads = st.one_of(
    st.binary(max_size=8),
    st.builds(lambda kind, rest: bytes([kind]) + rest, st.integers(0, 4), st.binary()),
)
messages = st.builds(
    lambda one, other, *rest: MessageFrame(max(one, other), min(one, other), *rest),
    numbers,
    numbers,
    st.booleans(),
    payloads,
)
small = st.integers(0, 8)
frames = st.one_of(
    messages,
    st.builds(MessageFrame, small, small, st.booleans(), payloads),
    st.builds(Ack, numbers, numbers),
    st.builds(Permit, numbers),
    st.builds(PermitRequest, numbers),
)
kinds = st.sampled_from([HELLO, WELCOME, DATA, BYE, BYE_ACK])


def encode(some: list[Frame]) -> bytes:
    buffer = bytearray()
    for frame in some:
        frame.write(buffer)
    return bytes(buffer)


@pytest.mark.long
@pytest.mark.parametrize("keyed", [False, True], ids=["plain", "keyed"])
@pytest.mark.parametrize("name", PROTOCOLS)
def test_no_script_breaks_an_engine(name: str, keyed: bool) -> None:
    first = PROTOCOLS.index(name) | (KEYED if keyed else 0)

    @settings(max_examples=100)
    @given(st.binary(max_size=300))
    def any_script(script: bytes) -> None:
        run_script(bytes([first]) + script)

    any_script()


@pytest.mark.long
@pytest.mark.parametrize("name", ["hybrid", "hybrid-basic"])
@settings(max_examples=80)
@given(
    bodies=st.lists(
        st.tuples(st.lists(frames, max_size=6), kinds, st.integers(0, 3)), max_size=12
    )
)
@example(bodies=[([], HELLO, 1), ([MessageFrame(1, 0, False, b"\0x")], DATA, 1)])
def test_invalid_frames_are_dropped_without_a_key(
    name: str, bodies: list[tuple[list[Frame], int, int]]
) -> None:
    victim = Victim(name, keyed=False)
    for some, kind, new_incarnation in bodies:
        victim.receive_body(encode(some), kind, new_incarnation)
        victim.check()
    victim.wait(10.0)
    victim.check()


@settings(max_examples=40)
@given(
    which=st.integers(0, 255),
    changes=st.binary(min_size=2, max_size=8),
    new_packet=st.booleans(),
)
def test_with_a_key_modified_datagrams_change_nothing(
    which: int, changes: bytes, new_packet: bool
) -> None:
    victim = Victim("hybrid", keyed=True)
    victim.receive_modified(which, changes, new_packet=new_packet)
    victim.check()


def test_the_fuzz_target_detects_a_cipher_that_accepts_everything() -> None:
    """Without a key the same step changes the state, and the target reports it."""
    victim = Victim("hybrid", keyed=False)
    victim.keyed = True  # The engines still have no key.
    with pytest.raises(AssertionError, match="unauthenticated datagram changed"):
        victim.receive_body(encode([MessageFrame(5, 4, False, b"\0x")]), DATA, 0)


@pytest.mark.long
@pytest.mark.parametrize("keyed", [False, True], ids=["plain", "keyed"])
def test_a_flood_of_hostile_datagrams_needs_no_memory(keyed: bool) -> None:
    """New histories, out-of-order messages, incomplete messages and noise."""
    victim = Victim("hybrid", keyed=keyed)
    victim.keyed = False  # Other tests compare the state, which is slow.
    noise = bytes(range(256)) * 4

    def flood(begin: int) -> None:
        for index in range(begin, begin + 400):
            new_incarnation = index + 1
            victim.receive_body(b"", HELLO, new_incarnation)
            part = MessageFrame(1, 0, False, b"\x03" + noise[:900])
            more = MessageFrame(2, 1, False, b"\x01" + noise[:900])
            early = MessageFrame(index * 7 + 10, index * 7 + 9, False, noise[:100])
            victim.receive_body(encode([part, more]), DATA, new_incarnation)
            victim.receive_body(
                encode([early, Permit(index), PermitRequest(1)]), DATA, new_incarnation
            )
            victim.receive_datagram(noise[: index % 700])
            victim.wait(0.05)
            victim.check()
        victim.wait(20.0)
        victim.check()

    flood(0)
    gc.collect()
    tracemalloc.start()
    flood(1000)
    gc.collect()
    begun, _ = tracemalloc.get_traced_memory()
    flood(2000)
    gc.collect()
    ended, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert ended - begun < 10_000
    if not keyed:
        assert victim.ann.sessions["bob"].handshake.incarnation == 1000 + 2400
