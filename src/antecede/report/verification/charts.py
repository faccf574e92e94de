"""Charts of the violations of a run, as Vega-Lite specifications."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from antecede.report.charts.spec import Spec
from antecede.verify.breakdown import PairCount, ViolationBreakdown
from antecede.verify.oracle import Property

__all__ = ["NAMES_MAX", "HeatMap", "heat_map", "timeline_chart"]

NAMES_MAX = 40
"""The most processes on an axis of a heat map: more names cannot be read."""
CELL_PX = 24
NAME_PX = 140
"""The most pixels of a name on an axis; a tooltip has the whole name."""
COLOURS = ["#fbd9c9", "#d0504a", "#6d1420"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """A heat map, and what it leaves out."""

    spec: Spec
    left_out: int
    """The number of violations of pairs that are not shown."""


def heat_map(
    pairs: Sequence[PairCount], name: Callable[[int], str], *, row_title: str
) -> HeatMap:
    """Return the heat map of the pairs of one property.

    A row is the source of the message that came too late, twice, unsent or never, and a
    column the process.

    Args:
        pairs: The pairs of one property.
        name: Returns the name of a process.
        row_title: The title of the rows.
    """
    cells: Counter[tuple[int, int]] = Counter()
    for pair in pairs:
        cells[pair.source, pair.process] += pair.count
    rows: Counter[int] = Counter()
    columns: Counter[int] = Counter()
    for (source, process), count in cells.items():
        rows[source] += count
        columns[process] += count
    shown_rows = [source for source, _ in rows.most_common(NAMES_MAX)]
    shown_columns = [process for process, _ in columns.most_common(NAMES_MAX)]
    shown = {
        (source, process): count
        for (source, process), count in cells.items()
        if source in shown_rows and process in shown_columns
    }
    values = [
        {"source": name(source), "process": name(process), "violations": count}
        for (source, process), count in shown.items()
    ]
    spec = {
        "width": {"step": CELL_PX},
        "height": {"step": CELL_PX},
        "data": {"values": values},
        "mark": {"type": "rect", "tooltip": True, "stroke": "#8a929c", "strokeWidth": 0.5},
        "encoding": {
            "x": _axis("process", "delivered by", [name(each) for each in shown_columns]),
            "y": _axis("source", row_title, [name(each) for each in shown_rows]),
            "color": {
                "field": "violations",
                "type": "quantitative",
                "scale": {"type": "linear", "domainMin": 0, "range": COLOURS},
                "legend": {
                    "title": "violations",
                    "format": ",d",
                    "values": _ticks(max(shown.values(), default=0)),
                },
            },
            "tooltip": [
                {"field": "source", "title": row_title},
                {"field": "process", "title": "delivered by"},
                {"field": "violations", "type": "quantitative", "format": ",d"},
            ],
        },
    }
    return HeatMap(spec=spec, left_out=sum(cells.values()) - sum(shown.values()))


def _axis(field: str, title: str, names: Sequence[str]) -> Spec:
    return {
        "field": field,
        "type": "nominal",
        "title": title,
        "sort": list(dict.fromkeys(names)),
        "axis": {"labelLimit": NAME_PX, "labelOverlap": False, "grid": False},
    }


def _ticks(highest: int) -> list[int]:
    """Return at most six round numbers from 0 on; a count is never a fraction."""
    step = 1
    while highest > 5 * step:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    return list(range(0, highest + 1, step))


def timeline_chart(breakdown: ViolationBreakdown, which: Property, zero: float) -> Spec:
    """Return the number of violations of a property in each bucket, as bars.

    Args:
        breakdown: The violations.
        which: The property.
        zero: The time that the axis shows as 0.
    """
    buckets = breakdown.buckets
    values = [
        {
            "start": buckets.start(index) - zero,
            "end": buckets.start(index + 1) - zero,
            "violations": count,
            "deliveries": breakdown.deliveries[index],
        }
        for index, count in enumerate(breakdown.timeline[which])
    ]
    unit = "time (s)" if buckets.by_time else "position of the event in the run"
    number = {"type": "quantitative", "format": ".6~g"}
    return {
        "width": "container",
        "height": 150,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": values},
        "mark": {"type": "bar", "color": COLOURS[1], "binSpacing": 1},
        "encoding": {
            "x": {
                "field": "start",
                "type": "quantitative",
                "title": unit,
                "bin": {"binned": True, "step": buckets.width},
                "axis": {"format": ".6~g", "grid": False, "tickCount": 8},
            },
            "x2": {"field": "end"},
            "y": {
                "field": "violations",
                "type": "quantitative",
                "title": "violations",
                "axis": {
                    "format": ",d",
                    "values": _ticks(max(breakdown.timeline[which])),
                },
            },
            "tooltip": [
                {"field": "start", "title": "from", **number},
                {"field": "end", "title": "to", **number},
                {"field": "violations", "type": "quantitative", "format": ",d"},
                {"field": "deliveries", "type": "quantitative", "format": ",d"},
            ],
        },
    }
