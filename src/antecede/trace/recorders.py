"""Turn the observations of a driver into trace rows, and count them.

An :class:`EventCounter` is the observer that drivers call. It passes each row to a
:class:`Recorder`: a :class:`MemoryRecorder` keeps events in memory, a
:class:`BufferedRecorder` packs rows into bytes and passes them on in batches.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, final

from mypy_extensions import mypyc_attr

from antecede.core.codec import Frame
from antecede.core.observer import Observer
from antecede.core.process import Delivery, Transmit
from antecede.trace.event import Event, Kind

__all__ = [
    "KINDS",
    "ROW",
    "ROW_FIELDS",
    "BufferedRecorder",
    "EventCounter",
    "MemoryRecorder",
    "Recorder",
]

NULL: Final = -1
"""A null of the schema, in the arguments of :meth:`Recorder.record` and in packed rows."""

KINDS: Final = tuple(Kind)
"""A row holds a kind as an index into this tuple."""
SEND: Final = KINDS.index(Kind.SEND)
RELEASE: Final = KINDS.index(Kind.RELEASE)
ARRIVE: Final = KINDS.index(Kind.ARRIVE)
DELIVER: Final = KINDS.index(Kind.DELIVER)
CONTROL: Final = KINDS.index(Kind.CONTROL)
TRANSMIT: Final = KINDS.index(Kind.TRANSMIT)
DROP: Final = KINDS.index(Kind.DROP)

ROW_FIELDS: Final = (
    ("process", "i"),
    ("time", "d"),
    ("kind", "B"),
    ("source", "i"),
    ("number", "q"),
    ("target", "i"),
    ("payload_bytes", "i"),
    ("metadata_bytes", "i"),
)
"""The fields of a packed row: the name of the column, and its type code.

The codes mean the same to :mod:`struct` and to NumPy. This is the one declaration of the
layout; :data:`ROW` and :data:`antecede.trace.packed_rows.PACKED` are made from it.
"""
ROW: Final = Struct("<" + "".join([code for _, code in ROW_FIELDS]))
"""Packs one row, little-endian and without padding."""


CAPACITY_FIRST: Final = 1 << 10
"""Rows of a new buffer, which grows."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Recorder:
    """Receives the rows of a run; this base class discards them."""

    __slots__ = ()

    def record(
        self,
        process: int,
        now: float,
        kind: int,
        source: int,
        number: int,
        target: int,
        payload_bytes: int,
        metadata_bytes: int,
        targets: Sequence[int] | None,
    ) -> None:
        """Receive one row; -1 stands for null, ``kind`` is an index into :data:`KINDS`.

        ``targets`` belongs to a send; it is None for a broadcast and for other events.
        """


@final
class EventCounter(Observer):
    """Counts frames and bytes of a run, and passes every event to a recorder.

    Call its methods in the order in which the events happen.
    """

    __slots__ = (
        "_recorder",
        "control_bytes",
        "control_frames",
        "dropped_frames",
        "is_recording",
        "metadata_bytes",
        "payload_bytes",
        "relays",
        "releases",
        "retransmissions",
    )

    is_recording: bool
    """Whether there is a recorder; without one, only frames have an effect."""
    control_frames: int
    """Transmitted frames that carry no message."""
    control_bytes: int
    """The bytes of those frames."""
    releases: int
    """Frames with a message that its source transmitted for the first time."""
    retransmissions: int
    """Frames with a message that the same process had transmitted before."""
    relays: int
    """Frames with a message that a process forwarded for its source."""
    dropped_frames: int
    """Frames that the network lost."""
    payload_bytes: int
    """The payload in all frames."""
    metadata_bytes: int
    """All other bytes in all frames, control frames included."""

    def __init__(self, recorder: Recorder | None = None) -> None:
        """Start all counts at 0; without a recorder, events are only counted."""
        super().__init__()
        self._recorder = Recorder() if recorder is None else recorder
        self.is_recording = recorder is not None
        self.control_frames = 0
        self.control_bytes = 0
        self.releases = 0
        self.retransmissions = 0
        self.relays = 0
        self.dropped_frames = 0
        self.payload_bytes = 0
        self.metadata_bytes = 0

    def sent(
        self, process: int, number: int, targets: Sequence[int] | None, now: float
    ) -> None:
        self._recorder.record(
            process, now, SEND, process, number, NULL, NULL, NULL, targets
        )

    def arrived(self, process: int, source: int, frame: Frame, now: float) -> None:
        """Record that a frame from ``source`` arrived, if it carries a message."""
        number = frame.message_number()
        if number > 0:
            origin = frame.message_source()
            if origin < 0:
                origin = source
            self._recorder.record(
                process, now, ARRIVE, origin, number, process, NULL, NULL, None
            )

    def dropped(self, process: int, target: int, frame: Frame, now: float) -> None:
        self.dropped_frames += 1
        number = frame.message_number()
        if number > 0:
            origin = frame.message_source()
            if origin < 0:
                origin = process
            self._recorder.record(
                process, now, DROP, origin, number, target, NULL, NULL, None
            )
        else:
            self._recorder.record(process, now, DROP, NULL, NULL, target, NULL, NULL, None)

    def delivered(self, process: int, delivery: Delivery, now: float) -> None:
        source, number = delivery.source, delivery.number
        self._recorder.record(
            process, now, DELIVER, source, number, process, NULL, NULL, None
        )

    def transmitted(self, process: int, transmit: Transmit, now: float) -> None:
        frame = transmit.frame
        target = transmit.target
        metadata = frame.metadata_size()
        self.metadata_bytes += metadata
        number = frame.message_number()
        if number > 0:
            origin = frame.message_source()
            kind = RELEASE
            if origin < 0:
                origin = process
            if transmit.is_retransmission:
                kind = TRANSMIT
                self.retransmissions += 1
            elif origin != process:
                kind = TRANSMIT
                self.relays += 1
            else:
                self.releases += 1
            payload = frame.payload_size()
            self.payload_bytes += payload
            if self.is_recording:
                self._recorder.record(
                    process, now, kind, origin, number, target, payload, metadata, None
                )
        else:
            self.control_frames += 1
            self.control_bytes += metadata
            if self.is_recording:
                self._recorder.record(
                    process, now, CONTROL, NULL, NULL, target, 0, metadata, None
                )

    def happened(
        self, process: int, kind: Kind, now: float, source: int = NULL, number: int = NULL
    ) -> None:
        """Record an event of another kind, perhaps about a message."""
        index = KINDS.index(kind)
        self._recorder.record(process, now, index, source, number, NULL, NULL, NULL, None)


