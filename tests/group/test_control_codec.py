"""The encoding of the control messages of a room."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.errors import PeerError
from antecede.group.codec import decode_control, decode_room, encode_control, encode_room
from antecede.group.frames import (
    Added,
    Adding,
    Answer,
    AnswerKind,
    Chunk,
    ChunkAck,
    ControlFrame,
    CutNotice,
    Excluded,
    Inquiry,
    Introduction,
    JoinedNotice,
    Leaving,
    MemberState,
    Offer,
    Outdated,
    Progress,
    Refused,
    Removing,
    Request,
    RosterEntry,
    SnapshotHeader,
    SnapshotStart,
)
from antecede.group.member import CutEntry, Member

numbers = st.integers(0, 2**63 - 1)
names = st.text(min_size=1, max_size=60)
texts = st.text(max_size=60)
blobs = st.binary(max_size=40)
members = st.builds(
    Member, name=names, address=texts, incarnation=numbers, admission=numbers
)
entries = st.builds(RosterEntry, members, st.sampled_from(MemberState))
cut = st.builds(CutEntry, names, numbers, numbers)


def tuples(values: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(values, max_size=4).map(tuple)


FRAMES = (
    st.builds(Inquiry, texts),
    st.builds(Answer, st.sampled_from(AnswerKind), tuples(st.tuples(names, texts))),
    st.builds(Request, names, members),
    st.builds(Refused, numbers, texts),
    st.builds(Outdated, numbers),
    st.builds(Offer, numbers, tuples(entries)),
    st.builds(Introduction, members),
    st.builds(Progress, numbers, tuples(names)),
    st.builds(SnapshotStart, numbers, numbers, blobs),
    st.builds(Chunk, numbers, numbers, blobs),
    st.builds(ChunkAck, numbers, numbers),
    st.builds(Excluded, numbers, numbers, names),
    st.builds(Adding, members),
    st.builds(Added, names, numbers),
    st.builds(CutNotice, numbers),
    st.builds(JoinedNotice, numbers),
    st.builds(Leaving, numbers),
    st.builds(Removing, names, numbers),
    st.builds(SnapshotHeader, tuples(entries), tuples(cut), blobs),
)
frames: st.SearchStrategy[ControlFrame] = st.one_of(FRAMES)


@given(frames)
def test_a_control_message_is_decoded_as_it_was_encoded(frame: ControlFrame) -> None:
    assert decode_control(encode_control(frame)) == frame


@given(frames, st.data())
def test_a_shortened_control_message_is_refused(
    frame: ControlFrame, data: st.DataObject
) -> None:
    encoded = encode_control(frame)
    length = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(PeerError):
        decode_control(encoded[:length])


@given(frames, st.binary(min_size=1, max_size=4))
def test_bytes_after_a_control_message_are_refused(
    frame: ControlFrame, more: bytes
) -> None:
    with pytest.raises(PeerError):
        decode_control(encode_control(frame) + more)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_control_message_or_a_peer_error(data: bytes) -> None:
    try:
        frame = decode_control(data)
    except PeerError:
        return
    assert decode_control(encode_control(frame)) == frame


@given(frames, st.data())
def test_a_changed_control_message_is_a_control_message_or_a_peer_error(
    frame: ControlFrame, data: st.DataObject
) -> None:
    encoded = bytearray(encode_control(frame))
    index = data.draw(st.integers(0, len(encoded) - 1))
    encoded[index] = data.draw(st.integers(0, 255))
    with contextlib.suppress(PeerError):
        decode_control(bytes(encoded))


def test_a_list_with_too_many_values_is_refused_before_it_is_read() -> None:
    # Kind 8 is Progress: its admission, then a list of 4097 names.
    with pytest.raises(PeerError, match="list of 4097 values"):
        decode_control(bytes((8, 1, 0x81, 0x20)) + b"\1a" * 4097)


def test_a_name_must_be_short_and_not_empty() -> None:
    assert decode_control(encode_control(Removing("a" * 255, 1))) is not None
    with pytest.raises(PeerError, match="256 bytes"):
        decode_control(encode_control(Removing("a" * 256, 1)))
    with pytest.raises(PeerError, match="empty name"):
        decode_control(encode_control(Removing("", 1)))


def test_a_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(PeerError, match="not UTF-8"):
        decode_control(encode_control(Removing("a", 1)).replace(b"a", b"\xff"))


@given(names, blobs)
def test_the_room_of_a_control_message_is_read_back(room: str, data: bytes) -> None:
    assert decode_room(encode_room(room, data)) == (room, data)
