"""One space-time diagram for each property that a run violates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from antecede.diagram.draw import draw
from antecede.diagram.message_events import (
    MessageEvents,
    evidence_events,
    read_messages,
)
from antecede.errors import ConfigError
from antecede.trace.reader import Trace
from antecede.verify.oracle import MessageId, Property, Violation

__all__ = ["Example", "draw_examples"]

LABEL_LENGTH_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A violation, and its diagram."""

    violation: Violation
    svg: str | None
    """None if the violation has too many messages or processes for a diagram."""


def draw_examples(
    trace: Trace, violations: Sequence[Violation], names: Mapping[int, str]
) -> dict[Property, Example]:
    """Draw the simplest listed violation of each property.

    Only the events of its own messages are read into memory.
    """
    chosen: dict[Property, Violation] = {}
    for each in violations:
        best = chosen.get(each.property)
        if best is None or _complexity(each) < _complexity(best):
            chosen[each.property] = each
    messages = {m for each in chosen.values() for m in (each.message, *each.chain)}
    events = read_messages(trace, messages) if messages else {}
    return {
        which: Example(violation=each, svg=_draw(each, events, names))
        for which, each in chosen.items()
    }


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
