"""The simulator: real protocol classes in virtual time, on a faulty network."""

from antecede.sim.churn import Churn, Join, Leave, LinkChange
from antecede.sim.network import Network, Partition, Pause
from antecede.sim.runner import RunSummary, run
from antecede.sim.simulate import Scenario, SimulationResult, simulate, simulate_to

__all__ = [
    "Churn",
    "Join",
    "Leave",
    "LinkChange",
    "Network",
    "Partition",
    "Pause",
    "RunSummary",
    "Scenario",
    "SimulationResult",
    "run",
    "simulate",
    "simulate_to",
]
