"""The figures of the studies: one per measure, with the points of each chart.

A figure shows one measure of one grid over the parameter that the grid varies. If other
parameters vary, too, the figure has one chart for each combination of their values. There
is a point for every row of the summary with the grid and the measure of the figure.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite

from antecede.report.charts.plans import AXES, find_plan, title_of, unit_of
from antecede.report.charts.spec import Axis, Point, Spec, chart, sheet, suits_log
from antecede.report.claims.evidence import (
    NETWORK_PARAMETERS,
    WORKLOAD_PARAMETERS,
    axis_value,
)
from antecede.report.tables import Parameters, StudyTables, SummaryRow, Tables

__all__ = ["Figure", "Panel", "make_figures"]

LINEAR_PREFIXES = ("receiver_wait", "sender_wait", "non_causal", "control", "unsafe")
"""Measures that are often 0, which a logarithmic axis cannot show."""
EMPTY_VALUES = ("", "0", "0.0", "None", "False")
"""The texts of parameters that are not set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One chart of a figure."""

    label: str
    """The parameters that distinguish it from the other charts; empty if there is one."""
    points: tuple[Point, ...]
    spec: Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measure of one grid."""

    id: str
    study: str
    grid: str
    measure: str
    title: str
    unit: str
    axis: Axis
    log: bool
    """Whether the vertical axis is logarithmic at first."""
    panels: tuple[Panel, ...]
    zeros: int
    """The number of points that a logarithmic vertical axis does not show."""
    from_zero: bool
    """Whether a point is at 0 of the horizontal axis, which then cannot be logarithmic."""
    seeds: int
    """The largest number of seeds of a mean."""
    sheet: Spec
    """All charts of the figure, for a file."""


def make_figures(tables: Tables) -> list[Figure]:
    """Return the figures of all studies."""
    return [
        figure
        for study in tables.studies
        for grid in dict.fromkeys(row.grid for row in study.summary)
        for figure in _grid_figures(study, grid)
    ]


def _grid_figures(study: StudyTables, grid: str) -> list[Figure]:
    plan = find_plan(grid, study.name)
    rows = [row for row in study.summary if row.grid == grid and row.mean is not None]
    figures = []
    for measure in plan.measures:
        measured = [row for row in rows if row.measure == measure]
        if any(row.mean for row in measured):
            figures.append(_figure(study, measured, measure, plan.axis))
    return figures


def _figure(
    study: StudyTables,
    rows: Sequence[SummaryRow],
    measure: str,
    axis_name: str | None,
) -> Figure:
    title, unit = title_of(measure), unit_of(measure)
    axis = _choose_axis(study, rows, axis_name)
    grid = rows[0].grid
    log = _suits_log(measure, [row.mean or 0.0 for row in rows])
    by_label: dict[str, list[SummaryRow]] = {}
    label = _labeller(study, rows, axis)
    for row in rows:
        by_label.setdefault(label(row), []).append(row)
    panels, parts = [], []
    for name, some in by_label.items():
        points = tuple(_point(row, axis, study) for row in some)
        words = f"{title} of study {study.name}" + (f", {name}" if name else "")
        spec = chart(points, axis, unit, measure=title, title=words, log=log)
        panels.append(Panel(label=name, points=points, spec=spec))
        part = chart(points, axis, unit, measure=title, title=words, log=log, on_page=False)
        parts.append((name, part))
    return Figure(
        id="-".join(filter(None, (study.name, grid, measure))).replace("_", "-"),
        study=study.name,
        grid=grid,
        measure=measure,
        title=title,
        unit=unit,
        axis=axis,
        log=log,
        panels=tuple(panels),
        zeros=sum(not (row.mean or 0.0) > 0 for row in rows),
        from_zero=any(point.x <= 0 for panel in panels for point in panel.points),
        seeds=max(row.seeds for row in rows),
        sheet=sheet(f"{study.name}: {title.lower()} ({unit})", parts),
    )


def _choose_axis(
    study: StudyTables, rows: Sequence[SummaryRow], preferred: str | None
) -> Axis:
    """Return the preferred axis if its parameter varies, or the first axis that varies."""
    for name in (*([preferred] if preferred else []), *AXES):
        values = {axis_value(name, row, study.parameters[row.group]) for row in rows}
        if len(values) > 1 and all(isfinite(value) for value in values):
            axis = AXES[name]
            if axis.log and min(values) <= 0:
                return Axis(name=axis.name, title=axis.title)
            return axis
    return AXES["processes"]


def _labeller(
    study: StudyTables, rows: Sequence[SummaryRow], axis: Axis
) -> Callable[[SummaryRow], str]:
    """Return a function that labels a row by all varying parameters but the axis."""

    def parts(row: SummaryRow) -> dict[str, str]:
        parameters = study.parameters[row.group]
        found = {"workload": row.workload}
        if axis.name in ("gap", "service_time", "hot"):
            found = _describe_others(parameters, WORKLOAD_PARAMETERS, axis.name)
        if axis.name in ("delay", "loss", "bandwidth", "ratio"):
            found |= _describe_others(parameters, NETWORK_PARAMETERS, axis.name)
        else:
            found["network"] = row.network
        if axis.name not in ("processes", "ratio"):
            found["size"] = f"{row.processes:,} processes"
        found["messages"] = f"{row.messages:,} messages per process"
        return found

    all_parts = [parts(row) for row in rows]
    varying = [key for key in all_parts[0] if len({each[key] for each in all_parts}) > 1]
    return lambda row: " · ".join(parts(row)[key] for key in varying)


def _describe_others(
    parameters: Parameters, keys: Sequence[str], axis: str
) -> dict[str, str]:
    """Describe the parameters that are not on the axis."""
    # The share of messages with a job is redundant beside the length of a job.
    excluded = ({"ratio": "bandwidth", "hot": "traffic"}.get(axis, axis), "service_share")
    values = {key: parameters.get(key) for key in keys if key not in excluded}
    unset = {"service_time": "no jobs", "loss": "no loss"}
    return {
        key: unset.get(key, f"no {key}")
        if str(value) in EMPTY_VALUES
        else f"{key.replace('_', ' ')} {value}"
        for key, value in values.items()
    }


def _suits_log(measure: str, means: Sequence[float]) -> bool:
    if measure.startswith(LINEAR_PREFIXES) or "speedup" in measure:
        return False
    return suits_log(means)


def _point(row: SummaryRow, axis: Axis, study: StudyTables) -> Point:
    assert row.mean is not None
    return Point(
        protocol=row.protocol,
        x=axis_value(axis.name, row, study.parameters[row.group]),
        mean=row.mean,
        low=row.low,
        high=row.high,
        seeds=row.seeds,
        group=row.group,
        # Processes and bandwidth both vary along a ratio: a line joins one bandwidth.
        series=row.network if axis.name == "ratio" else "",
    )
