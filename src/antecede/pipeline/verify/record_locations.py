"""Replace the line numbers of sorted records by the files and lines of the caller."""

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from antecede.ingest.diagnostics import Diagnostic, IngestSummary, SourceLocation

__all__ = ["Locations", "located", "located_diagnostics"]

Locations = tuple[pa.Array, pa.Array] | None
"""By record, its file and its line; None if the table does not have them."""


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
