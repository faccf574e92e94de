"""Hostile datagrams: no exception, no growth, and with a key no change at all."""

import gc
import tracemalloc

import pytest
from fuzz.datagrams import KEYED, PROTOCOLS, Victim, play
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


def written(some: list[Frame]) -> bytes:
    buffer = bytearray()
    for frame in some:
        frame.write(buffer)
    return bytes(buffer)


@pytest.mark.parametrize("keyed", [False, True], ids=["plain", "keyed"])
@pytest.mark.parametrize("name", PROTOCOLS)
def test_no_script_breaks_an_engine(name: str, keyed: bool) -> None:
    first = PROTOCOLS.index(name) | (KEYED if keyed else 0)

    @settings(max_examples=100)
    @given(st.binary(max_size=300))
    def any_script(script: bytes) -> None:
        play(bytes([first]) + script)

    any_script()


@pytest.mark.parametrize("name", ["hybrid", "hybrid-basic"])
@settings(max_examples=80)
@given(
    bodies=st.lists(
        st.tuples(st.lists(frames, max_size=6), kinds, st.integers(0, 3)), max_size=12
    )
)
@example(bodies=[([], HELLO, 1), ([MessageFrame(1, 0, False, b"\0x")], DATA, 1)])
def test_frames_that_make_no_sense_are_dropped_without_a_key_too(
    name: str, bodies: list[tuple[list[Frame], int, int]]
) -> None:
    victim = Victim(name, keyed=False)
    for some, kind, newcomer in bodies:
        victim.feed_body(written(some), kind, newcomer)
        victim.settle()
    victim.wait(10.0)
    victim.settle()


@settings(max_examples=40)
@given(
    which=st.integers(0, 255),
    changes=st.binary(min_size=2, max_size=8),
    new_packet=st.booleans(),
)
def test_with_a_key_genuine_datagrams_with_a_change_do_nothing(
    which: int, changes: bytes, new_packet: bool
) -> None:
    victim = Victim("hybrid", keyed=True)
    victim.feed_changed(which, changes, new_packet=new_packet)
    victim.settle()


def test_a_seal_that_opens_everything_is_caught() -> None:
    """The check of the target itself: without a key the same step changes something."""
    victim = Victim("hybrid", keyed=False)
    victim.keyed = True  # It only says so.
    with pytest.raises(AssertionError, match="without a seal changed something"):
        victim.feed_body(written([MessageFrame(5, 4, False, b"\0x")]), DATA, 0)


@pytest.mark.parametrize("keyed", [False, True], ids=["plain", "keyed"])
def test_a_flood_of_hostile_datagrams_leaves_nothing_behind(keyed: bool) -> None:
    """Ever new lives, ever earlier messages, parts without an end, and noise."""
    victim = Victim("hybrid", keyed=keyed)
    victim.keyed = False  # Whether anything changes is looked at elsewhere, slowly.
    noise = bytes(range(256)) * 4

    def flood(begin: int) -> None:
        for index in range(begin, begin + 400):
            newcomer = index + 1
            victim.feed_body(b"", HELLO, newcomer)
            part = MessageFrame(1, 0, False, b"\x03" + noise[:900])
            more = MessageFrame(2, 1, False, b"\x01" + noise[:900])
            early = MessageFrame(index * 7 + 10, index * 7 + 9, False, noise[:100])
            victim.feed_body(written([part, more]), DATA, newcomer)
            victim.feed_body(
                written([early, Permit(index), PermitRequest(1)]), DATA, newcomer
            )
            victim.receive_datagram(noise[: index % 700])
            victim.wait(0.05)
            victim.settle()
        victim.wait(20.0)
        victim.settle()

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
