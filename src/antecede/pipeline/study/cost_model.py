"""What a cell will take, estimated before it is run.

The figures are rough: good enough to share cells out evenly among tasks, and to tell a
cell that fits from one that is ten times too large. They were fitted to runs of the
compiled simulator on one core; docs/studies.md says how.
"""

import math
from dataclasses import dataclass

from antecede.core.registry import protocol
from antecede.sim.overlays import EXCHANGE_S, overlay_parameters
from antecede.sim.simulate import Scenario
from antecede.sim.workloads.services import (
    Conversation,
    Microservices,
    Pipeline,
    RequestReply,
)
from antecede.sim.workloads.synthetic import Broadcast, Traffic, Workload

__all__ = ["Estimate", "copies", "estimate"]

BASE_BYTES = 150 << 20
"""A worker with nothing to do."""
PROCESS_BYTES = 3000
"""A process, and what the loop knows of it."""
COPY_BYTES = 2000
"""A copy that is on its way or waits, and its events before they are written."""
SHARE_UNDER_WAY = 0.5
"""Of all copies of a run: how many may be on their way or wait at once, at the worst."""
PAIR_BYTES = {"matrix": 105.0, "vector": 152.0, "newtop": 17.0}
"""What a process keeps for every member of its group, whether it speaks to it or not."""
MICROSECONDS = {
    # For each copy: what it takes with 100 processes, and how that grows with them.
    "hybrid": (20.0, 0.15),
    "hybrid-basic": (20.0, 0.15),
    "cykas": (13.0, 0.2),
    "matrix": (25.0, 1.8),
    "optimal": (27.0, 1.0),
    "vector": (6.0, 0.7),
    "newtop": (20.0, 1.0),
    "flood": (14.0, 0.1),
    "preventive": (14.0, 0.1),
    "tree": (20.0, 0.4),
}
MICROSECONDS_ELSE = (10.0, 0.2)
LINK_LAYER = 1.5
"""How many times as long a protocol takes on top of the link layer."""
EXCHANGE_MICROSECONDS = {"flood": 300.0, "preventive": 1500.0}
"""What an exchange of Spray's takes, with all links that come and go by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a run takes."""

    copies: int
    """How many copies of messages are sent to other processes."""
    memory_bytes: float
    """At the peak."""
    seconds: float
    """Of one core, to simulate it."""


def estimate(scenario: Scenario) -> Estimate:
    """Estimate what a run of ``scenario`` takes, without running it."""
    n = scenario.processes
    count = copies(scenario.make_workload())
    pair = PAIR_BYTES.get(scenario.protocol, 0.0)
    memory = BASE_BYTES + n * (PROCESS_BYTES + pair * n)
    memory += SHARE_UNDER_WAY * count * (COPY_BYTES + _metadata_bytes(scenario))
    base, exponent = MICROSECONDS.get(scenario.protocol, MICROSECONDS_ELSE)
    each = base * max(1.0, n / 100) ** exponent
    able = protocol(scenario.protocol).capabilities
    if not able.loss and not scenario.reliable:
        each *= LINK_LAYER
    total = each * count
    spray = overlay_parameters(scenario.overlay)
    if able.overlay and "until_s" in spray:
        exchanges = n * spray["until_s"] / spray.get("exchange_s", EXCHANGE_S)
        total += exchanges * EXCHANGE_MICROSECONDS[scenario.protocol]
    return Estimate(copies=count, memory_bytes=memory, seconds=1e-6 * total)


def _metadata_bytes(scenario: Scenario) -> float:
    """Return what a copy's metadata takes in memory, where it grows with the group."""
    n = scenario.processes
    if scenario.protocol == "matrix":
        return 16.0 * n  # A row of its own, and references to all others.
    if scenario.protocol == "optimal":
        return 10_000 * math.pow(
            n / 1000, 0.54
        )  # On service graphs; it depends on the traffic.
    return 0.0


def copies(workload: Workload) -> int:
    """Return how many copies of messages go to other processes, or about so many."""
    n = workload.processes
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
    if isinstance(workload, Traffic):
        return n * workload.messages * workload.fan_out_max
    if isinstance(workload, Microservices):
        fronts = (n + workload.layers - 1) // workload.layers
        calls = sum(
            math.pow(workload.fan_out, layer) for layer in range(1, workload.layers)
        )
        return int(2 * fronts * workload.messages * calls)
    return n
