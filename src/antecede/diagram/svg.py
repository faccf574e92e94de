"""Write a laid-out space-time diagram as SVG."""

import re
from collections.abc import Iterator
from math import ceil, floor, hypot, log10
from xml.sax.saxutils import escape

from antecede.diagram.labels import Line
from antecede.diagram.layout import (
    CAPTION_HEIGHT,
    DOT_RADIUS,
    MARGIN,
    NAME_LENGTH_MAX,
    Arrow,
    Layout,
    Scene,
    lay_out,
    text_width,
)
from antecede.diagram.style import css
from antecede.diagram.timeline import Copy, CopyId

__all__ = ["render"]

TICK_GAP = 90.0
"""The approximate distance of two ticks of the time axis, in pixels."""

NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow, even escaped."""


def render(scene: Scene) -> str:
    """Lay out a scene and return it as SVG."""
    layout = lay_out(scene)
    body = [
        *_axis(layout),
        *_lifelines(scene, layout),
        *_controls(layout),
        *_messages(scene, layout),
        *_labels(scene, layout),
        *_captions(layout),
    ]
    legend, height = _legend(layout, layout.floor + 40)
    width, tall = ceil(layout.width), ceil(height + MARGIN)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="antecede-diagram" width="{width}"'
        f' height="{tall}" viewBox="0 0 {width} {tall}" role="img"'
        f' aria-label="{_text(_summary(scene))}">'
    )
    ground = f'<rect class="ground" width="{width}" height="{tall}"/>'
    return "\n".join([head, f"<style>{css()}</style>", ground, *body, *legend, "</svg>\n"])


def _summary(scene: Scene) -> str:
    messages = len({copy.message for copy in scene.copies})
    text = f"Space-time diagram of {len(scene.processes)} processes, {messages} messages"
    if scene.around is not None:
        text += f", around message {scene.around}"
    return ". ".join([text, *scene.captions])


def _axis(layout: Layout) -> Iterator[str]:
    bottom = layout.floor
    note = "order of events \u2192"
    if layout.axis == "time":
        start, end, zero = layout.start_ms, layout.end_ms, layout.zero_ms
        gap = _tick_gap_ms((end - start) / (layout.right - layout.left) * TICK_GAP)
        tick = ceil((start - zero) / gap - 1e-6)
        while zero + tick * gap <= end + gap / 1e6:
            share = (zero + tick * gap - start) / (end - start)
            x = _number(layout.left + share * (layout.right - layout.left))
            yield _line("grid", (x, _number(min(layout.y.values()) - 20), x, bottom))
            yield (
                f'<text class="note time" x="{x}" y="{_number(bottom + 12)}"'
                f' text-anchor="middle">{tick * gap:g}</text>'
            )
            tick += 1
        note = "ms \u2192"
    x = _number(MARGIN if layout.axis == "time" else layout.left)
    yield f'<text class="note" x="{x}" y="{_number(bottom + 12)}">{note}</text>'


def _tick_gap_ms(least: float) -> float:
    unit = 10.0 ** floor(log10(least)) if least > 0 else 1.0
    return float(next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= least))


def _lifelines(scene: Scene, layout: Layout) -> Iterator[str]:
    end = layout.width - MARGIN
    for process in scene.processes:
        y = layout.y[process]
        title = name = f"process {process}"
        if process in scene.names:
            name = scene.names[process]
            title = f"{title}: {name}"
        short = name
        if len(name) > NAME_LENGTH_MAX:
            short = name[: NAME_LENGTH_MAX - 1] + "\u2026"
        yield (
            f'<g class="process" data-process="{process}">'
            f"<title>{_text(title)}</title>"
            f'<text class="name" x="{_number(MARGIN)}" y="{_number(y + 4.5)}">'
            f"{_text(short)}</text>"
            + _line("lifeline", (layout.left - MARGIN, y, end, y))
            + "</g>"
        )
    for segment in scene.segments:
        if segment.start not in layout.x or segment.end not in layout.x:
            continue
        y = layout.y[segment.process]
        line = (layout.x[segment.start], y, layout.x[segment.end], y)
        yield _line("chain broken" if segment.broken else "chain", line)


def _controls(layout: Layout) -> Iterator[str]:
    for arrow in layout.controls:
        fate = "lost" if arrow.transmission.lost else "transmitted"
        pair = f"{arrow.transmission.process} to {arrow.transmission.target}"
        title = f"control frame {pair}, {fate}"
        yield f'<g class="control"><title>{title}</title>{_arrow(arrow)}</g>'


def _messages(scene: Scene, layout: Layout) -> Iterator[str]:
    """Yield every copy: waits below arrows below dots, highlighted copies on top."""
    copies = sorted(scene.copies, key=lambda copy: bool(_marks(scene, _id(copy))))
    ticked: set[int] = set()
    for parts_of in (_bars, _arrows, _dots):
        for copy in copies:
            parts = parts_of(layout, copy)
            if parts_of is _arrows and copy.send is not None and copy.send not in ticked:
                ticked.add(copy.send)
                x, y = layout.x[copy.send], layout.y[copy.message.source]
                parts.insert(0, _line("tick", (x, y - 4, x, y + 4)))
            if parts:
                classes = " ".join(["message", *_marks_or_dim(scene, _id(copy))])
                yield (
                    f'<g class="{classes}" data-message="{copy.message}"'
                    f' data-target="{copy.target}">'
                    f"<title>{_text(_title(scene, layout, copy))}</title>"
                    f"{''.join(parts)}</g>"
                )


def _bars(layout: Layout, copy: Copy) -> list[str]:
    return [
        f'<rect class="wait {"source" if bar.at_source else "target"}'
        f'{" open" if bar.open else ""}"'
        f' x="{_number(bar.start)}" y="{_number(bar.top)}"'
        f' width="{_number(bar.end - bar.start)}" height="{_number(bar.height)}"'
        ' rx="1"/>'
        for bar in layout.bars.get(_id(copy), ())
    ]


def _arrows(layout: Layout, copy: Copy) -> list[str]:
    return [_arrow(arrow) for arrow in layout.arrows[_id(copy)]]


def _dots(layout: Layout, copy: Copy) -> list[str]:
    y = _number(layout.y[copy.target])
    return [
        f'<circle class="dot" cx="{_number(layout.x[index])}" cy="{y}"'
        f' r="{_number(DOT_RADIUS)}"/>'
        for index in copy.deliveries
    ]


def _id(copy: Copy) -> CopyId:
    return copy.message, copy.target


def _marks(scene: Scene, copy_id: CopyId) -> list[str]:
    marks = ["around"] if copy_id[0] == scene.around else []
    return marks + (["violation"] if copy_id in scene.evidence else [])


def _marks_or_dim(scene: Scene, copy_id: CopyId) -> list[str]:
    """Dim a copy without marks in a diagram that highlights others."""
    highlights = scene.around is not None or bool(scene.evidence)
    return _marks(scene, copy_id) or (["dim"] if highlights else [])


def _title(scene: Scene, layout: Layout, copy: Copy) -> str:
    events, zero = scene.timeline.events, layout.zero_ms
    lines = [f"{scene.label(copy.message)} to {scene.names.get(copy.target, copy.target)}"]
    last: float | None = None
    for word, index, where in (
        ("send", copy.send, ""),
        ("release", copy.release, "at the sender"),
        ("arrive", copy.arrive, "on the way"),
        ("deliver", copy.deliveries[0] if copy.deliveries else None, "at the receiver"),
    ):
        if index is None:
            continue
        moment = events[index].time * 1e3
        line = f"{word} {moment - zero:.3f} ms"
        if last is not None and where:
            line += f" (after {moment - last:.3f} ms {where})"
        lines.append(line)
        last = moment
    lost = sum(transmission.lost for transmission in copy.transmissions)
    if len(copy.transmissions) > 1 or lost:
        lines.append(
            f"transmitted {len({p.start for p in copy.transmissions})} times, {lost} lost"
        )
    if len(copy.deliveries) > 1:
        lines.append(f"delivered {len(copy.deliveries)} times")
    return "\n".join(lines)


def _arrow(arrow: Arrow) -> str:
    transmission = arrow.transmission
    classes = "arrow"
    if transmission.is_retransmission:
        classes += " retransmission"
    if transmission.lost:
        return _line(f"{classes} lost", arrow.line) + _cross(arrow.line)
    if transmission.end is None:
        classes += " in-flight"
    return _line("hit", arrow.line) + _line(classes, arrow.line) + _head(arrow.line)


def _head(line: Line) -> str:
    """Draw the arrow head before the end of the line, where a dot may be."""
    x1, y1, x2, y2 = line
    length = hypot(x2 - x1, y2 - y1) or 1.0
    across, down = (x2 - x1) / length, (y2 - y1) / length
    tip = DOT_RADIUS
    corners = [(tip, 0.0), (tip + 8, 3.4), (tip + 8, -3.4)]
    points = " ".join(
        f"{_number(x2 - across * back - down * side)}"
        f",{_number(y2 - down * back + across * side)}"
        for back, side in corners
    )
    return f'<polygon class="head" points="{points}"/>'


def _cross(line: Line) -> str:
    _, _, x, y = line
    left, top, right, bottom = (_number(v) for v in (x - 4, y - 4, x + 4, y + 4))
    path = f"M{left} {top}L{right} {bottom}M{left} {bottom}L{right} {top}"
    return f'<path class="cross" d="{path}"/>'


def _labels(scene: Scene, layout: Layout) -> Iterator[str]:
    yield '<g class="labels" pointer-events="none">'
    for label in layout.labels:
        classes = " ".join(["label", *_marks_or_dim(scene, label.copy_id)])
        yield (
            f'<text class="{classes}" x="{_number(label.x)}"'
            f' y="{_number(label.y + 4)}">{_text(label.text)}</text>'
        )
    yield "</g>"


def _captions(layout: Layout) -> Iterator[str]:
    for row, caption in enumerate(layout.captions):
        y = _number(MARGIN + 8 + row * CAPTION_HEIGHT)
        yield f'<text class="caption" x="{_number(MARGIN)}" y="{y}">{_text(caption)}</text>'


def _legend(layout: Layout, y: float) -> tuple[list[str], float]:
    """Return the legend of the symbols in the drawing, and its bottom."""
    written = []
    x = MARGIN
    for mark, text in _legend_entries(layout):
        width = 30 + text_width(text) + 18
        if x + width > layout.width and x > MARGIN:
            x, y = MARGIN, y + 18
        written.append(
            f'<g class="legend" transform="translate({_number(x)} {_number(y)})">{mark}'
            f'<text class="note" x="30">{text}</text></g>'
        )
        x += width
    return written, y


def _legend_entries(layout: Layout) -> Iterator[tuple[str, str]]:
    arrows = [arrow for arrows in layout.arrows.values() for arrow in arrows]
    bars = [bar for bars in layout.bars.values() for bar in bars]
    line = (1.0, -4.0, 23.0, -4.0)
    yield _line("tick", (12.0, -8.0, 12.0, 0.0)), "send"
    yield '<circle class="dot" cx="12" cy="-4" r="4"/>', "deliver"
    bar = '<rect class="wait {}" x="2" y="-7" width="20" height="5" rx="1"/>'
    if any(bar.at_source for bar in bars):
        yield bar.format("source"), "waits at the sender"
    if any(not bar.at_source for bar in bars):
        yield bar.format("target"), "waits at the receiver"
    if any(arrow.transmission.is_retransmission for arrow in arrows):
        yield _line("arrow retransmission", line), "retransmission"
    if any(arrow.transmission.lost for arrow in arrows + layout.controls):
        lost = (1.0, -4.0, 16.0, -4.0)
        yield _line("arrow", lost) + _cross(lost), "lost"
    if any(
        arrow.transmission.end is None and not arrow.transmission.lost for arrow in arrows
    ):
        yield _line("arrow in-flight", line), "in flight"
    if layout.controls:
        mark = f'<g class="control">{_line("arrow", line)}</g>'
        yield mark, "control frame (arrival not recorded)"
    if layout.zero_ms:
        yield "", "0 ms: the first event shown"


def _line(
    classes: str, line: tuple[float | str, float | str, float | str, float | str]
) -> str:
    x1, y1, x2, y2 = (v if isinstance(v, str) else _number(v) for v in line)
    return f'<line class="{classes}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'


def _number(value: float) -> str:
    """Format a number of pixels with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _text(text: str) -> str:
    """Escape a text, and replace characters that XML does not allow."""
    return escape(NOT_XML.sub("\ufffd", text), {'"': "&quot;"})
