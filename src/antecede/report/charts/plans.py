"""Titles of measures and axes, and the figures of the built-in studies."""

from dataclasses import dataclass

from antecede.pipeline.study.measure_schema import MEASURES
from antecede.report.charts.spec import Axis

__all__ = [
    "AXES",
    "MEASURE_TITLES",
    "FigurePlan",
    "find_plan",
    "grid_title",
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
        Axis(name="service_time", title="length of a job (s)", log=True),
        Axis(name="gap", title="time between sends (s)", log=True),
        Axis(name="loss", title="loss (share of frames)"),
        Axis(name="bandwidth", title="bandwidth (bytes/s)", log=True),
    )
}
"""The parameters for the horizontal axis; the first one that varies is used."""

MEASURE_TITLES = {
    "latency_mean": "Latency",
    "latency_p99": "Latency, 99th percentile",
    "living_delivered_share": "Share delivered among the living",
    "non_causal_latency_mean": "Latency beyond the minimum for causal order",
    "sender_wait_mean": "Wait at the sender",
    "receiver_wait_mean": "Wait at the receiver",
    "metadata_bytes_mean": "Metadata per message",
    "metadata_bytes_total": "Metadata of all frames, with control frames",
    "control_frames": "Control frames",
    "throughput": "Throughput",
    "execution_time": "Execution time",
    "job_start_mean": "Start of jobs",
    "in_transit_max": "Most copies in transit",
    "sender_buffer_max": "Most copies queued at a sender",
    "receiver_buffer_max": "Most copies held at a receiver",
    "execution_speedup": "Speed-up of the execution over buffer",
    "job_start_speedup": "Speed-up of job starts over buffer",
    "in_transit_source_max": "Most copies of one source in transit",
    "in_transit_pair_max": "Most copies between two processes in transit",
    "view_links": "Links of a process, only of views",
    "view_mean_path": "Shortest path along links of views",
    "unsafe_links": "Links that are not yet safe",
    "mean_path": "Shortest path",
    "links": "Links of a process",
    "state_numbers_mean": "Numbers kept by a process",
    "sender_work_us": "Processor time per message at the sender",
    "receiver_work_us": "Processor time per message at the receiver",
}
"""The measures with a figure in every study that has them, and their titles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigurePlan:
    """The figures of a grid."""

    title: str
    """The title of the grid."""
    measures: tuple[str, ...]
    """The measures with a figure, the most important first."""
    axis: str | None = None
    """The parameter of the horizontal axis; None for the first one that varies."""


FIGURE_PLANS = {
    "fig4": FigurePlan(
        title="Cykas, Figure 4: many processes, little bandwidth",
        measures=("execution_time", "metadata_bytes_mean"),
        axis="ratio",
    ),
    "fig5": FigurePlan(
        title="Cykas, Figure 5: messages that start jobs",
        measures=(
            "execution_speedup",
            "job_start_speedup",
            "execution_time",
            "job_start_mean",
        ),
        axis="service_time",
    ),
    "fig6": FigurePlan(
        title="Cykas, Figure 6: hotspots",
        measures=("execution_speedup", "execution_time"),
        axis="hot",
    ),
    "fig7": FigurePlan(
        title="PC-broadcast, Figure 7: changing links",
        measures=("unsafe_links", "view_mean_path", "mean_path", "view_links", "links"),
        axis="delay",
    ),
    "changing": FigurePlan(
        title="Several broadcasts on changing links",
        measures=("latency_mean", "metadata_bytes_mean", "receiver_wait_mean"),
        axis="delay",
    ),
    "growth": FigurePlan(
        title="Almeida, Table 1: growth with the number of processes",
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
    "broadcast-growth": FigurePlan(
        title="Nédelec et al., Table 1: growth with the number of processes",
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
    "round-trip": FigurePlan(
        title="Almeida, Table 1: throughput by the delay of a link",
        measures=(
            "throughput",
            "in_transit_source_max",
            "in_transit_pair_max",
            "non_causal_latency_mean",
            "sender_buffer_max",
        ),
        axis="delay",
    ),
    "backlog": FigurePlan(
        title="Almeida, Table 1: latency by the time between sends",
        measures=("non_causal_latency_mean", "sender_buffer_max", "sender_wait_mean"),
        axis="gap",
    ),
    "services": FigurePlan(
        title="Microservices that call each other",
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
    # charts/budget.py has the figures of these grids.
    "budget": FigurePlan(title="Bounded against its budget", measures=()),
}
"""By prefix of the name of a grid or a study."""
DEFAULT_PLAN = FigurePlan(title="", measures=tuple(MEASURE_TITLES))


def find_plan(grid: str, study: str) -> FigurePlan:
    """Return the plan of a grid: by its own name, by its study's, or the default."""
    for name in (grid, study):
        for prefix, plan in FIGURE_PLANS.items():
            if name.removeprefix("cykas-").removeprefix("pc-").startswith(prefix):
                return plan
    return DEFAULT_PLAN


def grid_title(study: str, grid: str) -> str:
    """Return the title of a grid; empty if it is not in a built-in study."""
    return find_plan(grid, study).title if grid else ""


def title_of(measure: str) -> str:
    """Return the title of a measure."""
    return MEASURE_TITLES.get(measure, measure.replace("_", " ").capitalize())


def unit_of(measure: str) -> str:
    """Return the unit of a measure; empty if the measure is unknown."""
    known = MEASURES.get(measure)
    return known.unit if known is not None else ""
