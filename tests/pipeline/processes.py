"""Commands as separate processes, and the processes that they leave behind."""

import os
import sys
from pathlib import Path
from time import monotonic, sleep

EXIT_TIMEOUT_S = 20

COMMAND = (sys.executable, "-m", "antecede")


def left_behind(session: int) -> list[str]:
    """Return the processes of a session that remain after a grace period.

    Workers of Spark make process groups of their own, but stay in the session.
    """
    start = monotonic()
    while True:
        found = in_session(session)
        if not found or monotonic() - start > EXIT_TIMEOUT_S:
            return found
        sleep(0.1)


def in_session(session: int) -> list[str]:
    """Return the processes of a session."""
    found = map(_describe, filter(str.isdigit, os.listdir("/proc")))
    return [name for its_session, name in found if its_session == session]


def _describe(id: str) -> tuple[int, str]:
    try:
        fields = Path(f"/proc/{id}/stat").read_text().rpartition(")")[2].split()
        command = Path(f"/proc/{id}/cmdline").read_text().replace("\0", " ")
    except OSError:  # It has just ended.
        return 0, ""
    is_dead = fields[0] in "ZX"
    return (0 if is_dead else int(fields[3])), f"{id}: {command[:100]}"
