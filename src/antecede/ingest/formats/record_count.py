"""Estimate the number of records of a file without reading it."""

from pathlib import Path

from antecede.ingest.formats.parquet_columns import count_rows, is_parquet
from antecede.ingest.formats.registry import Format
from antecede.ingest.formats.source import file_size, is_gzip

__all__ = ["estimate_records"]

RECORD_BYTES = {"jaeger": 600, "zipkin": 400, "otlp": 500, "spancsv": 100, "messages": 50}
"""The usual size of a record of a text format."""
OTHER_RECORD_BYTES = 200
GZIP_FACTOR = 10
"""The bytes that a byte of a compressed file of records usually expands to."""


def estimate_records(path: str | Path, chosen: Format) -> int:
    """Return the number of records of a file: exact for Parquet, otherwise by its size.

    Raise TraceError if a Parquet file is damaged.
    """
    if is_parquet(path):
        return count_rows(path)
    size = file_size(path) * (GZIP_FACTOR if is_gzip(path) else 1)
    return size // RECORD_BYTES.get(chosen.name, OTHER_RECORD_BYTES)
