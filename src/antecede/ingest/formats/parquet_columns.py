"""Read columns of a Parquet file, in batches."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from antecede.errors import TraceError
from antecede.ingest.formats.csv_columns import Columns
from antecede.ingest.formats.records import UnreadableError
from antecede.ingest.formats.source import ExpansionLimit, Split, open_bytes

__all__ = ["is_parquet", "parquet_columns", "read_names"]

MAGIC = b"PAR1"


def is_parquet(path: str | Path) -> bool:
    """Return whether the first bytes of a file are those of Parquet."""
    with open_bytes(path) as file:
        return file.read(len(MAGIC)) == MAGIC


def read_names(path: str | Path) -> list[str]:
    """Return the names of the columns; raise TraceError if the file is damaged."""
    with open_bytes(path) as file:
        try:
            names: list[str] = pq.ParquetFile(file).schema_arrow.names
        except (pa.ArrowException, OSError) as error:
            raise TraceError(f"{path}: truncated or not a Parquet file") from error
        return names


def parquet_columns(split: Split, names: Mapping[str, str]) -> Iterator[Columns]:
    """Yield the numbers of rows, from 1, and their columns under our names.

    No row is invalid by itself, unlike a line of :func:`csv_columns`.

    Args:
        split: The file.
        names: By our name of a column, its name in the file.

    Raises:
        UnreadableError: The file is damaged.
    """
    with open_bytes(split.path) as file:
        row, limit = 1, ExpansionLimit(split.path)
        try:
            for batch in pq.ParquetFile(file).iter_batches(columns=list(names.values())):
                limit.add(batch.nbytes)
                columns = {ours: batch.column(theirs) for ours, theirs in names.items()}
                yield np.arange(row, row + batch.num_rows), columns, []
                row += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise UnreadableError(row, f"damaged: {error}") from error
