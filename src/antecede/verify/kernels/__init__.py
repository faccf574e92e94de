"""Compiled kernels that walk a run as flat arrays (numba)."""
