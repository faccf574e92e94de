"""How the kernels of this package are compiled, in one place.

Numba caches a compiled function by the file that it stands in, and does not notice a change
in another file that the function calls into. So a compiled function calls only functions of
its own module; what spans modules is put together in Python, a batch at a time.

A tuple of arrays is taken apart once, at the start: to take one array out of it counts a
reference, which in a loop can cost more than the work itself.

This module needs the extra ``antecede[trace]``.
"""

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

__all__ = ["compiled"]

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile ``function`` at its first call, and keep the machine code on disk.

    Where no directory can be written (set ``NUMBA_CACHE_DIR`` to one that can), it is
    compiled anew in every program.
    """
    try:
        return cast("F", njit(cache=True, nogil=True)(function))
    except RuntimeError:  # Numba found no place for its cache.
        return cast("F", njit(nogil=True)(function))
