"""The frames of ``bounded``: encodings, sizes, and frames that are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.check.snapshot import snapshot
from antecede.core import Process, ProcessConfig, ProcessId, decode, encode, protocol
from antecede.core.codec import NUMBER_MAX, VERSION, Frame
from antecede.core.process import NO_PROCESS, UNBOUNDED
from antecede.core.protocols.hybrid import received_entries
from antecede.core.protocols.hybrid.dependency_frames import (
    DependentMessage,
    Notes,
    Query,
    Settled,
    SettledAck,
    read_bounded_frame,
)
from antecede.core.protocols.hybrid.entry import ENTRIES_MAX, Entry
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit
from antecede.errors import PeerError
from antecede.testing import Cluster
from tests.core.bounded_runs import bounded_cluster, ledger_of, left_over, over_budget

ZERO, ONE, TWO = (ProcessId(index) for index in range(3))


def own(target: int, number: int) -> Entry:
    return Entry(NO_PROCESS, target, number)


def message(
    number: int,
    predecessor: int = 0,
    *,
    permitted: bool = False,
    is_opaque: bool = False,
    own: list[Entry] | None = None,
    inherited: list[Entry] | None = None,
    wildcards: list[int] | None = None,
    payload: bytes = b"",
) -> DependentMessage:
    return DependentMessage(
        number,
        predecessor,
        permitted,
        is_opaque,
        own or [],
        inherited or [],
        wildcards or [],
        payload,
    )


KNOWN_BYTES: list[tuple[Frame, str]] = [
    (message(5, 2, own=[own(3, 5), own(4, 1)], payload=b"hi"),
     "50 05 02 02 03 00 04 04 00 02 68 69"),
    (message(5, 2, permitted=True, wildcards=[200]), "51 05 02 01 c8 01 05 00 00"),
    (message(300, 2, is_opaque=True, inherited=[Entry(1, 2, 300)]),
     "62 01 2c 00 02 00 01 01 02 ac 02 00"),
    (Settled(Notes(0, [], [], [])), "70 00 00 00 00"),
    (Settled(Notes(7, [own(3, 6)], [Entry(1, 2, 9)], [own(4, 130)])),
     "70 07 01 03 06 01 01 02 09 01 04 82 01"),
    (SettledAck(4, 300, Notes(0, [own(3, 6)], [], [])),
     "82 00 04 01 2c 00 00 01 03 06 00 00"),
    (Query(Notes(0, [], [Entry(1, 2, 9)], [])), "90 00 00 01 01 02 09 00"),
]  # fmt: skip


@pytest.mark.parametrize(("frame", "expected"), KNOWN_BYTES)
def test_frames_have_the_documented_bytes(frame: Frame, expected: str) -> None:
    encoded = bytes([VERSION]) + bytes.fromhex(expected)
    assert encode([frame]) == encoded
    assert snapshot(decode(encoded, read_bounded_frame)) == snapshot([frame])


numbers = st.integers(1, NUMBER_MAX) | st.integers(1, 300)
ids = st.integers(0, 1 << 30) | st.integers(0, 200)
entries = st.lists(
    st.builds(Entry, ids, ids, numbers).filter(lambda each: each.source != each.target),
    max_size=6,
)
pairs = st.lists(st.builds(own, ids, numbers), max_size=6)
notes = st.builds(Notes, st.just(0) | numbers, pairs, entries, pairs)


@st.composite
def messages(draw: st.DrawFn) -> DependentMessage:
    number = draw(numbers)
    permitted = draw(st.booleans())
    is_opaque = not permitted and draw(st.booleans())
    listed: list[Entry] = []
    if not permitted and not is_opaque:
        targets = draw(st.lists(ids, max_size=6))
        listed = [own(target, draw(st.integers(1, number))) for target in targets]
    return message(
        number,
        draw(st.integers(0, number - 1)),
        permitted=permitted,
        is_opaque=is_opaque,
        own=listed,
        inherited=draw(entries),
        wildcards=draw(st.lists(ids, max_size=6)),
        payload=draw(st.binary(max_size=200)),
    )


frames = st.one_of(
    messages(),
    st.builds(Settled, notes),
    st.builds(Query, notes),
    st.builds(SettledAck, st.just(0) | numbers, numbers, notes),
)


@pytest.mark.long
@given(frame=frames)
def test_frames_are_decoded_as_they_were_encoded(frame: Frame) -> None:
    datagram = encode([frame, frame])
    assert len(datagram) == 1 + 2 * frame.size()
    assert frame.size() == frame.metadata_size() + frame.payload_size()
    for again in decode(datagram, read_bounded_frame):
        assert snapshot(again) == snapshot(frame)
        assert again.kind() == frame.kind()


@pytest.mark.long
@given(frame=frames, data=st.data())
def test_a_frame_cut_short_is_refused(frame: Frame, data: st.DataObject) -> None:
    datagram = encode([frame])
    length = data.draw(st.integers(2, len(datagram) - 1))
    with pytest.raises(PeerError):
        decode(datagram[:length], read_bounded_frame)


@pytest.mark.long
@given(datagram=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(datagram: bytes) -> None:
    try:
        found = decode(bytes([VERSION]) + datagram, read_bounded_frame)
    except PeerError:
        return
    for frame in found:
        again = decode(encode([frame]), read_bounded_frame)
        assert snapshot(again) == snapshot([frame])


TOO_MANY = "81 20"
"""The count 4097."""


@pytest.mark.parametrize(
    ("encoded", "match"),
    [
        ("61 05 02 00 00 00", "unknown frame"),  # An opaque message with the flag.
        ("71 00 00 00 00", "unknown frame"),
        ("81 01 01 00 00 00 00", "unknown frame"),
        ("91 00 00 00 00", "unknown frame"),
        ("a0 00 00 00 00", "unknown frame"),
        ("50 05 02 01 03 06 00 00", "6 before message 5"),
        ("50 05 02 01 03 ff 01 00 00", "before message 5"),
        ("51 05 02 01 03 01 00 00", "has no own entries"),
        ("60 05 02 01 03 01 00 00", "has no own entries"),
        ("50 05 02 00 01 01 02 00 00", "number 0 to 2"),
        ("50 05 02 00 01 02 02 01 00", "invalid entry: 2:1 to 2"),
        (f"50 05 02 {TOO_MANY}", "4097 entries"),
        (f"50 05 02 00 {TOO_MANY}", "4097 entries"),
        (f"70 00 {TOO_MANY}", "4097 entries"),
        (f"90 00 00 {TOO_MANY}", "4097 entries"),
        (f"80 01 01 00 00 00 {TOO_MANY}", "4097 entries"),
        ("70 00 01 02 00 00 00", "number 0 to 2"),
        ("70 00 00 00 01 02 00", "number 0 to 2"),
        ("90 00 00 01 02 02 01 00", "invalid entry: 2:1 to 2"),
    ],
)
def test_a_hostile_frame_is_refused(encoded: str, match: str) -> None:
    with pytest.raises(PeerError, match=match):
        decode(bytes([VERSION]) + bytes.fromhex(encoded), read_bounded_frame)


def test_as_many_entries_as_allowed_are_read() -> None:
    frame = message(5, inherited=[Entry(1, 2, 9)] * ENTRIES_MAX)
    (again,) = decode(encode([frame]), read_bounded_frame)
    assert snapshot(again) == snapshot(frame)


# Frames that a process refuses.


def busy_process() -> Process:
    """Return process 0, which has sent message 1 to 1 and delivered 1:1 with entries."""
    config = ProcessConfig(budget_bytes=32)
    process = protocol("bounded").make(ZERO, config)
    process.send([ONE], b"", 0.0)
    first = message(1, own=[own(3, 1)], inherited=[Entry(4, 5, 7)], wildcards=[6])
    process.receive(ONE, first, 0.0)
    process.receive(ONE, message(3, 2, inherited=[Entry(4, 0, 8)]), 0.0)
    process.frames_to_transmit()
    process.messages_to_deliver()
    return process


BAD_FRAMES: list[tuple[Frame, str]] = [
    (message(4, 1, own=[own(0, 1)]), "own entry for 0"),
    (message(4, 1, own=[own(1, 1)]), "own entry for 1"),
    (message(4, 1, inherited=[Entry(1, 3, 1)]), "was not sent"),
    (message(4, 1, inherited=[Entry(0, 3, 2)]), "was not sent"),
    (message(4, 1, wildcards=[5, 0]), "wildcard for its own target"),
    (message(4, 0, inherited=[Entry(4, 5, 7)]), "invalid"),
    (message(0, 0, wildcards=[5]), "predecessor < number"),
    (SettledAck(2, 2, Notes(9, [own(3, 1)], [], [])), "no such message was released"),
]


@pytest.mark.parametrize(("frame", "match"), BAD_FRAMES)
def test_an_invalid_frame_is_refused_and_changes_nothing(frame: Frame, match: str) -> None:
    process = busy_process()
    before = snapshot(process)
    with pytest.raises(PeerError, match=match):
        process.receive(ONE, frame, 1.0)
    assert snapshot(process) == before


def test_a_message_with_entries_is_refused_without_bounded() -> None:
    for name in ("hybrid", "hybrid-basic"):
        process = protocol(name).make(ZERO, ProcessConfig())
        before = snapshot(process)
        with pytest.raises(PeerError, match="has no entries"):
            process.receive(ONE, message(1, inherited=[Entry(4, 5, 7)]), 0.0)
        for frame in (Settled(Notes(0, [], [], [])), Query(Notes(0, [], [], []))):
            with pytest.raises(PeerError, match="not a frame of this protocol"):
                process.receive(ONE, frame, 0.0)
        assert snapshot(process) == before


def test_a_peer_that_reports_too_many_entries_is_refused() -> None:
    process = protocol("bounded").make(ZERO, ProcessConfig())
    targets = range(10, 10 + ENTRIES_MAX)
    others = range(10_000, 10_000 + ENTRIES_MAX)
    process.receive(ONE, message(1, inherited=[Entry(2, t, 1) for t in targets]), 0.0)
    second = message(2, 1, inherited=[Entry(2, t, 1) for t in others], wildcards=[*targets])
    process.receive(ONE, second, 0.0)  # The wildcards stand for the first entries.
    assert len(process.messages_to_deliver()) == 2
    assert 3 * ENTRIES_MAX > received_entries.UNSETTLED_MAX
    process.frames_to_transmit()
    with pytest.raises(PeerError, match="has reported more than 8192 entries"):
        process.receive(ONE, message(3, 2, inherited=[Entry(2, 3, 1)]), 0.0)
    assert process.frames_to_transmit() == []
    assert len(ledger_of(process).open) == 2 * ENTRIES_MAX
    process.receive(ONE, MessageFrame(3, 2, True, b""), 0.0)  # It settles all entries.
    assert left_over(process) == []


def test_notes_of_unknown_copies_and_queries_of_strangers_are_harmless() -> None:
    process = protocol("bounded").make(ZERO, ProcessConfig())
    nothing = Notes(0, [own(8, 4)], [Entry(6, 7, 9)], [own(5, 3)])
    process.receive(ONE, Query(nothing), 0.0)
    (transmit,) = process.frames_to_transmit()
    assert isinstance(transmit.frame, Settled)
    process.receive(TWO, Settled(nothing), 0.0)
    assert process.frames_to_transmit() == []
    process.receive(TWO, message(1, inherited=[Entry(6, 7, 9)]), 0.0)
    process.send([ONE], b"", 0.0)
    frames = [each.frame for each in process.frames_to_transmit()]
    assert not any(isinstance(frame, DependentMessage) for frame in frames)


# The budget.


def fan_out(cluster: Cluster, targets: list[int]) -> list[Frame]:
    cluster.send(0, targets)
    return [packet.frame for packet in cluster.in_flight]


@pytest.mark.parametrize("budget", [10, 262, 263, 264, 265, 300])
def test_many_own_entries_stay_within_the_budget(budget: int) -> None:
    """Also the counts of entries grow."""
    cluster = bounded_cluster(400, budget)
    for count in range(1, 140):
        frames = fan_out(cluster, [count])
        assert not any(over_budget(frame, budget) for frame in frames), count


def test_an_unlimited_budget_has_room_for_many_entries() -> None:
    cluster = bounded_cluster(200, UNBOUNDED)
    *_, last = fan_out(cluster, list(range(1, 200)))
    assert isinstance(last, DependentMessage)
    assert len(last.own) == 198


def test_plain_frames_have_the_encoding_of_hybrid() -> None:
    for frame in (MessageFrame(3, 1, True, b"x"), Ack(3, 4), Permit(9)):
        (again,) = decode(encode([frame]), read_bounded_frame)
        assert snapshot(again) == snapshot(frame)
