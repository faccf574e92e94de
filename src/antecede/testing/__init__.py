"""Helpers for tests of code that is built on antecede.

:class:`Simulation` runs programs with real nodes under faults, in virtual time.
:class:`Cluster` runs processes of a protocol step by step.
:mod:`antecede.testing.strategies` holds Hypothesis strategies; import it by name, because
it needs the extra ``antecede[testing]``.
"""

from antecede.net.faults import Faults
from antecede.testing.cluster import Cluster, Packet
from antecede.testing.replay import replay
from antecede.testing.schedule import Step, StepKind, random_schedule, run_schedule
from antecede.testing.simulation import Simulation

__all__ = [
    "Cluster",
    "Faults",
    "Packet",
    "Simulation",
    "Step",
    "StepKind",
    "random_schedule",
    "replay",
    "run_schedule",
]
