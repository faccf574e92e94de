"""Measure the runs of a DataFrame, lazily.

Every partition packs the rows of each run, Spark shuffles the packed rows by
``comparable``, and one task measures the runs of a comparable, one after the other. It
holds the packed rows of all of them, the events of one, and the latencies of the reference
runs.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.pipeline.spark.batches import map_batches, map_groups
from antecede.pipeline.study.comparison import (
    Latencies,
    compare_latencies,
    order_references,
    speedups,
)
from antecede.pipeline.study.measure_schema import MEASURES, MEASURES_SCHEMA
from antecede.pipeline.study.results import is_relaying
from antecede.pipeline.study.run_events import COLUMNS
from antecede.pipeline.study.run_measures import measure_run
from antecede.pipeline.verify.packed_rows import (
    PACKED,
    PackedRun,
    row_packer,
    unpack_run,
)
from antecede.pipeline.verify.runs import TASKS_PER_CORE, parallelism
from antecede.trace.reader import NumberedBatch
from antecede.trace.run_info import RunInfo

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["measure_table"]


def measure_table(events: "DataFrame", cells: "DataFrame") -> "DataFrame":
    """Return the table ``measures`` of runs, without the measures of probes.

    Args:
        events: The events of the runs, with the columns of a trace.
        cells: The runs, with the columns ``cell``, ``comparable`` and ``protocol``.
    """
    from pyspark.sql import functions as F

    spark = events.sparkSession
    rows = events.select("run", *COLUMNS)
    packed = map_batches(rows, row_packer(), PACKED)
    runs = cells.selectExpr("cell AS run", "comparable", "protocol")
    tasks = TASKS_PER_CORE * parallelism(spark)
    by_comparable = packed.join(F.broadcast(runs), "run").repartition(tasks, "comparable")
    return map_groups(by_comparable, "comparable", _measure_comparable, MEASURES_SCHEMA)


def _measure_comparable(_: tuple[pa.Scalar, ...], packed: pa.Table) -> pa.Table:
    """Measure the runs of a comparable, from their packed rows."""
    protocols = dict(
        zip(packed["run"].to_pylist(), packed["protocol"].to_pylist(), strict=True)
    )
    references = order_references(protocols)
    others = sorted(protocols.keys() - set(references))
    known: list[Latencies] = []
    measures: dict[str, dict[str, float | None]] = {}
    latencies: dict[str, Latencies] = {}
    for run in (*references, *others):
        rows = unpack_run(packed.filter(pc.field("run") == run))
        parts: list[Latencies] = []
        measures[run] = measure_run(
            _PackedEvents(run, rows),
            rows.rows,
            relays=is_relaying(protocols[run]),
            on_copies=lambda copies, parts=parts: parts.append(Latencies.of_copies(copies)),  # type: ignore[misc]
        )
        found = Latencies(*map(np.concatenate, zip(*parts, strict=True)))
        if run in references:
            known.append(found)
            latencies[run] = found
        elif references:
            measures[run] |= compare_latencies(found, known)
    for run in references:  # When all references are known.
        measures[run] |= compare_latencies(latencies[run], known)
    names = list(measures)
    columns = {
        name: [measures[run].get(name) for run in names]
        for name in ("execution_time", "job_start_mean")
    }
    faster = speedups([""] * len(names), [protocols[run] for run in names], columns)
    rows_found = [
        {
            "cell": run,
            "measure": name,
            "value": faster[name][i] if name in faster else measures[run].get(name),
        }
        for i, run in enumerate(names)
        for name in MEASURES
    ]
    return pa.Table.from_pylist(rows_found, schema=MEASURES_SCHEMA)


class _PackedEvents:
    """The packed rows of a run, as a :class:`antecede.trace.reader.RecordedRun`."""

    def __init__(self, run: str, packed: PackedRun) -> None:
        self.location = f"run {run!r}"
        self.info = RunInfo(run=run)
        self._packed = packed

    def numbered_batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        first: int = 0,
        last: int | None = None,
        backward: bool = False,
    ) -> Iterator[NumberedBatch]:
        """Yield all rows, a blob at a time."""
        start = 0
        for table in self._packed.tables():
            wanted = table.schema.names if columns is None else columns
            for batch in table.select(list(wanted)).combine_chunks().to_batches():
                yield NumberedBatch(start, batch)
                start += batch.num_rows
