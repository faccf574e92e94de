"""Diagnostics of foreign files: missing information, clock errors, notes.

*Missing* information leaves properties unknown. *Clock errors* are contradictions in
recorded vector clocks. *Notes* do not change the verdict.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from antecede.ingest.skew import Skew

__all__ = ["LOCATIONS_MAX", "Diagnostic", "Diagnostics", "IngestSummary", "SourceLocation"]

LOCATIONS_MAX = 5
"""The most locations that a diagnostic keeps."""


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A line of a file, and the process that it belongs to."""

    file: str
    line: int
    process: str | None = None

    def __str__(self) -> str:
        process = "" if self.process is None else f" ({self.process})"
        return f"{self.file}:{self.line}{process}"

    def to_json(self) -> dict[str, object]:
        """Return the location as JSON values."""
        return {"file": self.file, "line": self.line, "process": self.process}


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """A kind of problem, how often it occurs, and its first locations if known."""

    description: str
    """A plural noun phrase, which follows the count."""
    count: int
    locations: tuple[SourceLocation, ...]
    """At most LOCATIONS_MAX."""

    def __str__(self) -> str:
        shown = ""
        for location in self.locations:
            # Each file is named once.
            text = str(location)
            if f"{location.file}:" in shown:
                text = text.replace(location.file, "", 1)
            shown += f", {text}" if shown else text
        more = ", ..." if self.count > len(self.locations) else ""
        counted = f"{self.count:,} {self.description}"
        return f"{counted}: {shown}{more}" if shown else counted

    def to_json(self) -> dict[str, object]:
        """Return the diagnostic as JSON values."""
        return {
            "description": self.description,
            "count": self.count,
            "locations": [location.to_json() for location in self.locations],
        }


class Diagnostics:
    """Collects diagnostics, and counts those with the same description as one."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._locations: dict[str, list[SourceLocation]] = {}

    def add(self, description: str, location: SourceLocation) -> None:
        """Add one occurrence."""
        self.add_many(description, 1, [location])

    def add_many(
        self, description: str, count: int, locations: Iterable[SourceLocation]
    ) -> None:
        """Add several occurrences, with at least the first LOCATIONS_MAX locations."""
        if count:
            self._counts[description] = self._counts.get(description, 0) + count
            kept = self._locations.setdefault(description, [])
            kept += list(locations)[: LOCATIONS_MAX - len(kept)]

    def collected(self) -> tuple[Diagnostic, ...]:
        """Return the diagnostics in the order of their first occurrence."""
        return tuple(
            Diagnostic(
                description=description,
                count=count,
                locations=tuple(self._locations[description]),
            )
            for description, count in self._counts.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSummary:
    """The number of records that were read, and all diagnostics."""

    format_name: str
    files: tuple[str, ...]
    unit: str
    """A record of the format, in the plural."""
    records: int
    """The number of records in the files."""
    unknown: int
    """The number of records that are incomplete or could not be read."""
    processes: int
    """The number of processes with events."""
    missing: tuple[Diagnostic, ...] = ()
    reasons: tuple[str, ...] = ()
    """Other reasons why properties are unknown, one sentence each."""
    clock_errors: tuple[Diagnostic, ...] | None = None
    """None if the format has no vector clocks."""
    notes: tuple[Diagnostic, ...] = ()
    skew: Skew | None = None
    """None without timestamps."""
    assumptions: tuple[str, ...] = ()
    """The assumptions that the verdict depends on."""

    @property
    def verified(self) -> int:
        """The number of records that the verdict covers completely."""
        return self.records - self.unknown

    @property
    def unknown_reasons(self) -> list[str]:
        """All reasons why properties are unknown, one line each."""
        return [*map(str, self.missing), *self.reasons]

    def lines(self) -> list[str]:
        """Return the summary without ``unknown_reasons``, which the verdict prints."""
        lines = [
            f"read {self.records:,} {self.unit} of {self.processes} processes"
            f" ({self.format_name}): {self.verified:,} verified, {self.unknown:,} unknown"
        ]
        if self.clock_errors is not None and not self.clock_errors:
            lines.append("clocks: consistent")
        lines += [f"clocks: {error}" for error in self.clock_errors or ()]
        lines += [f"note: {note}" for note in self.notes]
        if self.skew is not None:
            lines.append(str(self.skew))
        lines += [f"assumed: {assumption}" for assumption in self.assumptions]
        return lines

    def to_json(self) -> dict[str, object]:
        """Return the summary as JSON values."""
        errors = self.clock_errors
        return {
            "format": self.format_name,
            "files": list(self.files),
            "unit": self.unit,
            "records": self.records,
            "verified": self.verified,
            "unknown": self.unknown,
            "processes": self.processes,
            "missing": [each.to_json() for each in self.missing],
            "clock_errors": None if errors is None else [e.to_json() for e in errors],
            "notes": [note.to_json() for note in self.notes],
            "skew": None if self.skew is None else self.skew.to_json(),
            "assumptions": list(self.assumptions),
        }
