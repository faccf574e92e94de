"""Build step: compile the core with mypyc where a C compiler is present.

The wheel also holds the source of every compiled module. Where the compilation fails, for
whatever reason, the build prints one line and goes on: the same source runs interpreted.

Environment variables:
    ANTECEDE_COMPILE: ``0`` skips the compilation; ``1`` makes its failure an error.
    ANTECEDE_OPTIMISE: optimisation level of the C compiler, 0 to 3; default 3.
"""

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_ext import build_ext

COMPILE = os.environ.get("ANTECEDE_COMPILE", "")
OPTIMISE = os.environ.get("ANTECEDE_OPTIMISE", "3")
BUILDS = {"bdist_wheel", "build", "build_ext", "develop", "editable_wheel", "install"}
"""Commands of setuptools that need the extensions; the others only read metadata."""
MYPY_OPTIONS = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
"""Options for the compiler: the optional dependencies need not be installed to build."""
COMPILED = (
    "core.codec",
    "core.config",
    "core.dependencies",
    "core.driver",
    "core.input_checks",
    "core.link",
    "core.link_frames",
    "core.observer",
    "core.overlay.definition",
    "core.overlay.directory",
    "core.overlay.graphs",
    "core.overlay.named_overlay",
    "core.overlay.spray",
    "core.overlay.spray_frames",
    "core.overlay.spray_overlay",
    "core.overlay.tree_topology",
    "core.overlay_links",
    "core.pending",
    "core.process",
    "core.process_id",
    "core.protocols.baseline",
    "core.protocols.buffer",
    "core.protocols.cykas",
    "core.protocols.flood",
    "core.protocols.hybrid.algorithm",
    "core.protocols.hybrid.basic",
    "core.protocols.hybrid.bounded",
    "core.protocols.hybrid.channels",
    "core.protocols.hybrid.copy_queue",
    "core.protocols.hybrid.dependencies",
    "core.protocols.hybrid.dependency_frames",
    "core.protocols.hybrid.entry",
    "core.protocols.hybrid.frames",
    "core.protocols.hybrid.gone_peers",
    "core.protocols.hybrid.hybrid",
    "core.protocols.hybrid.ledger",
    "core.protocols.hybrid.lost_frames",
    "core.protocols.hybrid.message_checks",
    "core.protocols.hybrid.named_frames",
    "core.protocols.hybrid.note_exchange",
    "core.protocols.hybrid.note_queue",
    "core.protocols.hybrid.pair_table",
    "core.protocols.hybrid.peer",
    "core.protocols.hybrid.peer_ledger",
    "core.protocols.hybrid.pending",
    "core.protocols.hybrid.process",
    "core.protocols.hybrid.queries",
    "core.protocols.hybrid.received_entries",
    "core.protocols.hybrid.recovery",
    "core.protocols.hybrid.repairs",
    "core.protocols.hybrid.rule",
    "core.protocols.hybrid.state",
    "core.protocols.hybrid.wildcards",
    "core.protocols.hybrid.windows",
    "core.protocols.matrix",
    "core.protocols.newtop",
    "core.protocols.optimal.log",
    "core.protocols.optimal.optimal",
    "core.protocols.pc_broadcast.frames",
    "core.protocols.pc_broadcast.links",
    "core.protocols.pc_broadcast.pc_broadcast",
    "core.protocols.pc_broadcast.summaries",
    "core.protocols.tree",
    "core.protocols.vector",
    "core.registry",
    "core.support.attributes",
    "core.support.interval_set",
    "core.support.keyed_random",
    "core.support.retransmission",
    "core.support.sliding",
    "core.windows",
    "check.actions",
    "check.canonical",
    "check.inputs",
    "check.portable",
    "check.recovery",
    "check.removal",
    "check.row_layout",
    "check.search",
    "check.silence",
    "check.snapshot",
    "check.state_space",
    "check.symmetry",
    "check.transitions",
    "engine.acknowledgements",
    "engine.address_paths",
    "engine.address_validation",
    "engine.announcements",
    "engine.blocked_watch",
    "engine.bundle",
    "engine.carrier",
    "engine.congestion",
    "engine.credit",
    "engine.cubic",
    "engine.datagram",
    "engine.deadlines",
    "engine.deliveries",
    "engine.departures",
    "engine.ecn",
    "engine.ended_sources",
    "engine.engine",
    "engine.entry_names",
    "engine.event_collector",
    "engine.fault_reports",
    "engine.flow_control",
    "engine.fragmentation",
    "engine.gaps",
    "engine.handshake",
    "engine.histories",
    "engine.history_number",
    "engine.introducer",
    "engine.journal",
    "engine.journal_recorder",
    "engine.keep_alive",
    "engine.links",
    "engine.loss_detection",
    "engine.loss_recovery",
    "engine.membership",
    "engine.message",
    "engine.name_exchange",
    "engine.outbox",
    "engine.overlay_addresses",
    "engine.overlay_sessions",
    "engine.pacer",
    "engine.path",
    "engine.path_mtu",
    "engine.path_timers",
    "engine.peer_session",
    "engine.peer_table",
    "engine.pieces",
    "engine.process_driver",
    "engine.process_factory",
    "engine.process_names",
    "engine.received_datagram",
    "engine.reduction",
    "engine.refusals",
    "engine.replay_window",
    "engine.restore",
    "engine.round_trip",
    "engine.sealer",
    "engine.seeded_random",
    "engine.sender",
    "engine.session_layer",
    "engine.session_opener",
    "engine.session_timers",
    "engine.silence_watch",
    "engine.statistics",
    "engine.transmitter",
    "engine.unordered",
    "engine.wait_analysis",
    "engine.wait_questions",
    "engine.watch",
    "errors",
    "sim.churn",
    "sim.delay",
    "sim.distribution",
    "sim.event_queue",
    "sim.latency",
    "sim.network",
    "sim.profiling",
    "sim.sim_process",
    "sim.simulator",
    "sim.transmission_keys",
    "sim.workloads.program",
    "sim.workloads.services",
    "sim.workloads.synthetic",
    "sim.workloads.workload",
    "trace.recorders",
)
"""Modules to compile: the protocols, and the loops that run them."""


