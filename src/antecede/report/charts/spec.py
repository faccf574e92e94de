"""Line charts as Vega-Lite specifications.

A point has the unchanged values of the tables. Parameters of the specification select the
protocols and the kind of the axes, so that the page can change both. Text has the colour of
the page.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from antecede.report.charts.styles import styles_of

__all__ = ["CONFIG", "Axis", "Point", "chart", "sheet", "suits_log"]

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
"""The configuration of all charts."""
NOT_POWER_OF_TEN = (
    "log_y && abs(log(datum.value) / LN10 - round(log(datum.value) / LN10)) > 0.001"
)
"""Whether a grid line of a logarithmic axis is not at a power of ten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The horizontal axis: a parameter of the runs."""

    name: str
    title: str
    log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point of a chart: a row of the summary and its horizontal position."""

    protocol: str
    x: float
    mean: float
    low: float | None
    high: float | None
    seeds: int
    group: str
    """The group of cells."""
    series: str = ""
    """Distinguishes several lines of one protocol."""

    def values(self) -> dict[str, Any]:
        """Return the point as a data object of Vega-Lite."""
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
        points: The points.
        axis: The horizontal axis.
        unit: The unit of the vertical axis.
        measure: The title of the measure.
        title: The description of the chart for screen readers.
        log: Whether the vertical axis is logarithmic.
        on_page: Whether the chart has the width of its element on the page, and no legend;
            otherwise it is 300 pixels wide and has a legend.
    """
    names = list(styles_of([point.protocol for point in points]))
    positions = {(point.protocol, point.series, point.x) for point in points}
    layers = []
    if any(point.low is not None for point in points):
        layers.append(_bars())
    if len(positions) == len(points) and len({x for _, _, x in positions}) > 1:
        layers.append(_lines(names, on_page))
    words = f"{measure.lower()} ({unit})" if unit else measure.lower()
    layers.append(_marks(axis, words, names, on_page))
    for layer in layers:
        layer["encoding"].update(_vertical(layer, unit, log))
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
            # A logarithmic axis cannot show the lower end of a bar that reaches 0.
            {
                "calculate": "log_y && !(datum.low > 0) ? datum.mean : datum.low",
                "as": "bar_low",
            },
        ],
        "encoding": {
            "x": _horizontal(axis, [point.x for point in points]),
            "color": _by_protocol(names, "colour", on_page),
        },
        "layer": layers,
    }


def suits_log(values: Sequence[float]) -> bool:
    """Return whether the values are positive and differ by more than a factor of 20."""
    return min(values, default=0) > 0 and max(values) > 20 * min(values)


def sheet(title: str, charts: Sequence[tuple[str, Spec]]) -> Spec:
    """Return one specification with several charts and one legend.

    Args:
        title: The title of the sheet.
        charts: The title and the specification of each chart, with ``on_page=False``.
    """
    shared = {"color": "shared", "shape": "shared", "strokeDash": "shared"}
    # The names of parameters must be unique in a sheet, so their values are substituted.
    parts = [{**_without_parameters(spec), "title": label} for label, spec in charts]
    return {
        "title": {"text": title, "fontSize": 14},
        "config": {**CONFIG, "background": "white"},
        "columns": min(3, len(parts)),
        "concat": parts,
        "resolve": {"scale": shared},
    }


def _without_parameters(spec: Spec) -> Spec:
    """Replace the parameters of a chart by their values."""
    values = {each["name"]: each["value"] for each in spec["params"]}
    text = json.dumps([spec["transform"], spec["layer"]])
    for name in ("log_x", "log_y"):
        text = text.replace(name, "true" if values[name] else "false")
    transform, layer = json.loads(text)
    rest = {k: v for k, v in spec.items() if k not in ("params", "autosize")}
    return {**rest, "transform": transform[1:], "layer": layer}


def _horizontal(axis: Axis, values: Sequence[float]) -> Spec:
    """Encode the horizontal axis; it has a tick at each of up to eight values."""
    distinct = sorted(set(values))
    ticks: Spec = {"values": distinct} if len(distinct) <= 8 else {"tickCount": 6}
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


def _vertical(layer: Spec, unit: str, log: bool) -> Spec:
    """Encode the vertical axis of a layer; all layers have the same scale and axis."""
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
            "gridOpacity": {
                "condition": {"test": NOT_POWER_OF_TEN, "value": 0.1},
                "value": 0.3,
            },
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
            "strokeDash": _by_protocol(names, "dash", on_page),
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
            "shape": _by_protocol(names, "shape", on_page),
            "tooltip": [
                {"field": field, "title": title, **_format(field)} for field, title in tips
            ],
        },
    }


def _format(field: str) -> Spec:
    return {"type": "quantitative", "format": ".6~g"} if field in ("x", "mean") else {}


def _by_protocol(names: Sequence[str], channel: str, on_page: bool) -> Spec:
    """Encode the protocol by colour, shape or dash."""
    styles = styles_of(list(names))
    ranges: dict[str, list[Any]] = {
        "colour": [style.colour for style in styles.values()],
        "shape": [style.shape for style in styles.values()],
        "dash": [list(style.dash) or [1, 0] for style in styles.values()],
    }
    legend = {"title": None, "orient": "bottom", "columns": 6, "symbolSize": 70}
    return {
        "field": "protocol",
        "type": "nominal",
        "scale": {"domain": list(styles), "range": ranges[channel]},
        "legend": None if on_page else legend,
    }
