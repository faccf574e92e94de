"""Helpers for tests of code that is built on antecede."""

from antecede.testing.cluster import Cluster, Packet

__all__ = ["Cluster", "Packet"]
