"""What there is to say of a foreign trace beside the verdict on its messages.

*Holes* are what it lacks, so that some property is unknown. *Faults* are contradictions
in the vector clocks that it recorded. *Skew* is where timestamps contradict
happened-before, which breaks nothing, since no order across processes is taken from them.
*Notes* change nothing, but should be known.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

__all__ = ["Collector", "Finding", "Findings", "Pair", "Place", "Skew", "find_skew"]

PLACES_KEPT = 5
NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in the files that were read."""

    file: str
    line: int
    process: str | None = None

    def __str__(self) -> str:
        """Write it as compilers do, with the process if it is known."""
        whose = "" if self.process is None else f" ({self.process})"
        return f"{self.file}:{self.line}{whose}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that was found once or often, and the first places where."""

    what: str
    """In words that follow a number."""
    count: int
    places: tuple[Place, ...]
    """The first of them."""

    def __str__(self) -> str:
        """Say it in one line."""
        shown = ""
        for place in self.places:
            # A file is named once.
            comma = ", " if shown else ""
            named = str(place)
            shown += comma + (
                named.replace(place.file, "", 1) if f"{place.file}:" in shown else named
            )
        more = ", ..." if self.count > len(self.places) else ""
        return f"{self.count:,} {self.what}: {shown}{more}"

    def to_json(self) -> dict[str, object]:
        """Return it as values of JSON."""
        places = [
            {"file": place.file, "line": place.line, "process": place.process}
            for place in self.places
        ]
        return {"what": self.what, "count": self.count, "places": places}


class Collector:
    """Gathers findings; what is the same counts as one finding, found several times."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._counts: dict[str, int] = {}
        self._places: dict[str, list[Place]] = {}

    def add(self, what: str, place: Place) -> None:
        """Note something at a place."""
        self.add_all(what, 1, [place])

    def add_all(self, what: str, count: int, places: Iterable[Place]) -> None:
        """Note something that was found so often, first at these places."""
        if count:
            self._counts[what] = self._counts.get(what, 0) + count
            kept = self._places.setdefault(what, [])
            for place in places:
                if len(kept) == PLACES_KEPT:
                    break
                kept.append(place)

    def findings(self) -> tuple[Finding, ...]:
        """Return what was gathered, in the order in which it was first met."""
        return tuple(
            Finding(what=what, count=count, places=tuple(self._places[what]))
            for what, count in self._counts.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """How the clocks of two processes contradict the messages from one to the other."""

    source: str
    target: str
    count: int
    """How many messages were received, by the clocks, before they were sent."""
    worst_ns: int
    """By how much at most: the clocks differ by no less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """How timestamps contradict happened-before."""

    messages: int
    """Of how many messages both timestamps are known."""
    count: int
    """How many of them were received, by the clocks, before they were sent."""
    pairs: tuple[Pair, ...]
    """Between whom, the worst first."""

    def __str__(self) -> str:
        """Say it in one line."""
        if not self.count:
            return f"skew: none of {self.messages:,} messages contradicts the timestamps"
        worst = self.pairs[0]
        between = f"{worst.source} to {worst.target}"
        return (
            f"skew: {self.count:,} of {self.messages:,} messages received before they were"
            f" sent, by the timestamps; at worst {worst.worst_ns / NS_PER_MS:.3f} ms,"
            f" {between}; {len(self.pairs)} pairs of processes"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All of it; ``records == judged + unknown``."""

    format_name: str
    files: tuple[str, ...]
    unit: str
    """What a record of the format is, in the plural."""
    records: int
    """How many records stand in the files."""
    unknown: int
    """Of how many of them something is missing, or could not be read."""
    processes: int
    """How many processes have events."""
    holes: tuple[Finding, ...] = ()
    reasons: tuple[str, ...] = ()
    """What else leaves properties unknown, in a sentence each."""
    faults: tuple[Finding, ...] | None = None
    """None if there are no vector clocks."""
    notes: tuple[Finding, ...] = ()
    skew: Skew | None = None
    """None without timestamps."""
    assumed: tuple[str, ...] = field(default=())
    """What had to be taken on trust."""

    @property
    def judged(self) -> int:
        """How many records took part in the verdict with all that they say."""
        return self.records - self.unknown

    @property
    def unknown_reasons(self) -> list[str]:
        """Why properties are unknown, in a line each; for ``run.json``."""
        return [*(str(hole) for hole in self.holes), *self.reasons]

    def lines(self) -> list[str]:
        """Say it in a few lines; the holes are told by the verdict."""
        told = [
            f"read {self.records:,} {self.unit} of {self.processes} processes"
            f" ({self.format_name}): {self.judged:,} judged, {self.unknown:,} unknown"
        ]
        if self.faults is not None and not self.faults:
            told.append("clocks: consistent")
        told += [f"clocks: {fault}" for fault in self.faults or ()]
        told += [f"note: {note}" for note in self.notes]
        if self.skew is not None:
            told.append(str(self.skew))
        told += [f"assumed: {each}" for each in self.assumed]
        return told

    def to_json(self) -> dict[str, object]:
        """Return it as values of JSON."""
        faults = None if self.faults is None else [each.to_json() for each in self.faults]
        skew = None
        if self.skew is not None:
            pairs = [
                {
                    "source": pair.source,
                    "target": pair.target,
                    "count": pair.count,
                    "worst_ms": pair.worst_ns / NS_PER_MS,
                }
                for pair in self.skew.pairs
            ]
            skew = {
                "messages": self.skew.messages,
                "count": self.skew.count,
                "pairs": pairs,
            }
        return {
            "format": self.format_name,
            "files": list(self.files),
            "unit": self.unit,
            "records": self.records,
            "judged": self.judged,
            "unknown": self.unknown,
            "processes": self.processes,
            "holes": [hole.to_json() for hole in self.holes],
            "clock_faults": faults,
            "notes": [note.to_json() for note in self.notes],
            "skew": skew,
            "assumed": list(self.assumed),
        }


def find_skew(
    source: np.ndarray,
    target: np.ndarray,
    lead_ns: np.ndarray,
    names: Sequence[str],
) -> Skew:
    """Find out between whom timestamps contradict messages.

    Args:
        source: By delivery, who sent it.
        target: By delivery, who received it.
        lead_ns: By delivery, how long before its send it was received, by the clocks.
        names: By process, its name.
    """
    early = np.flatnonzero(lead_ns > 0)
    width = len(names)
    key = source[early].astype(np.int64) * width + target[early]
    kinds, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    worst = np.zeros(len(kinds), np.int64)
    np.maximum.at(worst, inverse, lead_ns[early])
    pairs = [
        Pair(
            source=names[kinds[i] // width],
            target=names[kinds[i] % width],
            count=int(counts[i]),
            worst_ns=int(worst[i]),
        )
        for i in np.lexsort((kinds, -worst))
    ]
    return Skew(messages=len(lead_ns), count=len(early), pairs=tuple(pairs))