def sources() -> list[str]:
    """Return the paths of the modules to compile.

    Raises:
        FileNotFoundError: A module in :data:`COMPILED` does not exist.
    """
    paths = [
        Path("src", "antecede", *name.split(".")).with_suffix(".py") for name in COMPILED
    ]
    missing = [str(path) for path in paths if not path.is_file()]
    if missing:
        raise FileNotFoundError(f"COMPILED in setup.py names missing files: {missing}")
    return [str(path) for path in paths]


def give_up(reason: object) -> None:
    """Report that nothing is compiled, or exit if ANTECEDE_COMPILE demands it."""
    if COMPILE == "1":
        raise SystemExit(
            f"antecede: cannot compile, and ANTECEDE_COMPILE=1 is set: {reason}"
        )
    first_line = (str(reason).strip().splitlines() or ["unknown error"])[0]
    print(f"antecede: not compiled, runs interpreted: {first_line}", file=sys.stderr)


class OptionalBuildExt(build_ext):
    """Builds all extensions, or none of them where one fails."""

    def run(self) -> None:
        try:
            super().run()
        except (Exception, SystemExit) as error:
            give_up(error)
            for path in map(Path, self.get_outputs()):
                path.unlink(missing_ok=True)
            self.extensions = []


def extensions() -> list[Any]:
    """Translate the modules to C; return an empty list where that is impossible."""
    if COMPILE == "0" or not BUILDS.intersection(sys.argv):
        return []
    modules = sources()
    messages = io.StringIO()
    try:
        from mypyc.build import mypycify

        with contextlib.redirect_stdout(messages), contextlib.redirect_stderr(messages):
            return mypycify(
                [*MYPY_OPTIONS, *modules],
                opt_level=OPTIMISE,
                debug_level="0",
                group_name="antecede",
            )
    except (Exception, SystemExit) as error:
        give_up(messages.getvalue() or repr(error))
        return []


setup(ext_modules=extensions(), cmdclass={"build_ext": OptionalBuildExt})
