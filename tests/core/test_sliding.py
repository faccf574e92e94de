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

from antecede.core.support.sliding import IndexedSlidingMap, SlidingArray, SlidingMap

MACHINE_SETTINGS = settings(max_examples=60, stateful_step_count=40)
KEYS = st.integers(min_value=0, max_value=80)
BULK = st.integers(min_value=1, max_value=150)
"""Large enough that a few bulk steps make the array delete its removed prefix."""


class Element:
    """An object with weak references."""


class CountedKey:
    """A key that counts the hashes and comparisons of all its instances."""

    touched = 0

    def __init__(self, value: int) -> None:
        self.value = value

    def __hash__(self) -> int:
        CountedKey.touched += 1
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        CountedKey.touched += 1
        return isinstance(other, CountedKey) and other.value == self.value


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


class MapMachine(RuleBasedStateMachine):
    """A sliding map, compared with a dictionary from keys to indexes."""

    def __init__(self) -> None:
        super().__init__()
        self.map: SlidingMap[int] = SlidingMap()
        self.indexes: dict[int, int] = {}
        self.next = 0

    @rule(keys=st.lists(KEYS, min_size=1, max_size=60, unique=True))
    def add(self, keys: list[int]) -> None:
        for key in keys:
            if key in self.indexes:
                with pytest.raises(KeyError):
                    self.map.add(key)
            else:
                assert self.map.add(key) == self.next
                self.indexes[key] = self.next
                self.next += 1

    @rule(keys=st.lists(KEYS, min_size=1, max_size=60))
    def remove(self, keys: list[int]) -> None:
        for key in keys:
            assert self.map.remove(key) == (self.indexes.pop(key, None) is not None)

    @rule()
    def remove_all_but_the_newest(self) -> None:
        for key in list(self.indexes)[:-1]:
            assert self.map.remove(key)
            del self.indexes[key]

    @rule(key=KEYS)
    def contains(self, key: int) -> None:
        assert (key in self.map) == (key in self.indexes)

    @invariant()
    def bounds_agree(self) -> None:
        assert self.map.first == min(self.indexes.values(), default=self.next)
        assert self.map.next == self.next
        assert len(self.map) == len(self.indexes)


class IndexedMapMachine(MapMachine):
    """The same for the indexed map."""

    def __init__(self) -> None:
        super().__init__()
        self.indexed: IndexedSlidingMap[int] = IndexedSlidingMap()
        self.map = self.indexed

    @rule(key=KEYS)
    def index(self, key: int) -> None:
        assert self.indexed.index(key) == self.indexes.get(key)

    @rule()
    def read_the_window(self) -> None:
        keys = {index: key for key, index in self.indexes.items()}
        for index in range(self.map.first, self.map.next):
            assert self.indexed[index] == keys.get(index)

    @rule(distance=st.integers(min_value=0, max_value=200))
    def refuse_outside(self, distance: int) -> None:
        for index in (self.map.first - 1 - distance, self.map.next + distance):
            with pytest.raises(IndexError):
                self.indexed[index]

    @rule()
    def peek(self) -> None:
        if self.indexes:
            assert self.indexed.peek() == next(iter(self.indexes))
        else:
            with pytest.raises(IndexError):
                self.indexed.peek()


def test_sliding_array_behaves_like_a_list_without_its_start() -> None:
    run_state_machine_as_test(ArrayMachine, settings=MACHINE_SETTINGS)


def test_sliding_map_behaves_like_a_dictionary_of_insertion_numbers() -> None:
    run_state_machine_as_test(MapMachine, settings=MACHINE_SETTINGS)


def test_indexed_sliding_map_behaves_like_a_dictionary_of_insertion_numbers() -> None:
    run_state_machine_as_test(IndexedMapMachine, settings=MACHINE_SETTINGS)


def test_a_worked_example() -> None:
    array: SlidingArray[str] = SlidingArray(5)
    assert (array.first, array.next, len(array)) == (5, 5, 0)
    assert [array.add("a"), array.add("b"), array.add("c")] == [5, 6, 7]
    assert array.remove() == "a"
    assert (array.first, array.next, len(array)) == (6, 8, 2)
    assert (array[6], array[7], array.peek()) == ("b", "c", "b")


def test_first_skips_all_gaps_when_the_oldest_key_is_removed() -> None:
    keys: SlidingMap[str] = SlidingMap()
    assert [keys.add(key) for key in "abcd"] == [0, 1, 2, 3]
    assert keys.remove("b")
    assert keys.remove("c")
    assert (keys.first, len(keys)) == (0, 2)  # "a" is the start of the window.
    assert keys.remove("a")
    assert (keys.first, keys.next) == (3, 4)
    assert keys.remove("d")
    assert (keys.first, keys.next, len(keys)) == (4, 4, 0)


def test_a_key_added_again_gets_a_new_index() -> None:
    keys: IndexedSlidingMap[str] = IndexedSlidingMap()
    keys.add("a")
    keys.add("b")
    assert keys.remove("a")
    assert keys.add("a") == 2
    assert (keys.index("a"), keys.index("b"), keys.first) == (2, 1, 1)
    assert [keys[1], keys[2]] == ["b", "a"]


def test_a_refused_key_changes_nothing() -> None:
    keys: IndexedSlidingMap[str] = IndexedSlidingMap()
    keys.add("a")
    with pytest.raises(KeyError):
        keys.add("a")
    assert not keys.remove("b")
    assert (keys.first, keys.next, len(keys), keys.index("a")) == (0, 1, 1, 0)


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


def test_map_releases_a_removed_key_even_after_an_older_one() -> None:
    keys: IndexedSlidingMap[Element] = IndexedSlidingMap()
    keys.add(Element())
    watched = Element()
    gone = weakref.ref(watched)
    keys.add(watched)
    assert keys.remove(watched)
    del watched
    gc.collect()
    assert gone() is None
    assert keys[1] is None
    assert (keys.first, keys.next) == (0, 2)


def slide_array() -> object:
    array: SlidingArray[object] = SlidingArray()
    for index in range(100_000):
        array.add(None)
        if index >= 10:
            array.remove()
    return array


def slide_map() -> object:
    keys: SlidingMap[int] = SlidingMap()
    for index in range(100_000):
        keys.add(index)
        keys.remove(index - 10)
    return keys


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
@pytest.mark.parametrize("slide", [slide_array, slide_map])
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


@pytest.mark.parametrize("count", [10, 1000, 20_000])
@pytest.mark.parametrize("newest_first", [False, True])
def test_map_hashes_a_key_a_constant_number_of_times(
    count: int, newest_first: bool
) -> None:
    # Adding hashes the key twice, removing once; there is no comparison, because all
    # hashes differ.
    made = [CountedKey(value) for value in range(count)]
    keys: SlidingMap[CountedKey] = SlidingMap()
    CountedKey.touched = 0
    for key in made:
        keys.add(key)
    for key in reversed(made) if newest_first else made:
        assert keys.remove(key)
    assert (keys.first, keys.next) == (count, count)
    assert CountedKey.touched <= 4 * count
