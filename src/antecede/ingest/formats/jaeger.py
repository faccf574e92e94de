"""Read Jaeger JSON: what its query service answers, and its page saves.

A document is ``{"data": [{"traceID": ..., "spans": [...], "processes": {...}}]}``, or one
such trace by itself. Spans name their process by a key that is explained only after them,
so the spans of one trace are held until then. Times are in microseconds.

The process of a span is its service; or, told as ``--columns process=hostname``, the one
instance of it that a tag of that name tells, ``service@host``.
"""

from collections.abc import Iterator

from antecede.ingest.formats.json_cursor import JsonCursor
from antecede.ingest.formats.records import SPANS, Options, Records, Unreadable, batches_of
from antecede.ingest.formats.source import Split

__all__ = ["read_jaeger"]

NS_PER_US = 1_000


def read_jaeger(split: Split, options: Options) -> Records:
    """Yield the spans of a file as :data:`antecede.ingest.formats.records.SPANS`."""
    return batches_of(_spans(split, options.columns.get("process")), SPANS)


def _spans(split: Split, tag: str | None) -> Iterator[dict[str, object]]:
    with JsonCursor(split) as cursor:
        while cursor.more():
            yield from _document(cursor, tag)


def _document(cursor: JsonCursor, tag: str | None) -> Iterator[dict[str, object]]:
    """Go through an object that holds traces, or is one; or an array of traces."""
    if cursor.peek() == "[":
        for _ in cursor.items():
            yield from _document(cursor, tag)
        return
    spans: list[tuple[int, object]] = []
    processes: object = {}
    ended_early: Unreadable | None = None
    try:
        for key in cursor.members():
            if key == "data" and cursor.peek() == "[":
                for _ in cursor.items():
                    yield from _document(cursor, tag)
            elif key == "spans" and cursor.peek() == "[":
                for _ in cursor.items():
                    line = cursor.line
                    spans.append((line, cursor.value()))
            elif key == "processes":
                processes = cursor.value()
            else:
                cursor.value()
    except Unreadable as error:
        ended_early = error
    yield from (_span(line, span, processes, tag) for line, span in spans)
    if ended_early is not None:
        raise ended_early


def _span(line: int, span: object, processes: object, tag: str | None) -> dict[str, object]:
    if not isinstance(span, dict):
        return {"line": line, "problem": "a span that is no JSON object"}
    record: dict[str, object] = {"line": line, "name": span.get("operationName")}
    process = _process(span, processes, tag)
    start, lasted = span.get("startTime"), span.get("duration")
    if process is None:
        record["process"] = str(span.get("processID"))
        return {**record, "problem": "of an unknown process"}
    record["process"] = process
    for key, name in (("traceID", "trace"), ("spanID", "span")):
        if not isinstance(span.get(key), str):
            return {**record, "problem": f"a span without {key}"}
        record[name] = span[key]
    if type(start) is not int or type(lasted) is not int:
        return {**record, "problem": "its startTime or duration is no whole number"}
    kinds = [
        each.get("value")
        for each in _dicts(span.get("tags"))
        if each.get("key") == "span.kind"
    ]
    record["kind"] = kinds[0].lower() if kinds and isinstance(kinds[0], str) else None
    record["parent"], waits = _parent(span)
    if not waits and record["kind"] is None:
        record["kind"] = "consumer"
    record["start_ns"] = start * NS_PER_US
    record["end_ns"] = (start + lasted) * NS_PER_US
    return record


def _process(span: dict[str, object], processes: object, tag: str | None) -> str | None:
    process = span.get("process")
    if process is None and isinstance(processes, dict):
        process = processes.get(span.get("processID"))
    if not isinstance(process, dict) or not isinstance(process.get("serviceName"), str):
        return None
    service: str = process["serviceName"]
    found = [each for each in _dicts(process.get("tags")) if each.get("key") == tag]
    return f"{service}@{found[0].get('value')}" if found else service


def _parent(span: dict[str, object]) -> tuple[str | None, bool]:
    """Return the span that it is a child of, or follows from, and if that one waits."""
    references = _dicts(span.get("references"))
    for kind in ("CHILD_OF", "FOLLOWS_FROM"):
        for each in references:
            parent = each.get("spanID")
            same = each.get("traceID", span.get("traceID")) == span.get("traceID")
            if each.get("refType") == kind and same and isinstance(parent, str):
                return parent, kind == "CHILD_OF"
    parent = span.get("parentSpanID")
    return (parent if isinstance(parent, str) and parent else None), True


def _dicts(found: object) -> list[dict[str, object]]:
    return (
        [each for each in found if isinstance(each, dict)]
        if isinstance(found, list)
        else []
    )
