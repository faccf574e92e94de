"""Where everything in a space-time diagram goes, in pixels."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import hypot
from unicodedata import east_asian_width

from antecede.diagram.labels import Box, Label, Line, put_labels
from antecede.diagram.timeline import Copy, CopyId, Passage, Story
from antecede.trace.event import Kind
from antecede.verify.oracle import MessageId

__all__ = ["Arrow", "Bar", "Layout", "Scene", "Segment", "lay_out", "text_width"]

MARGIN = 16.0
CAPTION_HEIGHT = 17.0
ROW_HEIGHT = 64.0
"""From one line to the next, where few messages wait."""
BAR_HEIGHT = 5.0
BAR_GAP = 2.0
"""From the line to the first bar; bars take up as much again for each other."""
BARS_DEPTH = 42.0
"""How far from the line bars may reach before they are made thinner."""
DOT_RADIUS = 4.0
DOT_GAP = 9.0
"""The least distance of two dots on a line."""
STUB_LENGTH = 30.0
"""How far an arrow goes that does not arrive."""
CONTROL_SHIFT = 10.0
"""How far to the right the end of a control frame is drawn."""
NAME_LENGTH_MAX = 24
COLUMN_WIDTHS = (20.0, 46.0)
"""The least and the most from one step to the next, in the order of events."""
WIDTH_MIN = 440.0
"""The least width of a diagram, for its captions."""
WIDTH_AIM = 1000.0
"""The width that the events take up, if that suits them."""
WALL_CLOCK_MS = 1e11
"""Times above this are of a wall clock: a run in virtual time would last for years."""
CROWDED = 0.5
"""Events stand in their order if a tenth of the time holds more than this share."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a process's line between two events, which is part of a violation."""

    process: int
    start: int
    end: int
    broken: bool = False
    """It joins the two deliveries that came in the wrong order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What to draw."""

    story: Story
    copies: tuple[Copy, ...]
    controls: tuple[Passage, ...]
    processes: tuple[int, ...]
    names: Mapping[int, str]
    around: MessageId | None
    """The message to highlight."""
    evidence: frozenset[CopyId]
    """The copies that are part of a violation."""
    segments: tuple[Segment, ...]
    captions: tuple[str, ...]
    axis: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A wait, along a line."""

    at_source: bool
    start: float
    end: float
    top: float
    height: float
    open: bool
    """It did not end before the run did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """A frame on its way."""

    passage: Passage
    line: Line


@dataclass(slots=True)
class Layout:
    """Where everything goes."""

    axis: str
    left: float
    right: float
    start_ms: float
    """The time of the first event that is drawn."""
    end_ms: float
    """The time of the last one."""
    captions: list[str] = field(default_factory=list)
    """The captions, in lines that fit."""
    width: float = 0.0
    floor: float = 0.0
    """Below the last line and its bars."""
    x: dict[int, float] = field(default_factory=dict)
    """For each event that is drawn; dots keep a distance from each other."""
    y: dict[int, float] = field(default_factory=dict)
    """For each process, its line."""
    bars: dict[CopyId, list[Bar]] = field(default_factory=dict)
    arrows: dict[CopyId, list[Arrow]] = field(default_factory=dict)
    controls: list[Arrow] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)

    @property
    def zero_ms(self) -> float:
        """What counts as 0 ms: the first event, if the clock says nothing by itself."""
        return self.start_ms if abs(self.start_ms) > WALL_CLOCK_MS else 0.0


def lay_out(scene: Scene) -> Layout:
    """Find a place for everything."""
    indexes = sorted(
        {index for copy in scene.copies for index in copy.indexes()}
        | {passage.start for passage in scene.controls}
    )
    layout = _lay_out_columns(scene, indexes)
    _lay_out_rows(scene, layout, _lanes(_waits(scene, layout)))
    for copy in scene.copies:
        layout.arrows[copy.message, copy.target] = [
            _arrow(layout, passage)
            for passage in copy.passages
            if passage.process != passage.target
        ]
    layout.controls = [_arrow(layout, passage, shift=True) for passage in scene.controls]
    _keep_dots_apart(scene, layout)
    _lay_out_labels(scene, layout)
    return layout


def text_width(text: str, size: float = 11.0) -> float:
    """Guess the width of a text, rather too wide than too narrow."""
    cells = sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)
    return cells * size * 0.58


