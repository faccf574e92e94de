"""Which figures a study gets, and the points of each.

Of every study the measures of :data:`SHOWN` are drawn, against the parameter that the
study varies; for the other parameters that vary there are several charts side by side. The
built-in studies say themselves what they are about (:data:`PLANS`). No row of the summary
that belongs to a figure is left out of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite

from antecede.pipeline.study.measure import MEASURES
from antecede.report.charts.spec import Axis, Point, Spec, chart, sheet
from antecede.report.claims.evidence import NETWORK, WORKLOAD, axis_value
from antecede.report.tables import Setting, StudyTables, SummaryRow, Tables

__all__ = [
    "AXES",
    "Figure",
    "Panel",
    "Plan",
    "SHOWN",
    "grid_title",
    "make_figures",
    "title_of",
    "unit_of",
]

AXES = {
    axis.name: axis
    for axis in (
        Axis(name="processes", title="processes", log=True),
        Axis(name="ratio", title="processes per kB/s of bandwidth", log=True),
        Axis(name="delay", title="delay of a link (s)", log=True),
        Axis(name="hot", title="share of processes that are hotspots"),
        Axis(name="job", title="length of a job (s)", log=True),
        Axis(name="gap", title="time between sends (s)", log=True),
        Axis(name="loss", title="loss (share of frames)"),
        Axis(name="bandwidth", title="bandwidth (bytes/s)", log=True),
    )
}
"""What can go to the right, the first that varies before the others."""

SHOWN = {
    "latency_mean": "Latency",
    "latency_p99": "Latency, 99th percentile",
    "non_causal_latency_mean": "Latency beyond what causal order asks for",
    "sender_wait_mean": "Wait at the sender",
    "receiver_wait_mean": "Wait at the receiver",
    "metadata_bytes_mean": "Metadata of a message",
    "metadata_bytes_total": "All metadata, control frames and repeats too",
    "control_frames": "Control frames",
    "throughput": "Throughput",
    "execution_time": "Execution time",
    "job_start_mean": "Start of jobs",
    "in_transit_max": "Copies in transit at once",
    "sender_buffer_max": "Longest send buffer",
    "receiver_buffer_max": "Longest receive buffer",
    "execution_speedup": "Speed-up of execution over buffer",
    "job_start_speedup": "Speed-up of the start of jobs over buffer",
    "in_transit_source_max": "Copies of one source in transit at once",
    "in_transit_pair_max": "Copies between two processes in transit at once",
    "view_links": "Links of a process, of views only",
    "view_mean_path": "Shortest path along views only",
    "unsafe_links": "Links that are not safe yet",
    "mean_path": "Shortest path",
    "links": "Links of a process",
    "state_numbers_mean": "Numbers that a process keeps",
    "sender_work_us": "Work at the sender per message",
    "receiver_work_us": "Work at the receiver per message",
}
"""The measures that every study shows if it has them, and what to call them."""
ZERO_FRIENDLY = ("receiver_wait", "sender_wait", "non_causal", "control", "unsafe")
"""Measures that are often 0 start on a linear axis, which can show it."""
EMPTY = ("", "0", "0.0", "None", "False")
"""Settings that are not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One chart of a figure."""

    label: str
    """What sets it apart from the others; empty if it is alone."""
    points: tuple[Point, ...]
    spec: Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure: one measure of one study."""

    id: str
    study: str
    grid: str
    measure: str
    title: str
    unit: str
    axis: Axis
    log: bool
    panels: tuple[Panel, ...]
    zeros: int
    """How many points a logarithmic axis would not show."""
    from_zero: bool
    """Whether what goes to the right starts at 0, and cannot do so logarithmically."""
    seeds: int
    """The most seeds that a mean is over."""
    sheet: Spec
    """The same for a file of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a built-in study is about."""

    title: str
    """What to call it."""
    measures: tuple[str, ...]
    """In place of those of SHOWN, the most telling first."""
    axis: str | None = None


PLANS = {
    "fig4": Plan(
        title="Cykas, Figure 4: many processes, little bandwidth",
        measures=("execution_time", "metadata_bytes_mean"),
        axis="ratio",
    ),
    "fig5": Plan(
        title="Cykas, Figure 5: messages that start jobs",
        measures=(
            "execution_speedup",
            "job_start_speedup",
            "execution_time",
            "job_start_mean",
        ),
        axis="job",
    ),
    "fig6": Plan(
        title="Cykas, Figure 6: hotspots",
        measures=("execution_speedup", "execution_time"),
        axis="hot",
    ),
    "fig7": Plan(
        title="PC-broadcast, Figure 7: links that change",
        measures=("unsafe_links", "view_mean_path", "mean_path", "view_links", "links"),
        axis="delay",
    ),
    "changing": Plan(
        title="Several broadcasts while links come and go",
        measures=("latency_mean", "metadata_bytes_mean", "receiver_wait_mean"),
        axis="delay",
    ),
    "growth": Plan(
        title="Table 1 of Almeida: what grows with the number of processes",
        measures=(
            "metadata_bytes_mean",
            "state_numbers_mean",
            "receiver_work_us",
            "sender_work_us",
            "non_causal_latency_mean",
            "control_frames",
        ),
        axis="processes",
    ),
    "broadcast-growth": Plan(
        title="Table 1 of Nédelec et al.: what grows with the number of processes",
        measures=(
            "metadata_bytes_mean",
            "state_numbers_mean",
            "receiver_work_us",
            "sender_work_us",
            "latency_mean",
            "metadata_bytes_total",
        ),
        axis="processes",
    ),
    "round-trip": Plan(
        title="Table 1 of Almeida: throughput as the round trip grows",
        measures=(
            "throughput",
            "in_transit_source_max",
            "in_transit_pair_max",
            "non_causal_latency_mean",
            "sender_buffer_max",
        ),
        axis="delay",
    ),
    "backlog": Plan(
        title="Table 1 of Almeida: latency as more messages wait",
        measures=("non_causal_latency_mean", "sender_buffer_max", "sender_wait_mean"),
        axis="gap",
    ),
    "services": Plan(
        title="Services that call each other",
        measures=(
            "latency_mean",
            "throughput",
            "metadata_bytes_total",
            "latency_p99",
            "sender_wait_mean",
            "receiver_wait_mean",
            "sender_buffer_max",
            "receiver_buffer_max",
        ),
    ),
}
"""By how the name of a grid, or of a study, begins."""
OTHERWISE = Plan(title="", measures=tuple(SHOWN))


