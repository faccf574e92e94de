"""The charts that open the page: what each protocol costs in one configuration.

The first chart divides the mean latency into the wait at the sender, the time on the
network and the wait at the receiver. The second one shows the metadata of a message alone,
and together with all control frames and retransmissions of the run, divided by its copies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from antecede.report.charts.spec import CONFIG, Spec, suits_log
from antecede.report.comparison import Configuration

__all__ = ["CostChart", "cost_charts"]

LATENCY_PARTS = {
    "sender_wait_mean": ("wait at the sender", "#c8671b"),
    "wire_mean": ("time on the network", "#8a929c"),
    "receiver_wait_mean": ("wait at the receiver", "#0a7fc2"),
}
METADATA_KINDS = {
    "message": ("on the message", "#0a7fc2"),
    "all": ("with control frames and retransmissions", "#c8671b"),
}
ROW_HEIGHT = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class CostChart:
    """A chart with one row per protocol."""

    id: str
    title: str
    caption: str
    spec: Spec

    @property
    def sheet(self) -> Spec:
        """The chart for a file."""
        return {
            **self.spec,
            "width": 460,
            "title": self.title,
            "config": {**CONFIG, "background": "white"},
        }


def cost_charts(configuration: Configuration, baselines: set[str]) -> list[CostChart]:
    """Return the charts of latency and metadata, without those that were not measured.

    Args:
        configuration: The runs to compare.
        baselines: The protocols that do not promise causal order.
    """
    charts = [
        CostChart(
            id="cost-latency",
            title="Mean latency of a message (ms)",
            caption="A bar is the mean time from send to delivery. The protocol adds the"
            " waits; relays along an overlay lengthen the time on the network.",
            spec=_latency_spec(_latency_values(configuration), baselines),
        ),
        CostChart(
            id="cost-metadata",
            title="Metadata per message (bytes)",
            caption="Bytes in addition to the payload. The second mark adds all control"
            " frames and retransmissions of the run, divided by its copies.",
            spec=_metadata_spec(_metadata_values(configuration), baselines),
        ),
    ]
    return [chart for chart in charts if chart.spec["data"]["values"]]


def _latency_values(configuration: Configuration) -> list[dict[str, Any]]:
    values = []
    for protocol, rows in configuration.rows.items():
        if not {"latency_mean", *LATENCY_PARTS} <= rows.keys():
            continue
        latency = (rows["latency_mean"].mean or 0.0) * 1000
        for order, (measure, (part, _)) in enumerate(LATENCY_PARTS.items()):
            time = (rows[measure].mean or 0.0) * 1000
            values.append(
                {
                    "protocol": protocol,
                    "part": part,
                    "order": order,
                    "ms": time,
                    "latency": latency,
                }
            )
    return values


def _metadata_values(configuration: Configuration) -> list[dict[str, Any]]:
    values = []
    for protocol, rows in configuration.rows.items():
        if "metadata_bytes_mean" not in rows:
            continue
        found = {"message": rows["metadata_bytes_mean"].mean or 0.0}
        copies = rows["copies"].mean if "copies" in rows else None
        if copies and "metadata_bytes_total" in rows:
            found["all"] = (rows["metadata_bytes_total"].mean or 0.0) / copies
        for kind, size in found.items():
            values.append(
                {"protocol": protocol, "kind": METADATA_KINDS[kind][0], "bytes": size}
            )
    return values


def _latency_spec(values: list[dict[str, Any]], baselines: set[str]) -> Spec:
    names = sorted({v["protocol"]: v["latency"] for v in values}.items(), key=_second)
    return {
        **_frame("Mean latency by protocol, divided into its parts", values),
        "mark": {"type": "bar", "height": {"band": 0.7}},
        "encoding": {
            "y": _protocol_axis([name for name, _ in names], baselines),
            "x": _quantity("ms", "ms"),
            "color": _colors("part", list(LATENCY_PARTS.values())),
            "order": {"field": "order"},
            "tooltip": [
                {"field": "protocol"},
                {"field": "part"},
                {"field": "ms", "type": "quantitative", "format": ".4~g", "title": "ms"},
                {
                    "field": "latency",
                    "type": "quantitative",
                    "format": ".4~g",
                    "title": "latency (ms)",
                },
            ],
        },
    }


def _metadata_spec(values: list[dict[str, Any]], baselines: set[str]) -> Spec:
    on_message = METADATA_KINDS["message"][0]
    sizes = {v["protocol"]: v["bytes"] for v in values if v["kind"] == on_message}
    names = sorted(sizes.items(), key=_second)
    log = suits_log([value["bytes"] for value in values])
    x = _quantity("bytes", "bytes, logarithmic axis" if log else "bytes")
    x["scale"] = {"type": "log", "nice": True} if log else {"type": "linear"}
    return {
        **_frame("Metadata per message by protocol", values),
        "mark": {"type": "point", "size": 80, "filled": True, "opacity": 1},
        "encoding": {
            "y": _protocol_axis([name for name, _ in names], baselines, grid=True),
            "x": x,
            "color": _colors("kind", list(METADATA_KINDS.values())),
            "shape": {
                "field": "kind",
                "scale": {
                    "domain": [title for title, _ in METADATA_KINDS.values()],
                    "range": ["circle", "diamond"],
                },
                "legend": _legend(),
            },
            "tooltip": [
                {"field": "protocol"},
                {"field": "kind"},
                {
                    "field": "bytes",
                    "type": "quantitative",
                    "format": ".4~g",
                    "title": "bytes",
                },
            ],
        },
    }


def _second(item: tuple[str, float]) -> float:
    return item[1]


def _frame(description: str, values: list[dict[str, Any]]) -> Spec:
    return {
        "description": description,
        "width": "container",
        "height": ROW_HEIGHT * len({value["protocol"] for value in values}),
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": values},
    }


def _protocol_axis(
    names: Sequence[str], baselines: set[str], *, grid: bool = False
) -> Spec:
    label = "datum.label"
    for name in names:
        if name in baselines:
            label = f"datum.label === '{name}' ? '{name} (no order)' : {label}"
    return {
        "field": "protocol",
        "type": "nominal",
        "title": None,
        "sort": list(names),
        "axis": {"labelExpr": label, "labelLimit": 200, "grid": grid, "ticks": False},
    }


def _quantity(field: str, title: str) -> Spec:
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "axis": {"format": "~s" if field == "bytes" else ".6~g", "tickCount": 5},
    }


def _colors(field: str, items: Sequence[tuple[str, str]]) -> Spec:
    return {
        "field": field,
        "type": "nominal",
        "scale": {
            "domain": [title for title, _ in items],
            "range": [color for _, color in items],
        },
        "legend": _legend(),
    }


def _legend() -> Spec:
    return {"title": None, "orient": "top", "columns": 1, "labelLimit": 300}
