"""Read what the ``tracing`` library of DistributedClocks records: JSON lines.

Each line is an event with the name of its process, a vector clock and a tag. A message has
a token: the event that makes it (``GenerateTokenTrace``) is the send, the one that takes it
(``ReceiveTokenTrace``) the receive.
"""

import json
from collections.abc import Iterator

from antecede.ingest.formats.records import CLOCKED, Options, Records, batches_of
from antecede.ingest.formats.source import Split, lines

__all__ = ["read_tracechecker"]

TAGS = {"GenerateTokenTrace": False, "ReceiveTokenTrace": True}
"""The tags of events with a token, and whether they receive it."""


def read_tracechecker(split: Split, options: Options) -> Records:
    """Yield the events of a split as :data:`antecede.ingest.formats.records.CLOCKED`."""
    return batches_of(_events(split), CLOCKED)


def _events(split: Split) -> Iterator[dict[str, object]]:
    for line, text in lines(split):
        try:
            found = json.loads(text)
        except ValueError as error:
            yield {"line": line, "problem": f"not JSON: {_why(error)}"}
        else:
            yield {"line": line, **_event(found)}


def _why(error: ValueError) -> str:
    """Return what is wrong without where, so that what is the same is counted as one."""
    return error.msg if isinstance(error, json.JSONDecodeError) else "not UTF-8"


def _event(found: object) -> dict[str, object]:
    if not isinstance(found, dict):
        return {"problem": "not a JSON object"}
    process, clock, tag = (
        found.get(key) for key in ("TracerIdentity", "VectorClock", "Tag")
    )
    if not isinstance(process, str) or not process:
        return {"problem": "it has no TracerIdentity"}
    if not isinstance(tag, str):
        return {"process": process, "problem": "it has no Tag"}
    if not isinstance(clock, dict) or not all(type(n) is int for n in clock.values()):
        return {"process": process, "problem": "its VectorClock has no whole numbers"}
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
