"""The encoding of the control messages of a room.

A control message is one byte for its kind, followed by its fields: numbers as LEB128,
texts and bytes with their length. In the room, a payload begins with ``APPLICATION`` or
``CONTROL``; outside, a control message follows the name of its room.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeVar

from antecede.core.codec import Reader, write_varint
from antecede.errors import PeerError
from antecede.group.frames import (
    NAME_BYTES_MAX,
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

__all__ = ["decode_control", "decode_room", "encode_control", "encode_room"]

TEXT_BYTES_MAX: Final = 1024
LIST_MAX: Final = 4096

_Enum = TypeVar("_Enum", bound=IntEnum)


class _Field(NamedTuple):
    """How one field is written and read."""

    write: Callable[[bytearray, Any], None]
    read: Callable[[Reader], Any]


def _write_text(buffer: bytearray, text: str) -> None:
    _write_bytes(buffer, text.encode())


def _read_text(reader: Reader, bytes_max: int = TEXT_BYTES_MAX) -> str:
    data = reader.payload()
    if len(data) > bytes_max:
        raise PeerError(f"text of {len(data)} bytes, expected at most {bytes_max}")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise PeerError(f"text is not UTF-8: {data[:16]!r}") from None


def _read_name(reader: Reader) -> str:
    name = _read_text(reader, NAME_BYTES_MAX)
    if not name:
        raise PeerError("empty name")
    return name


def _write_bytes(buffer: bytearray, data: bytes) -> None:
    write_varint(buffer, len(data))
    buffer += data


def _write_member(buffer: bytearray, member: Member) -> None:
    _write_text(buffer, member.name)
    _write_text(buffer, member.address)
    write_varint(buffer, member.incarnation)
    write_varint(buffer, member.admission)


def _read_member(reader: Reader) -> Member:
    return Member(
        name=_read_name(reader),
        address=_read_text(reader, NAME_BYTES_MAX),
        incarnation=reader.varint(),
        admission=reader.varint(),
    )


def _write_entry(buffer: bytearray, entry: RosterEntry) -> None:
    _write_member(buffer, entry.member)
    write_varint(buffer, entry.state)


def _read_entry(reader: Reader) -> RosterEntry:
    return RosterEntry(_read_member(reader), _read_enum(reader, MemberState))


def _read_enum(reader: Reader, values: type[_Enum]) -> _Enum:
    value = reader.varint(1)
    try:
        return values(value)
    except ValueError:
        raise PeerError(f"unknown {values.__name__} {value}") from None


def _write_pair(buffer: bytearray, pair: tuple[str, str]) -> None:
    for text in pair:
        _write_text(buffer, text)


def _write_cut_entry(buffer: bytearray, entry: CutEntry) -> None:
    _write_text(buffer, entry.source)
    write_varint(buffer, entry.history)
    write_varint(buffer, entry.number)


def _list_of(field: _Field) -> _Field:
    """Return the field for a tuple of values of ``field``."""

    def write(buffer: bytearray, values: tuple[Any, ...]) -> None:
        write_varint(buffer, len(values))
        for value in values:
            field.write(buffer, value)

    def read(reader: Reader) -> tuple[Any, ...]:
        count = reader.varint(2)
        if count > LIST_MAX:
            raise PeerError(f"list of {count} values, expected at most {LIST_MAX}")
        return tuple(field.read(reader) for _ in range(count))

    return _Field(write, read)


_NUMBER: Final = _Field(write_varint, lambda reader: reader.varint())
_TEXT: Final = _Field(_write_text, _read_text)
_NAME: Final = _Field(_write_text, _read_name)
_BYTES: Final = _Field(_write_bytes, lambda reader: reader.payload())
_MEMBER: Final = _Field(_write_member, _read_member)
_ENTRY: Final = _Field(_write_entry, _read_entry)
_ANSWER: Final = _Field(write_varint, lambda reader: _read_enum(reader, AnswerKind))
_PAIR: Final = _Field(_write_pair, lambda reader: (_read_name(reader), _read_text(reader)))
_CUT_ENTRY: Final = _Field(
    _write_cut_entry,
    lambda reader: CutEntry(_read_name(reader), reader.varint(), reader.varint()),
)

_LAYOUTS: Final[tuple[tuple[type[Any], dict[str, _Field]], ...]] = (
    (Inquiry, {"address": _TEXT}),
    (Answer, {"kind": _ANSWER, "seekers": _list_of(_PAIR), "protocol": _TEXT}),
    (Request, {"protocol": _NAME, "member": _MEMBER}),
    (Refused, {"admission": _NUMBER, "reason": _TEXT}),
    (Outdated, {"admission": _NUMBER}),
    (Offer, {"admission": _NUMBER, "members": _list_of(_ENTRY)}),
    (Introduction, {"member": _MEMBER}),
    (Progress, {"admission": _NUMBER, "waiting_for": _list_of(_NAME)}),
    (SnapshotStart, {"admission": _NUMBER, "size": _NUMBER, "digest": _BYTES}),
    (Chunk, {"admission": _NUMBER, "offset": _NUMBER, "data": _BYTES}),
    (ChunkAck, {"admission": _NUMBER, "received": _NUMBER}),
    (Excluded, {"admission": _NUMBER, "members": _NUMBER, "least": _NAME}),
    (Adding, {"member": _MEMBER}),
    (Added, {"newcomer": _NAME, "admission": _NUMBER}),
    (CutNotice, {"admission": _NUMBER}),
    (JoinedNotice, {"admission": _NUMBER}),
    (Leaving, {"admission": _NUMBER}),
    (Removing, {"name": _NAME, "admission": _NUMBER}),
    (
        SnapshotHeader,
        {"entries": _list_of(_ENTRY), "cut": _list_of(_CUT_ENTRY), "state": _BYTES},
    ),
)
"""Each kind of control message, in the order of its number, from 1."""

_KINDS: Final = {
    cls: (kind, fields) for kind, (cls, fields) in enumerate(_LAYOUTS, start=1)
}


def encode_control(frame: ControlFrame) -> bytes:
    """Encode a control message, without a first byte ``CONTROL``."""
    kind, fields = _KINDS[type(frame)]
    buffer = bytearray((kind,))
    for name, field in fields.items():
        field.write(buffer, getattr(frame, name))
    return bytes(buffer)


def decode_control(data: bytes, position: int = 0) -> ControlFrame:
    """Decode a control message from ``position`` to the end; PeerError if invalid."""
    reader = Reader(data, position)
    kind = reader.varint(1)
    if not 1 <= kind <= len(_LAYOUTS):
        raise PeerError(f"unknown control message of kind {kind}")
    cls, fields = _LAYOUTS[kind - 1]
    frame: ControlFrame = cls(*[field.read(reader) for field in fields.values()])
    if reader.position != len(data):
        raise PeerError(
            f"{len(data) - reader.position} bytes after a {cls.__name__} message"
        )
    return frame


def encode_room(room: str, data: bytes) -> bytes:
    """Prefix a control message that travels outside the room with the room's name."""
    buffer = bytearray()
    _write_text(buffer, room)
    return bytes(buffer + data)


def decode_room(data: bytes) -> tuple[str, bytes]:
    """Return the name of the room and the control message; PeerError if invalid."""
    reader = Reader(data)
    room = _read_name(reader)
    return room, data[reader.position :]
