"""The jobs of Spark that find consistent cuts; each reads the events of all buckets."""

import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from antecede.pipeline.records.cut_refinement import CutSearch, sample_events
from antecede.pipeline.records.cuts import (
    CutEvents,
    Frontiers,
    RoundResult,
    close_locally,
    count_events,
    merge_rounds,
    raised_frontiers,
)
from antecede.pipeline.records.slices import cut_events
from antecede.pipeline.spark.batches import Batches, map_batches
from antecede.pipeline.verify.runs import parallelism
from antecede.verify.kernels.slot_map import Longs
from antecede.verify.kernels.stream import Bools

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["cut_search"]

RESULT: pa.Schema = pa.schema([("arrays", pa.binary())])
"""One row for each task."""

Task = Callable[[Iterator[CutEvents]], list[Longs]]


def cut_search(
    buckets: "DataFrame",
    names: tuple[str, ...],
    units: Longs,
    slice_events: int,
) -> CutSearch:
    """Return a search of cuts whose rounds are jobs of Spark.

    Args:
        buckets: A table with the events of the buckets in its column ``data``.
        names: The names of the processes of the run.
        units: By process, the length of the interval that a timestamp can stand for.
        slice_events: The wanted number of events of a slice.
    """

    def close(frontiers: Frontiers) -> RoundResult:
        def task(parts: Iterator[CutEvents]) -> list[Longs]:
            raised = frontiers.copy()
            chains, _, cuts = frontiers.shape
            counts = np.zeros((chains, cuts + 1), np.int64)
            for events in parts:
                close_locally(events, units, raised)
                counts += count_events(events, frontiers)
            return [raised_frontiers(frontiers, raised), counts]

        found = _collect(buckets, names, task)
        results = [RoundResult(raised=raised, counts=counts) for raised, counts in found]
        return merge_rounds(results, frontiers)

    def sample(frontier: Longs, is_wanted: Bools, step: int) -> Longs:
        def task(parts: Iterator[CutEvents]) -> list[Longs]:
            found = [np.empty((4, 0), np.int64)]
            for number, events in enumerate(parts):
                start = 7919 * number + len(events.process)
                found.append(sample_events(events, frontier, is_wanted, step, start))
            return [np.concatenate(found, axis=1)]

        every = _collect(buckets, names, task)
        empty: Longs = np.empty((4, 0), np.int64)
        return np.concatenate([empty, *(found for (found,) in every)], axis=1)

    return CutSearch(close=close, sample=sample, units=units, slice_events=slice_events)


def _collect(buckets: "DataFrame", names: tuple[str, ...], task: Task) -> list[list[Longs]]:
    """Run a task on the buckets of each partition; return the arrays of each."""

    def run(batches: Batches) -> Batches:
        numbers = {name: number for number, name in enumerate(names)}
        parts = (
            cut_events(data.as_buffer(), numbers)
            for batch in batches
            for data in batch.column(0)
        )
        row = {"arrays": _to_bytes(task(parts))}
        result = pa.RecordBatch.from_pylist([row], schema=RESULT)
        yield result

    # A task that has many buckets passes on what it raises, and returns one result.
    tasks = parallelism(buckets.sparkSession)
    blobs = buckets.where("events > 0").select("data").coalesce(tasks)
    rows = map_batches(blobs, run, RESULT).collect()
    return [_from_bytes(bytes(row["arrays"])) for row in rows]


def _to_bytes(arrays: list[Longs]) -> bytes:
    sink = io.BytesIO()
    np.savez(sink, *arrays)
    return sink.getvalue()


def _from_bytes(data: bytes) -> list[Longs]:
    with np.load(io.BytesIO(data)) as found:
        return [found[name] for name in found.files]