def make_figures(tables: Tables) -> list[Figure]:
    """Make all figures, study by study."""
    return [figure for study in tables.studies for figure in _of_study(study)]


def grid_title(study: str, grid: str) -> str:
    """Return what to call a part of a study; empty if it is not a built-in one."""
    return _plan(grid, study).title if grid else ""


def title_of(measure: str) -> str:
    """Return what to call a measure in a heading."""
    if measure in SHOWN:
        return SHOWN[measure]
    return measure.replace("_", " ").capitalize()


def unit_of(measure: str) -> str:
    """Return the unit of a measure, with what it means where that needs saying."""
    known = MEASURES.get(measure)
    return known.unit if known is not None else ""


def _of_study(study: StudyTables) -> list[Figure]:
    grids = dict.fromkeys(row.grid for row in study.summary)
    return [figure for grid in grids for figure in _of_grid(study, grid)]


def _of_grid(study: StudyTables, grid: str) -> list[Figure]:
    plan = _plan(grid, study.name)
    here = [row for row in study.summary if row.grid == grid and row.mean is not None]
    figures = []
    for measure in plan.measures:
        rows = [row for row in here if row.measure == measure]
        if rows and any(row.mean for row in rows):
            figures.append(_figure(study, rows, measure, plan.axis))
    return figures


def _plan(*names: str) -> Plan:
    for name in names:
        for start, plan in PLANS.items():
            if name.removeprefix("cykas-").removeprefix("pc-").startswith(start):
                return plan
    return OTHERWISE


def _figure(
    study: StudyTables,
    rows: Sequence[SummaryRow],
    measure: str,
    wanted: str | None,
) -> Figure:
    title, unit = title_of(measure), unit_of(measure)
    axis = _choose_axis(study, rows, wanted)
    grid = rows[0].grid
    log = _suits_log(measure, [row.mean or 0.0 for row in rows])
    found: dict[str, list[SummaryRow]] = {}
    label = _labeller(study, rows, axis)
    for row in rows:
        found.setdefault(label(row), []).append(row)
    panels, parts = [], []
    for name, some in found.items():
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
    study: StudyTables, rows: Sequence[SummaryRow], wanted: str | None
) -> Axis:
    """Take what was asked for if it varies, else the first parameter that does."""
    for name in (*([wanted] if wanted else []), *AXES):
        values = {axis_value(name, row, study.settings[row.group]) for row in rows}
        if len(values) > 1 and all(isfinite(value) for value in values):
            axis = AXES[name]
            if axis.log and min(values) <= 0:
                return Axis(name=axis.name, title=axis.title)
            return axis
    return AXES["processes"]


def _labeller(
    study: StudyTables, rows: Sequence[SummaryRow], axis: Axis
) -> Callable[[SummaryRow], str]:
    """Return what names the chart of a row: all that varies but the axis."""

    def parts(row: SummaryRow) -> dict[str, str]:
        setting = study.settings[row.group]
        found = {"workload": row.workload}
        if axis.name in ("gap", "job", "hot"):
            found = _rest(setting, WORKLOAD, axis.name)
        if axis.name in ("delay", "loss", "bandwidth", "ratio"):
            found |= _rest(setting, NETWORK, axis.name)
        else:
            found["network"] = row.network
        if axis.name not in ("processes", "ratio"):
            found["size"] = f"{row.processes:,} processes"
        found["messages"] = f"{row.messages:,} messages each"
        return found

    all_parts = [parts(row) for row in rows]
    varying = [key for key in all_parts[0] if len({each[key] for each in all_parts}) > 1]
    return lambda row: " · ".join(parts(row)[key] for key in varying)


def _rest(setting: Setting, keys: Sequence[str], axis: str) -> dict[str, str]:
    """Name the settings that an axis leaves, in the words of the command line."""
    gone = {"ratio": "bandwidth", "hot": "traffic"}.get(axis, axis)
    # The share of messages with a job says nothing that the job itself does not.
    values = {key: setting.get(key) for key in keys if key not in (gone, "job_share")}
    none = {"job": "no jobs", "loss": "no loss"}
    return {
        key: none.get(key, f"no {key}") if str(value) in EMPTY else f"{key} {value}"
        for key, value in values.items()
    }


def _suits_log(measure: str, means: Sequence[float]) -> bool:
    if any(measure.startswith(word) for word in ZERO_FRIENDLY) or "speedup" in measure:
        return False
    positive = [mean for mean in means if mean > 0]
    return len(positive) == len(means) and max(positive) > 20 * min(positive)


def _point(row: SummaryRow, axis: Axis, study: StudyTables) -> Point:
    assert row.mean is not None
    return Point(
        protocol=row.protocol,
        x=axis_value(axis.name, row, study.settings[row.group]),
        mean=row.mean,
        low=row.low,
        high=row.high,
        seeds=row.seeds,
        group=row.group,
        # A ratio has two sides, and a line is about one of them.
        series=row.network if axis.name == "ratio" else "",
    )
