"""Workloads: which process sends what to whom, and when."""
