"""Numbers, heads and datagrams: encodings by hand, round trips, and refusals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.core.codec import (
    NUMBER_MAX,
    VERSION,
    Frame,
    Reader,
    decode,
    encode,
    varint_width,
    width_of,
    write_head,
    write_number,
    write_pair,
    write_varint,
)
from antecede.core.protocols.baseline import BaselineMessage, read_baseline
from antecede.core.protocols.hybrid.frames import Permit, read_frame
from antecede.errors import PeerError

numbers = st.integers(0, 300) | st.integers(0, NUMBER_MAX)


@pytest.mark.parametrize(
    ("number", "width"),
    [
        (0, 1),
        (0xFF, 1),
        (0x100, 2),
        (0xFFFF, 2),
        (0x10000, 3),
        (0xFFFFFF, 3),
        (0x1000000, 4),
        (0xFFFFFFFF, 4),
        (0x100000000, 5),
        (2**48 - 1, 6),
        (2**48, 7),
        (NUMBER_MAX, 8),
    ],
)
def test_a_plain_number_needs_one_byte_per_eight_bits(number: int, width: int) -> None:
    assert width_of(number) == width
    buffer = bytearray()
    write_number(buffer, number, width)
    assert buffer == number.to_bytes(width, "big")


VARINTS = [
    # Seven bits per byte, lowest first; the high bit marks continuation.
    (0, "00"),
    (0x7F, "7f"),
    (0x80, "80 01"),
    (300, "ac 02"),
    (0x3FFF, "ff 7f"),
    (0x4000, "80 80 01"),
    (0x1FFFFF, "ff ff 7f"),
    (0x200000, "80 80 80 01"),
    (2**56, "80 80 80 80 80 80 80 80 01"),
    (NUMBER_MAX, "ff ff ff ff ff ff ff ff 7f"),
]


@pytest.mark.parametrize(("value", "expected"), VARINTS)
def test_a_variable_length_number_needs_one_byte_per_seven_bits(
    value: int, expected: str
) -> None:
    buffer = bytearray()
    write_varint(buffer, value)
    assert buffer == bytes.fromhex(expected)
    assert varint_width(value) == len(buffer)
    reader = Reader(bytes(buffer) + b"\xff")
    assert reader.varint() == value
    assert reader.position == len(buffer)


@given(numbers)
def test_reading_numbers_inverts_writing_in_the_computed_width(
    number: int,
) -> None:
    buffer = bytearray(b"\xaa")
    write_varint(buffer, number)
    assert len(buffer) == 1 + varint_width(number)
    write_head(buffer, 1, width_of(number))
    write_number(buffer, number, width_of(number))
    reader = Reader(bytes(buffer), 1)
    assert reader.varint() == number
    reader.head()
    assert reader.number() == number
    assert reader.position == len(buffer)


@pytest.mark.parametrize(
    ("kind", "width", "flag", "expected"),
    [
        (1, 1, False, 0x10),
        (1, 1, True, 0x11),
        (2, 2, False, 0x22),
        (13, 3, True, 0xD5),
        (15, 8, False, 0xFE),
        (15, 8, True, 0xFF),
    ],
)
def test_a_head_is_a_kind_a_width_and_a_flag(
    kind: int, width: int, flag: bool, expected: int
) -> None:
    buffer = bytearray()
    write_head(buffer, kind, width, flag)
    assert buffer == bytes([expected])
    reader = Reader(bytes(buffer))
    assert reader.head() == kind
    assert (reader.kind, reader.width, reader.flag) == (kind, width, flag)


@pytest.mark.parametrize(
    ("flag", "first", "second", "expected"),
    [
        (False, 1, 0, "10 01 00"),
        (True, 0xFF, 0xFE, "11 ff fe"),
        (False, 0x100, 1, "12 0100 0001"),
        (True, 0x123456, 0x12, "15 123456 000012"),
        (True, NUMBER_MAX, 2**62, "1f 7fffffffffffffff 4000000000000000"),
    ],
)
def test_a_pair_is_a_head_and_two_numbers_of_its_width(
    flag: bool, first: int, second: int, expected: str
) -> None:
    buffer = bytearray(b"\xaa")
    write_pair(buffer, 1, width_of(first), flag, first, second)
    assert buffer == b"\xaa" + bytes.fromhex(expected)


def test_the_flag_of_a_head_is_optional() -> None:
    buffer = bytearray()
    write_head(buffer, 7, 4)
    assert buffer == b"\x76"


def test_a_width_is_valid_until_the_next_head() -> None:
    reader = Reader(bytes.fromhex("12 0102 0304 10 05"))
    reader.head()
    assert [reader.number(), reader.number()] == [0x0102, 0x0304]
    reader.head()
    assert reader.number() == 5


def test_a_reader_never_passes_the_end() -> None:
    reader = Reader(b"abcd", 1)
    assert reader.take(2) == b"bc"
    with pytest.raises(PeerError, match="2 more bytes expected at 3"):
        reader.take(2)
    assert reader.take(1) == b"d"
    assert reader.take(0) == b""
    with pytest.raises(PeerError, match="cut short"):
        reader.take(1)


def test_a_payload_is_a_length_and_that_many_bytes() -> None:
    reader = Reader(b"\x03abcd")
    assert reader.payload() == b"abc"
    assert reader.position == 4
    long = b"x" * 300
    assert Reader(b"\xac\x02" + long).payload() == long
    with pytest.raises(PeerError, match="cut short"):
        Reader(b"\x05abcd").payload()


def test_a_payload_length_has_at_most_five_bytes() -> None:
    with pytest.raises(PeerError, match="out of range"):
        Reader(b"\x80" * 5 + b"\x00").payload()
    with pytest.raises(PeerError, match="cut short"):
        Reader(b"\xff" * 4 + b"\x0f").payload()  # 4 GiB announced, none there.


def test_numbers_out_of_range_are_refused() -> None:
    reader = Reader(b"\x1e" + b"\x80" + bytes(7))
    reader.head()
    with pytest.raises(PeerError, match=f"number {NUMBER_MAX + 1} out of range"):
        reader.number()
    with pytest.raises(PeerError, match="out of range"):
        Reader(b"\xff" * 9 + b"\x01").varint()
    with pytest.raises(PeerError, match="out of range"):
        Reader(b"\xff\xff\x01").varint(2)
    assert Reader(b"\xff\x01").varint(2) == 255


def test_numbers_cut_short_are_refused() -> None:
    reader = Reader(b"\x14\x01\x02")
    reader.head()
    with pytest.raises(PeerError, match="3 more bytes"):
        reader.number()
    with pytest.raises(PeerError, match="cut short"):
        Reader(b"\x80\x80").varint()
    with pytest.raises(PeerError, match="cut short"):
        Reader(b"").head()


def test_the_error_of_an_unknown_head_names_kind_and_flag() -> None:
    reader = Reader(b"\x90\x91")
    reader.head()
    assert str(reader.refuse()) == "unknown frame of kind 9"
    reader.head()
    assert str(reader.refuse()) == "unknown frame of kind 9 with its flag set"


def test_a_datagram_is_a_version_and_frames_back_to_back() -> None:
    frames = [BaselineMessage(1, b"hi"), BaselineMessage(256, b"")]
    datagram = bytes.fromhex("01  10 01 02 68 69  12 01 00 00")
    assert VERSION == 1
    assert encode(frames) == encode(iter(frames)) == datagram
    for received in (datagram, bytearray(datagram), memoryview(datagram)):
        decoded = decode(received, read_baseline)
        assert encode(decoded) == datagram
        assert [frame.message_number() for frame in decoded] == [1, 256]
    assert encode([]) == b"\x01"
    assert decode(b"\x01", read_baseline) == []


def test_an_empty_datagram_or_another_version_is_refused() -> None:
    with pytest.raises(PeerError, match="empty datagram"):
        decode(b"", read_baseline)
    with pytest.raises(PeerError, match="version 2, expected 1"):
        decode(b"\x02\x10\x01\x00", read_baseline)


def test_a_protocol_reads_only_its_own_frames() -> None:
    encoded = encode([Permit(1)])
    assert encode(decode(encoded, read_frame)) == encoded
    with pytest.raises(PeerError, match="unknown frame of kind 3"):
        decode(encoded, read_baseline)


def test_frame_itself_has_no_message_and_no_encoding() -> None:
    frame = Frame()
    assert frame.message_number() == frame.payload_size() == 0
    assert frame.message_source() == -1
    with pytest.raises(TypeError, match="no encoding"):
        frame.kind()
    with pytest.raises(TypeError, match="no encoding"):
        frame.metadata_size()
    with pytest.raises(TypeError, match="no encoding"):
        frame.size()
    with pytest.raises(TypeError, match="no encoding"):
        frame.write(bytearray())


def test_the_size_is_the_sum_of_metadata_and_payload() -> None:
    frame = BaselineMessage(1, b"four")
    assert (frame.metadata_size(), frame.payload_size(), frame.size()) == (3, 4, 7)
