"""The readers as data sources of Spark: ``spark.read.format("shiviz").load(path)``.

Call :func:`register` once for each session; the formats are then known by the names of
:data:`antecede.ingest.formats.registry.FORMATS`, and our own traces as ``antecede``. A path is a
file, a directory of files, or a pattern with ``*``. Rows are the records of
:mod:`antecede.ingest.formats.records`, with the file in front; what could not be read is a row with
a ``problem``. Options are those of :class:`antecede.ingest.formats.records.Options`, and
``splitBytes``.

Files are read in the workers, which need ``antecede[trace]`` and must reach the path. A
plain file of lines is cut by size; any other file is one task, and read piece by piece all
the same.

This module needs the extras ``antecede[spark,trace]``.
"""

import glob
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from antecede.errors import ConfigError
from antecede.ingest.formats.records import Options
from antecede.ingest.formats.registry import Format, format_named
from antecede.ingest.formats.source import SPLIT_BYTES, Split
from antecede.trace.reader import read_trace
from antecede.trace.schema import SCHEMA

__all__ = [
    "JaegerSource",
    "MessagesSource",
    "OtlpSource",
    "ShivizSource",
    "SpanCsvSource",
    "TraceSource",
    "TracecheckerSource",
    "ZipkinSource",
    "register",
]

TRACE_ROWS = 1 << 20
"""Rows of our own traces that one task reads."""


class _SplitPartition(InputPartition):
    def __init__(self, split: Split) -> None:
        self.split = split


class _RowsPartition(InputPartition):
    def __init__(self, first: int) -> None:
        self.first = first


class _ForeignSource(DataSource):
    """What the sources of foreign formats share."""

    format_name: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        """Return the name that Spark knows it by."""
        return cls.format_name

    def schema(self) -> StructType:
        """Return the schema of the records, with the file in front."""
        return from_arrow_schema(_with_file(format_named(self.format_name).schema))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the path; Spark calls this."""
        columns = {}
        for each in self.options.get("columns", "").split(","):
            ours, _, theirs = each.partition("=")
            if theirs:
                columns[ours.strip()] = theirs.strip()
        told = Options(
            regex=self.options.get("regex"),
            delimiter=self.options.get("delimiter"),
            ignore=self.options.get("ignore"),
            receives=self.options.get("receives"),
            columns=columns,
        )
        size = int(self.options.get("splitBytes", SPLIT_BYTES))
        return _ForeignReader(self.format_name, _files(self.options), told, size)


class _ForeignReader(DataSourceReader):
    def __init__(
        self, format_name: str, files: list[str], options: Options, size: int
    ) -> None:
        self._format_name = format_name
        self._files = files
        self._options = options
        self._size = size

    def partitions(self) -> Sequence[InputPartition]:
        """Cut the files; this is done once, by the driver."""
        chosen = format_named(self._format_name)
        return [
            _SplitPartition(split)
            for file in self._files
            for split in chosen.splits(file, self._size)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one split; this is done by a worker."""
        assert isinstance(partition, _SplitPartition)
        chosen: Format = format_named(self._format_name)
        schema = _with_file(chosen.schema)
        for batch in chosen.read(partition.split, self._options):
            file = pa.repeat(pa.scalar(partition.split.path), batch.num_rows)
            yield pa.record_batch([file, *batch.columns], schema=schema)


class ShivizSource(_ForeignSource):
    """Logs with vector clocks, as ShiViz takes them."""

    format_name = "shiviz"


class TracecheckerSource(_ForeignSource):
    """JSON lines of the tracing library of DistributedClocks."""

    format_name = "tracechecker"


class JaegerSource(_ForeignSource):
    """Jaeger JSON."""

    format_name = "jaeger"


class ZipkinSource(_ForeignSource):
    """Zipkin v2 JSON."""

    format_name = "zipkin"


class OtlpSource(_ForeignSource):
    """OTLP JSON."""

    format_name = "otlp"


class SpanCsvSource(_ForeignSource):
    """Spans in a CSV."""

    format_name = "spancsv"


class MessagesSource(_ForeignSource):
    """Messages in a CSV, or in Parquet."""

    format_name = "messages"


class TraceSource(DataSource):
    """Our own traces; the path is the directory of a run."""

    @classmethod
    def name(cls) -> str:
        """Return the name that Spark knows it by."""
        return "antecede"

    def schema(self) -> StructType:
        """Return the schema of a trace."""
        return from_arrow_schema(SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the path; Spark calls this."""
        return _TraceReader(_path(self.options))


class _TraceReader(DataSourceReader):
    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> Sequence[InputPartition]:
        """Cut the rows; this is done once, by the driver."""
        rows = read_trace(self._path).rows
        return [_RowsPartition(first) for first in range(0, max(rows, 1), TRACE_ROWS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield some of the rows; this is done by a worker."""
        assert isinstance(partition, _RowsPartition)
        first, end = partition.first, partition.first + TRACE_ROWS
        trace = read_trace(self._path)
        for start, batch in trace.numbered_batches(first=first, last=end - 1):
            skipped = max(first - start, 0)
            part = batch.slice(skipped, min(end, start + batch.num_rows) - start - skipped)
            yield pa.record_batch(
                [part.column(field.name).cast(field.type) for field in SCHEMA],
                schema=SCHEMA,
            )


def register(spark: SparkSession) -> None:
    """Make the formats known to a session; then ``spark.read.format(NAME).load(PATH)``."""
    for source in (
        ShivizSource, TracecheckerSource, JaegerSource, ZipkinSource, OtlpSource,
        SpanCsvSource, MessagesSource, TraceSource,
    ):  # fmt: skip
        spark.dataSource.register(source)


def _with_file(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field("file", pa.string(), nullable=False), *schema])


def _path(options: MutableMapping[str, str]) -> str:
    path = options.get("path")
    if not path:
        raise ConfigError("no path: spark.read.format(...).load(PATH)")
    return path.removeprefix("file:")


def _files(options: MutableMapping[str, str]) -> list[str]:
    path = _path(options)
    if Path(path).is_dir():
        # Names that begin so are no data: what Spark and others leave beside files.
        names = sorted(each for each in Path(path).iterdir() if each.name[0] not in "._")
        found = [str(each) for each in names if each.is_file()]
    else:
        found = sorted(glob.glob(path)) or [path]
    for each in found:
        if not Path(each).is_file():
            raise ConfigError(f"{each}: no such file")
    return found
