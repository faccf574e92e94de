"""The table ``summary``: the measures over the seeds of each group of cells."""

import numpy as np
import pyarrow as pa

from antecede.pipeline.study.intervals import student_t
from antecede.pipeline.study.measure_schema import MEASURES, SUMMARY_SCHEMA

__all__ = ["summarize"]

GROUP_COLUMNS = ("grid", "protocol", "workload", "network", "processes", "messages")


def summarize(cells: pa.Table, values: np.ndarray) -> pa.Table:
    """Return the table ``summary``.

    Args:
        cells: The rows of the measured cells in the table ``cells``.
        values: One row per cell, and one column for each of :data:`MEASURES`; NaN for null.
    """
    names, group = np.unique(
        np.array(cells.column("group").to_pylist(), object), return_inverse=True
    )
    first = np.full(len(names), cells.num_rows)
    np.minimum.at(first, group, np.arange(cells.num_rows))
    shape = (len(names), len(MEASURES))
    count = np.zeros(shape, np.int64)
    np.add.at(count, group, ~np.isnan(values))
    total = np.zeros(shape)
    np.add.at(total, group, np.nan_to_num(values))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / np.where(count > 0, count, np.nan)
        squares = np.zeros(shape)
        np.add.at(squares, group, np.nan_to_num((values - mean[group]) ** 2))
        deviation = np.sqrt(squares / np.where(count > 1, count - 1, np.nan))
        quantiles = [np.nan, np.nan] + [
            student_t(runs - 1) for runs in range(2, int(count.max(initial=0)) + 1)
        ]
        half = np.array(quantiles)[count] * deviation / np.sqrt(count)
    chosen = cells.take(pa.array(first))
    order = np.argsort(np.array(list(MEASURES), object))

    def each(column: pa.ChunkedArray) -> pa.ChunkedArray:
        return column.take(pa.array(np.repeat(np.arange(len(names)), len(MEASURES))))

    def flat(matrix: np.ndarray) -> pa.Array:
        return pa.array(matrix[:, order].ravel(), from_pandas=True)

    measures = np.array(list(MEASURES), object)[order]
    columns = {
        "group": each(chosen.column("group")),
        **{name: each(chosen.column(name)) for name in GROUP_COLUMNS},
        "measure": pa.array(np.tile(measures, len(names)), pa.string()),
        "seeds": flat(count),
        "mean": flat(mean),
        "deviation": flat(deviation),
        "low": flat(mean - half),
        "high": flat(mean + half),
    }
    return pa.table([columns[name] for name in SUMMARY_SCHEMA.names], SUMMARY_SCHEMA)
