"""Functions that several benchmarks share: run a module for its JSON, and measure time."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

__all__ = [
    "child_environment",
    "fastest",
    "processor_seconds",
    "run_for_json",
    "seconds_of",
]

SOURCE = Path(__file__).parents[1] / "src"


def child_environment(*, interpreted: bool) -> dict[str, str]:
    """Return the environment variables of a child process.

    An interpreted child imports antecede from the source tree, not the installed build.
    """
    environment = dict(os.environ)
    if interpreted:
        environment["PYTHONPATH"] = str(SOURCE)
    return environment


def run_for_json(module: str, *arguments: str, interpreted: bool = False) -> dict[str, Any]:
    """Run a module in a new process, and return the JSON object that it prints.

    Raises:
        SystemExit: The module failed; the message has its standard error.
    """
    child = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=child_environment(interpreted=interpreted),
    )
    if child.returncode != 0:
        raise SystemExit(f"{module} {' '.join(arguments)} failed:\n{child.stderr}")
    values: dict[str, Any] = json.loads(child.stdout)
    return values


def seconds_of(work: Callable[[], object]) -> float:
    """Call a function, and return the seconds that it took."""
    start = perf_counter()
    work()
    return perf_counter() - start


def processor_seconds() -> float:
    """Return the processor time of this process and all its descendants so far.

    It includes that of descendants which have ended and were waited for. Linux only.
    """
    parent, ticks = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            values = path.read_text().rpartition(")")[2].split()
        except OSError:  # The process has ended.
            continue
        parent[int(path.parent.name)] = int(values[1])
        ticks[int(path.parent.name)] = sum(map(int, values[11:15]))
    total, own = 0, {os.getpid()}
    while own:
        total += sum(ticks.get(each, 0) for each in own)
        own = {each for each, above in parent.items() if above in own}
    return total / os.sysconf("SC_CLK_TCK")


def fastest(work: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the seconds of the fastest call of each function.

    Every round calls each function once. One more round, which does not count, comes first
    and warms up the caches.
    """
    seconds: dict[str, float] = {}
    for turn in range(rounds + 1):
        for name, function in work.items():
            elapsed = seconds_of(function)
            if turn > 0:
                seconds[name] = min(elapsed, seconds.get(name, elapsed))
    return seconds
