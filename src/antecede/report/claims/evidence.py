"""Curves, fitted exponents and paired ratios, computed from the tables.

An exponent is the slope of the least-squares line through the logarithms of both
coordinates: 0 is constant, 1 linear, 2 quadratic. A ratio is computed per seed, between two
runs with the same workload and network; its mean over the seeds has a 95 % interval by
Student's t, as in the summary table.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf, log, nan, sqrt
from statistics import fmean, stdev
from typing import Any

from antecede.pipeline.study.intervals import student_t
from antecede.pipeline.study.study_file import NETWORK_KEYS
from antecede.report.claims.conditions import bandwidth_unlimited, reliable
from antecede.report.tables import (
    CellRow,
    Parameters,
    StudyTables,
    SummaryRow,
    Tables,
)
from antecede.sim.workloads.synthetic import HOT

__all__ = [
    "NETWORK_PARAMETERS",
    "WORKLOAD_PARAMETERS",
    "Curve",
    "Fit",
    "axis_value",
    "control_per_copy",
    "curves",
    "fit_exponent",
    "in_round_trips",
    "mean_interval",
    "ratios",
    "round_trip",
    "format_range",
    "verdict_counts",
]

COLUMNS = {"delay": "delay_s", "gap": "gap_s", "service_time": "service_time_s"}
"""By parameter, the column that has the mean of its distribution."""
NETWORK_PARAMETERS = tuple(NETWORK_KEYS)
WORKLOAD_PARAMETERS = ("traffic", "gap", "payload_bytes", "service_time", "service_share")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A power law fitted to points."""

    exponent: float
    error: float | None
    """The exponent's standard error; None if there are fewer than three points."""
    points: int

    def __str__(self) -> str:
        error = f" ± {self.error:.2f}" if self.error is not None else ""
        return f"n^{self.exponent:.2f}{error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A measure of one protocol over one parameter; all other parameters are equal."""

    protocol: str
    study: str
    workload: str
    network: str
    points: tuple[tuple[float, SummaryRow], ...]
    """The value of the parameter and the row, in the order of the parameter."""

    @property
    def fit(self) -> Fit:
        """The power law through the means."""
        return fit_exponent([(x, row.mean or 0.0) for x, row in self.points])


def fit_exponent(points: Sequence[tuple[float, float]]) -> Fit:
    """Fit a power law to the points whose coordinates are both positive."""
    logs = [(log(x), log(y)) for x, y in points if x > 0 and y > 0]
    if len(logs) < 2:
        return Fit(exponent=0.0, error=None, points=len(logs))
    middle_x = fmean(x for x, _ in logs)
    middle_y = fmean(y for _, y in logs)
    square = sum((x - middle_x) ** 2 for x, _ in logs)
    if square == 0:
        return Fit(exponent=0.0, error=None, points=len(logs))
    slope = sum((x - middle_x) * (y - middle_y) for x, y in logs) / square
    error = None
    if len(logs) > 2:
        rest = sum((y - middle_y - slope * (x - middle_x)) ** 2 for x, y in logs)
        error = sqrt(rest / (len(logs) - 2) / square)
    return Fit(exponent=slope, error=error, points=len(logs))


def axis_value(name: str, row: SummaryRow, parameters: Parameters) -> float:
    """Return the numeric value of a parameter in the runs that a row summarizes."""
    if name == "processes":
        return float(row.processes)
    bandwidth = parameters["bandwidth"] or inf
    if name == "ratio":
        return row.processes / (bandwidth / 1000)
    if name == "bandwidth":
        return bandwidth
    if name == "hot":
        hot = parameters.get("traffic_hot")
        if not str(parameters["traffic"]).startswith("hotspot"):
            return 0.0
        return HOT if hot is None else float(hot)
    value = parameters.get(COLUMNS.get(name, name))
    return nan if value is None else float(value)


def curves(
    tables: Tables,
    measure: str,
    protocol: str,
    *,
    along: str = "processes",
    where: Callable[[SummaryRow, Parameters], bool] | None = None,
    span: float = 2.0,
) -> list[Curve]:
    """Return the curves of a measure along a parameter.

    Args:
        tables: The tables.
        measure: The measure.
        protocol: The protocol.
        along: The parameter on the horizontal axis.
        where: Selects rows; None for all.
        span: The least ratio of the last to the first value of the parameter.
    """
    found: dict[tuple[object, ...], list[tuple[float, SummaryRow]]] = {}
    for row in tables.rows(measure, protocol=protocol, where=where):
        parameters = tables.parameters(row)
        keys = [key for key in (*NETWORK_PARAMETERS, *WORKLOAD_PARAMETERS) if key != along]
        if along == "hot":
            keys.remove("traffic")
        fixed = [parameters.get(key) for key in keys]
        size = 0 if along == "processes" else row.processes
        key = (row.study, row.grid, row.messages, size, *fixed)
        found.setdefault(key, []).append((axis_value(along, row, parameters), row))
    result = []
    for points in found.values():
        points.sort(key=lambda point: point[0])
        if points[0][0] > 0 and points[-1][0] >= span * points[0][0]:
            first = points[0][1]
            result.append(
                Curve(
                    protocol=protocol,
                    study=first.study,
                    workload=first.workload,
                    network=first.network,
                    points=tuple(points),
                )
            )
    return result


