"""The sliding structures, compared with a list and a dictionary."""

import gc
import tracemalloc
import weakref
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from antecede.core.support.sliding import SlidingArray, SparseSlidingArray

MACHINE_SETTINGS = settings(max_examples=60, stateful_step_count=40)
BULK = st.integers(min_value=1, max_value=150)
"""Large enough that a few bulk steps make the array delete its removed prefix."""


class Element:
    """An object with weak references."""


class ArrayMachine(RuleBasedStateMachine):
    """A sliding array, compared with a list of all elements ever added."""

    def __init__(self) -> None:
        super().__init__()
        self.array: SlidingArray[int] = SlidingArray()
        self.everything: list[int] = []
        self.start = 0
        self.removed = 0

    @initialize(start=st.integers(min_value=0, max_value=1000))
    def begin(self, start: int) -> None:
        self.array = SlidingArray(start)
        self.start = start

    @rule(element=st.integers(), count=BULK)
    def add(self, element: int, count: int) -> None:
        for step in range(count):
            index = self.array.add(element + step)
            assert index == self.start + len(self.everything)
            self.everything.append(element + step)

    @rule(count=BULK)
    def remove(self, count: int) -> None:
        for _ in range(min(count, len(self.everything) - self.removed)):
            assert self.array.remove() == self.everything[self.removed]
            self.removed += 1

    @precondition(lambda self: self.removed < len(self.everything))
    @rule(data=st.data(), element=st.integers())
    def replace(self, data: st.DataObject, element: int) -> None:
        position = data.draw(st.integers(self.removed, len(self.everything) - 1))
        self.array[self.start + position] = element
        self.everything[position] = element

    @precondition(lambda self: self.removed < len(self.everything))
    @rule()
    def peek(self) -> None:
        assert self.array.peek() == self.everything[self.removed]

    @precondition(lambda self: self.removed == len(self.everything))
    @rule()
    def refuse_when_empty(self) -> None:
        with pytest.raises(IndexError):
            self.array.peek()
        with pytest.raises(IndexError):
            self.array.remove()

    @rule(distance=st.integers(min_value=0, max_value=200))
    def refuse_outside(self, distance: int) -> None:
        for index in (self.array.first - 1 - distance, self.array.next + distance):
            with pytest.raises(IndexError):
                self.array[index]
            with pytest.raises(IndexError):
                self.array[index] = 0

    @invariant()
    def bounds_agree(self) -> None:
        assert self.array.first == self.start + self.removed
        assert self.array.next == self.start + len(self.everything)
        assert len(self.array) == len(self.everything) - self.removed

    def teardown(self) -> None:
        window = [self.array[i] for i in range(self.array.first, self.array.next)]
        assert window == self.everything[self.removed :]


class SparseMachine(RuleBasedStateMachine):
    """A sparse sliding array, compared with a dictionary from indexes to elements."""

    def __init__(self) -> None:
        super().__init__()
        self.array: SparseSlidingArray[int] = SparseSlidingArray()
        self.present: dict[int, int] = {}
        self.next = 0

    @rule(elements=st.lists(st.integers(), min_size=1, max_size=60))
    def add(self, elements: list[int]) -> None:
        for element in elements:
            assert self.array.add(element) == self.next
            self.present[self.next] = element
            self.next += 1

    @rule(data=st.data(), count=BULK)
    def discard(self, data: st.DataObject, count: int) -> None:
        for _ in range(min(count, len(self.present))):
            index = data.draw(st.sampled_from(sorted(self.present)))
            self.array.discard(index)
            del self.present[index]

    @rule()
    def discard_all_but_the_newest(self) -> None:
        for index in list(self.present)[:-1]:
            self.array.discard(index)
            del self.present[index]

    @rule()
    def read_the_window(self) -> None:
        for index in range(self.array.first, self.array.next):
            assert self.array[index] == self.present.get(index)

    @rule(distance=st.integers(min_value=0, max_value=200))
    def refuse_outside(self, distance: int) -> None:
        for index in (self.array.first - 1 - distance, self.array.next + distance):
            with pytest.raises(IndexError):
                self.array[index]
            with pytest.raises(IndexError):
                self.array.discard(index)

    @rule()
    def oldest(self) -> None:
        if self.present:
            assert self.array.oldest() == self.present[min(self.present)]
        else:
            with pytest.raises(IndexError):
                self.array.oldest()

    @invariant()
    def bounds_agree(self) -> None:
        assert self.array.first == min(self.present, default=self.next)
        assert self.array.next == self.next


