"""Filters of a query that a data source applies itself.

A filter compares a column with a constant. Rows for which the comparison is null are
dropped, as in SQL.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["RowFilters"]

COMPARISONS = {
    "EqualTo": pc.equal,
    "GreaterThan": pc.greater,
    "GreaterThanOrEqual": pc.greater_equal,
    "LessThan": pc.less,
    "LessThanOrEqual": pc.less_equal,
}
"""By the class of a filter, the function of Arrow."""
SIMPLE = (str, int, bool)


class RowFilters:
    """The conjunction of some filters."""

    def __init__(self) -> None:
        self._filters: list[tuple[str, str, Any]] = []

    def add(self, filter: object) -> bool:
        """Add a filter of :mod:`pyspark.sql.datasource`; return whether it is supported."""
        kind = type(filter).__name__
        path: tuple[str, ...] = getattr(filter, "attribute", ())
        value: Any = getattr(filter, "value", None)
        if len(path) != 1 or path[0] == "clock":
            return False
        is_supported = kind == "IsNotNull" or (
            kind in COMPARISONS and isinstance(value, SIMPLE)
        )
        if kind == "In" and all(isinstance(each, SIMPLE) for each in value or ()):
            is_supported = bool(value)
        if is_supported:
            self._filters.append((kind, path[0], value))
        return is_supported

    def allow_file(self, file: str) -> bool:
        """Return whether rows of a file can pass the filters."""
        return all(
            file == value if kind == "EqualTo" else file in value
            for kind, column, value in self._filters
            if column == "file" and kind in ("EqualTo", "In")
        )

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that pass all filters."""
        for kind, name, value in self._filters:
            column = batch.column(name)
            if kind == "IsNotNull":
                mask = column.is_valid()
            elif kind == "In":
                mask = pc.is_in(column, pa.array(list(value), column.type))
            else:
                mask = COMPARISONS[kind](column, pa.scalar(value, column.type))
            batch = batch.filter(mask)
        return batch
