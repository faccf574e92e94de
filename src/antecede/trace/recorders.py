"""Turn what a driver sees of its processes into events."""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final

from antecede.core.codec import Frame
from antecede.core.observer import Observer
from antecede.core.process import Delivery, Transmit
from antecede.trace.event import Event, Kind

__all__ = ["KINDS", "ROW", "PackedRecorder", "Recorder", "Tally"]

NONE: Final = -1
"""Stands in a packed row for what is null in the schema."""

KINDS: Final = tuple(Kind)
"""A packed row holds a kind as an index into this."""
SEND: Final = KINDS.index(Kind.SEND)
RELEASE: Final = KINDS.index(Kind.RELEASE)
ARRIVE: Final = KINDS.index(Kind.ARRIVE)
DELIVER: Final = KINDS.index(Kind.DELIVER)
CONTROL: Final = KINDS.index(Kind.CONTROL)
TRANSMIT: Final = KINDS.index(Kind.TRANSMIT)
DROP: Final = KINDS.index(Kind.DROP)

ROW: Final = Struct("<idBiqiii")
"""A packed row: process, time, kind, source, number, target, payload, metadata."""


class Tally(Observer):
    """Counts what happens in a run; call it in the order in which things happen.

    This one keeps no events; subclasses do, by overriding :meth:`row`.
    """

    __slots__ = (
        "control_bytes",
        "control_frames",
        "dropped_frames",
        "metadata_bytes",
        "payload_bytes",
        "relays",
        "releases",
        "retransmissions",
    )

    control_frames: int
    """How many frames without a message were transmitted."""
    control_bytes: int
    """The bytes of those frames."""
    releases: int
    """How many frames with a message its own source transmitted for the first time."""
    retransmissions: int
    """How many copies of messages were transmitted again."""
    relays: int
    """How many times a process passed on a message of another."""
    dropped_frames: int
    """How many frames the network lost."""
    payload_bytes: int
    """The payload in all frames."""
    metadata_bytes: int
    """Everything else in all frames, those without a message included."""

    def __init__(self) -> None:
        """Start with nothing."""
        super().__init__()
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
        """Record that the application at ``process`` sent its message ``number``.

        Without targets it is a broadcast to the members of the moment.
        """
        self.row(process, now, SEND, process, number, NONE, NONE, NONE, targets)

    def arrived(self, process: int, source: int, frame: Frame, now: float) -> None:
        """Record that a frame from ``source`` reached ``process``, if it is a message."""
        number = frame.message_number()
        if number > 0:
            origin = frame.message_source()
            if origin < 0:
                origin = source
            self.row(process, now, ARRIVE, origin, number, process, NONE, NONE, None)

    def dropped(self, process: int, target: int, frame: Frame, now: float) -> None:
        """Record that the network lost a frame of ``process`` to ``target``."""
        self.dropped_frames += 1
        number = frame.message_number()
        if number > 0:
            origin = frame.message_source()
            if origin < 0:
                origin = process
            self.row(process, now, DROP, origin, number, target, NONE, NONE, None)
        else:
            self.row(process, now, DROP, NONE, NONE, target, NONE, NONE, None)

    def delivered(self, process: int, delivery: Delivery, now: float) -> None:
        """Record that a message was handed to the application at ``process``."""
        source = delivery.source
        self.row(process, now, DELIVER, source, delivery.number, process, NONE, NONE, None)

    def transmitted(self, process: int, transmit: Transmit, now: float) -> None:
        """Record that ``process`` put a frame on the network."""
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
            if transmit.repeat:
                kind = TRANSMIT
                self.retransmissions += 1
            elif origin != process:
                kind = TRANSMIT
                self.relays += 1
            else:
                self.releases += 1
            size = frame.payload_size()
            self.payload_bytes += size
            self.row(process, now, kind, origin, number, target, size, metadata, None)
        else:
            self.control_frames += 1
            self.control_bytes += metadata
            self.row(process, now, CONTROL, NONE, NONE, target, 0, metadata, None)

    def happened(
        self, process: int, kind: Kind, now: float, source: int = NONE, number: int = NONE
    ) -> None:
        """Record something else, perhaps about a message."""
        self.row(process, now, KINDS.index(kind), source, number, NONE, NONE, NONE, None)

    def row(
        self,
        process: int,
        now: float,
        kind: int,
        source: int,
        number: int,
        target: int,
        payload: int,
        metadata: int,
        targets: Sequence[int] | None,
    ) -> None:
        """Keep one row, or not; -1 stands for null."""


class Recorder(Tally):
    """Keeps every event in memory."""

    __slots__ = ("events",)

    events: list[Event]
    """What happened so far."""

    def __init__(self) -> None:
        """Start with no events."""
        super().__init__()
        self.events = []

    def row(
        self,
        process: int,
        now: float,
        kind: int,
        source: int,
        number: int,
        target: int,
        payload: int,
        metadata: int,
        targets: Sequence[int] | None,
    ) -> None:
        """Keep one row as an event."""
        self.events.append(
            Event(
                process=process,
                kind=KINDS[kind],
                time=now,
                source=None if source < 0 else source,
                number=None if number < 0 else number,
                target=None if target < 0 else target,
                targets=None if targets is None else tuple(targets),
                payload_bytes=None if payload < 0 else payload,
                metadata_bytes=None if metadata < 0 else metadata,
            )
        )


class PackedRecorder(Tally):
    """Keeps rows as bytes, and hands them over by the batch: memory stays bounded.

    ``write`` gets the packed rows of a batch, how many there are, and the targets of each
    send among them, in order, None for a broadcast. Call :meth:`flush` at the end.
    """

    __slots__ = ("_buffer", "_count", "_rows_max", "_targets", "_write")

    def __init__(
        self,
        write: Callable[[bytearray, int, list[Sequence[int] | None]], None],
        rows_max: int = 1 << 17,
    ) -> None:
        """Hand over to ``write`` whenever there are ``rows_max`` rows."""
        super().__init__()
        self._write = write
        self._rows_max = rows_max
        self._buffer = bytearray(rows_max * ROW.size)
        self._count = 0
        self._targets: list[Sequence[int] | None] = []

    def row(
        self,
        process: int,
        now: float,
        kind: int,
        source: int,
        number: int,
        target: int,
        payload: int,
        metadata: int,
        targets: Sequence[int] | None,
    ) -> None:
        """Pack one row; -1 stands for null."""
        ROW.pack_into(
            self._buffer,
            self._count * ROW.size,
            process,
            now,
            kind,
            source,
            number,
            target,
            payload,
            metadata,
        )
        if kind == SEND:
            self._targets.append(targets)
        self._count += 1
        if self._count == self._rows_max:
            self.flush()

    def flush(self) -> None:
        """Hand over what there is."""
        if self._count:
            self._write(self._buffer, self._count, self._targets)
            self._count = 0
            self._targets = []
