"""What figures and claims are computed from: curves, fitted exponents, paired ratios.

Everything here is a function of the tables. An exponent is the slope of the least-squares
line through the logarithms of both coordinates: 0 is constant, 1 linear, 2 quadratic. A
ratio is taken seed by seed between two runs that do the same work on the same network, and
summed up as the summary table does it (Student's t, 95 %).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf, log, nan, sqrt
from statistics import fmean, stdev
from typing import Any

from antecede.pipeline.study.intervals import student_t
from antecede.pipeline.study.study_file import NETWORK_KEYS
from antecede.report.claims.conditions import reliable, unhurried
from antecede.report.tables import (
    CellRow,
    Setting,
    StudyTables,
    SummaryRow,
    Tables,
)
from antecede.sim.workloads.synthetic import HOT

__all__ = [
    "NETWORK",
    "WORKLOAD",
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
    "spread",
    "verdict_counts",
]

COLUMNS = {"delay": "delay_s", "gap": "gap_s", "job": "job_s"}
"""Where the mean of a distribution is."""
NETWORK = tuple(NETWORK_KEYS)
WORKLOAD = ("traffic", "gap", "size", "job", "job_share")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A power law through some points."""

    exponent: float
    error: float | None
    """The exponent's standard error; None with two points only, which any law fits."""
    points: int

    def __str__(self) -> str:
        """Write the exponent as a reader wants it."""
        about = f" ± {self.error:.2f}" if self.error is not None else ""
        return f"n^{self.exponent:.2f}{about}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A measure of one protocol along one parameter, all else being equal."""

    protocol: str
    study: str
    workload: str
    network: str
    points: tuple[tuple[float, SummaryRow], ...]
    """The parameter and the row, by growing parameter."""

    @property
    def fit(self) -> Fit:
        """Return the power law through the means."""
        return fit_exponent([(x, row.mean or 0.0) for x, row in self.points])

    @property
    def label(self) -> str:
        """Return where the curve is from, for a reader."""
        return f"{self.workload}, {self.network}"


def fit_exponent(points: Sequence[tuple[float, float]]) -> Fit:
    """Fit a power law; points that are not positive have no logarithm and are left out."""
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


def axis_value(name: str, row: SummaryRow, setting: Setting) -> float:
    """Return the number that a parameter has in the runs behind a row."""
    if name == "processes":
        return float(row.processes)
    bandwidth = setting["bandwidth"] or inf
    if name == "ratio":
        return row.processes / (bandwidth / 1000)
    if name == "bandwidth":
        return bandwidth
    if name == "hot":
        hot = setting.get("traffic_hot")
        if not str(setting["traffic"]).startswith("hotspot"):
            return 0.0
        return HOT if hot is None else float(hot)
    value = setting.get(COLUMNS.get(name, name))
    return nan if value is None else float(value)


def curves(
    tables: Tables,
    measure: str,
    protocol: str,
    *,
    along: str = "processes",
    where: Callable[[SummaryRow, Setting], bool] | None = None,
    span: float = 2.0,
) -> list[Curve]:
    """Return the curves of a measure along a parameter that spans at least a factor."""
    found: dict[tuple[object, ...], list[tuple[float, SummaryRow]]] = {}
    for row in tables.rows(measure, protocol=protocol, where=where):
        setting = tables.setting(row)
        keys = [key for key in (*NETWORK, *WORKLOAD) if key != along]
        if along == "hot":
            keys.remove("traffic")
        fixed = [setting.get(key) for key in keys]
        size = 0 if along == "processes" else row.processes
        key = (row.study, row.grid, row.messages, size, *fixed)
        found.setdefault(key, []).append((axis_value(along, row, setting), row))
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
    where: Callable[[SummaryRow, Setting], bool] | None = None,
) -> list[SummaryRow]:
    """Return what ``above`` has over what ``below`` has, for the same work and network.

    One row per group of ``below``, whose mean is the mean over seeds of the ratio.
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
            if where is None or where(row, study.settings[row.group]):
                name = f"{measure} of {above} / {below}"
                result.append(
                    replace(row, measure=name, **mean_interval(groups[row.group]))
                )
    return result


def mean_interval(values: Sequence[float]) -> dict[str, Any]:
    """Sum values of several seeds up as the summary table does."""
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
    """Return the round trip that the network of a row allows, from what it measured.

    It is twice the mean time that a frame was on the wire in the same runs.
    """
    wire = tables.other(row, "wire_mean")
    return 2 * wire if wire else None


def in_round_trips(tables: Tables, measure: str, protocol: str) -> list[float]:
    """Return a time in round trips, where neither loss nor bandwidth has a part in it."""
    found = []
    for row in tables.rows(measure, protocol=protocol, where=unhurried):
        trip = round_trip(tables, row)
        if trip:
            found.append((row.mean or 0.0) / trip)
    return found


def control_per_copy(tables: Tables, protocol: str) -> list[float]:
    """Return the control frames per copy of a message, on reliable networks."""
    found = []
    for row in tables.rows("control_frames", protocol=protocol, where=reliable):
        copies = tables.other(row, "copies")
        if copies:
            found.append((row.mean or 0.0) / copies)
    return found


def verdict_counts(
    tables: Tables,
    protocol: str,
    which: str,
    *,
    where: Callable[[CellRow, Setting], bool] | None = None,
) -> dict[str, int]:
    """Count the runs of a protocol by what the oracle said of a property."""
    counts = {"held": 0, "violated": 0, "unknown": 0, "no verdict": 0}
    for study in tables.studies:
        verdicts = {verdict.run: verdict for verdict in study.verdicts}
        for cell in study.run_cells:
            if cell.protocol != protocol:
                continue
            if where is not None and not where(cell, study.settings[cell.group]):
                continue
            verdict = verdicts.get(cell.cell)
            status = verdict.statuses.get(which) if verdict is not None else None
            counts[status or "no verdict"] += 1
    return counts


def spread(values: Iterable[float], form: str = "{:.2f}") -> str:
    """Write the range of some numbers."""
    sorted_values = sorted(values)
    low, high = form.format(sorted_values[0]), form.format(sorted_values[-1])
    return low if low == high else f"{low} to {high}"


def _ratio(
    study: StudyTables, measure: str, above: CellRow, below: CellRow
) -> float | None:
    over = study.values.get(above.cell, {}).get(measure)
    under = study.values.get(below.cell, {}).get(measure)
    return over / under if over is not None and under else None
