"""Run the tests of the core against mutated copies of it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutation.mutants import (
    ALL_NODE_MUTANTS,
    BOUNDED_MUTANTS,
    GROUP_MUTANTS,
    NODE_MUTANTS,
    OVERLAY_MUTANTS,
    REMOVAL_MUTANTS,
    ROOM_MUTANTS,
    TRANSPORT_MUTANTS,
    Mutant,
)

__all__ = ["ALL_HUNTERS", "Subject", "hunt", "hunt_all"]

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "antecede"
HUNTERS = (
    "tests/core/test_properties.py",
    "tests/core/test_bad_input.py",
    "tests/test_architecture.py",
    "tests/core/test_lockstep.py",
)
"""The tests to run: properties rather than scenarios; the slowest is the last."""
BOUNDED_HUNTERS = (
    "tests/core/test_bounded_rules.py",
    "tests/core/test_bounded_schedules.py",
    "tests/core/test_bounded_repairs.py",
    "tests/core/test_bounded_naive.py",
    "tests/core/test_bounded_runs.py",
    "tests/check/test_silence.py::test_a_lost_copy_is_retransmitted_beside_a_silent_target",
    "tests/check/test_silence.py::test_entries_that_a_silent_process_reported_are_settled",
)
"""The tests to run for the mutants of ``bounded``."""
REMOVAL_HUNTERS = (
    "tests/core/test_bounded_wildcards.py",
    "tests/core/test_bounded_held.py",
    "tests/core/test_bounded_naive_removal.py",
    "tests/core/test_bounded_removal.py",
    "tests/core/test_bounded_dependencies.py",
)
"""The tests to run for the mutants of the removal of a peer under ``bounded``."""
TRANSPORT_HUNTERS = (
    "tests/engine/test_bundles.py",
    "tests/core/test_lost_frames.py",
    "tests/engine/test_outbox.py",
    "tests/engine/test_congestion.py",
    "tests/engine/test_loss_detection.py",
    "tests/engine/test_recovery.py",
    "tests/engine/test_path_mtu.py",
    "tests/engine/test_keep_alive.py",
    "tests/engine/test_addresses.py",
    "tests/engine/test_false_acks.py",
    "tests/engine/test_ecn.py",
    "tests/engine/test_path_properties.py",
    "tests/engine/test_pieces.py",
    "tests/engine/test_handshake.py",
    "tests/engine/test_replay_window.py",
)
"""The tests to run for the mutants of loss recovery and congestion control."""
NODE_HUNTERS = (
    "tests/net/test_unordered.py",
    "tests/net/test_key_rotation.py",
    "tests/net/test_receipts.py",
)
"""The tests to run for the mutants of keys, receipts and unordered messages."""
GROUP_HUNTERS = (
    "tests/group/test_membership.py",
    "tests/group/test_snapshot_transfer.py",
    "tests/group/test_control_codec.py",
    "tests/check/test_joins.py",
    "tests/group/test_random_joins.py",
)
"""The tests to run for the mutants of the membership of rooms."""
ROOM_HUNTERS = (
    "tests/engine/test_links.py",
    "tests/net/rooms/test_meeting.py",
    "tests/net/rooms/test_silence.py",
    "tests/net/rooms/test_snapshots.py",
    "tests/net/rooms/test_joining.py",
    "tests/net/rooms/test_rooms.py",
)
"""The tests to run for the mutants of links and rooms."""
OVERLAY_HUNTERS = (
    "tests/core/test_named_overlay.py",
    "tests/engine/test_announcements.py",
    "tests/net/test_overlay.py",
)
"""The tests to run for the mutants of the overlay of nodes."""
ALL_HUNTERS = (
    HUNTERS,
    BOUNDED_HUNTERS,
    REMOVAL_HUNTERS,
    TRANSPORT_HUNTERS,
    NODE_HUNTERS,
    GROUP_HUNTERS,
    ROOM_HUNTERS,
    OVERLAY_HUNTERS,
)
Subject = Mutant | tuple[str, ...]
"""A mutant or, for the unchanged core, the tests to run."""
TIMEOUT_S = 300
"""A mutant is also caught if the tests time out; they take a minute at most."""


def hunt(subject: Subject, directory: Path) -> str | None:
    """Return the test that fails, or None if all tests pass.

    Args:
        subject: The fault, or the tests to run on the unchanged core.
        directory: An empty directory for the copy of the core.
    """
    mutant = subject if isinstance(subject, Mutant) else None
    package = directory / "antecede"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    if mutant is not None:
        folder = package if mutant in ALL_NODE_MUTANTS else package / "core"
        path = folder / f"{mutant.module}.py"
        text = path.read_text(encoding="utf-8")
        if text.count(mutant.old) != 1:
            raise LookupError(f"{mutant.name}: not found exactly once: {mutant.old!r}")
        path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-x",
                "-q",
                "-p",
                "no:cacheprovider",
                *_hunters_of(subject),
            ],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(directory), "ANTECEDE_MUTANT": "1"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "timeout"
    if done.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if done.returncode != 1 or failed is None:
        raise RuntimeError(f"pytest failed:\n{done.stdout}{done.stderr}")
    return failed[1].removeprefix("tests/")


def _hunters_of(mutant: Subject) -> tuple[str, ...]:
    """Return the tests to run."""
    if not isinstance(mutant, Mutant):
        return mutant
    if mutant in NODE_MUTANTS:
        return NODE_HUNTERS
    if mutant in GROUP_MUTANTS:
        return GROUP_HUNTERS
    if mutant in ROOM_MUTANTS:
        return ROOM_HUNTERS
    if mutant in TRANSPORT_MUTANTS:
        return TRANSPORT_HUNTERS
    if mutant in OVERLAY_MUTANTS:
        return OVERLAY_HUNTERS
    if mutant in REMOVAL_MUTANTS:
        return REMOVAL_HUNTERS
    return BOUNDED_HUNTERS if mutant in BOUNDED_MUTANTS else HUNTERS


def hunt_all(subjects: Iterable[Subject]) -> Iterator[tuple[Subject, str | None]]:
    """Hunt all subjects, one per CPU at a time, and yield the results in order."""

    def hunt_one(subject: Subject) -> tuple[Subject, str | None]:
        with tempfile.TemporaryDirectory() as directory:
            return subject, hunt(subject, Path(directory))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(hunt_one, subjects)
