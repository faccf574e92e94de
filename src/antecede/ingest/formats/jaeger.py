"""Read Jaeger JSON, as its query service returns it and its user interface saves it.

A document is ``{"data": [{"traceID": ..., "spans": [...], "processes": {...}}]}``, or one
such trace. The processes of a trace can follow its spans, so the spans of a trace are kept
until its end. Times are in microseconds.

The process of a span is its service. With ``--columns process=TAG`` it is the instance that
the process tag TAG names: ``service@value``.
"""

from collections.abc import Iterator

from antecede.ingest.formats.json_cursor import JsonCursor
from antecede.ingest.formats.records import (
    SPAN_SCHEMA,
    ReadOptions,
    Records,
    UnreadableError,
    fits_int64,
    to_batches,
)
from antecede.ingest.formats.source import Split

__all__ = ["read_jaeger"]

NS_PER_US = 1_000


def read_jaeger(split: Split, options: ReadOptions) -> Records:
    """Yield the spans of a file."""
    return to_batches(_spans(split, options.columns.get("process")), SPAN_SCHEMA)


def _spans(split: Split, tag: str | None) -> Iterator[dict[str, object]]:
    with JsonCursor(split) as cursor:
        while cursor.has_more():
            yield from _document(cursor, tag)


def _document(cursor: JsonCursor, tag: str | None) -> Iterator[dict[str, object]]:
    """Yield the spans of an object with traces, of a trace, or of an array of traces."""
    if cursor.peek() == "[":
        for _ in cursor.items():
            yield from _document(cursor, tag)
        return
    spans: list[tuple[int, object]] = []
    processes: object = {}
    ended_early: UnreadableError | None = None
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
    except UnreadableError as error:
        ended_early = error
    yield from (_span(line, span, processes, tag) for line, span in spans)
    if ended_early is not None:
        raise ended_early


def _span(line: int, span: object, processes: object, tag: str | None) -> dict[str, object]:
    if not isinstance(span, dict):
        return {"line": line, "problem": "a span that is not a JSON object"}
    record: dict[str, object] = {"line": line, "name": span.get("operationName")}
    process = _process(span, processes, tag)
    start, duration = span.get("startTime"), span.get("duration")
    if process is None:
        record["process"] = str(span.get("processID"))
        return {**record, "problem": "a span of an unknown process"}
    record["process"] = process
    for key, name in (("traceID", "trace"), ("spanID", "span")):
        if not isinstance(span.get(key), str):
            return {**record, "problem": f"a span without {key}"}
        record[name] = span[key]
    if type(start) is not int or type(duration) is not int:
        return {**record, "problem": "startTime or duration is not an integer"}
    start_ns, end_ns = start * NS_PER_US, (start + duration) * NS_PER_US
    if not fits_int64(start_ns, end_ns):
        return {**record, "problem": "startTime or duration is too large"}
    kinds = [
        each.get("value")
        for each in _dicts(span.get("tags"))
        if each.get("key") == "span.kind"
    ]
    record["kind"] = kinds[0].lower() if kinds and isinstance(kinds[0], str) else None
    record["parent"], is_child = _parent(span)
    if not is_child and record["kind"] is None:
        record["kind"] = "consumer"
    record["start_ns"], record["end_ns"] = start_ns, end_ns
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
    """Return the parent of a span, and whether the span is its child (CHILD_OF)."""
    references = _dicts(span.get("references"))
    for kind in ("CHILD_OF", "FOLLOWS_FROM"):
        for each in references:
            parent = each.get("spanID")
            same = each.get("traceID", span.get("traceID")) == span.get("traceID")
            if each.get("refType") == kind and same and isinstance(parent, str):
                return parent, kind == "CHILD_OF"
    parent = span.get("parentSpanID")
    return (parent if isinstance(parent, str) and parent else None), True


def _dicts(value: object) -> list[dict[str, object]]:
    items = value if isinstance(value, list) else []
    return [item for item in items if isinstance(item, dict)]
