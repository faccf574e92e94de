"""The format readers as Spark data sources: ``spark.read.format("shiviz").load(path)``.

Call :func:`register` once for each session. The format names are those of
:data:`antecede.ingest.formats.registry.FORMATS`, and ``antecede`` for antecede's own
traces. A path is a file, a directory of files, or a pattern with ``*``. Rows are the
records of :mod:`antecede.ingest.formats.records`, with the file as the first column; a row
with a ``problem`` stands for input that could not be read. The options are those of
:class:`antecede.ingest.formats.records.ReadOptions`, and ``splitBytes``.

The workers read the files; they need ``antecede[trace]`` and access to the path. An
uncompressed file of lines is split by size; any other file is one task, which streams it.

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

from antecede.errors import ConfigError, TraceError
from antecede.ingest.formats.records import ReadOptions
from antecede.ingest.formats.registry import FORMATS, Format, get_format
from antecede.ingest.formats.source import SPLIT_BYTES, Split
from antecede.trace.reader import read_trace
from antecede.trace.schema import SCHEMA

__all__ = ["TraceSource", "register"]

TRACE_ROWS = 1 << 20
"""Rows of an antecede trace that one task reads."""


class _SplitPartition(InputPartition):
    def __init__(self, split: Split) -> None:
        self.split = split


class _RowsPartition(InputPartition):
    def __init__(self, first: int) -> None:
        self.first = first


class _ForeignSource(DataSource):
    """Base class of the sources of foreign formats, one for each format."""

    format_name: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        return cls.format_name

    def schema(self) -> StructType:
        return from_arrow_schema(_with_file(get_format(self.format_name).schema))

    def reader(self, schema: StructType) -> DataSourceReader:
        columns = {}
        for pair in self.options.get("columns", "").split(","):
            ours, _, theirs = pair.partition("=")
            if theirs:
                columns[ours.strip()] = theirs.strip()
        options = ReadOptions(
            regex=self.options.get("regex"),
            delimiter=self.options.get("delimiter"),
            ignore=self.options.get("ignore"),
            receives=self.options.get("receives"),
            columns=columns,
        )
        split_bytes = int(self.options.get("splitBytes", SPLIT_BYTES))
        files = _files(self.options)
        return _ForeignReader(self.format_name, files, options, split_bytes)


class _ForeignReader(DataSourceReader):
    def __init__(
        self, format_name: str, files: list[str], options: ReadOptions, split_bytes: int
    ) -> None:
        self._format_name = format_name
        self._files = files
        self._options = options
        self._split_bytes = split_bytes

    def partitions(self) -> Sequence[InputPartition]:
        """Split the files; runs once, in the driver."""
        chosen = get_format(self._format_name)
        return [
            _SplitPartition(split)
            for file in self._files
            for split in chosen.splits(file, self._split_bytes)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one split; runs in a worker."""
        assert isinstance(partition, _SplitPartition)
        chosen: Format = get_format(self._format_name)
        schema = _with_file(chosen.schema)
        for batch in chosen.read(partition.split, self._options):
            file = pa.repeat(pa.scalar(partition.split.path), batch.num_rows)
            yield pa.record_batch([file, *batch.columns], schema=schema)


class TraceSource(DataSource):
    """Traces of antecede; the path is the directory of a run."""

    @classmethod
    def name(cls) -> str:
        return "antecede"

    def schema(self) -> StructType:
        return from_arrow_schema(SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _TraceReader(_path(self.options))


class _TraceReader(DataSourceReader):
    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> Sequence[InputPartition]:
        """Split the rows; runs once, in the driver."""
        rows = read_trace(self._path).rows
        return [_RowsPartition(first) for first in range(0, max(rows, 1), TRACE_ROWS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition; runs in a worker."""
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
    """Register the formats in a session, for ``spark.read.format(NAME).load(PATH)``."""
    for each in FORMATS:
        name = f"{each.name.capitalize()}Source"
        source = type(name, (_ForeignSource,), {"format_name": each.name})
        spark.dataSource.register(source)
    spark.dataSource.register(TraceSource)


def _with_file(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field("file", pa.string(), nullable=False), *schema])


def _path(options: MutableMapping[str, str]) -> str:
    path = options.get("path")
    if not path:
        raise ConfigError("path is missing: call spark.read.format(...).load(PATH)")
    return path.removeprefix("file:")


def _files(options: MutableMapping[str, str]) -> list[str]:
    path = _path(options)
    if Path(path).is_dir():
        # Names that begin with a dot or an underscore are markers of Spark and others.
        names = sorted(file for file in Path(path).iterdir() if file.name[0] not in "._")
        found = [str(file) for file in names if file.is_file()]
    else:
        found = sorted(glob.glob(path)) or [path]
    for file in found:
        if not Path(file).is_file():
            raise TraceError(f"{file}: no such file")
    return found
