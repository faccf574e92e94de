"""Read Zipkin v2 JSON: an array of spans or of arrays of spans, or one span per line.

Times are in microseconds. The process of a span is the service of its local endpoint. With
``--columns process=ipv4`` it is the instance: ``service@address``. If client and server
share a span id (``"shared": true`` on the server's span), the server's span becomes the
child of the client's.
"""

from collections.abc import Iterator

from antecede.ingest.formats.json_cursor import JsonCursor
from antecede.ingest.formats.records import (
    SPAN_SCHEMA,
    ReadOptions,
    Records,
    fits_int64,
    to_batches,
)
from antecede.ingest.formats.source import Split

__all__ = ["read_zipkin"]

NS_PER_US = 1_000


def read_zipkin(split: Split, options: ReadOptions) -> Records:
    """Yield the spans of a split."""
    return to_batches(_spans(split, options.columns.get("process")), SPAN_SCHEMA)


def _spans(split: Split, key: str | None) -> Iterator[dict[str, object]]:
    with JsonCursor(split) as cursor:
        while cursor.has_more():
            yield from _values(cursor, key)


def _values(cursor: JsonCursor, key: str | None) -> Iterator[dict[str, object]]:
    if cursor.peek() == "[":
        for _ in cursor.items():
            yield from _values(cursor, key)
    else:
        line = cursor.line
        yield _span(line, cursor.value(), key)


def _span(line: int, span: object, instance: str | None) -> dict[str, object]:
    if not isinstance(span, dict):
        return {"line": line, "problem": "a span that is not a JSON object"}
    record: dict[str, object] = {"line": line, "name": span.get("name")}
    endpoint = span.get("localEndpoint")
    process = endpoint.get("serviceName") if isinstance(endpoint, dict) else None
    if not isinstance(process, str) or not process:
        return {
            **record,
            "problem": "a span of an unknown process: no localEndpoint.serviceName",
        }
    record["process"] = process
    if isinstance(endpoint, dict) and endpoint.get(instance) is not None:
        record["process"] = f"{process}@{endpoint[instance]}"
    for key, name in (("traceId", "trace"), ("id", "span")):
        if not isinstance(span.get(key), str):
            return {**record, "problem": f"a span without {key}"}
        record[name] = span[key]
    start, duration = span.get("timestamp"), span.get("duration", 0)
    if type(start) is not int or type(duration) is not int:
        return {**record, "problem": "timestamp or duration is not an integer"}
    start_ns, end_ns = start * NS_PER_US, (start + duration) * NS_PER_US
    if not fits_int64(start_ns, end_ns):
        return {**record, "problem": "timestamp or duration is too large"}
    kind, parent = span.get("kind"), span.get("parentId")
    record["kind"] = kind.lower() if isinstance(kind, str) else None
    record["parent"] = parent if isinstance(parent, str) and parent else None
    record["shared"] = span.get("shared") is True
    record["start_ns"], record["end_ns"] = start_ns, end_ns
    return record
