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
    "core.codec",
    "core.config",
    "core.link",
    "core.observer",
    "core.overlay.graphs",
    "core.overlay.spray",
    "core.overlay.tree_topology",
    "core.process",
    "core.protocols.baseline",
    "core.protocols.buffer",
    "core.protocols.cykas",
    "core.protocols.flood",
    "core.protocols.hybrid.basic",
    "core.protocols.hybrid.frames",
    "core.protocols.hybrid.hybrid",
    "core.protocols.hybrid.peer",
    "core.protocols.hybrid.state",
    "core.protocols.matrix",
    "core.protocols.newtop",
    "core.protocols.optimal.log",
    "core.protocols.optimal.optimal",
    "core.protocols.pc_broadcast.frames",
    "core.protocols.pc_broadcast.pc_broadcast",
    "core.protocols.tree",
    "core.protocols.vector",
    "core.registry",
    "core.support.attributes",
    "core.support.keyed_random",
    "core.support.retransmission",
    "core.support.sliding",
    "check.portable",
    "check.removal",
    "check.search",
    "check.snapshot",
    "check.state_space",
    "check.symmetry",
    "check.transitions",
    "engine.datagram",
    "engine.engine",
    "engine.journal",
    "engine.membership",
    "engine.message",
    "engine.peer_session",
    "engine.session_layer",
    "errors",
    "sim.churn",
    "sim.delay",
    "sim.distribution",
    "sim.event_queue",
    "sim.latency",
    "sim.network",
    "sim.profiling",
    "sim.simulator",
    "sim.workloads.program",
    "sim.workloads.services",
    "sim.workloads.synthetic",
    "trace.recorders",
)
"""The core, and the loop that drives millions of events through it."""


def sources() -> list[str]:
    """Return the paths of the modules to compile; raise where one does not exist."""
    paths = [
        Path("src", "antecede", *name.split(".")).with_suffix(".py") for name in COMPILED
    ]
    missing = [str(path) for path in paths if not path.is_file()]
    if missing:
        raise FileNotFoundError(f"setup.py names modules that do not exist: {missing}")
    return [str(path) for path in paths]


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
