"""Replace the line numbers of sorted records by the files and lines of the caller.

The *location* of a record is one number, of its file and its line.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import overload

import pyarrow as pa
import pyarrow.compute as pc

from antecede.ingest.diagnostics import Diagnostic, IngestSummary, SourceLocation
from antecede.verify.kernels.slot_map import Longs

__all__ = [
    "Locations",
    "divide_locations",
    "join_locations",
    "located",
    "located_diagnostics",
]

LINE_BITS = 40

Locations = tuple[pa.Array, pa.Array] | None
"""By record, its file and its line; None if the table does not have them."""


@overload
def join_locations(file: int, line: int) -> int: ...


@overload
def join_locations(file: int | Longs, line: Longs) -> Longs: ...


def join_locations(file: int | Longs, line: int | Longs) -> int | Longs:
    """Return the location of each record from the number of its file, and its line."""
    return (file << LINE_BITS) + line


def divide_locations(location: Longs) -> tuple[Longs, Longs]:
    """Return the number of the file and the line of each location."""
    return location >> LINE_BITS, location & ((1 << LINE_BITS) - 1)


def located(summary: IngestSummary, locations: Locations) -> IngestSummary:
    """Return a summary with the files and lines of the caller, or without locations."""
    files: tuple[str, ...] = ("table",)
    if locations is not None:
        files = tuple(map(str, pc.unique(locations[0]).to_pylist()))
    errors = summary.clock_errors
    return replace(
        summary,
        files=files,
        missing=located_diagnostics(summary.missing, locations),
        clock_errors=None if errors is None else located_diagnostics(errors, locations),
        notes=located_diagnostics(summary.notes, locations),
    )


def located_diagnostics(
    found: Iterable[Diagnostic], locations: Locations
) -> tuple[Diagnostic, ...]:
    """Return diagnostics with the files and lines of the caller, or without locations."""
    if locations is None:
        return tuple(replace(each, locations=()) for each in found)
    files, lines = locations

    def location(each: SourceLocation) -> SourceLocation:
        file, line = files[each.line - 1].as_py(), lines[each.line - 1].as_py()
        return SourceLocation(str(file), int(line or 0), each.process)

    return tuple(
        replace(each, locations=tuple(map(location, each.locations))) for each in found
    )
