"""Read OTLP JSON, as the file exporter of the OpenTelemetry collector writes it.

Each line, or the whole file, is ``{"resourceSpans": [...]}``. The process of a span is the
``service.instance.id`` of its resource, or its ``service.name`` if there is no instance.
With ``--columns process=ATTRIBUTE`` it is another attribute of the resource.
"""

import re
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

__all__ = ["read_otlp"]

KINDS = {
    1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer",
    "SPAN_KIND_INTERNAL": "internal", "SPAN_KIND_SERVER": "server",
    "SPAN_KIND_CLIENT": "client", "SPAN_KIND_PRODUCER": "producer",
    "SPAN_KIND_CONSUMER": "consumer",
}  # fmt: skip
DIGITS = "[0-9]{1,20}"
INSTANCE, SERVICE = "service.instance.id", "service.name"


def read_otlp(split: Split, options: ReadOptions) -> Records:
    """Yield the spans of a split."""
    return to_batches(_spans(split, options.columns.get("process")), SPAN_SCHEMA)


def _spans(split: Split, attribute: str | None) -> Iterator[dict[str, object]]:
    with JsonCursor(split) as cursor:
        while cursor.has_more():
            for key in cursor.members():
                if key in ("resourceSpans", "resource_spans") and cursor.peek() == "[":
                    for _ in cursor.items():
                        yield from _resource(cursor, attribute)
                else:
                    cursor.value()


def _resource(cursor: JsonCursor, attribute: str | None) -> Iterator[dict[str, object]]:
    """Yield the spans of one resource, whose attributes can follow the spans."""
    process: str | None = None
    held: list[tuple[int, object]] = []
    ended_early: UnreadableError | None = None
    try:
        for key in cursor.members():
            if key == "resource":
                process = _process(cursor.value(), attribute)
            elif key in ("scopeSpans", "scope_spans", "instrumentationLibrarySpans"):
                for _ in cursor.items():
                    for line, span in _scope(cursor):
                        if process is None:
                            held.append((line, span))
                        else:
                            yield _span(line, span, process)
            else:
                cursor.value()
    except UnreadableError as error:
        ended_early = error
    yield from (_span(line, span, process) for line, span in held)
    if ended_early is not None:
        raise ended_early


def _scope(cursor: JsonCursor) -> Iterator[tuple[int, object]]:
    for key in cursor.members():
        if key == "spans":
            for _ in cursor.items():
                line = cursor.line
                yield line, cursor.value()
        else:
            cursor.value()


def _process(resource: object, attribute: str | None) -> str | None:
    found: dict[object, object] = {}
    if isinstance(resource, dict) and isinstance(resource.get("attributes"), list):
        for each in resource["attributes"]:
            if isinstance(each, dict) and isinstance(each.get("value"), dict):
                found[each.get("key")] = next(iter(each["value"].values()), None)
    wanted = (INSTANCE, SERVICE) if attribute is None else (attribute,)
    named = next((found[key] for key in wanted if found.get(key)), None)
    if named is None:
        return None
    service = found.get(SERVICE)
    is_instance = service and named != service
    return f"{service}@{named}" if is_instance else str(named)


def _span(line: int, span: object, process: str | None) -> dict[str, object]:
    if not isinstance(span, dict):
        return {"line": line, "problem": "a span that is not a JSON object"}
    record: dict[str, object] = {"line": line, "name": span.get("name")}
    if process is None:
        return {
            **record,
            "problem": "a span of an unknown process: the resource has no name",
        }
    record["process"] = process
    for keys, name in (
        (("traceId", "trace_id"), "trace"),
        (("spanId", "span_id"), "span"),
    ):
        found = _first(span, *keys)
        if not isinstance(found, str):
            return {**record, "problem": f"a span without {keys[0]}"}
        record[name] = found
    for keys, name in (
        (("startTimeUnixNano", "start_time_unix_nano"), "start_ns"),
        (("endTimeUnixNano", "end_time_unix_nano"), "end_ns"),
    ):
        found = _first(span, *keys)
        # The JSON of Protocol Buffers writes 64-bit numbers as strings.
        if not isinstance(found, int | str) or not re.fullmatch(DIGITS, str(found)):
            return {**record, "problem": f"{keys[0]} is not an integer"}
        if not fits_int64(int(found)):
            return {**record, "problem": f"{keys[0]} is too large"}
        record[name] = int(found)
    parent, kind = _first(span, "parentSpanId", "parent_span_id"), span.get("kind")
    record["parent"] = parent if isinstance(parent, str) and parent else None
    record["kind"] = KINDS.get(kind) if isinstance(kind, int | str) else None
    return record


def _first(span: dict[str, object], *keys: str) -> object:
    return next((span[key] for key in keys if key in span), None)
