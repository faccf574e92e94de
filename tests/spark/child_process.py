"""Runs a module that starts its own Spark session in another process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def run_module(module: str, *arguments: Path | str) -> Any:  # noqa: ANN401 (JSON)
    """Run a module with arguments, and return what its last line of output contains."""
    # The workers have other working directories.
    paths = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, paths))},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


__all__ = ["ROOT", "run_module"]
