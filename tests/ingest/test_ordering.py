"""Which events are given up where timestamps do not tell their order."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from antecede.ingest.inference.ordering import unsure_events

Event = tuple[int, int, int]
"""A process, a time, and a resolution."""

events = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 40), st.sampled_from([0, 0, 1, 10])),
    max_size=25,
)


def touch(one: Event, other: Event) -> bool:
    """Whether two events may have happened in either order, by the definition."""
    (first, one_time, one_length), (second, other_time, other_length) = one, other
    return first == second and (
        one_time == other_time
        or one_time < other_time < one_time + one_length
        or other_time < one_time < other_time + other_length
    )


def given_up(
    found: list[Event], ordered: frozenset[tuple[int, int]] = frozenset()
) -> set[int]:
    columns = np.array(found, np.int64).reshape(-1, 3)
    unsure = unsure_events(
        columns[:, 0].astype(np.int32),
        columns[:, 1],
        columns[:, 2],
        lambda one, other: (one, other) in ordered,
    )
    return set(np.flatnonzero(unsure).tolist())


@given(found=events)
def test_no_two_events_are_left_whose_order_is_open(found: list[Event]) -> None:
    gone = given_up(found)
    for one, other in combinations(range(len(found)), 2):
        if one not in gone and other not in gone:
            assert not touch(found[one], found[other])


@given(found=events)
def test_nothing_is_given_up_but_for_another_event(found: list[Event]) -> None:
    for event in given_up(found):
        others = [each for place, each in enumerate(found) if place != event]
        assert any(touch(found[event], each) for each in others)


@given(found=events, data=st.data())
def test_events_that_are_ordered_otherwise_do_not_give_each_other_up(
    found: list[Event], data: st.DataObject
) -> None:
    pairs = list(combinations(range(len(found)), 2))
    ordered = (
        frozenset(data.draw(st.lists(st.sampled_from(pairs)))) if pairs else frozenset()
    )
    gone = given_up(found, ordered)
    for one, other in pairs:
        if one not in gone and other not in gone:
            assert not touch(found[one], found[other]) or (one, other) in ordered
    assert given_up(found, frozenset(pairs)) == set()


def test_the_coarser_of_two_is_given_up() -> None:
    assert given_up([(0, 10, 5), (0, 12, 0)]) == {0}
    assert given_up([(0, 10, 0), (0, 10, 5)]) == {1}
    assert given_up([(0, 10, 5), (1, 12, 0), (0, 15, 0)]) == set()


def test_a_thousand_events_of_one_moment_leave_one() -> None:
    assert len(given_up([(0, 7, 0)] * 1000)) == 999
