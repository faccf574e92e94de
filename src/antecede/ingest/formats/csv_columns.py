"""Read the columns of a CSV, as texts, some MiB at a time and with the number of each line.

A record is one line: a line break inside quotes is not understood, and its lines come out
as records with a problem.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from antecede.errors import ConfigError
from antecede.ingest.formats.records import Unreadable
from antecede.ingest.formats.source import Split, blocks, head

__all__ = ["Columns", "csv_columns", "delimiter_of", "find_columns", "header_of"]

BLOCK_BYTES = 4 << 20
DELIMITERS = ",;\t|"

Columns = tuple[np.ndarray, dict[str, pa.Array], list[tuple[int, str]]]
"""The lines of some records, their columns, and lines that are no records, with reasons."""


def delimiter_of(line: str) -> str:
    """Return what separates the columns of a header."""
    return max(DELIMITERS, key=line.count)


def header_of(path: str | Path) -> list[str]:
    """Return the names in the first line of a CSV."""
    line = head(path).split(b"\n")[0].decode("utf-8", "replace").strip()
    return next(csv.reader([line], delimiter=delimiter_of(line)))


def find_columns(
    path: str | Path,
    header: Sequence[str],
    usual: Mapping[str, Sequence[str]],
    told: Mapping[str, str],
    needed: Sequence[str],
) -> dict[str, str]:
    """Find out which column of a file is which of ours.

    Args:
        path: The file, for errors.
        header: Its columns.
        usual: Of each of our columns, the names that it usually has, in small letters.
        told: Of some of our columns, the name that it has in this file.
        needed: The columns that must be there.

    Raises:
        ConfigError: One is not there, or one that is told is none of ours.
    """
    found: dict[str, str] = {}
    for ours, theirs in told.items():
        if ours not in usual:
            raise ConfigError(f"--columns {ours}=...: known are {', '.join(usual)}")
        if theirs not in header:
            raise ConfigError(
                f"{path}: line 1: no column {theirs!r} among {', '.join(header)}"
            )
        found[ours] = theirs
    small = {name.lower().strip(): name for name in header}
    for ours, names in usual.items():
        theirs = next((small[name] for name in names if name in small), "")
        if theirs and ours not in found:
            found[ours] = theirs
    for ours in needed:
        if ours not in found:
            raise ConfigError(
                f"{path}: line 1: which column is the {ours}? Tell it with --columns"
                f" {ours}=NAME; there are {', '.join(header)}"
            )
    return found


def csv_columns(split: Split, names: Mapping[str, str]) -> Iterator[Columns]:
    """Yield these columns of a split, under our names; what is empty is null.

    Args:
        split: Which part of which file.
        names: Of each of our columns, its name in the file.

    Raises:
        Unreadable: A gzip is damaged.
    """
    header = header_of(split.path)
    first = head(split.path).split(b"\n")[0].decode("utf-8", "replace")
    delimiter = delimiter_of(first)
    # Columns that are not wanted may bear the same name twice.
    places = [f"{place}" for place in range(len(header))]
    wanted = {ours: places[header.index(theirs)] for ours, theirs in names.items()}
    for line, block in blocks(split, BLOCK_BYTES):
        if line == 1:
            block = block.split(b"\n", 1)[1] if b"\n" in block else b""
            line = 2
        if block.strip():
            yield _parse(line, block, places, wanted, delimiter)


def _parse(
    line: int, block: bytes, places: list[str], wanted: dict[str, str], delimiter: str
) -> Columns:
    bad: list[tuple[int, str]] = []

    def skip(row: arrow_csv.InvalidRow) -> str:
        why = f"{row.actual_columns} columns, not {row.expected_columns}"
        bad.append((line + row.number - 1, why))
        return "skip"

    try:
        table = arrow_csv.read_csv(
            io.BytesIO(block),
            arrow_csv.ReadOptions(
                use_threads=False, column_names=places, block_size=len(block) + 1
            ),
            arrow_csv.ParseOptions(
                delimiter=delimiter, invalid_row_handler=skip, ignore_empty_lines=False
            ),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(places, pa.string()),
                include_columns=list(dict.fromkeys(wanted.values())),
                strings_can_be_null=True,
                null_values=[""],
            ),
        )
    except pa.ArrowInvalid as error:
        raise Unreadable(line, f"not CSV from here on: {error}") from error
    total = block.count(b"\n") + (not block.endswith(b"\n"))
    numbers = np.arange(line, line + total)
    numbers = numbers[~np.isin(numbers, [number for number, _ in bad])]
    if len(numbers) != table.num_rows:
        raise Unreadable(line, "a line break inside quotes, in or after this line")
    columns = {ours: _one(table[place]) for ours, place in wanted.items()}
    # An empty line has nothing in any column.
    empty = (
        [each.strip() == b"" for each in block.split(b"\n")]
        if b"\n\n" in block or b"\n\r\n" in block
        else []
    )
    if any(empty[:total]):
        full = ~np.array(empty[:total])[numbers - line]
        numbers = numbers[full]
        columns = {name: column.filter(pa.array(full)) for name, column in columns.items()}
    return numbers, columns, bad


def _one(column: pa.ChunkedArray) -> pa.Array:
    return (
        pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.string())
    )
