"""Events that are dropped because timestamps do not determine their order."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.ingest.inference.ordering import ambiguous_events

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
