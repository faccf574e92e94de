"""Events that are dropped because timestamps do not determine their order."""

from itertools import combinations
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.ingest import ingest
from antecede.ingest.inference.ordering import AMBIGUOUS_ORDER, ambiguous_events
from antecede.ingest.text_hash import hash_texts
from antecede.trace.reader import read_trace
from tests.pipeline.span_runs import SpanRun

Event = tuple[int, int, int]
"""A process, a time, and a resolution."""

events = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 40), st.sampled_from([0, 0, 1, 10])),
    max_size=25,
)


def overlap(one: Event, other: Event) -> bool:
    """Return whether two events may have happened in either order, by definition."""
    (first, one_time, one_length), (second, other_time, other_length) = one, other
    return first == second and (
        one_time == other_time
        or one_time < other_time < one_time + one_length
        or other_time < one_time < other_time + other_length
    )


def dropped(
    found: list[Event], ordered: frozenset[tuple[int, int]] = frozenset()
) -> set[int]:
    columns = np.array(found, np.int64).reshape(-1, 3)
    is_dropped = ambiguous_events(
        columns[:, 0].astype(np.int32),
        columns[:, 1],
        columns[:, 2],
        lambda one, other: (one, other) in ordered,
    )
    return set(np.flatnonzero(is_dropped).tolist())


@given(found=events)
def test_the_order_of_all_remaining_events_is_certain(found: list[Event]) -> None:
    removed = dropped(found)
    for one, other in combinations(range(len(found)), 2):
        if one not in removed and other not in removed:
            assert not overlap(found[one], found[other])


@given(found=events)
def test_every_dropped_event_overlaps_a_remaining_one(found: list[Event]) -> None:
    for event in dropped(found):
        others = [each for index, each in enumerate(found) if index != event]
        assert any(overlap(found[event], each) for each in others)


@pytest.mark.long
@given(found=events, data=st.data())
def test_events_that_another_source_orders_are_not_dropped(
    found: list[Event], data: st.DataObject
) -> None:
    pairs = list(combinations(range(len(found)), 2))
    ordered = (
        frozenset(data.draw(st.lists(st.sampled_from(pairs)))) if pairs else frozenset()
    )
    removed = dropped(found, ordered)
    for one, other in pairs:
        if one not in removed and other not in removed:
            assert not overlap(found[one], found[other]) or (one, other) in ordered
    assert dropped(found, frozenset(pairs)) == set()


def test_the_coarser_of_two_events_is_dropped() -> None:
    assert dropped([(0, 10, 5), (0, 12, 0)]) == {0}
    assert dropped([(0, 10, 0), (0, 10, 5)]) == {1}
    assert dropped([(0, 10, 5), (1, 12, 0), (0, 15, 0)]) == set()


def test_of_a_thousand_equal_timestamps_one_remains() -> None:
    assert len(dropped([(0, 7, 0)] * 1000)) == 999


def kept_events(table: pa.Table, directory: Path, name: str) -> list[tuple[object, ...]]:
    """Return the events of a file, of which some are dropped."""
    arrow_csv.write_csv(table, directory / f"{name}.csv")
    (run,) = ingest([directory / f"{name}.csv"], directory / name)
    assert AMBIGUOUS_ORDER in [each.description for each in run.summary.missing]
    trace = pa.Table.from_batches(read_trace(run.directory).batches())
    names = run.written.table.names
    columns = (trace[name].to_pylist() for name in ("process", "time", "kind"))
    return sorted((names[p], t, kind) for p, t, kind in zip(*columns, strict=True))


def test_the_same_messages_of_spans_are_dropped_in_any_order_of_rows(
    tmp_path: Path,
) -> None:
    spans = SpanRun(Random(3), 4, 5_000_000, resolution_ns=100_000)
    spans.add_traces(60, duration_ns=60_000_000)
    table = spans.table()
    turned = table.take(list(reversed(range(table.num_rows))))
    found = kept_events(table, tmp_path, "one")
    assert kept_events(turned, tmp_path, "other") == found


def test_the_same_messages_are_dropped_in_any_order_of_rows(tmp_path: Path) -> None:
    random = Random(4)
    rows = [
        {
            "source": f"p{random.randrange(3)}",
            "target": f"q{random.randrange(3)}",
            "sent": 10**18 + random.randrange(20),
            "received": 10**18 + 100 + random.randrange(20),
            "message": None if index % 3 else f"m{index}",
        }
        for index in range(60)
    ]
    table = pa.Table.from_pylist(rows)
    found = kept_events(table, tmp_path, "one")
    turned = pa.Table.from_pylist(rows[::-1])
    assert kept_events(turned, tmp_path, "other") == found


def test_texts_have_the_hashes_of_the_specification() -> None:
    # XXH64 with the seed 0, as published with the algorithm.
    texts = pa.array(["", "abc", "Nobody inspects the spammish repetition"])
    found = hash_texts(texts, np.zeros(3, np.int64)).view(np.uint64).tolist()
    assert found == [0xEF46DB3751D8E999, 0x44BC2CF5AD770999, 0xFBCEA83C8A378BF1]