def ratios(
    tables: Tables,
    measure: str,
    above: str,
    below: str,
    *,
    where: Callable[[SummaryRow, Parameters], bool] | None = None,
) -> list[SummaryRow]:
    """Return the measure of ``above`` divided by that of ``below``.

    There is one row per group of ``below``. Its mean is the mean of the seeds' ratios, each
    of two runs with the same workload and network.
    """
    result = []
    for study in tables.studies:
        partners = {cell.comparable: cell for cell in study.cells if cell.protocol == above}
        groups: dict[str, list[float]] = {}
        for cell in study.cells:
            partner = partners.get(cell.comparable)
            if cell.protocol == below and partner is not None:
                ratio = _ratio(study, measure, partner, cell)
                if ratio is not None:
                    groups.setdefault(cell.group, []).append(ratio)
        for row in study.summary:
            if row.measure != measure or row.group not in groups:
                continue
            if where is None or where(row, study.parameters[row.group]):
                name = f"{measure} of {above} / {below}"
                result.append(
                    replace(row, measure=name, **mean_interval(groups[row.group]))
                )
    return result


def mean_interval(values: Sequence[float]) -> dict[str, Any]:
    """Return the columns of the summary table for the values of several seeds."""
    mean, count = fmean(values), len(values)
    if count < 2:
        return {"seeds": count, "mean": mean, "deviation": None, "low": None, "high": None}
    deviation = stdev(values)
    half = student_t(count - 1) * deviation / sqrt(count)
    return {
        "seeds": count,
        "mean": mean,
        "deviation": deviation,
        "low": mean - half,
        "high": mean + half,
    }


def round_trip(tables: Tables, row: SummaryRow) -> float | None:
    """Return the mean round-trip time: twice the mean network delay in the same runs."""
    wire = tables.mean_of(row, "wire_mean")
    return 2 * wire if wire else None


def in_round_trips(tables: Tables, measure: str, protocol: str) -> list[float]:
    """Return a time in round trips, on networks without loss or bandwidth limit."""
    found = []
    for row in tables.rows(measure, protocol=protocol, where=bandwidth_unlimited):
        trip = round_trip(tables, row)
        if trip:
            found.append((row.mean or 0.0) / trip)
    return found


def control_per_copy(tables: Tables, protocol: str) -> list[float]:
    """Return the number of control frames per copy, on reliable networks."""
    found = []
    for row in tables.rows("control_frames", protocol=protocol, where=reliable):
        copies = tables.mean_of(row, "copies")
        if copies:
            found.append((row.mean or 0.0) / copies)
    return found


def verdict_counts(
    tables: Tables,
    protocol: str,
    which: str,
    *,
    where: Callable[[CellRow, Parameters], bool] | None = None,
) -> dict[str, int]:
    """Count the runs of a protocol by the status of a property."""
    counts = {"held": 0, "violated": 0, "unknown": 0, "no verdict": 0}
    for study in tables.studies:
        verdicts = {verdict.run: verdict for verdict in study.verdicts}
        for cell in study.run_cells:
            if cell.protocol != protocol:
                continue
            if where is not None and not where(cell, study.parameters[cell.group]):
                continue
            verdict = verdicts.get(cell.cell)
            status = verdict.statuses.get(which) if verdict is not None else None
            counts[status or "no verdict"] += 1
    return counts


def format_range(values: Iterable[float], form: str = "{:.2f}") -> str:
    """Format the smallest and the largest of some numbers."""
    numbers = list(values)
    low, high = form.format(min(numbers)), form.format(max(numbers))
    return low if low == high else f"{low} to {high}"


def _ratio(
    study: StudyTables, measure: str, above: CellRow, below: CellRow
) -> float | None:
    over = study.values.get(above.cell, {}).get(measure)
    under = study.values.get(below.cell, {}).get(measure)
    return over / under if over is not None and under else None
