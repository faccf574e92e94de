"""Which foreign formats there are, how to tell one from the other, and how to read them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from antecede.errors import ConfigError
from antecede.ingest.formats.csv_columns import header_of
from antecede.ingest.formats.jaeger import read_jaeger
from antecede.ingest.formats.messages import MESSAGE_COLUMNS, is_parquet, read_messages
from antecede.ingest.formats.otlp import read_otlp
from antecede.ingest.formats.records import CLOCKED, MESSAGES, SPANS, Options, Records
from antecede.ingest.formats.shiviz import find_layout, read_shiviz
from antecede.ingest.formats.source import SPLIT_BYTES, Split, cut, head, whole
from antecede.ingest.formats.span_csv import SPAN_COLUMNS, read_span_csv
from antecede.ingest.formats.tracechecker import read_tracechecker
from antecede.ingest.formats.zipkin import read_zipkin
from antecede.trace.schema import EVENTS_NAME

__all__ = ["FORMATS", "Format", "find_format", "format_named", "read_file"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A foreign format."""

    name: str
    """As it is called on the command line, and by Spark."""
    schema: pa.Schema
    """The shape of its records."""
    read: Callable[[Split, Options], Records]
    """Yields the records of a split."""
    is_lines: bool = False
    """Every record is a line, so that a plain file can be cut by size."""

    def splits(self, path: str | Path, size: int = SPLIT_BYTES) -> list[Split]:
        """Cut a file into splits of about this size, if that can be done."""
        is_cut = self.is_lines and not is_parquet(path)
        if is_cut and self.name in ("zipkin", "otlp"):
            is_cut = _is_json_lines(path)
        return cut(path, size) if is_cut else [whole(path)]


FORMATS = (
    Format(name="shiviz", schema=CLOCKED, read=read_shiviz),
    Format(name="tracechecker", schema=CLOCKED, read=read_tracechecker, is_lines=True),
    Format(name="jaeger", schema=SPANS, read=read_jaeger),
    Format(name="zipkin", schema=SPANS, read=read_zipkin, is_lines=True),
    Format(name="otlp", schema=SPANS, read=read_otlp, is_lines=True),
    Format(name="spancsv", schema=SPANS, read=read_span_csv, is_lines=True),
    Format(name="messages", schema=MESSAGES, read=read_messages, is_lines=True),
)
"""All formats but our own."""


def format_named(name: str) -> Format:
    """Return a format by its name.

    Raise ConfigError, which names them all, if there is none of that name.
    """
    for each in FORMATS:
        if each.name == name:
            return each
    names = ", ".join(each.name for each in FORMATS)
    raise ConfigError(f"no format {name!r}; there are {names}")


def find_format(path: str | Path, options: Options) -> Format:
    """Find out by its first bytes which format a file is in.

    Raise ConfigError if it is empty, or like none of them.
    """
    if is_parquet(path):
        if Path(path).name == EVENTS_NAME:
            raise ConfigError(f"{path} is a file; give the directory of the run")
        return format_named("messages")
    text = head(path).decode("utf-8", "replace")
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
                return format_named(name)
    if options.regex is None:
        header = [name.lower().strip() for name in header_of(path)]
        for name, columns in (("spancsv", SPAN_COLUMNS), ("messages", MESSAGE_COLUMNS)):
            told = set(options.columns.values())
            needed = ("span", "parent") if name == "spancsv" else ("source", "target")
            if all(
                options.columns.get(key) in told or set(columns[key]) & set(header)
                for key in needed
            ):
                return format_named(name)
        try:
            find_layout(str(path))
        except ConfigError:
            names = ", ".join(each.name for each in FORMATS)
            raise ConfigError(
                f"{path}: line 1: not like any format that is known; name it with"
                f" --format ({names}), or tell what an event looks like with --regex"
            ) from None
    return format_named("shiviz")


def read_file(
    path: str | Path, chosen: Format, options: Options
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a whole file, in the order of their lines."""
    for split in chosen.splits(path):
        yield from chosen.read(split, options)


def _is_json_lines(path: str | Path) -> bool:
    """Whether the first line is a JSON object by itself."""
    line = head(path).split(b"\n")[0]
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
