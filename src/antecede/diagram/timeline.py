"""Reconstruct the copies and transmissions of a run from its events.

A trace records that a frame of a message was transmitted, arrived or was lost, but not
which transmission arrived. So an arrival is matched to the earliest open transmission of
the copy, and a loss to the latest one from the same process; the simulator records a loss
right after its transmission, so there the match is exact. In a trace without releases or
arrivals, such as a foreign one, the nearest event takes their place: a message then travels
from its send to its delivery.

Events that one input of a process causes at the same time (a message arrives, is delivered,
and releases others) are one *step*: nothing waited in between. A diagram that shows the
order of events instead of their time draws a step in adjacent columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from antecede.errors import TraceError
from antecede.trace.event import Event, Kind
from antecede.verify.oracle import MessageId

__all__ = ["Copy", "CopyId", "Transmission", "Timeline", "read_timeline"]

CopyId = tuple[MessageId, int]
"""A copy: the message and its target."""


@dataclass(slots=True, kw_only=True)
class Transmission:
    """The transmission of one frame; events are given by their index."""

    process: int
    """The process that transmitted the frame: the source of the message, or a relay."""
    target: int
    start: int
    """The event of the transmission."""
    end: int | None = None
    """The event of the arrival; None if the frame did not arrive."""
    lost: bool = False
    is_retransmission: bool = False
    """The same process had transmitted the copy before."""


@dataclass(slots=True, kw_only=True)
class Copy:
    """A message to one of its targets; events are given by their index."""

    message: MessageId
    target: int
    send: int | None = None
    release: int | None = None
    arrive: int | None = None
    """The first arrival; later ones are ends of transmissions."""
    deliveries: list[int] = field(default_factory=list)
    """The deliveries; more than one violates no-duplication."""
    transmissions: list[Transmission] = field(default_factory=list)

    def indexes(self) -> Iterator[int]:
        """Yield the index of every event of the copy that a diagram shows."""
        for index in (self.send, self.release, self.arrive):
            if index is not None:
                yield index
        yield from self.deliveries
        for transmission in self.transmissions:
            yield transmission.start
            if transmission.end is not None:
                yield transmission.end


@dataclass(slots=True, kw_only=True)
class Timeline:
    """The copies, transmissions and steps of a run."""

    events: Sequence[Event]
    copies: dict[CopyId, Copy]
    """All copies, in the order of their first events."""
    sends: dict[MessageId, int]
    controls: list[Transmission]
    """The frames that carry no message; their arrival is not recorded."""
    steps: list[int]
    """For each event, its step."""
    columns: list[int]
    """For each event, its column in a diagram by order; two deliveries never share one."""
    kinds: set[Kind]
    """The kinds of events in the trace."""


def read_timeline(events: Sequence[Event]) -> Timeline:
    """Return the timeline of a run, given in a linear extension of happened-before.

    Raises:
        TraceError: An event lacks the message or the target that its kind needs.
    """
    builder = _TimelineBuilder()
    for index, event in enumerate(events):
        builder.add(index, event)
    steps, columns = _number_steps(events)
    return Timeline(
        events=events,
        copies=builder.copies,
        sends=builder.sends,
        controls=builder.controls,
        steps=steps,
        columns=columns,
        kinds={event.kind for event in events},
    )


class _TimelineBuilder:
    """Assigns each event to its copy."""

    def __init__(self) -> None:
        self.copies: dict[CopyId, Copy] = {}
        self.sends: dict[MessageId, int] = {}
        self.controls: list[Transmission] = []

    def add(self, index: int, event: Event) -> None:
        kind = event.kind
        if kind is Kind.SEND:
            message = _message(event)
            self.sends[message] = index
            for target in event.targets or ():
                self._copy(message, target)
        elif kind is Kind.CONTROL:
            self.controls.append(_transmission(index, event))
        elif kind is Kind.RELEASE or kind is Kind.TRANSMIT:
            self._transmitted(index, event)
        elif kind is Kind.DROP:
            self._dropped(event)
        elif kind is Kind.ARRIVE:
            copy = self._copy(_message(event), event.process)
            self._arrived(copy, index)
            if copy.arrive is None:
                copy.arrive = index
        elif kind is Kind.DELIVER:
            copy = self._copy(_message(event), event.process)
            if copy.arrive is None and not copy.deliveries:
                self._arrived(copy, index)
            copy.deliveries.append(index)

    def _copy(self, message: MessageId, target: int) -> Copy:
        copy = self.copies.get((message, target))
        if copy is None:
            copy = Copy(message=message, target=target, send=self.sends.get(message))
            self.copies[message, target] = copy
        return copy

    def _transmitted(self, index: int, event: Event) -> None:
        transmission = _transmission(index, event)
        copy = self._copy(_message(event), transmission.target)
        if event.kind is Kind.RELEASE and copy.release is None:
            copy.release = index
        transmission.is_retransmission = any(
            p.process == transmission.process for p in copy.transmissions
        )
        copy.transmissions.append(transmission)

    def _dropped(self, event: Event) -> None:
        transmissions = self.controls
        if event.number is not None:
            copy = self.copies.get((_message(event), _target(event)))
            transmissions = [] if copy is None else copy.transmissions
        for transmission in reversed(transmissions):
            between = (transmission.process, transmission.target)
            if between == (event.process, event.target) and _is_open(transmission):
                transmission.lost = True
                return

    def _arrived(self, copy: Copy, index: int) -> None:
        for transmission in copy.transmissions:
            if _is_open(transmission):
                transmission.end = index
                return
        source, start, is_retransmission = copy.message.source, copy.send, False
        if copy.transmissions:  # The network duplicated a frame.
            last = copy.transmissions[-1]
            source, start, is_retransmission = last.process, last.start, True
        if start is not None and source != copy.target:
            copy.transmissions.append(
                Transmission(
                    process=source,
                    target=copy.target,
                    start=start,
                    end=index,
                    is_retransmission=is_retransmission,
                )
            )


def _number_steps(events: Sequence[Event]) -> tuple[list[int], list[int]]:
    """Return the step and the column of every event.

    Within a step, each delivery has a column of its own. So has a transmission after an
    arrival or a delivery: it may have waited for a control frame, whose arrival is not
    recorded.
    """
    steps: list[int] = []
    columns: list[int] = []
    step = column = -1
    first = Kind.SEND
    kinds: set[Kind] = set()
    for index, event in enumerate(events):
        kind = event.kind
        is_transmission = kind is Kind.RELEASE or kind is Kind.TRANSMIT
        same_step = index > 0 and _is_same_step(events[index - 1], event, first)
        if not same_step:
            step += 1
            first = kind
        needs_column = kind is Kind.DELIVER and kind in kinds
        needs_column |= is_transmission and not kinds.isdisjoint(
            (Kind.ARRIVE, Kind.DELIVER)
        )
        if not same_step or needs_column:
            column += 1
            kinds = set()
        kinds.add(kind)
        steps.append(step)
        columns.append(column)
    return steps, columns


def _is_same_step(last: Event, event: Event, first: Kind) -> bool:
    """Return whether an event may belong to the step of ``last``, begun by ``first``."""
    if (last.process, last.time) != (event.process, event.time):
        return False
    if event.kind is Kind.DELIVER and event.source != event.process:
        return first is Kind.ARRIVE
    return event.kind is not Kind.SEND and event.kind is not Kind.ARRIVE


def _message(event: Event) -> MessageId:
    if event.source is None or event.number is None:
        raise TraceError(f"a {event.kind.value} needs a source and a number, got {event}")
    return MessageId(event.source, event.number)


def _target(event: Event) -> int:
    if event.target is None:
        raise TraceError(f"a {event.kind.value} needs a target, got {event}")
    return event.target


def _transmission(index: int, event: Event) -> Transmission:
    return Transmission(process=event.process, target=_target(event), start=index)


def _is_open(transmission: Transmission) -> bool:
    return transmission.end is None and not transmission.lost
