"""One space-time diagram for each property that a run violates."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from antecede.diagram.draw import draw
from antecede.diagram.message_events import (
    LocatedEvent,
    MessageEvents,
    evidence_events,
)
from antecede.errors import ConfigError
from antecede.pipeline.verify.violation_rows import ViolationRows
from antecede.trace.event import Event, Kind
from antecede.verify.oracle import MessageId, Property, Violation

__all__ = ["Example", "ReadMessages", "draw_examples", "events_of_rows"]

LABEL_LENGTH_MAX = 20

ReadMessages = Callable[[Iterable[MessageId]], MessageEvents]
"""Returns the events of some messages of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A violation, and its diagram."""

    violation: Violation
    svg: str | None
    """None if the violation has too many messages or processes for a diagram."""


def draw_examples(
    read: ReadMessages, violations: Sequence[Violation], names: Mapping[int, str]
) -> dict[Property, Example]:
    """Draw the simplest listed violation of each property.

    Only the events of its own messages are read into memory, by ``read``.
    """
    chosen: dict[Property, Violation] = {}
    for each in violations:
        best = chosen.get(each.property)
        if best is None or _complexity(each) < _complexity(best):
            chosen[each.property] = each
    messages = {m for each in chosen.values() for m in (each.message, *each.chain)}
    events = read(messages) if messages else {}
    return {
        which: Example(violation=each, svg=_draw(each, events, names))
        for which, each in chosen.items()
    }


def events_of_rows(found: ViolationRows) -> MessageEvents:
    """Return the sends and deliveries of the messages of violations."""
    events: dict[MessageId, list[LocatedEvent]] = {}

    def add(row: int, message: MessageId, kind: Kind, process: int, time: float) -> None:
        event = Event(
            process=process,
            kind=kind,
            time=time,
            source=message.source,
            number=message.number,
            target=process if kind is Kind.DELIVER else None,
        )
        # The rows are a linear extension, so they order the events of a process, too.
        events.setdefault(message, []).append(LocatedEvent(row, row, event))

    for message, (row, time) in found.sends.items():
        add(row, message, Kind.SEND, message.source, time)
    for (process, message), rows in found.deliveries.items():
        for row, time in rows:
            add(row, message, Kind.DELIVER, process, time)
    return events


def _complexity(violation: Violation) -> tuple[bool, int]:
    """Rank a causal violation with several sources first: the others violate FIFO, too."""
    sources = {message.source for message in violation.chain}
    is_fifo = violation.property is Property.CAUSAL and len(sources) == 1
    return is_fifo, len(violation.chain)


def _draw(
    violation: Violation, messages: MessageEvents, names: Mapping[int, str]
) -> str | None:
    def label(message: MessageId) -> str:
        name = names.get(message.source, str(message.source))
        if len(name) > LABEL_LENGTH_MAX:
            name = name[: LABEL_LENGTH_MAX - 1] + "…"
        return f"{name}:{message.number}"

    try:
        return draw(
            evidence_events(violation, messages),
            around=violation.message,
            violations=[violation],
            names=names,
            label=label,
        )
    except ConfigError:
        return None  # Too large to be readable.
