"""Build step: compile the core with mypyc where a C compiler is present.

The compiled modules stand beside the same files uncompiled, which Python falls back to.
Set ``ANTECEDE_COMPILE`` to ``0`` to skip the compilation, or to ``1`` to fail where it is
impossible; by default it is tried, and skipped with a notice where it cannot be done.
``ANTECEDE_OPTIMISE`` is how hard the C compiler tries, 3 unless set; 0 builds fastest.
"""

import os
import sys
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_ext import build_ext

WANTED = os.environ.get("ANTECEDE_COMPILE", "")
OPTIMISE = os.environ.get("ANTECEDE_OPTIMISE", "3")
COMPILED = (
    "src/antecede/core/*.py",
    "src/antecede/check/model.py",
    "src/antecede/check/portable.py",
    "src/antecede/check/removal.py",
    "src/antecede/check/search.py",
    "src/antecede/check/snapshot.py",
    "src/antecede/check/space.py",
    "src/antecede/check/symmetry.py",
    "src/antecede/engine/[egmrw]*.py",
    "src/antecede/engine/saved.py",
    "src/antecede/errors.py",
    "src/antecede/sim/agenda.py",
    "src/antecede/sim/churn.py",
    "src/antecede/sim/delay.py",
    "src/antecede/sim/distribution.py",
    "src/antecede/sim/loop.py",
    "src/antecede/sim/network.py",
    "src/antecede/sim/program.py",
    "src/antecede/sim/services.py",
    "src/antecede/sim/stopwatch.py",
    "src/antecede/sim/waits.py",
    "src/antecede/sim/workload.py",
    "src/antecede/trace/recorder.py",
)
"""The core, and the loop that drives millions of events through it."""


def sources() -> list[str]:
    """List the modules to compile; packages stay uncompiled, they only re-export."""
    paths = [path for pattern in COMPILED for path in sorted(Path().glob(pattern))]
    return [str(path) for path in paths if path.name != "__init__.py"]


class OptionalBuild(build_ext):
    """Builds the extensions, or goes on without them unless they are demanded."""

    def run(self) -> None:
        """Build what was asked for, all or nothing."""
        try:
            super().run()
        except Exception as error:
            if WANTED == "1":
                raise
            print(f"antecede: not compiled, runs interpreted ({error})", file=sys.stderr)
            self.extensions = []


def extensions() -> list[Any]:
    """Translate the core to C, or return nothing where that cannot or must not be."""
    if WANTED == "0":
        return []
    try:
        from mypyc.build import mypycify
    except ImportError:
        if WANTED == "1":
            raise
        print("antecede: not compiled, mypyc is not there", file=sys.stderr)
        return []
    return mypycify(sources(), opt_level=OPTIMISE, debug_level="0", group_name="antecede")


setup(ext_modules=extensions(), cmdclass={"build_ext": OptionalBuild})
