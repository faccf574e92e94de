"""Mean, percentiles and maximum of the values of a run.

Percentiles are exact up to :data:`EXACT_MAX` values, with linear interpolation between two
values. Of more values, a histogram with logarithmic bins is kept: a percentile then has a
relative error of at most :data:`SKETCH_ERROR`, and the memory does not grow with the number
of values. Count, mean and maximum are always exact.
"""

from collections.abc import Iterator
from math import ceil, floor, log, log1p

import numpy as np

__all__ = ["EXACT_MAX", "SKETCH_ERROR", "STATISTICS", "ValueSummary"]

EXACT_MAX = 1 << 24
"""The most values of which percentiles are exact: 128 MiB."""
SKETCH_ERROR = 0.001
"""The largest relative error of a percentile of more values."""
STATISTICS = ("mean", "p50", "p99", "max")
SHARES = {"p50": 0.5, "p99": 0.99}
BIN = log1p(SKETCH_ERROR) - log(1 - SKETCH_ERROR)
"""The logarithm of the ratio of the bounds of a bin."""


class ValueSummary:
    """Summarizes values that are added in parts."""

    count: int
    """The number of values."""

    def __init__(self, exact_max: int = EXACT_MAX) -> None:
        self.count = 0
        self._exact_max = exact_max
        self._sum = 0.0
        self._max = -np.inf
        self._parts: list[np.ndarray] | None = []
        self._bins: dict[tuple[int, int], int] = {}

    def add(self, values: np.ndarray) -> None:
        """Add finite values."""
        if not len(values):
            return
        self.count += len(values)
        self._sum += float(values.sum())
        self._max = max(self._max, float(values.max()))
        if self._parts is not None:
            self._parts.append(values)
            if self.count <= self._exact_max:
                return
            values, self._parts = np.concatenate(self._parts), None
        self._add_to_bins(values)

    def result(self, name: str) -> dict[str, float | None]:
        """Return the statistics, each under the name with a suffix; None without values."""
        if not self.count:
            return {f"{name}_{key}": None for key in STATISTICS}
        places = {key: share * (self.count - 1) for key, share in SHARES.items()}
        wanted = sorted({each(rank) for rank in places.values() for each in (floor, ceil)})
        ranked = dict(zip(wanted, self._ranked(wanted), strict=True))
        found = {f"{name}_mean": self._sum / self.count, f"{name}_max": self._max}
        for key, rank in places.items():
            low, high = ranked[floor(rank)], ranked[ceil(rank)]
            found[f"{name}_{key}"] = low + (rank - floor(rank)) * (high - low)
        return {f"{name}_{key}": found[f"{name}_{key}"] for key in STATISTICS}

    def _ranked(self, ranks: list[int]) -> Iterator[float]:
        """Yield the values of ascending ranks, from 0."""
        if self._parts is not None:
            values = np.concatenate(self._parts)
            values.partition(ranks)
            yield from values[ranks].tolist()
            return
        bins = sorted(self._bins, key=lambda each: (each[0], each[0] * each[1]))
        ends = np.cumsum([self._bins[each] for each in bins])
        for rank in ranks:
            sign, index = bins[int(np.searchsorted(ends, rank, side="right"))]
            # Both bounds of the bin are within the error of this value.
            yield sign * float(np.exp(index * BIN)) * (1 - SKETCH_ERROR)

    def _add_to_bins(self, values: np.ndarray) -> None:
        for sign in (-1, 1):
            sizes = sign * values[np.sign(values) == sign]
            indexes, counts = np.unique(
                np.ceil(np.log(sizes) / BIN).astype(np.int64), return_counts=True
            )
            for index, count in zip(indexes.tolist(), counts.tolist(), strict=True):
                self._bins[sign, index] = self._bins.get((sign, index), 0) + count
        zeros = int(np.count_nonzero(values == 0))
        if zeros:
            self._bins[0, 0] = self._bins.get((0, 0), 0) + zeros
