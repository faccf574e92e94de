"""The simulator: real protocol classes in virtual time, on a hostile network."""

from antecede.sim.network import Network
from antecede.sim.runner import Run, simulate
from antecede.sim.summary import Summary, summarise

__all__ = ["Network", "Run", "Summary", "simulate", "summarise"]
