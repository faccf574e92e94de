"""Draw a run as a space-time diagram, which shows waits and violations.

Each horizontal line is a process, and time goes to the right. A message is an arrow from
its release to its arrival. A bar along a line is a wait: above the line at the source of
the message, below it at the target. A dot is a delivery.

The drawing is a self-contained SVG for light and dark backgrounds. Hovering over a message
shows its times.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Literal, get_args

from antecede.diagram.evidence import evidence_copies
from antecede.diagram.layout import Scene, Segment
from antecede.diagram.svg import render
from antecede.diagram.timeline import Copy, CopyId, Timeline, Transmission, read_timeline
from antecede.errors import ConfigError
from antecede.trace.event import Event
from antecede.verify.oracle import MessageId, Violation

__all__ = ["ARROWS_MAX", "PROCESSES_MAX", "Axis", "draw"]

ARROWS_MAX = 200
"""The maximum number of arrows: with more, no single one can be followed."""
PROCESSES_MAX = 32
"""The maximum number of lines: more do not fit on a screen."""
CAPTIONS_MAX = 6
"""The maximum number of violations in the captions."""

Axis = Literal["time", "order"]
"""The horizontal axis: the time of events, or only their order."""


def draw(
    events: Sequence[Event],
    *,
    around: MessageId | None = None,
    before: int | timedelta = 6,
    after: int | timedelta = 6,
    violations: Iterable[Violation] = (),
    names: Mapping[int, str] | None = None,
    label: Callable[[MessageId], str] | None = None,
    axis: Axis | None = None,
    control: bool = False,
) -> str:
    """Return a space-time diagram of a run as SVG.

    The same arguments give the same text. It can be written to a ``.svg`` file or embedded
    in an HTML page.

    Args:
        events: The run, in a linear extension of happened-before.
        around: Highlight this message, and draw only the copies that have an event at a
            process of the message, shortly before or after one of its own events.
        before: How long before: an int counts events of messages at the process, a
            timedelta is a duration.
        after: How long after, likewise.
        violations: Violations to draw in red and to list above the drawing: the copies
            delivered in the wrong order, and the chain that proves the violation. With
            ``around``, only violations that involve the message are drawn.
        names: The names of processes; the others are shown by their id.
        label: Returns the text of a message; by default, the id of its source and number.
        axis: Draw events at their times or in their order; by default at their times,
            unless most of them fall into a small part of the time.
        control: Also draw frames that carry no message. Their arrival is not recorded: an
            arrow shows only the target.

    Raises:
        ConfigError: There is nothing to draw, or too much to be readable, the message is
            not in the run, or an argument is out of range.
    """
    _check_arguments(axis, before, after)
    timeline = read_timeline(events)
    shown = tuple(v for v in violations if around in (None, v.message, *v.chain))
    evidence = {
        copy_id for v in shown for copy_id in evidence_copies(v)
    } & timeline.copies.keys()
    copies: Collection[Copy] = timeline.copies.values()
    controls: Collection[Transmission] = timeline.controls if control else ()
    if around is not None:
        near = _near(timeline, around, before, after)
        copies = _copies_near(timeline, near, evidence)
        controls = _controls_near(controls, near)
    processes = _processes(copies)
    if around is None:
        processes |= {event.process for event in events}
        processes |= {transmission.target for transmission in controls}
    controls = [p for p in controls if p.process in processes and p.target in processes]
    _check_size(copies, controls, processes, around)
    scene = Scene(
        timeline=timeline,
        copies=tuple(copies),
        controls=tuple(controls),
        processes=tuple(sorted(processes)),
        names=names or {},
        around=around,
        evidence=frozenset(evidence),
        segments=tuple(dict.fromkeys(s for v in shown for s in _segments(timeline, v))),
        captions=_captions(shown, names or {}, label),
        label=label if label is not None else str,
        axis=axis,
    )
    return render(scene)


def _check_arguments(
    axis: str | None, before: int | timedelta, after: int | timedelta
) -> None:
    if axis is not None and axis not in get_args(Axis):
        raise ConfigError(f"axis must be 'time' or 'order', got {axis!r}")
    for reach in (before, after):
        if (reach.total_seconds() if isinstance(reach, timedelta) else reach) < 0:
            raise ConfigError(f"before and after must be at least 0, got {reach}")


def _processes(copies: Iterable[Copy]) -> set[int]:
    processes: set[int] = set()
    for copy in copies:
        processes |= {copy.message.source, copy.target}
        processes.update(transmission.process for transmission in copy.transmissions)
    return processes


def _near(
    timeline: Timeline,
    around: MessageId,
    before: int | timedelta,
    after: int | timedelta,
) -> dict[int, list[range]]:
    """Return, for each process, the ranges of events that are near a message."""
    own = {
        index
        for copy in timeline.copies.values()
        if copy.message == around
        for index in copy.indexes()
    }
    if not own:
        raise ConfigError(f"message {around} is not in this run, or has no targets")
    events = timeline.events
    local: dict[int, list[int]] = {events[index].process: [] for index in own}
    for index, event in enumerate(events):
        if event.process in local and event.number is not None:
            local[event.process].append(index)

    def time(index: int) -> float:
        return events[index].time

    near: dict[int, list[range]] = {process: [] for process in local}
    for index in sorted(own):
        process = events[index].process
        history = local[process]
        position = bisect_left(history, index)
        if isinstance(before, timedelta):
            first = bisect_left(history, time(index) - before.total_seconds(), key=time)
        else:
            first = max(position - before, 0)
        if isinstance(after, timedelta):
            end = bisect_right(history, time(index) + after.total_seconds(), key=time)
        else:
            end = position + after + 1
        # A wall clock may have gone back, so include the event itself.
        first, end = min(first, position), max(end, position + 1)
        # Include the control frames up to the next event of a message.
        stop = history[end] if end < len(history) else len(events)
        near[process].append(range(history[first], stop))
    return near


def _copies_near(
    timeline: Timeline, near: Mapping[int, Sequence[range]], evidence: Collection[CopyId]
) -> list[Copy]:
    def is_near(index: int) -> bool:
        ranges = near.get(timeline.events[index].process, ())
        return any(index in each for each in ranges)

    return [
        copy
        for copy_id, copy in timeline.copies.items()
        if copy_id in evidence or any(is_near(index) for index in copy.indexes())
    ]


def _controls_near(
    controls: Iterable[Transmission], near: Mapping[int, Sequence[range]]
) -> list[Transmission]:
    return [
        transmission
        for transmission in controls
        if any(
            transmission.start in each
            for process in (transmission.process, transmission.target)
            for each in near.get(process, ())
        )
    ]


def _segments(timeline: Timeline, violation: Violation) -> list[Segment]:
    """Return the segments of lines that connect the copies of a chain."""
    segments: list[Segment] = []
    for cause, effect in pairwise(violation.chain):
        start = timeline.sends.get(cause)
        if cause.source != effect.source:
            start = _first_delivery(timeline, cause, effect.source)
        end = timeline.sends.get(effect)
        if start is not None and end is not None:
            segments.append(Segment(effect.source, start, end))
    if violation.chain:
        early = _first_delivery(timeline, violation.message, violation.process)
        late = _first_delivery(timeline, violation.chain[0], violation.process)
        if early is not None and late is not None:
            segments.append(Segment(violation.process, early, late, broken=True))
    return segments


def _first_delivery(timeline: Timeline, message: MessageId, target: int) -> int | None:
    copy = timeline.copies.get((message, target))
    return copy.deliveries[0] if copy is not None and copy.deliveries else None


def _captions(
    violations: Sequence[Violation],
    names: Mapping[int, str],
    label: Callable[[MessageId], str] | None,
) -> tuple[str, ...]:
    # Without names in the labels, a caption has none, either.
    known = {} if label is None else names
    captions = [each.format(known, label) for each in violations[:CAPTIONS_MAX]]
    if len(violations) > CAPTIONS_MAX:
        captions.append(f"and {len(violations) - CAPTIONS_MAX} more violations")
    return tuple(captions)


def _check_size(
    copies: Collection[Copy],
    controls: Collection[Transmission],
    processes: Collection[int],
    around: MessageId | None,
) -> None:
    if not copies and not controls:
        raise ConfigError("the run has no message to draw")
    arrows = sum(max(len(copy.transmissions), 1) for copy in copies) + len(controls)
    if arrows > ARROWS_MAX or len(processes) > PROCESSES_MAX:
        fix = "pass around=MessageId(source, number) to draw only a part of the run"
        if around is not None:
            fix = f"pass smaller values of before and after around {around}"
        raise ConfigError(
            f"cannot draw {arrows} arrows between {len(processes)} processes: the maximum"
            f" is {ARROWS_MAX} between {PROCESSES_MAX}; {fix}"
        )
