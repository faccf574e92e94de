"""Run the checker on a mutated copy of the core.

Run as a module, this takes a task as JSON: the fields of a `CheckConfig`, with ``lockstep``
to compare with the naive rule as well, ``kernels_from``, or a ``program``. It runs the task
on the antecede of the import path, and prints the violated property, or nothing.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from antecede.check import CheckConfig, CheckResult, check
from antecede.check.checker import KERNELS_FROM
from antecede.check.search import SearchResult
from antecede.core.config import DEFAULT_BUDGET_BYTES, ProcessConfig
from antecede.core.process import ProcessId
from antecede.core.registry import protocol
from antecede.errors import AntecedeError
from tests.check.lockstep import Lockstep, inspect_rules
from tests.check.programs import search_program
from tests.mutation.hunt import ROOT, SOURCE
from tests.mutation.mutants import Mutant

__all__ = ["break_core", "find"]


def break_core(mutant: Mutant, directory: Path) -> None:
    """Write a copy of the core with the mutant to a directory, beside links to the rest.

    With links, the compiled kernels of the checker are found in their cache.
    """
    package = directory / "antecede"
    package.mkdir()
    for entry in SOURCE.iterdir():
        if entry.name == "core":
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(entry, package / entry.name, ignore=ignored)
        elif entry.name != "__pycache__":
            (package / entry.name).symlink_to(entry)
    path = package / "core" / f"{mutant.module}.py"
    text = path.read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1, mutant.name
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")


def find(directory: Path, task: dict[str, object]) -> str:
    """Return the property that the copy of antecede in a directory violates, or nothing.

    If a process raises an error, return its type after ``error``.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.check.mutant_hunt", json.dumps(task)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(directory)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return done.stdout.strip()


def _main(task: dict[str, Any]) -> None:
    try:
        result = _search(task)
    except (AntecedeError, AssertionError, LookupError) as error:
        print("error", type(error).__name__, error)
        return
    if result.violation is not None:
        print(result.violation.property)
    elif not result.exhausted:
        print("not exhausted")


def _search(task: dict[str, Any]) -> SearchResult | CheckResult:
    name = task["protocol"]
    kernels_from = task.pop("kernels_from", KERNELS_FROM)
    if task.pop("lockstep", False):
        return check(
            CheckConfig(**task),
            make=lambda index: Lockstep(ProcessId(index), name),
            inspect=inspect_rules,
            kernels_from=kernels_from,
        )
    if "program" not in task:
        return check(CheckConfig(**task), kernels_from=kernels_from)
    info = protocol(task.pop("protocol"))
    faults = task.get("losses", 0) or task.get("duplicates", 0)
    config = ProcessConfig(
        processes=len(task["program"]),
        reliable=not faults,
        budget_bytes=task.pop("budget_bytes", DEFAULT_BUDGET_BYTES),
    )
    return search_program(lambda index: info.make(ProcessId(index), config), **task)


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
