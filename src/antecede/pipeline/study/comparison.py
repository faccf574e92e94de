"""Measures that compare a run with others of the same workload and network.

The runs of one ``comparable`` differ only in their protocol and its budget. Their copies
are compared with those of the reference (:mod:`antecede.pipeline.study.measure_schema`),
and their times with those of ``buffer``.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa

from antecede.pipeline.study.run_copies import RunCopies
from antecede.pipeline.study.statistics import ValueSummary

__all__ = ["Latencies", "compare_latencies", "order_references", "speedups"]

REFERENCES = ("optimal", "matrix")
"""Protocols that deliver as early as causal order allows, the preferred one first."""
BASELINE = "buffer"
SPEEDUPS = {
    "execution_speedup": "execution_time",
    "job_start_speedup": "job_start_mean",
}
KEY_MAX = 1 << 62
NAME = "non_causal_latency"


class Latencies(NamedTuple):
    """The delivered copies of a run, by source, number and target."""

    source: np.ndarray
    number: np.ndarray
    target: np.ndarray
    latency: np.ndarray
    digest: np.ndarray
    """Of the targets of the message; -1 for a broadcast."""

    @classmethod
    def of_copies(cls, copies: RunCopies) -> Self:
        """Return the latencies of copies."""
        return cls._delivered(
            copies.source,
            copies.number,
            copies.target,
            copies.duration("latency"),
            copies.broadcast,
        )

    @classmethod
    def of_table(cls, table: pa.Table) -> Self:
        """Return the latencies in the rows of a run in the table ``copies``."""
        source, number, target = (
            table.column(name).to_numpy().astype(np.int64)
            for name in ("source", "number", "target")
        )
        return cls._delivered(
            source,
            number,
            target,
            table.column("latency").to_numpy(),
            table.column("broadcast").to_numpy(),
        )

    @classmethod
    def _delivered(
        cls,
        source: np.ndarray,
        number: np.ndarray,
        target: np.ndarray,
        latency: np.ndarray,
        broadcast: np.ndarray,
    ) -> Self:
        digest = _target_digests(source, number, target)
        digest[broadcast] = -1
        chosen = ~np.isnan(latency)
        columns = (source, number, target, latency, digest)
        return cls(*(column[chosen] for column in columns))


def compare_latencies(
    run: Latencies, references: Sequence[Latencies]
) -> dict[str, float | None]:
    """Return the statistics of the non-causal latency of a run.

    Args:
        run: The delivered copies of the run.
        references: Those of the reference runs of its comparable, the preferred one first.
    """
    values = ValueSummary()
    left = np.arange(len(run.latency))
    for reference in references:
        matched, difference = _differences(run, left, reference)
        left = np.delete(left, matched)
        values.add(difference[~np.isnan(difference)])
    found = values.result(NAME)
    found["non_causal_unmatched"] = len(run.latency) - values.count
    return found


def order_references(protocols: Mapping[str, str]) -> list[str]:
    """Return the reference runs among the runs of a comparable, the preferred one first.

    Args:
        protocols: The protocol of each run, by name.
    """
    found = [run for run, protocol in protocols.items() if protocol in REFERENCES]
    return sorted(found, key=lambda run: (REFERENCES.index(protocols[run]), run))


def speedups(
    comparables: Sequence[str],
    protocols: Sequence[str],
    measures: Mapping[str, Sequence[float | None]],
) -> dict[str, list[float | None]]:
    """Return the speedups of runs, relative to the baseline of the same comparable."""
    found: dict[str, list[float | None]] = {}
    for speedup, name in SPEEDUPS.items():
        baselines: dict[str, float] = {}
        for comparable, protocol, value in zip(
            comparables, protocols, measures[name], strict=True
        ):
            if protocol == BASELINE and value is not None:
                baselines[comparable] = max(value, baselines.get(comparable, value))
        found[speedup] = [
            baselines[comparable] / value if value and comparable in baselines else None
            for comparable, value in zip(comparables, measures[name], strict=True)
        ]
    return found


def _differences(
    run: Latencies, rows: np.ndarray, reference: Latencies
) -> tuple[np.ndarray, np.ndarray]:
    """Return which of some rows have a copy in the reference, and their differences.

    The difference is NaN if the message has other targets there.
    """
    wanted, known = _keys(run, reference)
    if not len(known):
        return np.empty(0, np.int64), np.empty(0)
    place = np.minimum(np.searchsorted(known, wanted[rows]), len(known) - 1)
    matched = np.flatnonzero(known[place] == wanted[rows])
    mine, theirs = rows[matched], place[matched]
    difference = run.latency[mine] - reference.latency[theirs]
    digest, other = run.digest[mine], reference.digest[theirs]
    difference[(digest != other) & (digest != -1) & (other != -1)] = np.nan
    return matched, difference


def _keys(one: Latencies, other: Latencies) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers for the copies of two runs, in the order of the copies."""
    split = len(one.source)
    source, number, target = (
        np.concatenate((getattr(one, name), getattr(other, name)))
        for name in ("source", "number", "target")
    )
    numbers, targets = (int(each.max(initial=0)) + 1 for each in (number, target))
    if int(source.max(initial=0)) + 1 >= KEY_MAX // numbers // targets:
        _, number = np.unique(number, return_inverse=True)
        numbers = int(number.max(initial=0)) + 1
    keys = (source * numbers + number) * targets + target
    return keys[:split], keys[split:]


def _target_digests(
    source: np.ndarray, number: np.ndarray, target: np.ndarray
) -> np.ndarray:
    """Return, for each copy, a digest of the targets of its message, at least 0."""
    if not len(source):
        return np.empty(0, np.int64)
    is_first = np.ones(len(source), np.bool_)
    is_first[1:] = (source[1:] != source[:-1]) | (number[1:] != number[:-1])
    mixed = target.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    sums = np.add.reduceat(mixed, np.flatnonzero(is_first))
    digests = (sums >> np.uint64(1)).astype(np.int64)
    found: np.ndarray = digests[np.cumsum(is_first) - 1]
    return found
