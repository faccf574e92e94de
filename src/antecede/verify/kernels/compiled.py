"""The decorator that compiles the kernels of this package.

Numba caches a compiled function under the file that defines it, and does not notice a
change in another file that the function calls. So a compiled function calls only functions
of its own module; Python code combines the modules, a batch at a time.

A kernel unpacks a tuple of arrays once, at the start: each access to an array of a tuple
counts a reference, which in a loop can cost more than the work itself.

This module needs the extra ``antecede[trace]``.
"""

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

__all__ = ["compiled"]

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile ``function`` at its first call, and cache the machine code on disk.

    Without a writable cache directory (set ``NUMBA_CACHE_DIR``), every program compiles it
    again.
    """
    try:
        return cast("F", njit(cache=True, nogil=True)(function))
    except RuntimeError:  # Numba found no directory for its cache.
        return cast("F", njit(nogil=True)(function))
