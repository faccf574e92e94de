"""Charts as data: Vega-Lite specifications as plain dictionaries.

A chart's points carry the values of the tables as they are; what a logarithmic axis cannot
show, and which protocols are picked, is left to the specification's parameters, so that
the page can change them. Text is drawn in the colour of the page around it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from antecede.report.charts.styles import looks

__all__ = ["CONFIG", "Axis", "Point", "chart", "sheet"]

Spec = dict[str, Any]

GREY = "#8a929c"
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif'
CONFIG: Spec = {
    "font": FONT,
    "background": "transparent",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "gridColor": GREY,
        "gridOpacity": 0.25,
        "domainColor": GREY,
        "tickColor": GREY,
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": 400,
        "labelFlush": False,
    },
    "title": {
        "color": "currentColor",
        "fontSize": 12,
        "fontWeight": 600,
        "anchor": "start",
        "offset": 8,
    },
    "legend": {"labelColor": "currentColor", "titleColor": "currentColor"},
}
"""What all charts have in common."""
BETWEEN = "log_y && abs(log(datum.value) / LN10 - round(log(datum.value) / LN10)) > 0.001"
"""Whether a line of a logarithmic grid is not at a power of ten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """What goes to the right."""

    name: str
    title: str
    log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A mark of a chart: a row of the summary, and where it stands."""

    protocol: str
    x: float
    mean: float
    low: float | None
    high: float | None
    seeds: int
    group: str
    """The group of cells that it is from."""
    series: str = ""
    """What sets its line apart from others of the same protocol."""

    def values(self) -> dict[str, Any]:
        """Return the point as a chart has it."""
        interval = "one seed, no interval"
        if self.low is not None and self.high is not None:
            interval = f"{self.low:.6g} to {self.high:.6g}"
        return {
            "protocol": self.protocol,
            "x": self.x,
            "mean": self.mean,
            "low": self.low,
            "high": self.high,
            "seeds": self.seeds,
            "interval": interval,
            "group": self.group,
            "series": self.series,
        }


def chart(
    points: Sequence[Point],
    axis: Axis,
    unit: str,
    *,
    measure: str,
    title: str,
    log: bool,
    on_page: bool = True,
) -> Spec:
    """Return the specification of one chart.

    Args:
        points: Its marks.
        axis: What goes to the right.
        unit: What goes up.
        measure: What a reader calls that.
        title: What the chart is about, also for a reader who cannot see it.
        log: Whether what goes up does so logarithmically.
        on_page: Whether it takes the width of its place on the page, which has a legend of
            its own; else it is 300 pixels wide and has one.
    """
    names = list(looks([point.protocol for point in points]))
    alone = {(point.protocol, point.series, point.x) for point in points}
    layers = []
    if any(point.low is not None for point in points):
        layers.append(_bars())
    if len(alone) == len(points) and len({x for _, _, x in alone}) > 1:
        layers.append(_lines(names, on_page))
    words = f"{measure.lower()} ({unit})" if unit else measure.lower()
    layers.append(_marks(axis, words, names, on_page))
    for layer in layers:
        layer["encoding"].update(_up(layer, unit, log))
    return {
        "description": f"{title}. Protocols: {', '.join(names)}.",
        "width": "container" if on_page else 300,
        "height": 230,
        "autosize": {"type": "fit-x" if on_page else "pad", "contains": "padding"},
        "data": {"values": [point.values() for point in points]},
        "params": [
            {"name": "shown", "value": names},
            {"name": "log_x", "value": axis.log},
            {"name": "log_y", "value": log},
        ],
        "transform": [
            {"filter": "indexof(shown, datum.protocol) >= 0"},
            {"filter": "(!log_y || datum.mean > 0) && (!log_x || datum.x > 0)"},
            # A bar that reaches 0 has no lower end on a logarithmic axis.
            {
                "calculate": "log_y && !(datum.low > 0) ? datum.mean : datum.low",
                "as": "bar_low",
            },
        ],
        "encoding": {
            "x": _right(axis, [point.x for point in points]),
            "color": _coded(names, "colour", on_page),
        },
        "layer": layers,
    }


def sheet(title: str, charts: Sequence[tuple[str, Spec]]) -> Spec:
    """Put charts side by side with one legend, for a file of their own.

    Args:
        title: The title of all.
        charts: Each with its own title, and not made for the page.
    """
    shared = {"color": "shared", "shape": "shared", "strokeDash": "shared"}
    # Every chart brings parameters of the same names, and these must be told apart.
    parts = [{**_fixed(spec), "title": label} for label, spec in charts]
    return {
        "title": {"text": title, "fontSize": 14},
        "config": {**CONFIG, "background": "white"},
        "columns": min(3, len(parts)),
        "concat": parts,
        "resolve": {"scale": shared},
    }


def _fixed(spec: Spec) -> Spec:
    """Put the values of the parameters into a chart."""
    given = {each["name"]: each["value"] for each in spec["params"]}
    text = json.dumps([spec["transform"], spec["layer"]])
    for name in ("log_x", "log_y"):
        text = text.replace(name, "true" if given[name] else "false")
    transform, layer = json.loads(text)
    rest = {k: v for k, v in spec.items() if k not in ("params", "autosize")}
    return {**rest, "transform": transform[1:], "layer": layer}


def _right(axis: Axis, values: Sequence[float]) -> Spec:
    """Encode what goes to the right; few values each get a tick of their own."""
    few = sorted(set(values))
    ticks: Spec = {"values": few} if len(few) <= 8 else {"tickCount": 6}
    scale = {"type": "log" if axis.log else "linear", "nice": False, "padding": 14}
    if not axis.log:
        scale["zero"] = False
    return {
        "field": "x",
        "type": "quantitative",
        "title": axis.title,
        "scale": scale,
        "axis": {"format": ".6~g", "grid": False, "labelOverlap": True, **ticks},
    }


def _up(layer: Spec, unit: str, log: bool) -> Spec:
    """Encode what goes up, on one scale and one axis for all layers."""
    bar = layer["mark"]["type"] == "rule"
    scale: Spec = {"type": "log", "nice": False, "padding": 10}
    if not log:
        scale = {"type": "linear", "nice": True, "zero": True}
    y = {
        "field": "bar_low" if bar else "mean",
        "type": "quantitative",
        "title": unit,
        "scale": scale,
        "axis": {
            "format": ".6~g",
            "tickCount": 5,
            "labelOverlap": True,
            "gridOpacity": {"condition": {"test": BETWEEN, "value": 0.1}, "value": 0.3},
        },
    }
    return {"y": y, "y2": {"field": "high"}} if bar else {"y": y}


def _bars() -> Spec:
    return {
        "transform": [{"filter": "isValid(datum.low) && isValid(datum.high)"}],
        "mark": {"type": "rule", "strokeWidth": 1.5, "opacity": 0.7, "aria": False},
        "encoding": {},
    }


def _lines(names: Sequence[str], on_page: bool) -> Spec:
    return {
        "mark": {"type": "line", "strokeWidth": 1.8, "aria": False},
        "encoding": {
            "strokeDash": _coded(names, "dash", on_page),
            "detail": {"field": "series", "type": "nominal"},
        },
    }


def _marks(axis: Axis, measure: str, names: Sequence[str], on_page: bool) -> Spec:
    tips = (
        ("protocol", "protocol"),
        ("x", axis.title),
        ("mean", measure),
        ("interval", "95 % interval"),
        ("seeds", "seeds"),
        ("group", "runs"),
    )
    return {
        "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
        "encoding": {
            "shape": _coded(names, "shape", on_page),
            "tooltip": [
                {"field": field, "title": title, **_format(field)} for field, title in tips
            ],
        },
    }


def _format(field: str) -> Spec:
    return {"type": "quantitative", "format": ".6~g"} if field in ("x", "mean") else {}


def _coded(names: Sequence[str], what: str, on_page: bool) -> Spec:
    """Encode the protocol as its colour, shape or dash."""
    styles = looks(list(names))
    ranges: dict[str, list[Any]] = {
        "colour": [style.colour for style in styles.values()],
        "shape": [style.shape for style in styles.values()],
        "dash": [list(style.dash) or [1, 0] for style in styles.values()],
    }
    legend = {"title": None, "orient": "bottom", "columns": 6, "symbolSize": 70}
    return {
        "field": "protocol",
        "type": "nominal",
        "scale": {"domain": list(styles), "range": ranges[what]},
        "legend": None if on_page else legend,
    }
