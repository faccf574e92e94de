"""Read the files of a directory as a stream: a new file becomes new rows, once.

Every file is read by itself, as in a batch. The offset of the stream, which Spark stores in
the checkpoint of a query, has the name and the size of every file that the paths name. So a
query that is started again reads exactly the files that are not in its last offset, in any
order of their names and times; the files of a batch that was not committed are read again
as one batch, and the sink replaces its first attempt.

A file must not change after it appears: write it under a name that begins with a dot or an
underscore, or in another directory, and rename it. A deleted file is dropped from the
offset, which is therefore as large as the list of files.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from antecede.errors import TraceError
from antecede.pipeline.spark.source_paths import find_files

__all__ = ["FileReader", "FileStreamReader"]

Offset = dict[str, int]
"""By file, its size in bytes."""


class FileReader(Protocol):
    """Reads files in a batch."""

    def file_partitions(self, files: Sequence[str]) -> list[InputPartition]:
        """Split the files."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one split."""


class FileStreamReader(DataSourceStreamReader):
    """Reads each file of some paths once."""

    def __init__(self, reader: FileReader, paths: Sequence[str]) -> None:
        """Take the reader of the files, and the paths as the user gave them."""
        self._reader = reader
        self._paths = list(paths)

    def initialOffset(self) -> Offset:
        """Return the offset of a new query: no file has been read."""
        return {}

    def latestOffset(self) -> Offset:  # type: ignore[override]
        """Return the files that are there now.

        Without parameters, the method fits every version of Spark from 4.0 on.
        """
        found: Offset = {}
        for file in sorted(find_files(self._paths, allow_empty=True)):
            try:
                found[file] = Path(file).stat().st_size
            except FileNotFoundError:
                continue  # Deleted since it was listed.
        return found

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Split the files that are new in ``end``; runs in the driver.

        Raises:
            TraceError: A file has changed since it was listed, so that its rows would be
                lost or doubled.
        """
        for file, size in end.items():
            if start.get(file, size) != size:
                raise TraceError(_changed(file))
        new = [file for file in end if file not in start]
        for file in new:
            if not Path(file).is_file():
                raise TraceError(f"{file}: no such file, but the checkpoint lists it")
            if Path(file).stat().st_size != end[file]:
                raise TraceError(_changed(file))
        return self._reader.file_partitions(new)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one split; runs in a worker."""
        return self._reader.read(partition)


def _changed(file: str) -> str:
    return (
        f"{file} has changed since the stream listed it: write a file under a name that"
        " begins with a dot, and rename it when it is complete"
    )
