"""The charts of the protocol `bounded` against its budget: what a byte buys.

A figure shows one quantity, with one chart for each workload and number of processes, and
one line for each network and loss. The other protocols of the same cells are beside the
line. Latency and throughput are relative to ``optimal`` in the same cells, seed by seed.
The share delivered under silence is that of the copies among the living. A budget of 0 is
the protocol ``hybrid``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from antecede.pipeline.study.study_file import without_budget
from antecede.report.charts.spec import CONFIG, Spec, suits_log
from antecede.report.charts.styles import styles_of
from antecede.report.claims.evidence import mean_interval
from antecede.report.tables import CellRow, StudyTables, Tables

__all__ = ["BudgetFigure", "BudgetPanel", "Quantity", "budget_figures"]

WITH_BUDGET = "bounded"
UNLIMITED = "unlimited"
NETWORK_COLOURS = {
    "lan": ("#0a4f7a", "#0a7fc2", "#6fb7e6"),
    "wan": ("#8a3f08", "#c8671b", "#eba871"),
}
"""By the name of a network, the colours of its losses, from the lowest."""
OTHER_COLOURS = ("#1c6a39", "#2f9355", "#8bcaa3")
LOSS_DASHES = ([1, 0], [6, 3], [2, 2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """What a figure shows."""

    id: str
    title: str
    unit: str
    measure: str
    over: str = ""
    """The measure to divide by; empty for none."""
    reference: str = ""
    """The protocol to divide by, in the same cells; empty for none."""
    caption: str = ""


QUANTITIES = (
    Quantity(
        id="budget-latency-mean",
        title="What a byte buys: mean latency",
        unit="times that of optimal",
        measure="latency_mean",
        reference="optimal",
        caption="A budget of 0 is hybrid; 1 is the earliest delivery that causal order"
        " allows.",
    ),
    Quantity(
        id="budget-latency-p99",
        title="What a byte buys: latency, 99th percentile",
        unit="times that of optimal",
        measure="latency_p99",
        reference="optimal",
        caption="A budget of 0 is hybrid; 1 is the earliest delivery that causal order"
        " allows.",
    ),
    Quantity(
        id="budget-share-delivered",
        title="Share delivered while a member is silent",
        unit="share of the copies among the living",
        measure="living_delivered_share",
        caption="Copies among processes that never crash, sent after the crash and"
        " delivered before the end of the run. A budget of 0 is hybrid.",
    ),
    Quantity(
        id="budget-metadata",
        title="Metadata of all frames",
        unit="bytes per copy",
        measure="metadata_bytes_total",
        over="copies",
        caption="With control frames and retransmissions.",
    ),
    Quantity(
        id="budget-control-frames",
        title="Control frames",
        unit="frames per copy",
        measure="control_frames",
        over="copies",
    ),
    Quantity(
        id="budget-throughput",
        title="Throughput",
        unit="times that of optimal",
        measure="throughput",
        reference="optimal",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPanel:
    """One chart of a figure."""

    id: str
    label: str
    spec: Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetFigure:
    """One quantity against the budget."""

    id: str
    title: str
    caption: str
    panels: tuple[BudgetPanel, ...]

    @property
    def sheet(self) -> Spec:
        """All charts, for a file."""
        return {
            "title": {"text": self.title, "fontSize": 14},
            "config": {**CONFIG, "background": "white"},
            "columns": min(3, len(self.panels)),
            "concat": [
                {**_sized(panel.spec), "title": panel.label} for panel in self.panels
            ],
            "resolve": {"scale": {"color": "independent", "strokeDash": "independent"}},
        }


def budget_figures(tables: Tables) -> list[BudgetFigure]:
    """Return the figures of all studies in which `bounded` has several budgets."""
    figures = []
    for quantity in QUANTITIES:
        panels: list[BudgetPanel] = []
        for study in tables.studies:
            for label, points in _panels(study, quantity):
                panels.append(
                    BudgetPanel(
                        id=f"{quantity.id}-{len(panels)}",
                        label=label,
                        spec=_chart(points, quantity, label),
                    )
                )
        if panels:
            figures.append(
                BudgetFigure(
                    id=quantity.id,
                    title=quantity.title,
                    caption=quantity.caption,
                    panels=tuple(panels),
                )
            )
    return figures


def _panels(
    study: StudyTables, quantity: Quantity
) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the label and the points of each chart."""
    groups: dict[str, list[CellRow]] = {}
    for cell in study.run_cells:
        groups.setdefault(cell.group, []).append(cell)
    references = {
        cell.comparable: cell.cell
        for cell in study.run_cells
        if cell.protocol == quantity.reference
    }
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for cells in groups.values():
        values = [_value(study, quantity, cell, references) for cell in cells]
        known = [value for value in values if value is not None]
        if known and cells[0].protocol != quantity.reference:
            key = (cells[0].grid, _label(cells[0]))
            found.setdefault(key, []).append(_point(cells[0], known))
    return [
        (label, points) for (_, label), points in found.items() if len(_budgets(points)) > 1
    ]


