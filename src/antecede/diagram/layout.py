"""The layout of a space-time diagram, in pixels."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import hypot
from unicodedata import east_asian_width

from antecede.diagram.labels import Box, Label, Line, place_labels
from antecede.diagram.timeline import Copy, CopyId, Timeline, Transmission
from antecede.diagram.waits import Wait, assign_lanes, find_waits
from antecede.verify.oracle import MessageId

__all__ = ["Arrow", "Bar", "Layout", "Scene", "Segment", "lay_out", "text_width"]

MARGIN = 16.0
CAPTION_HEIGHT = 17.0
ROW_HEIGHT = 64.0
"""The distance of two lines with few waits between them."""
BAR_HEIGHT = 5.0
BAR_GAP = 2.0
"""The gap between a line and its first bar, and between bars."""
BARS_DEPTH = 42.0
"""The maximum extent of bars from their line; more bars are thinner."""
DOT_RADIUS = 4.0
DOT_GAP = 9.0
"""The minimum distance of two dots on a line."""
STUB_LENGTH = 30.0
"""The length of an arrow that does not arrive."""
CONTROL_SHIFT = 10.0
"""The horizontal extent of the arrow of a control frame."""
NAME_LENGTH_MAX = 24
COLUMN_WIDTHS = (20.0, 46.0)
"""The minimum and maximum width of a column in a diagram by order."""
WIDTH_MIN = 440.0
"""The minimum width of a diagram, for its captions."""
WIDTH_AIM = 1000.0
"""The preferred width of the events."""
WALL_CLOCK_MS = 1e11
"""Times above this are wall-clock times: virtual times would be years."""
CROWDED = 0.5
"""Draw events in their order if a tenth of the time has more than this share of them."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of a process's line between two events of a violation."""

    process: int
    start: int
    end: int
    broken: bool = False
    """It connects the two deliveries in the wrong order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The content of a diagram."""

    timeline: Timeline
    copies: tuple[Copy, ...]
    controls: tuple[Transmission, ...]
    processes: tuple[int, ...]
    names: Mapping[int, str]
    around: MessageId | None
    """The message to highlight."""
    evidence: frozenset[CopyId]
    """The copies that prove a violation."""
    segments: tuple[Segment, ...]
    captions: tuple[str, ...]
    axis: str | None
    label: Callable[[MessageId], str]
    """Returns the text of a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A wait, drawn along a line."""

    at_source: bool
    start: float
    end: float
    top: float
    height: float
    open: bool
    """The wait had not ended at the end of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """The arrow of a transmission."""

    transmission: Transmission
    line: Line


@dataclass(slots=True)
class Layout:
    """The positions of all parts of a diagram."""

    axis: str
    left: float
    right: float
    start_ms: float
    """The time of the first event drawn."""
    end_ms: float
    """The time of the last event drawn."""
    captions: list[str] = field(default_factory=list)
    """The captions, wrapped to lines."""
    width: float = 0.0
    floor: float = 0.0
    """The bottom of the last line and its bars."""
    x: dict[int, float] = field(default_factory=dict)
    """For each event drawn, its x; dots keep a minimum distance."""
    y: dict[int, float] = field(default_factory=dict)
    """For each process, the y of its line."""
    bars: dict[CopyId, list[Bar]] = field(default_factory=dict)
    arrows: dict[CopyId, list[Arrow]] = field(default_factory=dict)
    controls: list[Arrow] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)

    @property
    def zero_ms(self) -> float:
        """The time shown as 0 ms: that of the first event, for wall-clock times."""
        return self.start_ms if abs(self.start_ms) > WALL_CLOCK_MS else 0.0


def lay_out(scene: Scene) -> Layout:
    """Return the layout of a scene."""
    indexes = sorted(
        {index for copy in scene.copies for index in copy.indexes()}
        | {transmission.start for transmission in scene.controls}
    )
    layout = _lay_out_columns(scene, indexes)
    waits = find_waits(
        scene.timeline,
        scene.copies,
        scene.evidence,
        layout.x,
        layout.right + STUB_LENGTH / 2,
    )
    _lay_out_rows(scene, layout, assign_lanes(waits, BAR_GAP))
    for copy in scene.copies:
        layout.arrows[copy.message, copy.target] = [
            _arrow(layout, transmission)
            for transmission in copy.transmissions
            if transmission.process != transmission.target
        ]
    layout.controls = [
        _arrow(layout, transmission, shift=True) for transmission in scene.controls
    ]
    _keep_dots_apart(scene, layout)
    _lay_out_labels(scene, layout)
    return layout


def text_width(text: str, size: float = 11.0) -> float:
    """Estimate the width of a text, rather too wide than too narrow."""
    cells = sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)
    return cells * size * 0.58


def _lay_out_columns(scene: Scene, indexes: Sequence[int]) -> Layout:
    timeline = scene.timeline
    columns = sorted({timeline.columns[index] for index in indexes})
    times = [timeline.events[index].time for index in indexes]
    axis = scene.axis or ("order" if _is_crowded(times) else "time")
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
            share = ranks[timeline.columns[index]] / max(len(columns) - 1, 1)
        else:
            share = (timeline.events[index].time - start) / (end - start)
        layout.x[index] = left + span * share
    layout.width = max(layout.right + STUB_LENGTH + MARGIN, WIDTH_MIN)
    characters = int((layout.width - 2 * MARGIN) / text_width("x", 12.0))
    for caption in scene.captions:
        layout.captions += textwrap.wrap(caption, max(characters, 20))
    return layout


def _is_crowded(times: Sequence[float]) -> bool:
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


def _lay_out_rows(scene: Scene, layout: Layout, lanes: Mapping[Wait, int]) -> None:
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


def _arrow(layout: Layout, transmission: Transmission, *, shift: bool = False) -> Arrow:
    x, y = layout.x[transmission.start], layout.y[transmission.process]
    target_y = layout.y[transmission.target]
    if transmission.end is not None:
        return Arrow(
            transmission=transmission, line=(x, y, layout.x[transmission.end], target_y)
        )
    if shift and not transmission.lost:
        return Arrow(transmission=transmission, line=(x, y, x + CONTROL_SHIFT, target_y))
    # A stub is steeper for a farther target, so two stubs from one point stay apart.
    across, down = 36.0, target_y - y
    scale = STUB_LENGTH / hypot(across, down)
    return Arrow(
        transmission=transmission, line=(x, y, x + across * scale, y + down * scale)
    )


def _keep_dots_apart(scene: Scene, layout: Layout) -> None:
    dots = sorted((i, copy.target) for copy in scene.copies for i in copy.deliveries)
    last: dict[int, float] = {}
    for index, process in dots:
        layout.x[index] = max(layout.x[index], last.get(process, 0.0) + DOT_GAP)
        last[process] = layout.x[index]


def _lay_out_labels(scene: Scene, layout: Layout) -> None:
    radius = DOT_RADIUS + 1
    solid: list[Box] = []
    for copy in scene.copies:
        y = layout.y[copy.target]
        for index in copy.deliveries:
            x = layout.x[index]
            solid.append((x - radius, y - radius, x + radius, y + radius))
    soft: list[Box] = [
        (bar.start, bar.top, bar.end, bar.top + bar.height)
        for bars in layout.bars.values()
        for bar in bars
    ]
    for arrow in (arrow for arrows in layout.arrows.values() for arrow in arrows):
        if arrow.transmission.lost:
            _, _, x, y = arrow.line
            solid.append((x - radius, y - radius, x + radius, y + radius))
    lines = [arrow.line for arrows in layout.arrows.values() for arrow in arrows]
    lines += [(0.0, y, layout.width, y) for y in layout.y.values()]
    wanted: list[tuple[str, CopyId, Line]] = []
    for copy in scene.copies:
        copy_id = (copy.message, copy.target)
        arrows = layout.arrows[copy_id]
        # Label the transmission that arrived first.
        done = [a for a in arrows if a.transmission.end == copy.arrive is not None]
        shown = [*done, *(a for a in arrows if a.transmission.end is not None), *arrows]
        if shown:
            wanted.append((scene.label(copy.message), copy_id, shown[0].line))
            # Label a lost release, too: the retransmission may be far away.
            if arrows[0].transmission.lost and arrows[0] is not shown[0]:
                wanted.append((scene.label(copy.message), copy_id, arrows[0].line))
            continue
        if copy.deliveries:
            x, y = layout.x[copy.deliveries[0]], layout.y[copy.target] - 4
        elif copy.send is not None:
            x, y = layout.x[copy.send], layout.y[copy.message.source] + 2
        else:
            continue
        wanted.append((scene.label(copy.message), copy_id, (x - 5, y, x + 5, y)))
    marked = sorted(
        wanted,
        key=lambda want: want[1] not in scene.evidence and want[1][0] != scene.around,
    )
    layout.labels = place_labels(marked, solid, soft, lines, text_width)
