"""Read the JSON lines of the ``tracing`` library of DistributedClocks.

Each line is an event with the name of its process, a vector clock and a tag. A message has
a token: the event with the tag ``GenerateTokenTrace`` sends it, and an event with the tag
``ReceiveTokenTrace`` receives it.
"""

import json
from collections.abc import Iterator

from antecede.ingest.formats.records import CLOCK_SCHEMA, ReadOptions, Records, to_batches
from antecede.ingest.formats.source import Split, read_lines

__all__ = ["read_tracechecker"]

TAGS = {"GenerateTokenTrace": False, "ReceiveTokenTrace": True}
"""By tag of an event with a token, whether the event receives it."""


def read_tracechecker(split: Split, options: ReadOptions) -> Records:
    """Yield the events of a split."""
    return to_batches(_events(split), CLOCK_SCHEMA)


def _events(split: Split) -> Iterator[dict[str, object]]:
    for line, text in read_lines(split):
        try:
            found = json.loads(text)
        except ValueError as error:
            yield {"line": line, "problem": f"not JSON: {_reason(error)}"}
        else:
            yield {"line": line, **_event(found)}


def _reason(error: ValueError) -> str:
    """Return the error without its position, so that equal errors are counted as one."""
    return error.msg if isinstance(error, json.JSONDecodeError) else "not UTF-8"


def _event(found: object) -> dict[str, object]:
    if not isinstance(found, dict):
        return {"problem": "not a JSON object"}
    process, clock, tag = (
        found.get(key) for key in ("TracerIdentity", "VectorClock", "Tag")
    )
    if not isinstance(process, str) or not process:
        return {"problem": "no TracerIdentity"}
    if not isinstance(tag, str):
        return {"process": process, "problem": "no Tag"}
    if not isinstance(clock, dict) or not all(type(n) is int for n in clock.values()):
        return {
            "process": process,
            "problem": "VectorClock has an entry that is not an integer",
        }
    event: dict[str, object] = {
        "process": process,
        "clock": list(clock.items()),
        "text": tag,
    }
    if tag in TAGS:
        body = found.get("Body")
        token = body.get("Token") if isinstance(body, dict) else None
        if not isinstance(token, str):
            return {"process": process, "problem": f"a {tag} without a Token"}
        event |= {"token": token, "is_receive": TAGS[tag]}
    return event