def _budgets(points: Sequence[dict[str, Any]]) -> list[str]:
    """Return the budgets of `bounded`, the lowest first."""
    own = {p["position"] for p in points if p["protocol"] == WITH_BUDGET}
    return sorted(own, key=lambda name: float("inf" if name == UNLIMITED else name))


def _value(
    study: StudyTables, quantity: Quantity, cell: CellRow, references: dict[str, str]
) -> float | None:
    own = study.values.get(cell.cell, {})
    value = own.get(quantity.measure)
    below: float | None = 1.0
    if quantity.over:
        below = own.get(quantity.over)
    elif quantity.reference:
        reference = references.get(cell.comparable, "")
        if cell.parameters["silent_members"]:
            return None  # Latencies of different copies: others are not delivered.
        below = study.values.get(reference, {}).get(quantity.measure)
    return value / below if value is not None and below else None


def _label(cell: CellRow) -> str:
    label = f"{cell.workload}, {cell.processes:,} processes, {cell.messages:,} messages"
    silent = cell.parameters["silent_members"]
    return f"{label}, {silent} silent" if silent else label


def _point(cell: CellRow, values: Sequence[float]) -> dict[str, Any]:
    budget = cell.parameters["budget_bytes"]
    loss = cell.parameters["loss"]
    network = without_budget(cell.network).partition(" ")[0]
    interval = mean_interval(values)
    position = cell.protocol
    if position == WITH_BUDGET:
        position = UNLIMITED if budget is None else f"{budget:g}"
    return {
        "protocol": cell.protocol,
        "position": position,
        "network": network,
        "loss": loss,
        "line": f"{network}, {f'{loss:.0%} loss' if loss else 'no loss'}",
        "value": interval["mean"],
        "low": interval["low"],
        "high": interval["high"],
        "seeds": interval["seeds"],
    }


def _chart(points: Sequence[dict[str, Any]], quantity: Quantity, label: str) -> Spec:
    others = {point["protocol"] for point in points} - {WITH_BUDGET}
    log = suits_log([point["value"] for point in points])
    y = {
        "field": "value",
        "type": "quantitative",
        "title": quantity.unit,
        "scale": {"type": "log"} if log else {"zero": True},
        "axis": {"format": ".4~g", "tickCount": 5},
    }
    x = {
        "field": "position",
        "type": "ordinal",
        "title": "budget (bytes), and other protocols",
        "sort": [*_budgets(points), *styles_of(list(others))],
        "axis": {"labelAngle": -40, "grid": False},
    }
    tips = [
        {"field": "line", "title": "network"},
        {"field": "protocol"},
        {"field": "position", "title": "budget (bytes)"},
        {"field": "value", "title": quantity.unit, "format": ".4~g"},
        {"field": "seeds", "title": "seeds"},
    ]
    return {
        "description": f"{quantity.title}, {label}, against the budget",
        "width": "container",
        "height": 230,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": list(points)},
        "encoding": {"x": x, **_line_styles(points)},
        "layer": [
            {
                # No quantity is negative: few seeds make such an interval.
                "transform": [{"filter": "datum.low > 0"}],
                "mark": {"type": "rule", "opacity": 0.5, "aria": False},
                "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}},
            },
            {
                "transform": [{"filter": f"datum.protocol == '{WITH_BUDGET}'"}],
                "mark": {"type": "line", "aria": False},
                "encoding": {"y": y},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1},
                "encoding": {"y": y, "tooltip": tips},
            },
        ],
    }


def _line_styles(points: Sequence[dict[str, Any]]) -> Spec:
    """Encode each line: the network by the colour, the loss by its tone and the dash."""
    networks = list(dict.fromkeys(point["network"] for point in points))
    losses = sorted({point["loss"] for point in points})
    lines = sorted(
        {(networks.index(p["network"]), losses.index(p["loss"]), p["line"]) for p in points}
    )
    colours = [
        NETWORK_COLOURS.get(networks[network], OTHER_COLOURS)[min(loss, 2)]
        for network, loss, _ in lines
    ]
    names = [name for _, _, name in lines]
    legend = {"title": None, "orient": "bottom", "columns": 3, "labelLimit": 200}
    shared = {"field": "line", "type": "nominal", "legend": legend}
    return {
        "color": {**shared, "scale": {"domain": names, "range": colours}},
        "strokeDash": {
            **shared,
            "scale": {
                "domain": names,
                "range": [LOSS_DASHES[min(loss, 2)] for _, loss, _ in lines],
            },
        },
    }


def _sized(spec: Spec) -> Spec:
    """Return a chart with a fixed width."""
    return {**{k: v for k, v in spec.items() if k != "autosize"}, "width": 300}
