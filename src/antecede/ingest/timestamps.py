"""Parse timestamps to nanoseconds.

The magnitude of a number decides whether it counts seconds, milliseconds, microseconds or
nanoseconds since 1970. Small numbers are seconds. Other texts must be in ISO 8601.
"""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["nanoseconds_per_unit", "parse_timestamp", "parse_timestamps"]

NS = 1_000_000_000
SCALES = ((9 * 10**15, 1), (9 * 10**12, 10**3), (9 * 10**9, 10**6))
"""Lower bounds of numbers, and the nanoseconds of their unit; smaller numbers are seconds.
All bounds are the same time, in the year 2255."""
RANGE = 2**63
INT64 = r"^-?(\d{1,18}|[1-8]\d{18})$"
"""The digits of a number that fits into 64 bits."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def nanoseconds_per_unit(number: float) -> int:
    """Return the nanoseconds of the unit of a timestamp, by its magnitude."""
    return next((each for least, each in SCALES if abs(number) >= least), NS)


def parse_timestamp(text: str) -> int | None:
    """Return a timestamp in nanoseconds, or None if the text is not a timestamp."""
    text = text.strip()
    try:
        whole = int(text)
    except ValueError:
        pass
    else:
        return whole * nanoseconds_per_unit(whole) if abs(whole) < RANGE else None
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        # The comparison is false for NaN and infinity.
        in_range = abs(number) < RANGE
        return round(number * nanoseconds_per_unit(number)) if in_range else None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    passed = time - EPOCH
    return (passed.days * 86_400 + passed.seconds) * NS + passed.microseconds * 1_000


def parse_timestamps(column: pa.Array) -> pa.Array:
    """Parse a column of texts or numbers; an invalid timestamp becomes null."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("ns")).cast(pa.int64())
    is_integer = pa.types.is_integer(column.type)
    if pa.types.is_floating(column.type) or (
        not is_integer and not pc.all(pc.match_substring_regex(column, INT64)).as_py()
    ):
        values = column.to_pylist()
        found = [None if value is None else parse_timestamp(str(value)) for value in values]
        return pa.array(found, pa.int64())
    numbers = column.cast(pa.int64())
    values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    size = np.abs(values)
    factor = np.select([size >= least for least, _ in SCALES], [s for _, s in SCALES], NS)
    return pa.array(values * factor, mask=numbers.is_null().to_numpy(zero_copy_only=False))