def _lay_out_columns(scene: Scene, indexes: Sequence[int]) -> Layout:
    story = scene.story
    columns = sorted({story.columns[index] for index in indexes})
    times = [story.events[index].time for index in indexes]
    axis = scene.axis or ("order" if _crowded(times) else "time")
    names = [scene.names.get(p, f"process {p}")[:NAME_LENGTH_MAX] for p in scene.processes]
    left = MARGIN + max(text_width(name, 14.5) for name in names) + 2 * MARGIN
    narrow, wide = COLUMN_WIDTHS
    step = min(max(WIDTH_AIM / max(len(columns) - 1, 1), narrow), wide)
    span = step * max(len(columns) - 1, 1)
    start, end = min(times), max(times)
    if axis == "time":
        span = max(span, WIDTH_AIM / 2)
    ranks = {column: rank for rank, column in enumerate(columns)}
    if start == end:
        end = start + 1e-3
    layout = Layout(axis, left, left + span, start * 1e3, end * 1e3)
    for index in indexes:
        if axis == "order":
            share = ranks[story.columns[index]] / max(len(columns) - 1, 1)
        else:
            share = (story.events[index].time - start) / (end - start)
        layout.x[index] = left + span * share
    layout.width = max(layout.right + STUB_LENGTH + MARGIN, WIDTH_MIN)
    characters = int((layout.width - 2 * MARGIN) / text_width("x", 12.0))
    for caption in scene.captions:
        layout.captions += textwrap.wrap(caption, max(characters, 20))
    return layout


def _crowded(times: Sequence[float]) -> bool:
    ordered = sorted(times)
    reach = (ordered[-1] - ordered[0]) / 10
    if not reach:
        return True
    first = 0
    most = 0
    for last, time in enumerate(ordered):
        while ordered[first] < time - reach:
            first += 1
        most = max(most, last - first + 1)
    return most > CROWDED * len(ordered)


@dataclass(frozen=True, slots=True)
class _Wait:
    copy_id: CopyId
    process: int
    at_source: bool
    start: float
    end: float
    open: bool


def _waits(scene: Scene, layout: Layout) -> list[_Wait]:
    """Find every wait; copies that leave together wait together, once."""
    story = scene.story
    waits: list[_Wait] = []
    seen: set[tuple[MessageId, int | None]] = set()  # The step of the release.
    marked = sorted(
        scene.copies, key=lambda copy: (copy.message, copy.target) not in scene.evidence
    )

    def wait(copy: Copy, at_source: bool, start: int, end: int | None) -> None:
        if end is not None and story.steps[start] == story.steps[end]:
            return
        right = layout.right + STUB_LENGTH / 2 if end is None else layout.x[end]
        if right - layout.x[start] > 0.5:
            process = copy.message.source if at_source else copy.target
            copy_id = (copy.message, copy.target)
            left = layout.x[start]
            waits.append(_Wait(copy_id, process, at_source, left, right, end is None))

    for copy in marked:
        if copy.message.source == copy.target:
            continue
        here = copy.release is not None or (
            not copy.passages and not copy.delivers and Kind.RELEASE in story.kinds
        )
        step = None if copy.release is None else story.steps[copy.release]
        if copy.send is not None and here and (copy.message, step) not in seen:
            seen.add((copy.message, step))
            wait(copy, True, copy.send, copy.release)
        if copy.arrive is not None and (copy.delivers or Kind.DELIVER in story.kinds):
            wait(copy, False, copy.arrive, copy.delivers[0] if copy.delivers else None)
    return waits


def _lanes(waits: Iterable[_Wait]) -> dict[_Wait, int]:
    """Put waits that overlap side by side, the first to start next to the line."""
    ends: dict[tuple[int, bool], list[float]] = {}
    lanes: dict[_Wait, int] = {}
    for wait in sorted(waits, key=lambda wait: (wait.start, wait.end, wait.copy_id)):
        taken = ends.setdefault((wait.process, wait.at_source), [])
        free = [lane for lane, end in enumerate(taken) if end + BAR_GAP <= wait.start]
        if free:
            taken[free[0]] = wait.end
        else:
            taken.append(wait.end)
        lanes[wait] = free[0] if free else len(taken) - 1
    return lanes