def test_sliding_array_behaves_like_a_list_without_its_start() -> None:
    run_state_machine_as_test(ArrayMachine, settings=MACHINE_SETTINGS)


def test_sparse_array_behaves_like_a_dictionary_from_indexes() -> None:
    run_state_machine_as_test(SparseMachine, settings=MACHINE_SETTINGS)


def test_a_worked_example() -> None:
    array: SlidingArray[str] = SlidingArray(5)
    assert (array.first, array.next, len(array)) == (5, 5, 0)
    assert [array.add("a"), array.add("b"), array.add("c")] == [5, 6, 7]
    assert array.remove() == "a"
    assert (array.first, array.next, len(array)) == (6, 8, 2)
    assert (array[6], array[7], array.peek()) == ("b", "c", "b")


def test_first_skips_all_gaps_when_the_oldest_element_is_discarded() -> None:
    array: SparseSlidingArray[str] = SparseSlidingArray()
    assert [array.add(element) for element in "abcd"] == [0, 1, 2, 3]
    array.discard(1)
    array.discard(2)
    assert (array.first, array.oldest()) == (0, "a")
    array.discard(0)
    assert (array.first, array.next, array.oldest()) == (3, 4, "d")
    array.discard(3)
    assert (array.first, array.next) == (4, 4)


@pytest.mark.parametrize("others", [0, 5, 200])
def test_array_releases_removed_and_replaced_elements(others: int) -> None:
    array: SlidingArray[Element] = SlidingArray()
    for _ in range(others):
        array.add(Element())
    watched, replaced = Element(), Element()
    removed_gone, replaced_gone = weakref.ref(watched), weakref.ref(replaced)
    array.add(watched)
    array.add(replaced)
    array.add(Element())
    array[array.next - 2] = Element()
    for _ in range(others + 1):
        array.remove()
    del watched, replaced
    gc.collect()
    assert removed_gone() is None
    assert replaced_gone() is None
    assert len(array) == 2


def test_sparse_array_releases_a_discarded_element_even_after_an_older_one() -> None:
    array: SparseSlidingArray[Element] = SparseSlidingArray()
    array.add(Element())
    watched = Element()
    gone = weakref.ref(watched)
    index = array.add(watched)
    array.discard(index)
    del watched
    gc.collect()
    assert gone() is None
    assert array[1] is None
    assert (array.first, array.next) == (0, 2)


def slide_array() -> object:
    array: SlidingArray[object] = SlidingArray()
    for index in range(100_000):
        array.add(None)
        if index >= 10:
            array.remove()
    return array


def slide_sparse() -> object:
    array: SparseSlidingArray[int] = SparseSlidingArray()
    for index in range(100_000):
        array.add(index)
        if index >= 10:
            array.discard(index - 10)
    return array


def drain_array_to_1000() -> object:
    array: SlidingArray[object] = SlidingArray()
    for _ in range(100_000):
        array.add(None)
    while len(array) > 1000:
        array.remove()
    return array


def traced_bytes(make: Callable[[], object]) -> tuple[int, int]:
    """Return the bytes of the made object, and the peak while making it."""
    gc.collect()
    tracemalloc.start()
    try:
        made = make()
        held, peak = tracemalloc.get_traced_memory()
        del made
    finally:
        tracemalloc.stop()
    return held, peak


@pytest.mark.long
@pytest.mark.parametrize("slide", [slide_array, slide_sparse])
def test_memory_is_proportional_to_the_window(
    slide: Callable[[], object],
) -> None:
    # 100 000 slots of 8 bytes would be 800 000; a window of ten needs a few hundred.
    _, peak = traced_bytes(slide)
    assert peak < 64_000


@pytest.mark.long
def test_a_drained_array_releases_its_memory() -> None:
    # At most half of the list is removed, and CPython shrinks a list below half its
    # allocation: 1000 elements can take four times 8000 bytes, never 800 000.
    held, peak = traced_bytes(drain_array_to_1000)
    assert peak > 800_000
    assert held < 64_000
