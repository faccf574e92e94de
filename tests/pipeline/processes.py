"""Commands as processes of their own, and what they leave behind."""

import os
import sys
from pathlib import Path
from time import monotonic, sleep

GONE_S = 20

COMMAND = (sys.executable, "-m", "antecede")


def left_behind(session: int) -> list[str]:
    """Name the processes of a session, once those that are about to end have done so.

    Workers of Spark make process groups of their own, but stay in the session.
    """
    start = monotonic()
    while True:
        found = in_session(session)
        if not found or monotonic() - start > GONE_S:
            return found
        sleep(0.1)


def in_session(session: int) -> list[str]:
    """Name the processes of a session."""
    found = map(_describe, filter(str.isdigit, os.listdir("/proc")))
    return [name for where, name in found if where == session]


def _describe(id: str) -> tuple[int, str]:
    try:
        fields = Path(f"/proc/{id}/stat").read_text().rpartition(")")[2].split()
        command = Path(f"/proc/{id}/cmdline").read_text().replace("\0", " ")
    except OSError:  # It has just ended.
        return 0, ""
    is_dead = fields[0] in "ZX"
    return (0 if is_dead else int(fields[3])), f"{id}: {command[:100]}"
