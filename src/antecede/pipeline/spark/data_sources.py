"""The format readers as data sources: ``spark.read.format("antecede.jaeger").load(path)``.

:func:`register` registers them in a session; a new session needs its own call. The names
are ``antecede.`` and a name of :data:`antecede.ingest.formats.registry.FORMATS`. Rows are
the records of :mod:`antecede.ingest.formats.records`, with the file as the first column; a
row with a ``problem`` stands for input that could not be read.

A path is a file, a directory of files, or a pattern with ``*``, ``?``, ``[...]`` and
``{a,b}``; ``load`` takes a list of paths, too. The options are those of
:class:`antecede.ingest.formats.records.ReadOptions`, and ``splitBytes``. In the option
``columns``, ``OURS=THEIRS`` names a column of the file, and a plain name selects a column
of the result; ``.schema(...)`` selects columns, too. Spark does not tell a source of this
kind which columns a query uses, so a selection saves the transfer of the others.

``spark.readStream`` takes the same formats, paths and options: a new file becomes new rows
(:mod:`antecede.pipeline.spark.file_stream`). ``antecede.nodes`` reads the growing traces of
live nodes (:mod:`antecede.pipeline.spark.trace_stream`).

The workers read the files; they need ``antecede[trace]`` and access to the path. An
uncompressed file of lines is split by size; any other file is one task, which streams it.

This module needs the extras ``antecede[spark,trace]``.
"""

from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from antecede.errors import ConfigError
from antecede.ingest.formats.records import ReadOptions
from antecede.ingest.formats.registry import FORMATS, get_format
from antecede.ingest.formats.source import SPLIT_BYTES, Split
from antecede.pipeline.spark.file_stream import FileStreamReader
from antecede.pipeline.spark.filters import RowFilters
from antecede.pipeline.spark.source_paths import find_files, option_paths
from antecede.pipeline.spark.trace_stream import NodeTraceSource

__all__ = ["PREFIX", "register"]

PREFIX = "antecede."
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
OPTIONS = ("regex", "delimiter", "ignore", "receives", "columns", "splitbytes")
"""The options of all sources; Spark passes their names in lower case."""


class _SplitPartition(InputPartition):
    def __init__(self, split: Split) -> None:
        self.split = split


class _ForeignSource(DataSource):
    """Base class of the sources, one for each format."""

    format_name: ClassVar[str]
    reader_class: "ClassVar[type[_Reader]]"

    @classmethod
    def name(cls) -> str:
        return PREFIX + cls.format_name

    def schema(self) -> StructType:
        """Return the schema of the records, or of the selected columns."""
        return from_arrow_schema(_select(self.format_name, _columns(self.options)[1]))

    def reader(self, schema: StructType) -> "_Reader":
        return self._reader(schema, find_files(option_paths(self.options, OPTIONS)))

    def streamReader(self, schema: StructType) -> FileStreamReader:
        """Return a reader of new files; a batch does not need it."""
        paths = option_paths(self.options, OPTIONS)
        find_files(paths, allow_empty=True)  # Rejects a wrong path at the start.
        return FileStreamReader(self._reader(schema, []), paths)

    def _reader(self, schema: StructType, files: list[str]) -> "_Reader":
        columns, _ = _columns(self.options)
        options = ReadOptions(
            regex=self.options.get("regex"),
            delimiter=self.options.get("delimiter"),
            ignore=self.options.get("ignore"),
            receives=self.options.get("receives"),
            columns=columns,
            on_command_line=False,
        )
        selected = _select(self.format_name, schema.fieldNames())
        return self.reader_class(
            format_name=self.format_name,
            files=files,
            options=options,
            schema=selected,
            split_bytes=_split_bytes(self.options),
        )


class _Reader(DataSourceReader):
    """Reads the files; it has no ``pushFilters``, which Spark by default rejects."""

    def __init__(
        self,
        *,
        format_name: str,
        files: list[str],
        options: ReadOptions,
        schema: pa.Schema,
        split_bytes: int,
    ) -> None:
        self._format_name = format_name
        self._files = files
        self._options = options
        self._schema = schema
        self._split_bytes = split_bytes
        self._filters = RowFilters()

    def partitions(self) -> Sequence[InputPartition]:
        """Split the files; runs once, in the driver."""
        return self.file_partitions(self._files)

    def file_partitions(self, files: Sequence[str]) -> list[InputPartition]:
        """Split these files."""
        chosen = get_format(self._format_name)
        return [
            _SplitPartition(split)
            for file in files
            if self._filters.allow_file(file)
            for split in chosen.splits(file, self._split_bytes)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one split; runs in a worker."""
        assert isinstance(partition, _SplitPartition)
        chosen = get_format(self._format_name)
        schema = _with_file(chosen.schema)
        for batch in chosen.read(partition.split, self._options):
            file = pa.repeat(pa.scalar(partition.split.path), batch.num_rows)
            records = pa.record_batch([file, *batch.columns], schema=schema)
            yield self._filters.apply(records).select(self._schema.names)


class _FilteringReader(_Reader):
    """Reads the files, and drops rows that the filters of a query exclude."""

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:
        """Keep the filters that the reader applies, and yield the others to Spark."""
        for each in filters:
            if not self._filters.add(each):
                yield each


def register(spark: SparkSession) -> None:
    """Register the sources in a session, for ``spark.read.format(NAME).load(PATH)``.

    If ``spark.sql.python.filterPushdown.enabled`` is true in the session, the sources apply
    filters of queries themselves; after a change of this setting, register them again.
    """
    pushes = str(spark.conf.get(PUSHDOWN, "false")).lower() == "true"
    reader = _FilteringReader if pushes else _Reader
    sources: list[type[DataSource]] = [NodeTraceSource]
    for each in FORMATS:
        name = f"{each.name.capitalize()}Source"
        fields = {"format_name": each.name, "reader_class": reader}
        sources.append(type(name, (_ForeignSource,), fields))
    for source in sources:
        try:
            spark.dataSource.register(source)
        except AnalysisException as error:
            if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
                raise
            # Spark looks for the name in the active session, which may be another one.
            with _active(spark):
                spark.dataSource.register(source)


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Make a classic session the active one of this thread."""
    sessions = spark._jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr]
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())


def _with_file(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field("file", pa.string(), nullable=False), *schema])


def _select(format_name: str, names: Sequence[str]) -> pa.Schema:
    """Return the schema of the selected columns; of all if none is selected."""
    schema = _with_file(get_format(format_name).schema)
    for name in names:
        if name not in schema.names:
            raise ConfigError(
                f"{PREFIX}{format_name} has no column {name!r}: select some of"
                f" {', '.join(schema.names)}"
            )
    return pa.schema([schema.field(name) for name in names]) if names else schema


def _columns(options: MutableMapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the names in the file by our names, and the selected columns."""
    names: dict[str, str] = {}
    selected: list[str] = []
    for each in options.get("columns", "").split(","):
        ours, is_named, theirs = (part.strip() for part in each.partition("="))
        if is_named and not (ours and theirs):
            raise ConfigError(f'invalid option("columns", "{each}"): use OURS=THEIRS')
        if is_named:
            names[ours] = theirs
        elif ours:
            selected.append(ours)
    return names, selected


def _split_bytes(options: MutableMapping[str, str]) -> int:
    text = options.get("splitBytes", str(SPLIT_BYTES))
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f'invalid option("splitBytes", "{text}"): must be at least 1')
    return int(text)
