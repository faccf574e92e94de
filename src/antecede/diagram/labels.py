"""Place labels beside arrows, with as little overlap as possible."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import hypot

from antecede.diagram.timeline import CopyId

__all__ = ["Box", "Label", "Line", "place_labels"]

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""
Line = tuple[float, float, float, float]
"""From x, y to x, y."""

LABEL_HEIGHT = 11.0
ALONG = (0.5, 0.38, 0.62, 0.28, 0.72, 0.2, 0.8, 0.13, 0.87)
"""The candidate positions of a label along its arrow, the best first."""
COST_LABEL, COST_SOLID, COST_SOFT, COST_LINE = 100, 40, 8, 3
"""The costs of covering another label, a dot, a bar, or a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A text and its centre."""

    text: str
    copy_id: CopyId
    x: float
    y: float


def place_labels(
    wanted: Iterable[tuple[str, CopyId, Line]],
    solid: Sequence[Box],
    soft: Sequence[Box],
    lines: Sequence[Line],
    text_width: Callable[[str], float],
) -> list[Label]:
    """Place each label where its cost is least, in the given order.

    Args:
        wanted: The text, copy and line of each label.
        solid: Boxes that labels should not cover.
        soft: Boxes that labels may cover at a lower cost.
        lines: Lines that labels should not cross.
        text_width: Estimates the width of a text.
    """
    taken: list[Box] = []
    labels: list[Label] = []
    for text, copy_id, line in wanted:
        width = text_width(text)
        best: tuple[float, Box] | None = None
        for rank, box in enumerate(_candidates(line, width)):
            cost = float(rank) / 4
            cost += COST_LABEL * _count(box, taken) + COST_SOLID * _count(box, solid)
            cost += COST_SOFT * _count(box, soft)
            if best is not None and cost >= best[0]:
                continue
            cost += COST_LINE * sum(_crosses(box, other) for other in lines)
            if best is None or cost < best[0]:
                best = (cost, box)
        assert best is not None, "there is always a candidate"
        left, top, right, bottom = best[1]
        taken.append(best[1])
        labels.append(
            Label(text=text, copy_id=copy_id, x=(left + right) / 2, y=(top + bottom) / 2)
        )
    return labels


def _candidates(line: Line, width: float) -> Iterator[Box]:
    x1, y1, x2, y2 = line
    length = hypot(x2 - x1, y2 - y1) or 1.0
    across, down = (y2 - y1) / length, -(x2 - x1) / length
    # Far enough for the box to clear the line at any slope.
    reach = abs(across) * width / 2 + abs(down) * LABEL_HEIGHT / 2 + 2.5
    for share in ALONG:
        for side in (1, -1):
            x = x1 + (x2 - x1) * share + side * across * reach
            y = y1 + (y2 - y1) * share + side * down * reach
            yield (
                x - width / 2,
                y - LABEL_HEIGHT / 2,
                x + width / 2,
                y + LABEL_HEIGHT / 2,
            )


def _count(box: Box, others: Iterable[Box]) -> int:
    left, top, right, bottom = box
    return sum(
        left < other[2] and other[0] < right and top < other[3] and other[1] < bottom
        for other in others
    )


def _crosses(box: Box, line: Line) -> bool:
    """Return whether a line crosses a box, by clipping it against each side."""
    x1, y1, x2, y2 = line
    left, top, right, bottom = box
    if max(x1, x2) < left or min(x1, x2) > right:
        return False
    if max(y1, y2) < top or min(y1, y2) > bottom:
        return False
    enter, leave = 0.0, 1.0
    for start, change, low, high in (
        (x1, x2 - x1, left, right),
        (y1, y2 - y1, top, bottom),
    ):
        if change:
            shares = sorted(((low - start) / change, (high - start) / change))
            enter, leave = max(enter, shares[0]), min(leave, shares[1])
    return enter <= leave
