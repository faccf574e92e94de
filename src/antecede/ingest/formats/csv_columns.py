"""Read columns of a CSV file as texts, in blocks of some MiB.

A record is one line. Line breaks inside quotes are not supported: such lines become records
with a problem.
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from antecede.errors import ConfigError
from antecede.ingest.formats.records import ReadOptions, UnreadableError
from antecede.ingest.formats.source import Split, read_blocks, read_head, whole_file

__all__ = [
    "Columns",
    "ReadColumns",
    "csv_columns",
    "find_columns",
    "first_columns",
    "read_header",
]

BLOCK_BYTES = 4 << 20
DELIMITERS = ",;\t|"

Columns = tuple[np.ndarray, dict[str, pa.Array], list[tuple[int, str]]]
"""The line numbers of records, their columns, and the invalid lines, each with a reason."""
ReadColumns = Callable[[Split, Mapping[str, str]], Iterator[Columns]]
"""Yields the columns of a split under our names, given by our names."""


def read_header(path: str | Path) -> list[str]:
    """Return the column names in the first line of a CSV file."""
    line = _first_line(path).strip()
    return next(csv.reader([line], delimiter=_delimiter(line)))


def _first_line(path: str | Path) -> str:
    return read_head(path).split(b"\n")[0].decode("utf-8", "replace")


def _delimiter(header: str) -> str:
    return max(DELIMITERS, key=header.count)


def find_columns(
    path: str | Path,
    header: Sequence[str],
    known: Mapping[str, Sequence[str]],
    options: ReadOptions,
    required: Sequence[str],
) -> dict[str, str]:
    """Return by our name of a column its name in the file.

    Args:
        path: The file, for error messages.
        header: The column names of the file.
        known: By our name, the usual names in lower case.
        options: Has the names that the user gave; these take precedence.
        required: Our names of the columns that must be found.

    Raises:
        ConfigError: A required or given column is not in the file, or a given name is not
            one of ours.
    """
    found: dict[str, str] = {}
    for ours, theirs in options.columns.items():
        if ours not in known:
            raise ConfigError(
                f"invalid {options.option('columns', f'{ours}=...')}: must be one of"
                f" {', '.join(known)}"
            )
        if theirs not in header:
            raise ConfigError(
                f"{path}: line 1: no column {theirs!r} among {', '.join(header)}"
            )
        found[ours] = theirs
    by_lower_case = {name.lower().strip(): name for name in header}
    for ours, names in known.items():
        theirs = next((by_lower_case[n] for n in names if n in by_lower_case), "")
        if theirs and ours not in found:
            found[ours] = theirs
    for ours in required:
        if ours not in found:
            raise ConfigError(
                f"{path}: line 1: no column for the {ours}: give it with"
                f" {options.option('columns', f'{ours}=NAME')}; the file has"
                f" {', '.join(header)}"
            )
    return found


def csv_columns(split: Split, names: Mapping[str, str]) -> Iterator[Columns]:
    """Yield the columns of a split under our names; an empty value is null.

    Args:
        split: A part of a file.
        names: By our name of a column, its name in the file.

    Raises:
        UnreadableError: A gzip file is damaged.
    """
    header = read_header(split.path)
    delimiter = _delimiter(_first_line(split.path))
    # Columns are identified by index, because names of other columns can be ambiguous.
    indexes = [str(index) for index in range(len(header))]
    wanted = {ours: indexes[header.index(theirs)] for ours, theirs in names.items()}
    for line, block in read_blocks(split, BLOCK_BYTES):
        if line == 1:
            block = block.split(b"\n", 1)[1] if b"\n" in block else b""
            line = 2
        if block.strip():
            yield _parse(line, block, indexes, wanted, delimiter)


def first_columns(
    read: ReadColumns, split: Split, names: Mapping[str, str]
) -> dict[str, pa.Array]:
    """Return the columns of the first block of the file that a split belongs to.

    Every split of a file gets the same columns. Of a whole file, the result is empty: its
    first block is the first one that ``read`` yields. It is also empty if the block cannot
    be read.
    """
    if not split.start and split.stop is None:
        return {}
    try:
        found = next(read(whole_file(split.path), names), None)
    except UnreadableError:
        found = None
    return {} if found is None else found[1]


def _parse(
    line: int, block: bytes, indexes: list[str], wanted: dict[str, str], delimiter: str
) -> Columns:
    bad: list[tuple[int, str]] = []

    def skip(row: arrow_csv.InvalidRow) -> str:
        reason = f"{row.actual_columns} columns, not {row.expected_columns}"
        bad.append((line + row.number - 1, reason))
        return "skip"

    try:
        table = arrow_csv.read_csv(
            io.BytesIO(block),
            arrow_csv.ReadOptions(
                use_threads=False, column_names=indexes, block_size=len(block) + 1
            ),
            arrow_csv.ParseOptions(
                delimiter=delimiter, invalid_row_handler=skip, ignore_empty_lines=False
            ),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(indexes, pa.string()),
                include_columns=list(dict.fromkeys(wanted.values())),
                strings_can_be_null=True,
                null_values=[""],
            ),
        )
    except pa.ArrowInvalid as error:
        raise UnreadableError(
            line, f"invalid CSV in or after this line: {error}"
        ) from error
    total = block.count(b"\n") + (not block.endswith(b"\n"))
    numbers = np.arange(line, line + total)
    numbers = numbers[~np.isin(numbers, [number for number, _ in bad])]
    if len(numbers) != table.num_rows:
        raise UnreadableError(line, "a line break inside quotes, in or after this line")
    columns = {ours: _combine(table[index]) for ours, index in wanted.items()}
    if b"\n\n" in block or b"\n\r\n" in block:
        is_empty = [each.strip() == b"" for each in block.split(b"\n")]
        kept = ~np.array(is_empty[:total])[numbers - line]
        numbers = numbers[kept]
        columns = {name: column.filter(pa.array(kept)) for name, column in columns.items()}
    return numbers, columns, bad


def _combine(column: pa.ChunkedArray) -> pa.Array:
    return (
        pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.string())
    )
