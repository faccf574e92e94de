"""Numba kernels that process a run as flat arrays."""
