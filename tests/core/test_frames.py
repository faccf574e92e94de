"""Frames of hybrid buffering: encodings by hand, random round trips, refusals."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from antecede.core import codec
from antecede.core.codec import NUMBER_MAX, VERSION, Frame, encode
from antecede.core.protocols.hybrid.frames import (
    Ack,
    MessageFrame,
    Permit,
    PermitRequest,
    read_frame,
)
from antecede.errors import PeerError

BOUNDARIES = [
    1,
    255,
    256,
    65_535,
    65_536,
    2**24 - 1,
    2**24,
    2**32 - 1,
    2**32,
    2**56 - 1,
    2**56,
    2**63 - 1,
]
WIDTHS = [1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 8]
"""The width of each boundary number."""

KNOWN_BYTES: list[tuple[Frame, str]] = [
    # Head: kind in the high nibble, then three bits of width - 1, then the flag.
    (MessageFrame(1, 0, True, b"hi"), "11 01 00 02 68 69"),
    (MessageFrame(1, 0, False, b""), "10 01 00 00"),
    (MessageFrame(255, 254, False, b"\x00"), "10 ff fe 01 00"),
    (MessageFrame(256, 255, False, b""), "12 01 00 00 ff 00"),
    (MessageFrame(65_536, 1, True, b""), "15 01 00 00 00 00 01 00"),
    (MessageFrame(2, 1, True, b"x" * 127), "11 02 01 7f" + " 78" * 127),
    # 128 is 1 · 128 + 0, and 200 is 1 · 128 + 0x48: seven bits per byte, lowest first.
    (MessageFrame(2, 1, True, b"x" * 128), "11 02 01 80 01" + " 78" * 128),
    (MessageFrame(2, 1, False, b"x" * 200), "10 02 01 c8 01" + " 78" * 200),
    (Ack(5, 5), "20 05"),
    (Ack(0, 0), "20 00"),
    (Ack(0, 3), "21 00 03"),
    (Ack(300, 299), "23 01 2c 01 2b"),
    (Ack(255, 256), "23 00 ff 01 00"),
    (Ack(256, 255), "23 01 00 00 ff"),
    (Permit(7), "30 07"),
    (Permit(2**63 - 1), "3e 7f ff ff ff ff ff ff ff"),
    (PermitRequest(1), "40 01"),
    (PermitRequest(2**24), "46 01 00 00 00"),
]

numbers = st.sampled_from(BOUNDARIES) | st.integers(min_value=1, max_value=NUMBER_MAX)
numbers_or_none = st.just(0) | numbers
payloads = st.binary(max_size=300) | st.integers(0, 20_000).map(lambda n: b"p" * n)


@st.composite
def messages(draw: st.DrawFn) -> MessageFrame:
    number = draw(numbers)
    predecessor = draw(st.just(number - 1) | st.integers(0, number - 1))
    return MessageFrame(number, predecessor, draw(st.booleans()), draw(payloads))


frames: st.SearchStrategy[Frame] = st.one_of(
    messages(),
    st.builds(Ack, numbers_or_none, numbers_or_none),
    st.builds(lambda number: Ack(number, number), numbers_or_none),
    st.builds(Permit, numbers),
    st.builds(PermitRequest, numbers),
)


def decode(received: bytes | bytearray | memoryview) -> list[Frame]:
    return codec.decode(received, read_frame)


def fields(frame: Frame) -> tuple[str, list[int | bool | bytes]]:
    """Return the fields of a frame: frames compare by identity."""
    if isinstance(frame, MessageFrame):
        return "message", [
            frame.number,
            frame.predecessor,
            frame.permitted,
            frame.payload,
        ]
    if isinstance(frame, Ack):
        return "ack", [frame.delivered, frame.arrived]
    if isinstance(frame, Permit):
        return "permit", [frame.number]
    assert isinstance(frame, PermitRequest)
    return "request", [frame.number]


def datagram(hexadecimal: str) -> bytes:
    """Return a datagram of frames given in hexadecimal."""
    return bytes([1]) + bytes.fromhex(hexadecimal)


@pytest.mark.parametrize(("frame", "expected"), KNOWN_BYTES)
def test_a_frame_is_encoded_as_documented(frame: Frame, expected: str) -> None:
    assert encode([frame]) == datagram(expected)


@pytest.mark.parametrize(("frame", "encoded"), KNOWN_BYTES)
def test_a_frame_is_decoded_as_documented(frame: Frame, encoded: str) -> None:
    (decoded,) = decode(datagram(encoded))
    assert fields(decoded) == fields(frame)


def test_a_datagram_without_frames_is_the_version_1() -> None:
    assert VERSION == 1
    assert encode([]) == b"\x01"
    assert decode(b"\x01") == []


def test_frames_are_encoded_back_to_back() -> None:
    encoded = encode([Permit(7), MessageFrame(1, 0, True, b"hi"), Ack(0, 3)])
    assert encoded == datagram("30 07 11 01 00 02 68 69 21 00 03")


@given(st.lists(frames, max_size=8))
def test_decoding_inverts_encoding(sent: list[Frame]) -> None:
    received = decode(encode(sent))
    assert [fields(frame) for frame in received] == [fields(frame) for frame in sent]


@given(st.lists(frames, max_size=8))
def test_the_sizes_add_up_to_the_length_of_the_datagram(sent: list[Frame]) -> None:
    assert len(encode(sent)) == 1 + sum(frame.size() for frame in sent)
    for frame in sent:
        payload = len(frame.payload) if isinstance(frame, MessageFrame) else 0
        assert frame.metadata_size() + payload == frame.size()


@pytest.mark.parametrize(("number", "width"), list(zip(BOUNDARIES, WIDTHS, strict=True)))
def test_boundary_numbers_take_the_bytes_that_they_need(number: int, width: int) -> None:
    one_number: list[Frame] = [Permit(number), PermitRequest(number), Ack(number, number)]
    two_numbers: list[Frame] = [Ack(0, number), Ack(number, 0)]
    message = MessageFrame(number, number - 1, False, b"abc")
    for frame in one_number:
        assert frame.size() == 1 + width
    for frame in two_numbers:
        assert frame.size() == 1 + 2 * width
    assert message.metadata_size() == 1 + 2 * width + 1
    sent = [*one_number, *two_numbers, message]
    assert [fields(f) for f in decode(encode(sent))] == [fields(f) for f in sent]


@given(numbers, st.data(), st.booleans())
def test_the_metadata_size_depends_on_the_number_not_on_the_predecessor(
    number: int, data: st.DataObject, permitted: bool
) -> None:
    predecessor = data.draw(st.integers(0, number - 1))
    frame = MessageFrame(number, predecessor, permitted, b"abc")
    assert frame.metadata_size() == MessageFrame(number, 0, False, b"abc").metadata_size()
    assert len(encode([frame])) == len(encode([MessageFrame(number, 0, False, b"abc")]))


@pytest.mark.parametrize(
    ("length", "width"), [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3)]
)
def test_the_payload_length_takes_one_byte_per_seven_bits(length: int, width: int) -> None:
    frame = MessageFrame(1, 0, True, b"x" * length)
    assert frame.metadata_size() == 3 + width
    assert frame.size() == 3 + width + length
    (decoded,) = decode(encode([frame]))
    assert fields(decoded) == fields(frame)


def test_an_empty_datagram_is_refused() -> None:
    with pytest.raises(PeerError):
        decode(b"")


@pytest.mark.parametrize("version", [0, *range(2, 256)])
def test_any_other_version_is_refused(version: int) -> None:
    with pytest.raises(PeerError):
        decode(bytes([version]) + encode([Permit(7)])[1:])


@pytest.mark.parametrize("frame", [frame for frame, _ in KNOWN_BYTES])
def test_a_frame_cut_anywhere_is_refused(frame: Frame) -> None:
    encoded = encode([frame])
    for length in range(2, len(encoded)):
        with pytest.raises(PeerError):
            decode(encoded[:length])


@given(st.lists(frames, min_size=1, max_size=5), st.data())
def test_a_cut_datagram_is_refused_unless_the_cut_is_between_frames(
    sent: list[Frame], data: st.DataObject
) -> None:
    encoded = encode(sent)
    ends = [1]
    for frame in sent:
        ends.append(ends[-1] + frame.size())
    cut = data.draw(st.sampled_from(ends) | st.integers(1, len(encoded)))
    if cut in ends:
        whole = [fields(frame) for frame in sent[: ends.index(cut)]]
        assert [fields(frame) for frame in decode(encoded[:cut])] == whole
    else:
        with pytest.raises(PeerError):
            decode(encoded[:cut])


@pytest.mark.parametrize("kind", [0, *range(5, 16)])
@pytest.mark.parametrize("rest", range(16))
def test_an_unknown_kind_is_refused(kind: int, rest: int) -> None:
    with pytest.raises(PeerError):
        decode(bytes([1, kind << 4 | rest]) + bytes(32))


@pytest.mark.parametrize("width", range(1, 9))
@pytest.mark.parametrize("kind", [3, 4])
def test_a_flag_on_a_permit_or_request_is_refused(kind: int, width: int) -> None:
    head = kind << 4 | (width - 1) << 1
    body = bytes(width - 1) + b"\x07"
    assert len(decode(bytes([1, head]) + body)) == 1
    with pytest.raises(PeerError):
        decode(bytes([1, head | 1]) + body)


TOO_LARGE = "80 00 00 00 00 00 00 00"
LARGEST = "7f ff ff ff ff ff ff ff"
SMALL = "00 00 00 00 00 00 00 01"


@pytest.mark.parametrize(
    "layout", ["1e {} {small} 00", "1f {large} {} 00", "2e {}", "2f {} {small}"]
)
def test_a_number_above_the_maximum_is_refused(layout: str) -> None:
    fine = layout.format(LARGEST, small=SMALL, large=LARGEST)
    assert len(decode(datagram(fine))) == 1
    with pytest.raises(PeerError):
        decode(datagram(layout.format(TOO_LARGE, small=SMALL, large=LARGEST)))


@pytest.mark.parametrize("head", ["2f " + SMALL, "3e", "4e"])
@pytest.mark.parametrize("number", [TOO_LARGE, "ff ff ff ff ff ff ff ff"])
def test_a_last_number_above_the_maximum_is_refused(head: str, number: str) -> None:
    assert len(decode(datagram(f"{head} {LARGEST}"))) == 1
    with pytest.raises(PeerError):
        decode(datagram(f"{head} {number}"))


@pytest.mark.parametrize(
    "length",
    [
        "02",  # One more than the payload has.
        "ff 7f",
        "80 80 80 80 7f",  # Almost 2^35, in the maximum number of bytes.
        "81 80 80 80 80 00",  # 1, in one byte more than the maximum.
        "ff ff ff ff ff ff ff ff ff ff",
        "80",  # The length itself is cut short.
    ],
)
def test_an_invalid_payload_length_is_refused(length: str) -> None:
    for valid in ("01", "81 80 80 80 00"):  # The second is padded to five bytes.
        (decoded,) = decode(datagram(f"11 01 00 {valid} 61"))
        assert fields(decoded) == ("message", [1, 0, True, b"a"])
    with pytest.raises(PeerError):
        decode(datagram(f"11 01 00 {length} {'61' if length != '80' else ''}"))


@pytest.mark.long
@given(st.binary(max_size=60), st.booleans())
@example(b"", False)
@settings(max_examples=500)
def test_arbitrary_bytes_decode_or_are_refused(noise: bytes, versioned: bool) -> None:
    received = bytes([1]) + noise if versioned else noise
    try:
        decoded = decode(received)
    except PeerError:
        return
    # No frame is shorter than its shortest encoding.
    assert all(0 <= n <= NUMBER_MAX for n in all_numbers(decoded))
    assert len(received) >= 1 + sum(frame.size() for frame in decoded)


@pytest.mark.long
@given(st.lists(frames, min_size=1, max_size=3), st.data())
@settings(max_examples=500)
def test_a_damaged_datagram_decodes_or_is_refused(
    sent: list[Frame], data: st.DataObject
) -> None:
    damaged = bytearray(encode(sent))
    position = data.draw(st.integers(0, len(damaged) - 1))
    damaged[position] = data.draw(st.integers(0, 255))
    try:
        decoded = decode(bytes(damaged))
    except PeerError:
        return
    assert all(0 <= n <= NUMBER_MAX for n in all_numbers(decoded))


def all_numbers(decoded: list[Frame]) -> list[int]:
    return [
        value
        for frame in decoded
        for value in fields(frame)[1]
        if isinstance(value, int) and not isinstance(value, bool)
    ]


def test_frame_itself_has_no_encoding() -> None:
    with pytest.raises(TypeError):
        encode([Frame()])
    with pytest.raises(TypeError):
        Frame().metadata_size()
    with pytest.raises(TypeError):
        Frame().size()


def test_a_frame_shows_its_fields_but_not_its_payload() -> None:
    shown = repr(MessageFrame(34, 12, True, b"secret!"))
    fields = "number=34, payload=7 B, permitted=True, predecessor=12"
    assert shown == f"MessageFrame({fields})"
    assert repr(Ack(8, 9)) == "Ack(arrived=9, delivered=8)"
    assert repr(Permit(6)) == "Permit(number=6)"
    assert repr(PermitRequest(5)) == "PermitRequest(number=5)"
