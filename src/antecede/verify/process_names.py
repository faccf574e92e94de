"""Name the processes in the errors of the verifier."""

import re
from collections.abc import Mapping

from antecede.errors import TraceError
from antecede.trace.reader import RecordedRun

__all__ = ["with_names"]

PROCESS = re.compile(r"\bprocess (\d+)\b|\b(\d+)(?=:\d+\b)")
"""A process, or the source of a message, in the text of an error."""


def with_names(error: TraceError, run: RecordedRun) -> TraceError:
    """Return the error with the names of processes in place of their numbers."""
    location = str(run.location)
    names: Mapping[int, str] = run.info.names

    def name(found: re.Match[str]) -> str:
        return names.get(int(found[1] or found[2]), found[0])

    text = str(error)
    # A location may contain digits, too.
    start = len(location) if text.startswith(location) else 0
    return TraceError(text[:start] + PROCESS.sub(name, text[start:]))
