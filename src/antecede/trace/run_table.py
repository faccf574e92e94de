"""A table of runs: the events of many runs in a few Parquet files.

If each of many short runs has a directory of its own, most of the time on shared storage is
spent on small files. A table of runs is a directory of *parts*::

    DIR/events/runs-<id>.parquet    the events of some runs
    DIR/samples/runs-<id>.parquet   the samples of the same runs, if any has some

A row group of a part has rows of one run only, and the row groups of a run follow each
other. The footer of a part has the key ``antecede.runs``: a list with the contents of
``run.json`` and the number of row groups of each run. The footer is the end of the file: a
part is complete if its footer can be read, and an unfinished part has no runs. A part is
never changed; it can only be replaced by one with fewer of its runs.

``DIR/events/RUN`` is the *path of a run*, for :func:`antecede.trace.reader.read_trace` and
all commands that take the directory of a run. ``DIR/events/runs-<id>.parquet/RUN`` names
its part, too, which saves the search. If a run is in several parts, which a lost worker can
cause, the part counts that is first by name.

This module needs the extra ``antecede[trace]``.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from antecede.errors import TraceError
from antecede.trace.row_groups import (
    FOOTERS_MAX,
    FileVersion,
    RowGroup,
    check_schema,
    file_version,
    is_part,
    read_footer,
)
from antecede.trace.run_info import RunInfo
from antecede.trace.store import StorePath

__all__ = [
    "RUNS_KEY",
    "RunRows",
    "TablePart",
    "find_run",
    "list_parts",
    "list_runs",
    "read_part",
    "readable_parts",
    "run_info",
    "run_row_groups",
    "table_run_names",
]

RUNS_KEY = "antecede.runs"
"""The key of the footer whose value lists the runs of a part, as JSON."""
PARTS_MAX = 10_000
"""Parts whose runs to keep in memory: their names and numbers, and not the footers."""


class RunRows(NamedTuple):
    """Where the rows of a run are in a part."""

    first_group: int
    """The number of its first row group."""
    groups: int
    """The number of its row groups."""
    rows: int
    size: int
    """The bytes of the rows, before compression."""


class TablePart(NamedTuple):
    """A part of a table, and its runs."""

    path: StorePath
    version: FileVersion
    runs: Mapping[str, RunRows]


def list_parts(events: StorePath) -> list[StorePath]:
    """Return the parts in the directory ``events`` of a table, sorted by name."""
    return [child for child in events.children() if is_part(child.name)]


def read_part(path: StorePath) -> TablePart:
    """Return the runs of a part; raise TraceError if it is unfinished or damaged."""
    return _read_part(file_version(path))


@lru_cache(maxsize=PARTS_MAX)
def _read_part(version: FileVersion) -> TablePart:
    footer = read_footer(version)
    check_schema(version.path, footer.schema.to_arrow_schema())
    runs: dict[str, RunRows] = {}
    first = 0
    for info, groups in _listed_runs(version):
        numbers = range(first, first + groups)
        if not 0 <= groups <= footer.num_row_groups - first:
            raise TraceError(f"{version.path}: the footer lists more row groups than exist")
        found = [footer.row_group(number) for number in numbers]
        rows = sum(group.num_rows for group in found)
        size = sum(group.total_byte_size for group in found)
        runs[str(info["run"])] = RunRows(first, groups, rows, size)
        first += groups
    if first != footer.num_row_groups:
        raise TraceError(f"{version.path}: the footer lists fewer row groups than exist")
    return TablePart(version.path, version, runs)


@lru_cache(maxsize=FOOTERS_MAX)
def _listed_runs(version: FileVersion) -> list[tuple[dict[str, object], int]]:
    """Return the contents of ``run.json`` and the number of row groups of each run."""
    text = (read_footer(version).metadata or {}).get(RUNS_KEY.encode())
    try:
        found = json.loads(text or "null")
        return [
            ({**each["info"], "run": str(each["info"]["run"])}, int(each["row_groups"]))
            for each in found
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise TraceError(
            f"{version.path} has no list of runs in its footer: it is not a part of a table"
        ) from error


def run_info(part: TablePart, run: str) -> RunInfo:
    """Return everything about a run of a part that is not an event."""
    for info, _ in _listed_runs(part.version):
        if info["run"] == run:
            return RunInfo.from_json(json.dumps(info))
    raise TraceError(f"{part.path} has no run {run!r}")


def run_row_groups(part: TablePart, run: str) -> list[RowGroup]:
    """Return the row groups of a run of a part."""
    footer = read_footer(part.version)
    found = part.runs[run]
    groups: list[RowGroup] = []
    first = 0
    for number in range(found.first_group, found.first_group + found.groups):
        rows = footer.row_group(number).num_rows
        groups.append(RowGroup(part.path, number, first, rows))
        first += rows
    return groups


def readable_parts(events: StorePath) -> Iterator[TablePart]:
    """Yield the parts of a table that are complete."""
    for path in list_parts(events):
        # A part may be unfinished, damaged, or removed at this moment.
        with suppress(TraceError):
            yield read_part(path)


def list_runs(events: StorePath) -> dict[str, TablePart]:
    """Return the part of each run of a table; unreadable parts are left out."""
    runs: dict[str, TablePart] = {}
    for part in readable_parts(events):
        for run in part.runs:
            runs.setdefault(run, part)
    return runs


def table_run_names(events: StorePath) -> list[str]:
    """Return the names of the runs of a table, and of its unreadable parts."""
    unreadable = []
    for path in list_parts(events):
        try:
            read_part(path)
        except TraceError:
            unreadable.append(path.name)
    return [*sorted(list_runs(events)), *unreadable]


def find_run(path: StorePath) -> TablePart | None:
    """Return the part of the run that a path names; None if it is not in a table.

    Raises:
        TraceError: The path names a run that its table or its part does not contain.
    """
    parent = path.parent
    if not parent.path:  # The path is a bucket.
        return None
    if is_part(parent.name):
        part = read_part(parent)
        if path.name not in part.runs:
            raise TraceError(f"{parent} has no run {path.name!r}")
        return part
    parts = list_parts(parent)
    errors: list[str] = []
    for each in parts:
        try:
            part = read_part(each)
        except TraceError as error:
            errors.append(str(error))
            continue
        if path.name in part.runs:
            return part
    if not parts:
        return None
    raise TraceError("; ".join([f"{parent} has no run {path.name!r}", *errors[:1]]))