def _lay_out_rows(scene: Scene, layout: Layout, lanes: Mapping[_Wait, int]) -> None:
    counts = {(p, at_source): 0 for p in scene.processes for at_source in (True, False)}
    for wait, lane in lanes.items():
        side = (wait.process, wait.at_source)
        counts[side] = max(counts[side], lane + 1)
    pitches = {
        side: min(BAR_HEIGHT + BAR_GAP, max(BARS_DEPTH / max(count, 1), 2.5))
        for side, count in counts.items()
    }
    y = MARGIN + CAPTION_HEIGHT * len(layout.captions) + (8 if layout.captions else 0)
    below = 0.0
    for rank, process in enumerate(scene.processes):
        above = counts[process, True] * pitches[process, True]
        y += above + 16 if rank == 0 else max(ROW_HEIGHT, below + above + 44)
        layout.y[process] = y
        below = counts[process, False] * pitches[process, False]
    layout.floor = y + below + 18
    for wait, lane in lanes.items():
        pitch = pitches[wait.process, wait.at_source]
        height = pitch * BAR_HEIGHT / (BAR_HEIGHT + BAR_GAP)
        offset = BAR_GAP + lane * pitch
        y = layout.y[wait.process]
        bar = Bar(
            at_source=wait.at_source,
            start=wait.start,
            end=wait.end,
            top=y - offset - height if wait.at_source else y + offset,
            height=height,
            open=wait.open,
        )
        layout.bars.setdefault(wait.copy_id, []).append(bar)


def _arrow(layout: Layout, passage: Passage, *, shift: bool = False) -> Arrow:
    x, y = layout.x[passage.start], layout.y[passage.process]
    goal = layout.y[passage.target]
    if passage.end is not None:
        return Arrow(passage=passage, line=(x, y, layout.x[passage.end], goal))
    if shift and not passage.lost:
        return Arrow(passage=passage, line=(x, y, x + CONTROL_SHIFT, goal))
    # The farther the target, the steeper the stub: two from one point stay apart.
    across, down = 36.0, goal - y
    scale = STUB_LENGTH / hypot(across, down)
    return Arrow(passage=passage, line=(x, y, x + across * scale, y + down * scale))


def _keep_dots_apart(scene: Scene, layout: Layout) -> None:
    dots = sorted((i, copy.target) for copy in scene.copies for i in copy.delivers)
    last: dict[int, float] = {}
    for index, process in dots:
        layout.x[index] = max(layout.x[index], last.get(process, 0.0) + DOT_GAP)
        last[process] = layout.x[index]


def _lay_out_labels(scene: Scene, layout: Layout) -> None:
    radius = DOT_RADIUS + 1
    solid: list[Box] = []
    for copy in scene.copies:
        y = layout.y[copy.target]
        for index in copy.delivers:
            x = layout.x[index]
            solid.append((x - radius, y - radius, x + radius, y + radius))
    soft: list[Box] = [
        (bar.start, bar.top, bar.end, bar.top + bar.height)
        for bars in layout.bars.values()
        for bar in bars
    ]
    for arrow in (arrow for arrows in layout.arrows.values() for arrow in arrows):
        if arrow.passage.lost:
            _, _, x, y = arrow.line
            solid.append((x - radius, y - radius, x + radius, y + radius))
    lines = [arrow.line for arrows in layout.arrows.values() for arrow in arrows]
    lines += [(0.0, y, layout.width, y) for y in layout.y.values()]
    wanted: list[tuple[str, CopyId, Line]] = []
    for copy in scene.copies:
        copy_id = (copy.message, copy.target)
        arrows = layout.arrows[copy_id]
        # The passage that arrived first speaks for the copy.
        done = [a for a in arrows if a.passage.end == copy.arrive is not None]
        shown = [*done, *(a for a in arrows if a.passage.end is not None), *arrows]
        if shown:
            wanted.append((str(copy.message), copy_id, shown[0].line))
            # A release that was lost may be far from the repeat that was not.
            if arrows[0].passage.lost and arrows[0] is not shown[0]:
                wanted.append((str(copy.message), copy_id, arrows[0].line))
            continue
        if copy.delivers:
            x, y = layout.x[copy.delivers[0]], layout.y[copy.target] - 4
        elif copy.send is not None:
            x, y = layout.x[copy.send], layout.y[copy.message.source] + 2
        else:
            continue
        wanted.append((str(copy.message), copy_id, (x - 5, y, x + 5, y)))
    marked = sorted(
        wanted,
        key=lambda want: want[1] not in scene.evidence and want[1][0] != scene.around,
    )
    layout.labels = put_labels(marked, solid, soft, lines, text_width)
