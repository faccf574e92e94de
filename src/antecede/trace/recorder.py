"""Turn what a driver sees of its processes into events."""

from collections.abc import Sequence

from antecede.core.contract import Delivery, Transmit
from antecede.core.frames import Frame, Message
from antecede.trace.event import Event, Kind

__all__ = ["Recorder"]


class Recorder:
    """Collects the events of a run; call it in the order in which things happen."""

    events: list[Event]
    """What happened so far."""

    def __init__(self) -> None:
        """Start with no events."""
        self.events = []

    def sent(self, process: int, number: int, targets: Sequence[int], now: float) -> None:
        """Record that the application at ``process`` sent its message ``number``."""
        self.events.append(
            Event(
                process=process,
                kind=Kind.SEND,
                time=now,
                source=process,
                number=number,
                targets=tuple(targets),
            )
        )

    def arrived(self, process: int, source: int, frame: Frame, now: float) -> None:
        """Record that a frame of ``source`` reached ``process``, if it is a message."""
        if isinstance(frame, Message):
            self.events.append(
                Event(
                    process=process,
                    kind=Kind.ARRIVE,
                    time=now,
                    source=source,
                    number=frame.number,
                    target=process,
                )
            )

    def dropped(self, process: int, target: int, frame: Frame, now: float) -> None:
        """Record that the network lost a frame of ``process`` to ``target``."""
        number = frame.number if isinstance(frame, Message) else None
        self.events.append(
            Event(
                process=process,
                kind=Kind.DROP,
                time=now,
                source=None if number is None else process,
                number=number,
                target=target,
            )
        )

    def delivered(self, process: int, delivery: Delivery, now: float) -> None:
        """Record that a message was handed to the application at ``process``."""
        self.events.append(
            Event(
                process=process,
                kind=Kind.DELIVER,
                time=now,
                source=delivery.source,
                number=delivery.number,
                target=process,
            )
        )

    def transmitted(self, process: int, transmit: Transmit, now: float) -> None:
        """Record that ``process`` put a frame on the network."""
        frame = transmit.frame
        kind = Kind.CONTROL
        number = None
        if isinstance(frame, Message):
            kind = Kind.TRANSMIT if transmit.repeat else Kind.RELEASE
            number = frame.number
        metadata = frame.metadata_size()
        self.events.append(
            Event(
                process=process,
                kind=kind,
                time=now,
                source=None if number is None else process,
                number=number,
                target=transmit.target,
                payload_bytes=frame.size() - metadata,
                metadata_bytes=metadata,
            )
        )
