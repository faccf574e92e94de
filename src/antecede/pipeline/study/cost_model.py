"""Estimates of the time and memory that a cell takes, before it is run.

The estimates are rough: good enough to divide cells evenly among tasks, and to tell a cell
that fits into memory from one that is ten times too large. They were fitted to runs of the
compiled simulator on one core; docs/reference/study-file.md describes the fit.
"""

import math
from dataclasses import dataclass

from antecede.core.registry import protocol
from antecede.sim.overlays import EXCHANGE_S, overlay_parameters
from antecede.sim.simulate import Scenario
from antecede.sim.workloads.program import Program
from antecede.sim.workloads.services import (
    Conversation,
    Microservices,
    Pipeline,
    RequestReply,
)
from antecede.sim.workloads.synthetic import Broadcast, SyntheticWorkload
from antecede.sim.workloads.workload import Workload

__all__ = ["Estimate", "copies", "estimate"]

BASE_BYTES = 150 << 20
"""An idle worker."""
PROCESS_BYTES = 3000
"""A process and the simulator's state for it."""
COPY_BYTES = 2000
"""A copy that is queued, in flight or held, and its events before they are written."""
PEAK_COPIES_SHARE = 0.5
"""The share of a run's copies that are queued, in flight or held at once, at worst."""
PAIR_BYTES = {"matrix": 105.0, "vector": 152.0, "newtop": 17.0}
"""State of a process for every member of its group, whether or not they communicate."""
MICROSECONDS = {
    # Per copy: the time with 100 processes, and the exponent of its growth with them.
    "hybrid": (20.0, 0.15),
    "hybrid-basic": (20.0, 0.15),
    "bounded": (40.0, 0.15),
    "cykas": (13.0, 0.2),
    "matrix": (25.0, 1.8),
    "optimal": (27.0, 1.0),
    "vector": (6.0, 0.7),
    "newtop": (20.0, 1.0),
    "flood": (14.0, 0.1),
    "pc-broadcast": (14.0, 0.1),
    "tree": (20.0, 0.4),
}
MICROSECONDS_ELSE = (10.0, 0.2)
LINK_LAYER = 1.5
"""The factor for a protocol that runs on top of the link layer."""
EXCHANGE_MICROSECONDS = {"flood": 300.0, "pc-broadcast": 1500.0}
"""Time of an exchange of Spray, including the links that it adds and removes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The estimated cost of a run."""

    copies: int
    """Copies of messages to other processes."""
    memory_bytes: float
    """Peak memory."""
    seconds: float
    """Time of one core to simulate it."""


def estimate(scenario: Scenario) -> Estimate:
    """Estimate the cost of a run of ``scenario``, without running it."""
    n = scenario.processes
    count = copies(scenario.make_workload())
    pair = PAIR_BYTES.get(scenario.protocol, 0.0)
    memory = BASE_BYTES + n * (PROCESS_BYTES + pair * n)
    memory += PEAK_COPIES_SHARE * count * (COPY_BYTES + _metadata_bytes(scenario))
    base, exponent = MICROSECONDS.get(scenario.protocol, MICROSECONDS_ELSE)
    each = base * max(1.0, n / 100) ** exponent
    capabilities = protocol(scenario.protocol).capabilities
    if not capabilities.loss and not scenario.reliable:
        each *= LINK_LAYER
    total = each * count
    spray = overlay_parameters(scenario.overlay)
    if capabilities.overlay and "until_s" in spray:
        exchanges = n * spray["until_s"] / spray.get("exchange_s", EXCHANGE_S)
        total += exchanges * EXCHANGE_MICROSECONDS[scenario.protocol]
    return Estimate(copies=count, memory_bytes=memory, seconds=1e-6 * total)


def _metadata_bytes(scenario: Scenario) -> float:
    """Return the memory of a copy's metadata, for protocols where it grows with n."""
    n = scenario.processes
    if scenario.protocol == "matrix":
        return 16.0 * n  # A row of its own, and references to all others.
    if scenario.protocol == "optimal":
        # Measured on service graphs; it depends on the traffic.
        return 10_000 * math.pow(n / 1000, 0.54)
    return 0.0


def copies(workload: Workload) -> int:
    """Return the number of copies to other processes; for some workloads an estimate."""
    n = workload.processes
    if isinstance(workload, Program):
        sends = [send for own in workload.sends for send in own]
        return sum(n - 1 if send.targets is None else len(send.targets) for send in sends)
    if isinstance(workload, Broadcast):
        return workload.senders * workload.messages * (n - 1)
    if isinstance(workload, Pipeline):
        return workload.messages * (n - 1)
    if isinstance(workload, RequestReply):
        return 2 * (n - workload.servers) * workload.messages
    if isinstance(workload, Conversation):
        chain: float = sum(
            float(workload.reply_share) ** i for i in range(workload.depth + 1)
        )
        return round(n * workload.messages * chain)
    if isinstance(workload, SyntheticWorkload):
        return n * workload.messages * workload.fan_out_max
    if isinstance(workload, Microservices):
        fronts = (n + workload.layers - 1) // workload.layers
        calls = sum(
            math.pow(workload.fan_out, layer) for layer in range(1, workload.layers)
        )
        return int(2 * fronts * workload.messages * calls)
    return n
