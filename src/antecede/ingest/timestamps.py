"""Parse timestamps to nanoseconds.

A number counts seconds, milliseconds, microseconds or nanoseconds since 1970. The unit
belongs to a column, not to a single value: the largest number of the first batch that has
one decides it. A later number that is too large for the unit is not a valid time. Smaller
numbers are valid, so a column of small numbers is in seconds. Other texts must be in ISO
8601; they have up to nine digits of a second.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["TimeUnit", "TimeUnits"]

NS = 1_000_000_000
SCALES = ((9 * 10**15, 1), (9 * 10**12, 10**3), (9 * 10**9, 10**6), (0, NS))
"""Lower bounds of numbers, and the nanoseconds of their unit, the finest first. All bounds
but the last are the same time, in the year 2255."""
RANGE = 2**63
INT64 = r"^-?(\d{1,18}|[1-8]\d{18})$"
"""The digits of a number that fits into 64 bits."""
FRACTION = re.compile(r"[T ][\d:]+[.,](\d+)")
DIGITS = 9
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SAME_UNIT = 100
"""Columns whose largest numbers differ by less than this factor have the same unit; units
differ by a factor of 1,000."""


def _nanoseconds_per_unit(number: float) -> int:
    return next(ns for least, ns in SCALES if abs(number) >= least)


class TimeUnit:
    """The unit of the numbers of one column."""

    def __init__(self) -> None:
        self.ns: int | None = None
        """The nanoseconds of the unit; None until a number other than 0 decides it."""

    def decide(self, largest: float) -> None:
        """Decide the unit by the largest number of a batch, if it is not decided yet."""
        if self.ns is None and largest:
            self.ns = _nanoseconds_per_unit(largest)

    def parse(self, text: str) -> int | None:
        """Return a time in nanoseconds, or None if the text is not a valid time.

        The first number decides the unit.
        """
        number = _parse_number(text)
        if number is None:
            return _parse_iso_8601(text.strip())
        if abs(number) >= RANGE:
            return None
        self.decide(abs(float(number)))
        return self._to_ns(number)

    def parse_column(self, column: pa.Array) -> pa.Array:
        """Parse a column of texts or numbers; an invalid time becomes null.

        The largest number decides the unit.
        """
        if pa.types.is_timestamp(column.type):
            return column.cast(pa.timestamp("ns")).cast(pa.int64())
        if self.ns is None:
            self.decide(_largest_number(column))
        numbers = _integers(column)
        if numbers is None:
            texts = column.to_pylist()
            found = [None if each is None else self.parse(str(each)) for each in texts]
            return pa.array(found, pa.int64())
        values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
        unit = NS if self.ns is None else self.ns
        too_large = np.abs(values.astype(np.float64)) >= _bound(unit)
        is_null = numbers.is_null().to_numpy(zero_copy_only=False)
        return pa.array(np.where(too_large, 0, values) * unit, mask=is_null | too_large)

    def _to_ns(self, number: Decimal) -> int | None:
        unit = NS if self.ns is None else self.ns
        return round(number * unit) if abs(number) < _bound(unit) else None


class TimeUnits:
    """The units of the columns of one file, or of one run of a table."""

    def __init__(self) -> None:
        self._units: defaultdict[str, TimeUnit] = defaultdict(TimeUnit)

    def decide(self, columns: Mapping[str, pa.Array]) -> None:
        """Decide the units of columns that have numbers and no unit yet."""
        largest = {
            name: _largest_number(column)
            for name, column in columns.items()
            if self._units[name].ns is None
        }
        for name, number in largest.items():
            # Otherwise times near a bound would have different units in two columns.
            least, most = number / SAME_UNIT, number * SAME_UNIT
            alike = [each for each in largest.values() if least < each < most]
            self._units[name].decide(max(alike, default=0.0))

    def unit_ns(self, name: str) -> int:
        """Return the nanoseconds of the unit of a column; by default, of a second."""
        found = self._units[name].ns
        return NS if found is None else found

    def parse(self, columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """Parse columns of texts, numbers or timestamps; an invalid time becomes null."""
        self.decide(columns)
        return {
            name: self._units[name].parse_column(column) for name, column in columns.items()
        }


def _largest_number(column: pa.Array) -> float:
    """Return the largest absolute value of the numbers in a column; 0 without numbers."""
    if pa.types.is_timestamp(column.type):
        return 0.0
    numbers = _integers(column)
    if numbers is None:
        texts = column.drop_null().to_pylist()
        found = [_parse_number(str(text)) for text in texts]
        sizes = [abs(number) for number in found if number is not None]
        return max((float(size) for size in sizes if size < RANGE), default=0.0)
    bounds = pc.min_max(numbers).as_py()
    return float(max(abs(bounds["min"] or 0), abs(bounds["max"] or 0)))


def _integers(column: pa.Array) -> pa.Array | None:
    """Return a column of integers, or of texts of integers, as numbers; otherwise None."""
    is_integer = pa.types.is_integer(column.type)
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if is_integer or (is_text and pc.all(pc.match_substring_regex(column, INT64)).as_py()):
        return column.cast(pa.int64())
    return None


def _bound(unit: int) -> int:
    """Return the smallest number that is too large for a unit."""
    finer = [least for least, ns in SCALES if ns < unit]
    return finer[-1] if finer else RANGE


def _parse_number(text: str) -> Decimal | None:
    """Return an exact number, or None if the text is not a finite number."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _parse_iso_8601(text: str) -> int | None:
    try:
        time = datetime.fromisoformat(text).replace(microsecond=0)
    except ValueError:
        return None
    fraction = FRACTION.search(text)  # A datetime has only microseconds.
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    passed = time - EPOCH
    part = 0 if fraction is None else int(fraction[1][:DIGITS].ljust(DIGITS, "0"))
    return (passed.days * 86_400 + passed.seconds) * NS + part
