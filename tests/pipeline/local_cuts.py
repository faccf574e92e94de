"""The rounds that find consistent cuts, in this process, without Spark."""

from collections.abc import Sequence

import numpy as np

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
from antecede.verify.kernels.slot_map import Longs
from antecede.verify.kernels.stream import Bools


def local_search(
    buckets: Sequence[CutEvents], units: Longs, slice_events: int
) -> CutSearch:
    """Return a search of cuts; each bucket is a task."""

    def close(frontiers: Frontiers) -> RoundResult:
        results = []
        for events in buckets:
            raised = frontiers.copy()
            close_locally(events, units, raised)
            counts = count_events(events, frontiers)
            results.append(
                RoundResult(raised=raised_frontiers(frontiers, raised), counts=counts)
            )
        return merge_rounds(results, frontiers)

    def sample(frontier: Longs, is_wanted: Bools, step: int) -> Longs:
        found = [sample_events(each, frontier, is_wanted, step, 0) for each in buckets]
        return np.concatenate(found, axis=1)

    return CutSearch(close=close, sample=sample, units=units, slice_events=slice_events)
