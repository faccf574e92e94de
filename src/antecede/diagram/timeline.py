"""Read a run as a diagram shows it: copies of messages, and frames on their way.

A trace says that a frame of a message was transmitted, arrived or was lost, but not which
transmission it was that arrived. So an arrival is taken for the earliest transmission of
the copy that is still open, and a loss for the latest one from the same process (the
simulator records a loss right after its transmission, so there it is exact). A trace
without releases or arrivals, as foreign ones are, is read with the nearest event instead:
a message then goes from its send to its delivery.

Events that one input of a process brings about at once (a message arrives, is delivered,
and lets others go) are one *step*: nothing waited in between. Steps are what the diagram
puts side by side where it shows the order of events instead of their time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from antecede.errors import ConfigError
from antecede.trace.event import Event, Kind
from antecede.verify.oracle import MessageId

__all__ = ["Copy", "CopyId", "Passage", "Story", "read"]

CopyId = tuple[MessageId, int]
"""Which copy: the message, and the target."""


@dataclass(slots=True, kw_only=True)
class Passage:
    """One frame on its way; events are named by their index."""

    process: int
    """Who transmitted it; not always the message's source, as there are relays."""
    target: int
    start: int
    """Its transmission."""
    end: int | None = None
    """Its arrival, if there was one."""
    lost: bool = False
    repeat: bool = False
    """The same process had transmitted this copy before."""


@dataclass(slots=True, kw_only=True)
class Copy:
    """A message on its way to one of its targets; events are named by their index."""

    message: MessageId
    target: int
    send: int | None = None
    release: int | None = None
    arrive: int | None = None
    """The first arrival; further ones are the ends of passages."""
    delivers: list[int] = field(default_factory=list)
    """Its deliveries: one, if all is well."""
    passages: list[Passage] = field(default_factory=list)

    def indexes(self) -> Iterator[int]:
        """Name every event that a diagram shows of this copy."""
        for index in (self.send, self.release, self.arrive):
            if index is not None:
                yield index
        yield from self.delivers
        for passage in self.passages:
            yield passage.start
            if passage.end is not None:
                yield passage.end


@dataclass(slots=True, kw_only=True)
class Story:
    """A run, read."""

    events: Sequence[Event]
    copies: dict[CopyId, Copy]
    """Every copy, in the order in which they appear."""
    sends: dict[MessageId, int]
    controls: list[Passage]
    """The frames that carry no message; when they arrive is not known."""
    steps: list[int]
    """For each event, the step it belongs to."""
    columns: list[int]
    """For each event, its place in the order; two deliveries never share one."""
    kinds: set[Kind]
    """The kinds of events that this trace records."""


def read(events: Sequence[Event]) -> Story:
    """Read a run, given in a linear extension of happened-before.

    Raises:
        ConfigError: An event lacks the message or the target that its kind needs.
    """
    reader = _Reader(events)
    for index, event in enumerate(events):
        reader.take(index, event)
    steps, columns = _number_steps(events)
    return Story(
        events=events,
        copies=reader.copies,
        sends=reader.sends,
        controls=reader.controls,
        steps=steps,
        columns=columns,
        kinds={event.kind for event in events},
    )


class _Reader:
    """Takes the events one by one, and puts each to the copy that it belongs to."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.copies: dict[CopyId, Copy] = {}
        self.sends: dict[MessageId, int] = {}
        self.controls: list[Passage] = []

    def take(self, index: int, event: Event) -> None:
        kind = event.kind
        if kind is Kind.SEND:
            message = _message(event)
            self.sends[message] = index
            for target in event.targets or ():
                self._copy(message, target)
        elif kind is Kind.CONTROL:
            self.controls.append(_start(index, event))
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
            if copy.arrive is None and not copy.delivers:
                self._arrived(copy, index)
            copy.delivers.append(index)

    def _copy(self, message: MessageId, target: int) -> Copy:
        copy = self.copies.get((message, target))
        if copy is None:
            copy = Copy(message=message, target=target, send=self.sends.get(message))
            self.copies[message, target] = copy
        return copy

    def _transmitted(self, index: int, event: Event) -> None:
        passage = _start(index, event)
        copy = self._copy(_message(event), passage.target)
        if event.kind is Kind.RELEASE and copy.release is None:
            copy.release = index
        passage.repeat = any(p.process == passage.process for p in copy.passages)
        copy.passages.append(passage)

    def _dropped(self, event: Event) -> None:
        passages = self.controls
        if event.number is not None:
            copy = self.copies.get((_message(event), _target(event)))
            passages = [] if copy is None else copy.passages
        for passage in reversed(passages):
            between = (passage.process, passage.target)
            if between == (event.process, event.target) and _is_open(passage):
                passage.lost = True
                return

    def _arrived(self, copy: Copy, index: int) -> None:
        for passage in copy.passages:
            if _is_open(passage):
                passage.end = index
                return
        source, start, repeat = copy.message.source, copy.send, False
        if copy.passages:  # The network made two of one.
            last = copy.passages[-1]
            source, start, repeat = last.process, last.start, True
        if start is not None and source != copy.target:
            copy.passages.append(
                Passage(
                    process=source,
                    target=copy.target,
                    start=start,
                    end=index,
                    repeat=repeat,
                )
            )


def _number_steps(events: Sequence[Event]) -> tuple[list[int], list[int]]:
    """Number the step and the column of every event.

    Within a step, each delivery has a column of its own, and so has what leaves after an
    arrival or a delivery: it may have waited for a control frame that is not recorded.
    """
    steps: list[int] = []
    columns: list[int] = []
    step = column = -1
    first = Kind.SEND
    held: set[Kind] = set()
    for index, event in enumerate(events):
        kind = event.kind
        leaves = kind is Kind.RELEASE or kind is Kind.TRANSMIT
        together = index > 0 and _is_together(events[index - 1], event, first)
        if not together:
            step += 1
            first = kind
        crowded = kind is Kind.DELIVER and kind in held
        crowded |= leaves and not held.isdisjoint((Kind.ARRIVE, Kind.DELIVER))
        if not together or crowded:
            column += 1
            held = set()
        held.add(kind)
        steps.append(step)
        columns.append(column)
    return steps, columns


def _is_together(last: Event, event: Event, first: Kind) -> bool:
    """Whether an event may belong to the step of the last one, which began with first."""
    if (last.process, last.time) != (event.process, event.time):
        return False
    if event.kind is Kind.DELIVER and event.source != event.process:
        return first is Kind.ARRIVE
    return event.kind is not Kind.SEND and event.kind is not Kind.ARRIVE


def _message(event: Event) -> MessageId:
    if event.source is None or event.number is None:
        raise ConfigError(f"a {event.kind.value} without its message: {event}")
    return MessageId(event.source, event.number)


def _target(event: Event) -> int:
    if event.target is None:
        raise ConfigError(f"a {event.kind.value} without its target: {event}")
    return event.target


def _start(index: int, event: Event) -> Passage:
    return Passage(process=event.process, target=_target(event), start=index)


def _is_open(passage: Passage) -> bool:
    return passage.end is None and not passage.lost
