"""Read when something happened, however it is written, as whole nanoseconds.

A number is taken for seconds, milliseconds, microseconds or nanoseconds by its size, as
that of a moment in our times; small numbers are seconds. Anything else must be ISO 8601.
"""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["moments", "nanoseconds", "scale"]

NS = 1_000_000_000
SCALES = ((9 * 10**15, 1), (9 * 10**12, 10**3), (9 * 10**9, 10**6))
"""From which size on a number counts so many nanoseconds each; smaller ones are seconds.
Each of these bounds is the same moment, in the year 2255."""
RANGE = 2**63
WHOLE = r"^-?(\d{1,18}|[1-8]\d{18})$"
"""A number that fits into 64 bits, by its digits."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def scale(number: float) -> int:
    """Return how many nanoseconds a number of this size counts."""
    return next((each for least, each in SCALES if abs(number) >= least), NS)


def nanoseconds(text: str) -> int | None:
    """Return the nanoseconds that a text stands for, or None if it stands for none."""
    text = text.strip()
    try:
        whole = int(text)
    except ValueError:
        pass
    else:
        return whole * scale(whole) if abs(whole) < RANGE else None
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        # Not a number, or none that a clock shows.
        return round(number * scale(number)) if abs(number) < RANGE else None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    passed = moment - EPOCH
    return (passed.days * 86_400 + passed.seconds) * NS + passed.microseconds * 1_000


def moments(column: pa.Array) -> pa.Array:
    """Read a column of texts or numbers; what stands for no moment becomes null."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("ns")).cast(pa.int64())
    if pa.types.is_integer(column.type):
        numbers = column.cast(pa.int64())
    elif pa.types.is_floating(column.type):
        return _slowly(column)
    else:
        if not pc.all(pc.match_substring_regex(column, WHOLE)).as_py():
            return _slowly(column)
        numbers = column.cast(pa.int64())
    values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    size = np.abs(values)
    factor = np.select([size >= least for least, _ in SCALES], [s for _, s in SCALES], NS)
    return pa.array(values * factor, mask=numbers.is_null().to_numpy(zero_copy_only=False))


def _slowly(column: pa.Array) -> pa.Array:
    values = column.to_pylist()
    found = [None if value is None else nanoseconds(str(value)) for value in values]
    return pa.array(found, pa.int64())
