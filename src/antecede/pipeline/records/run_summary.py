"""The summaries of all buckets of a run, and the plan for its slices."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from antecede.ingest.diagnostics import (
    LOCATIONS_MAX,
    Diagnostic,
    IngestSummary,
    SourceLocation,
)
from antecede.ingest.inference.spans import COARSE_BY_CHANCE_MAX
from antecede.ingest.skew import Skew, SkewedPair
from antecede.pipeline.records.bucket_events import BucketSummary, Location
from antecede.pipeline.records.clock_offsets import find_offsets
from antecede.pipeline.records.slices import SlicePlan
from antecede.verify.kernels.slot_map import Longs

__all__ = ["RunSummary", "merge_summaries"]

NUMBER_BITS = 62
TIE_BITS_MAX = 16


@dataclass(slots=True, kw_only=True)
class RunSummary:
    """The summary of a run, from those of its buckets."""

    ingested: IngestSummary
    deliveries: int
    """The number of known deliveries."""
    missing_deliveries: int | None
    """The number of deliveries that are not known; None if there may be more."""
    names: tuple[str, ...]
    """The names of the processes."""
    is_mixed: np.ndarray
    """By process, whether some of its times are coarser than others."""
    pairs: tuple[Longs, Longs, Longs]
    """By pair of processes: the source, the target, and the greatest lead."""
    times: Longs
    """Times of events at equal distances, ascending."""

    @property
    def zero(self) -> int:
        """The earliest time of an event, in nanoseconds."""
        return int(self.times[0]) if len(self.times) else 0

    def plan(self, location: str, events: int, slice_events: int) -> SlicePlan:
        """Return a plan with a guess of the cuts, by the times.

        Args:
            location: The text that error messages begin with.
            events: The number of events of the run.
            slice_events: The wanted number of events of a slice.
        """
        offsets = find_offsets(len(self.names), *self.pairs)
        count = max(1, -(-events // slice_events))
        chosen = np.linspace(0, max(0, len(self.times) - 1), count + 1).astype(np.int64)
        # A clock with an offset is not one of many: most events keep their time.
        middle = int(np.median(offsets)) if len(offsets) else 0
        ends = np.unique(self.times[chosen[1:-1]] + middle)
        last = int(self.times[-1]) - self.zero if len(self.times) else 0
        return SlicePlan(
            location=location,
            names=self.names,
            offsets=offsets,
            is_mixed=self.is_mixed,
            frontier=ends[None, :] - offsets[:, None],
            zero=self.zero,
            tie_bits=min(TIE_BITS_MAX, NUMBER_BITS - last.bit_length()),
        )

    def unverified(self, deliveries: int) -> int | None:
        """Return how many deliveries are not verified, if ``deliveries`` are.

        None means that it is not known.
        """
        if self.missing_deliveries is None:
            return None
        return self.missing_deliveries + self.deliveries - deliveries

    def add_unknown(self, description: str, count: int) -> None:
        """Add a reason why records are unknown, and how many are."""
        if not count:
            return
        added = Diagnostic(description=description, count=count, locations=())
        missing = {each.description: each for each in self.ingested.missing}
        before = missing.get(description)
        if before is not None:
            added = replace(before, count=before.count + count)
        self.ingested = replace(
            self.ingested,
            unknown=min(self.ingested.records, self.ingested.unknown + count),
            missing=tuple((missing | {description: added}).values()),
        )


def merge_summaries(texts: Iterable[str], kind: str) -> RunSummary:
    """Merge the summaries of all buckets of a run.

    Args:
        texts: The summaries as text.
        kind: ``spans`` or ``messages``.
    """
    missing: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    records = unknown = deliveries = missing_deliveries = 0
    has_more_missing = False
    places: dict[str, list[Location]] = {}
    assumptions: dict[str, None] = {}
    processes: dict[str, tuple[int, int]] = {}
    leads: dict[tuple[str, str], tuple[int, int, int]] = {}
    times: list[int] = []
    for text in texts:
        found = BucketSummary.from_json(text)
        records += found.records
        unknown += found.unknown
        deliveries += found.deliveries
        missing_deliveries += found.missing_deliveries
        has_more_missing |= found.has_more_missing
        missing.update(found.missing)
        notes.update(found.notes)
        for description, found_at in found.locations.items():
            places.setdefault(description, []).extend(found_at)
        assumptions.update(dict.fromkeys(found.assumptions))
        times += found.quantiles
        for name, (count, coarse) in found.processes.items():
            counts = processes.get(name, (0, 0))
            processes[name] = (counts[0] + count, counts[1] + coarse)
        for source, target, worst, early, total in found.leads:
            before = leads.get((source, target), (worst, 0, 0))
            worst = max(worst, before[0])
            leads[source, target] = (worst, before[1] + early, before[2] + total)
    names = tuple(sorted(processes, key=str.encode))
    ingested = IngestSummary(
        format_name="table",
        files=("table",),
        unit=kind,
        records=records,
        unknown=unknown,
        processes=len(names),
        missing=_diagnostics(missing, places),
        notes=_diagnostics(notes, places),
        skew=_skew(leads),
        assumptions=tuple(assumptions),
    )
    share = np.array([processes[n][1] / processes[n][0] for n in names], np.float64)
    is_mixed = (share > COARSE_BY_CHANCE_MAX) & (share < 1) & (kind == "spans")
    numbers = {name: number for number, name in enumerate(names)}
    pairs = (
        np.array([numbers[source] for source, _ in leads], np.int64),
        np.array([numbers[target] for _, target in leads], np.int64),
        np.array([worst for worst, _, _ in leads.values()], np.int64),
    )
    return RunSummary(
        ingested=ingested,
        deliveries=deliveries,
        missing_deliveries=None if has_more_missing else missing_deliveries,
        names=names,
        is_mixed=is_mixed,
        pairs=pairs,
        times=np.sort(np.array(times, np.int64)),
    )


def _diagnostics(
    counts: dict[str, int], places: dict[str, list[Location]]
) -> tuple[Diagnostic, ...]:
    """Return diagnostics with the first of their locations, by file and line."""
    return tuple(
        Diagnostic(
            description=text,
            count=count,
            locations=tuple(
                SourceLocation(*each)
                for each in sorted(
                    places.get(text, ()), key=lambda each: (each[0], each[1])
                )[:LOCATIONS_MAX]
            ),
        )
        for text, count in counts.items()
    )


def _skew(leads: dict[tuple[str, str], tuple[int, int, int]]) -> Skew:
    found = [
        SkewedPair(source=source, target=target, count=early, worst_ns=worst)
        for (source, target), (worst, early, _) in leads.items()
        if early
    ]
    found.sort(key=lambda pair: (-pair.worst_ns, pair.source, pair.target))
    return Skew(
        messages=sum(total for _, _, total in leads.values()),
        count=sum(pair.count for pair in found),
        pairs=tuple(found),
    )
