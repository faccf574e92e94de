"""Helpers for tests of code that is built on antecede.

:mod:`antecede.testing.strategies` holds Hypothesis strategies; import it by name, because
it needs the extra ``antecede[testing]``.
"""

from antecede.testing.cluster import Cluster, Packet
from antecede.testing.replay import replay
from antecede.testing.schedule import Step, StepKind, random_schedule, run_schedule

__all__ = [
    "Cluster",
    "Packet",
    "Step",
    "StepKind",
    "random_schedule",
    "replay",
    "run_schedule",
]
