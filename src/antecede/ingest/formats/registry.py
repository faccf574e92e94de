"""The foreign formats, their detection and their readers."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from antecede.errors import ConfigError, TraceError
from antecede.ingest.formats.csv_columns import read_header
from antecede.ingest.formats.jaeger import read_jaeger
from antecede.ingest.formats.messages import MESSAGE_COLUMNS, read_messages
from antecede.ingest.formats.otlp import read_otlp
from antecede.ingest.formats.parquet_columns import (
    divide_parquet,
    is_parquet,
    read_names,
)
from antecede.ingest.formats.records import (
    CLOCK_SCHEMA,
    MESSAGE_SCHEMA,
    SPAN_SCHEMA,
    ReadOptions,
    Records,
)
from antecede.ingest.formats.shiviz import find_layout, read_shiviz
from antecede.ingest.formats.source import (
    SPLIT_BYTES,
    Split,
    divide_file,
    read_head,
    whole_file,
)
from antecede.ingest.formats.span_csv import SPAN_COLUMNS, read_span_csv
from antecede.ingest.formats.tracechecker import read_tracechecker
from antecede.ingest.formats.zipkin import read_zipkin
from antecede.trace.schema import EVENTS_NAME

__all__ = ["FORMATS", "Format", "detect_format", "get_format", "read_file"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A foreign format."""

    name: str
    """Its name on the command line and in Spark."""
    schema: pa.Schema
    """The schema of its records."""
    read: Callable[[Split, ReadOptions], Records]
    """Yields the records of a split."""
    is_lines: bool = False
    """Whether every record is a line, so that a plain file can be divided; a Parquet file
    is divided in any case."""

    def splits(self, path: str | Path, size: int = SPLIT_BYTES) -> list[Split]:
        """Return splits of about this size if the file can be divided, otherwise one."""
        if self.name in ("spancsv", "messages") and is_parquet(path):
            return divide_parquet(path, size)
        is_divisible = self.is_lines
        if is_divisible and self.name in ("zipkin", "otlp"):
            is_divisible = _is_json_lines(path)
        return divide_file(path, size) if is_divisible else [whole_file(path)]


FORMATS = (
    Format(name="shiviz", schema=CLOCK_SCHEMA, read=read_shiviz),
    Format(name="tracechecker", schema=CLOCK_SCHEMA, read=read_tracechecker, is_lines=True),
    Format(name="jaeger", schema=SPAN_SCHEMA, read=read_jaeger),
    Format(name="zipkin", schema=SPAN_SCHEMA, read=read_zipkin, is_lines=True),
    Format(name="otlp", schema=SPAN_SCHEMA, read=read_otlp, is_lines=True),
    Format(name="spancsv", schema=SPAN_SCHEMA, read=read_span_csv, is_lines=True),
    Format(name="messages", schema=MESSAGE_SCHEMA, read=read_messages, is_lines=True),
)
"""All foreign formats."""


def get_format(name: str) -> Format:
    """Return the format with this name; raise ConfigError if there is none."""
    for each in FORMATS:
        if each.name == name:
            return each
    names = ", ".join(each.name for each in FORMATS)
    raise ConfigError(f"unknown format {name!r}: must be one of {names}")


def detect_format(path: str | Path, options: ReadOptions) -> Format:
    """Return the format of a file, detected from its first bytes.

    Raise TraceError if the file is empty or has no known format.
    """
    if is_parquet(path):
        if Path(path).name == EVENTS_NAME:
            raise ConfigError(f"{path} is part of a trace: give the directory of the run")
        return _by_columns(read_names(path), options) or get_format("messages")
    text = read_head(path).decode("utf-8", "replace")
    start = text.lstrip()
    if start[0] in "{[":
        for key, name in (
            ('"TracerIdentity"', "tracechecker"),
            ('"resourceSpans"', "otlp"),
            ('"resource_spans"', "otlp"),
            ('"spanID"', "jaeger"),
            ('"traceId"', "zipkin"),
        ):
            if key in start:
                return get_format(name)
    if options.regex is None:
        found = _by_columns(read_header(path), options)
        if found is not None:
            return found
        try:
            find_layout(str(path), options)
        except TraceError:
            names = ", ".join(each.name for each in FORMATS)
            raise TraceError(
                f"{path}: line 1: unknown format: name it with --format ({names}), or"
                " describe an event with --regex"
            ) from None
    return get_format("shiviz")


def _by_columns(header: Sequence[str], options: ReadOptions) -> Format | None:
    """Return the format of a table with these columns, if it has spans or messages."""
    found = {name.lower().strip() for name in header}
    for name, columns in (("spancsv", SPAN_COLUMNS), ("messages", MESSAGE_COLUMNS)):
        required = ("span", "parent") if name == "spancsv" else ("source", "target")
        if all(key in options.columns or set(columns[key]) & found for key in required):
            return get_format(name)
    return None


def read_file(
    path: str | Path, chosen: Format, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a file in the order of its lines."""
    for split in chosen.splits(path):
        yield from chosen.read(split, options)


def _is_json_lines(path: str | Path) -> bool:
    """Return whether the first line is a complete JSON object."""
    line = read_head(path).split(b"\n")[0]
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
