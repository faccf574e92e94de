"""The table of a study's cells: their scenarios and estimated costs."""

from dataclasses import asdict
from math import exp, inf

import pyarrow as pa

from antecede.pipeline.study.study import Cell
from antecede.sim.delay import Everywhere, parse_delay
from antecede.sim.distribution import (
    Constant,
    Distribution,
    Exponential,
    LogNormal,
    Normal,
    Uniform,
    parse_distribution,
)
from antecede.sim.workloads.catalogue import WORKLOADS, workload_parameters

__all__ = ["CELLS_SCHEMA", "cell_row"]

PARAMETERS = sorted({name for _, known in WORKLOADS.values() for name in known})
"""The parameters of all workloads; null where the cell's workload does not set them."""
CELLS_SCHEMA = pa.schema(
    [
        pa.field("cell", pa.string(), nullable=False),
        pa.field("grid", pa.string(), nullable=False),
        pa.field("protocol", pa.string(), nullable=False),
        pa.field("workload", pa.string(), nullable=False),
        pa.field("network", pa.string(), nullable=False),
        pa.field("processes", pa.int32(), nullable=False),
        pa.field("messages", pa.int32(), nullable=False),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        pa.field("comparable", pa.string(), nullable=False),
        pa.field("command", pa.string(), nullable=False),
        # The scenario, for charts of a measure over one of its parameters.
        pa.field("traffic", pa.string(), nullable=False),
        *[pa.field(f"traffic_{name}", pa.float64()) for name in PARAMETERS],
        pa.field("gap", pa.string(), nullable=False),
        pa.field("gap_s", pa.float64()),
        pa.field("payload_bytes", pa.string(), nullable=False),
        pa.field("payload_bytes_mean", pa.float64()),
        pa.field("service_time", pa.string(), nullable=False),
        pa.field("service_time_s", pa.float64()),
        pa.field("service_share", pa.float64(), nullable=False),
        pa.field("delay", pa.string(), nullable=False),
        pa.field("delay_s", pa.float64()),
        pa.field("bandwidth", pa.float64()),
        pa.field("loss", pa.float64(), nullable=False),
        pa.field("duplicate", pa.float64(), nullable=False),
        pa.field("reorder", pa.float64(), nullable=False),
        pa.field("reliable", pa.bool_(), nullable=False),
        pa.field("first_timeout_s", pa.float64(), nullable=False),
        pa.field("budget_bytes", pa.float64()),
        pa.field("overlay", pa.string(), nullable=False),
        pa.field("silent_members", pa.int32(), nullable=False),
        pa.field("silent_from_s", pa.float64(), nullable=False),
        pa.field("probe", pa.string(), nullable=False),
        pa.field("until_s", pa.float64()),
        # The estimated cost, and why the cell is not run, if so.
        pa.field("estimated_bytes", pa.float64(), nullable=False),
        pa.field("estimated_s", pa.float64(), nullable=False),
        pa.field("too_large", pa.string()),
    ]
)
"""Columns named ``_s`` are means in seconds; null stands for no bound, or no such
parameter."""


def cell_row(cell: Cell) -> dict[str, object]:
    """Return a cell as a row of the table."""
    scenario = cell.scenario
    parameters = workload_parameters(scenario.workload)
    cost = cell.estimate
    row: dict[str, object] = asdict(scenario)
    row |= {f"traffic_{name}": parameters.get(name) for name in PARAMETERS}
    row |= {
        "cell": cell.id,
        "grid": cell.grid,
        "workload": cell.workload,
        "traffic": scenario.workload,
        "network": cell.network,
        "group": cell.group,
        "comparable": cell.comparable,
        "command": scenario.command(),
        "gap_s": _mean(scenario.gap),
        "payload_bytes_mean": _mean(scenario.payload_bytes),
        "service_time_s": _mean(scenario.service_time),
        "delay_s": _mean_delay(scenario.delay),
        "bandwidth": scenario.bandwidth if scenario.bandwidth < inf else None,
        "budget_bytes": scenario.budget_bytes if scenario.budget_bytes < inf else None,
        "until_s": scenario.until_s if scenario.until_s < inf else None,
        "estimated_bytes": cost.memory_bytes,
        "estimated_s": cost.seconds,
        "too_large": cell.too_large or None,
    }
    return row


def _mean_delay(text: str) -> float | None:
    """Return the mean of a delay; None if it depends on source and target."""
    delay = parse_delay(text)
    return _mean_of(delay.distribution) if isinstance(delay, Everywhere) else None


def _mean(text: str) -> float:
    return _mean_of(parse_distribution(text))


def _mean_of(distribution: Distribution) -> float:
    """Return the mean of a distribution; the truncation of a normal one is ignored."""
    if isinstance(distribution, Constant):
        return float(distribution.value)
    if isinstance(distribution, Uniform):
        return (distribution.low + distribution.high) / 2
    if isinstance(distribution, Exponential):
        return distribution.minimum + distribution.mean
    if isinstance(distribution, LogNormal):
        return distribution.median * exp(distribution.sigma**2 / 2)
    assert isinstance(distribution, Normal)
    return distribution.mean