class MemoryRecorder(Recorder):
    """Keeps every event in memory."""

    __slots__ = ("events",)

    events: list[Event]
    """The events so far, in the order in which they were recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.events = []

    def record(
        self,
        process: int,
        now: float,
        kind: int,
        source: int,
        number: int,
        target: int,
        payload_bytes: int,
        metadata_bytes: int,
        targets: Sequence[int] | None,
    ) -> None:
        self.events.append(
            Event(
                process=process,
                kind=KINDS[kind],
                time=now,
                source=None if source < 0 else source,
                number=None if number < 0 else number,
                target=None if target < 0 else target,
                targets=None if targets is None else tuple(targets),
                payload_bytes=None if payload_bytes < 0 else payload_bytes,
                metadata_bytes=None if metadata_bytes < 0 else metadata_bytes,
            )
        )


class BufferedRecorder(Recorder):
    """Packs rows into a buffer of fixed size and passes each full buffer on.

    ``write`` is called with the packed rows, their number, and the targets of each send
    among them, in order, None for a broadcast. Call :meth:`flush` at the end.
    """

    __slots__ = ("_buffer", "_capacity", "_count", "_rows_max", "_targets", "_write")

    def __init__(
        self,
        write: Callable[[bytearray, int, list[Sequence[int] | None]], None],
        rows_max: int = 1 << 17,
    ) -> None:
        """Create a buffer; call ``write`` whenever it has ``rows_max`` rows."""
        super().__init__()
        self._write = write
        self._rows_max = rows_max
        # Most runs of a study are short, and clearing a large buffer takes a millisecond.
        self._capacity = min(rows_max, CAPACITY_FIRST)
        self._buffer = bytearray(self._capacity * ROW.size)
        self._count = 0
        self._targets: list[Sequence[int] | None] = []

    def record(
        self,
        process: int,
        now: float,
        kind: int,
        source: int,
        number: int,
        target: int,
        payload_bytes: int,
        metadata_bytes: int,
        targets: Sequence[int] | None,
    ) -> None:
        ROW.pack_into(
            self._buffer,
            self._count * ROW.size,
            process,
            now,
            kind,
            source,
            number,
            target,
            payload_bytes,
            metadata_bytes,
        )
        if kind == SEND:
            self._targets.append(targets)
        self._count += 1
        if self._count == self._capacity:
            if self._capacity == self._rows_max:
                self.flush()
            else:
                self._grow()

    def _grow(self) -> None:
        """Double the buffer."""
        rows = self._buffer
        self._capacity = min(self._rows_max, 2 * self._capacity)
        self._buffer = bytearray(self._capacity * ROW.size)
        self._buffer[: len(rows)] = rows

    def flush(self) -> None:
        """Pass the buffered rows to ``write``, if there are any."""
        if self._count:
            self._write(self._buffer, self._count, self._targets)
            self._count = 0
            self._targets = []
