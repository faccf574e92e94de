"""Draw a run as a space-time diagram, so that a wait or a violation can be seen.

One horizontal line is one process, and time goes to the right. A message is an arrow from
its release to its arrival; where it waits, a bar lies along the line: above it while it
waits at its source, below it while it waits at its target. A dot is a delivery.

The drawing is a self-contained SVG that reads well on light and dark backgrounds. Point at
a message to see its times.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Literal, get_args

from antecede.diagram.layout import Scene, Segment
from antecede.diagram.svg import render
from antecede.diagram.timeline import Copy, CopyId, Passage, Story, read
from antecede.errors import ConfigError
from antecede.trace.event import Event
from antecede.verify.oracle import MessageId, Violation

__all__ = ["ARROWS_MAX", "PROCESSES_MAX", "Axis", "draw"]

ARROWS_MAX = 200
"""The most arrows of one diagram: beyond this nobody can follow a single one."""
PROCESSES_MAX = 32
"""The most lines of one diagram: more do not fit on a screen."""
CAPTIONS_MAX = 6
"""The most violations that a diagram spells out."""

Axis = Literal["time", "order"]
"""What goes to the right: the time of events, or only their order."""


def draw(
    events: Sequence[Event],
    *,
    around: MessageId | None = None,
    before: int | timedelta = 6,
    after: int | timedelta = 6,
    violations: Iterable[Violation] = (),
    names: Mapping[int, str] | None = None,
    axis: Axis | None = None,
    control: bool = False,
) -> str:
    """Draw a run, and return the SVG.

    The same arguments give the same text. Write it to a file that ends in ``.svg``, or put
    it into a page of HTML as it is.

    Args:
        events: The run, in a linear extension of happened-before.
        around: Draw only what is near this message, and highlight it: the copies with an
            event at the same process as one of its own, and shortly before or after it.
        before: How far back that reaches: an int counts events of messages at the process,
            a timedelta is time.
        after: How far on it reaches, likewise.
        violations: What to mark in red, and to say above the drawing: the copies that came
            in the wrong order, and the chain that makes it wrong. With ``around``, those
            that the message has no part in are left out.
        names: What to call the processes; those left out go by their number.
        axis: Whether events stand at their time or only in their order; by default at
            their time, unless they would crowd in a small part of it.
        control: Draw frames that carry no message too. When they arrive is not recorded:
            their end shows their target only.

    Raises:
        ConfigError: There is nothing to draw, or too much to be readable, the message is
            not in the run, or an argument is out of range.
    """
    _check_arguments(axis, before, after)
    story = read(events)
    told = tuple(v for v in violations if around in (None, v.message, *v.chain))
    evidence = {copy_id for v in told for copy_id in _evidence(v)} & story.copies.keys()
    copies: Collection[Copy] = story.copies.values()
    controls: Collection[Passage] = story.controls if control else ()
    if around is not None:
        near = _near(story, around, before, after)
        copies = _copies_near(story, near, evidence)
        controls = _controls_near(controls, near)
    processes = _processes(copies)
    if around is None:
        processes |= {event.process for event in events}
        processes |= {passage.target for passage in controls}
    controls = [p for p in controls if p.process in processes and p.target in processes]
    _check_size(copies, controls, processes, around)
    scene = Scene(
        story=story,
        copies=tuple(copies),
        controls=tuple(controls),
        processes=tuple(sorted(processes)),
        names=names or {},
        around=around,
        evidence=frozenset(evidence),
        segments=tuple(dict.fromkeys(s for v in told for s in _segments(story, v))),
        captions=_captions(told),
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
            raise ConfigError(f"before and after must not be negative, got {reach}")


def _processes(copies: Iterable[Copy]) -> set[int]:
    processes: set[int] = set()
    for copy in copies:
        processes |= {copy.message.source, copy.target}
        processes.update(passage.process for passage in copy.passages)
    return processes


def _near(
    story: Story,
    around: MessageId,
    before: int | timedelta,
    after: int | timedelta,
) -> dict[int, list[range]]:
    """Find, for each process, the stretches of events that are near a message."""
    own = {
        index
        for copy in story.copies.values()
        if copy.message == around
        for index in copy.indexes()
    }
    if not own:
        raise ConfigError(f"message {around} is not in this run, or is for nobody")
    events = story.events
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
        place = bisect_left(history, index)
        if isinstance(before, timedelta):
            first = bisect_left(history, time(index) - before.total_seconds(), key=time)
        else:
            first = max(place - before, 0)
        if isinstance(after, timedelta):
            end = bisect_right(history, time(index) + after.total_seconds(), key=time)
        else:
            end = place + after + 1
        # A wall clock may have gone back, so the event itself may lie outside.
        first, end = min(first, place), max(end, place + 1)
        # Control frames up to the next event of a message belong to the last one.
        stop = history[end] if end < len(history) else len(events)
        near[process].append(range(history[first], stop))
    return near


def _copies_near(
    story: Story, near: Mapping[int, Sequence[range]], evidence: Collection[CopyId]
) -> list[Copy]:
    def is_near(index: int) -> bool:
        stretches = near.get(story.events[index].process, ())
        return any(index in stretch for stretch in stretches)

    return [
        copy
        for copy_id, copy in story.copies.items()
        if copy_id in evidence or any(is_near(index) for index in copy.indexes())
    ]


def _controls_near(
    controls: Iterable[Passage], near: Mapping[int, Sequence[range]]
) -> list[Passage]:
    return [
        passage
        for passage in controls
        if any(
            passage.start in stretch
            for process in (passage.process, passage.target)
            for stretch in near.get(process, ())
        )
    ]


def _evidence(violation: Violation) -> set[CopyId]:
    """Name the copies that a violation speaks of."""
    copies = {(violation.message, violation.process)}
    if violation.chain:
        copies.add((violation.chain[0], violation.process))
    for cause, effect in pairwise(violation.chain):
        if cause.source != effect.source:
            copies.add((cause, effect.source))
    return copies


def _segments(story: Story, violation: Violation) -> list[Segment]:
    """Find the stretches of lines that join the copies of a chain, and of its break."""
    segments: list[Segment] = []
    for cause, effect in pairwise(violation.chain):
        start = story.sends.get(cause)
        if cause.source != effect.source:
            start = _first_delivery(story, cause, effect.source)
        end = story.sends.get(effect)
        if start is not None and end is not None:
            segments.append(Segment(effect.source, start, end))
    if violation.chain:
        early = _first_delivery(story, violation.message, violation.process)
        late = _first_delivery(story, violation.chain[0], violation.process)
        if early is not None and late is not None:
            segments.append(Segment(violation.process, early, late, broken=True))
    return segments


def _first_delivery(story: Story, message: MessageId, target: int) -> int | None:
    copy = story.copies.get((message, target))
    return copy.delivers[0] if copy is not None and copy.delivers else None


def _captions(violations: Sequence[Violation]) -> tuple[str, ...]:
    captions = [str(violation) for violation in violations[:CAPTIONS_MAX]]
    if len(violations) > CAPTIONS_MAX:
        captions.append(f"and {len(violations) - CAPTIONS_MAX} more violations")
    return tuple(captions)


def _check_size(
    copies: Collection[Copy],
    controls: Collection[Passage],
    processes: Collection[int],
    around: MessageId | None,
) -> None:
    if not copies and not controls:
        raise ConfigError("there is no message to draw")
    arrows = sum(max(len(copy.passages), 1) for copy in copies) + len(controls)
    if arrows > ARROWS_MAX or len(processes) > PROCESSES_MAX:
        advice = "use around=MessageId(source, number) to draw what is near one message"
        if around is not None:
            advice = f"use a smaller before and after around {around}"
        raise ConfigError(
            f"{arrows} arrows between {len(processes)} processes are too many to read (at"
            f" most {ARROWS_MAX} between {PROCESSES_MAX}); {advice}"
        )
