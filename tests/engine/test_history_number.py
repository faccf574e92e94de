"""Numbers of histories."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from antecede.engine.history_number import first_history, is_later, next_history


@given(st.integers(0, 2**32))
def test_each_history_of_a_journal_is_later_than_those_before(seed: int) -> None:
    bits = Random(seed).getrandbits
    histories = [first_history(bits)]
    for _ in range(5):
        histories.append(next_history(histories[-1], bits))
    assert all(0 < history < 2**62 for history in histories)
    for index, history in enumerate(histories):
        assert not is_later(history, history)
        assert all(is_later(later, history) for later in histories[index + 1 :])
        assert not any(is_later(earlier, history) for earlier in histories[:index])


def test_two_histories_that_began_from_the_same_state_exclude_each_other() -> None:
    bits = Random(1).getrandbits
    first = first_history(bits)
    one, other = next_history(first, bits), next_history(first, bits)
    assert one != other
    assert is_later(one, other)
    assert is_later(other, one)
    assert is_later(next_history(one, bits), other)


def test_another_journal_is_neither_earlier_nor_later() -> None:
    bits = Random(1).getrandbits
    one, other = first_history(bits), first_history(bits)
    assert not is_later(one, other)
    assert not is_later(other, one)


def test_incarnations_and_unknown_histories_have_no_order() -> None:
    history = first_history(Random(1).getrandbits)
    assert not is_later(0, history)
    assert not is_later(history, 0)
    assert not is_later(2, 4)  # Numbers without an origin.
    assert not is_later(history | 1, history)
    assert not is_later(history, history | 1)


def test_the_count_does_not_overflow_into_the_origin() -> None:
    bits = Random(1).getrandbits
    history = first_history(bits) | (0xFFFF << 16)
    following = next_history(history, bits)
    assert following >> 32 != history >> 32
    assert following < 2**62
