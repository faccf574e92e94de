"""Helpers for tests of code that is built on antecede.

``antecede.testing.strategies`` holds Hypothesis strategies; import it by name, since it
needs the extra ``antecede[testing]``.
"""

from antecede.testing.cluster import Cluster, Packet
from antecede.testing.replay import replay
from antecede.testing.schedule import Act, Step, play, random_schedule

__all__ = ["Act", "Cluster", "Packet", "Step", "play", "random_schedule", "replay"]
