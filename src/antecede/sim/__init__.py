"""The simulator: real protocol classes in virtual time, on a hostile network."""

from antecede.sim.churn import Churn, Join, Leave, LinkChange
from antecede.sim.network import Network, Partition, Pause
from antecede.sim.runner import Outcome, run
from antecede.sim.simulate import Scenario, Simulation, simulate, simulate_to

__all__ = [
    "Churn",
    "Join",
    "Leave",
    "LinkChange",
    "Network",
    "Outcome",
    "Partition",
    "Pause",
    "Scenario",
    "Simulation",
    "run",
    "simulate",
    "simulate_to",
]
