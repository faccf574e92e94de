"""Keyed random numbers: uniform, independent, reproducible.

Statistics are measured in standard deviations of their theoretical distribution, so one
bound fits all. The numbers are fixed, so the tests are deterministic.
"""

from collections.abc import Callable, Sequence
from math import exp, log, sqrt

import pytest

from antecede.core.support.keyed_random import (
    exponential,
    fold_in,
    key,
    lognormal,
    normal,
    uniform,
)

BITS = 30
"""The bits of a key."""
DRAWS = 20_000
DEVIATIONS_MAX = 5.0
"""One in two million random sequences exceeds this deviation."""


def evenness(counts: Sequence[int]) -> float:
    """Return Pearson's chi-square of equal bins, in deviations from its mean."""
    expected = sum(counts) / len(counts)
    statistic = sum((count - expected) ** 2 / expected for count in counts)
    freedom = len(counts) - 1
    return (statistic - freedom) / sqrt(2 * freedom)


def binned(values: Sequence[int], bins: int) -> list[int]:
    counts = [0] * bins
    for value in values:
        counts[value] += 1
    return counts


def correlation(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return the correlation of two samples of uniforms, in deviations from 0."""
    products = sum((x - 0.5) * (y - 0.5) for x, y in zip(xs, ys, strict=True))
    return products * 12 / sqrt(len(xs))


def counters() -> list[int]:
    """One key per message number, as most random numbers are drawn."""
    state = key(1)
    return [fold_in(state, number) for number in range(DRAWS)]


def strides() -> list[int]:
    state = key(2)
    return [fold_in(state, 4096 * number) for number in range(DRAWS)]


def seeds() -> list[int]:
    return [fold_in(key(seed), 1) for seed in range(DRAWS)]


def hops() -> list[int]:
    """One key per ordered pair of processes."""
    state = key(3)
    side = int(sqrt(DRAWS))
    return [fold_in(fold_in(state, a), b) for a in range(side) for b in range(side)]


def chain() -> list[int]:
    """Each key folded from the previous one with the same value."""
    states = [key(4)]
    while len(states) < DRAWS:
        states.append(fold_in(states[-1], 3))
    return states


def large() -> list[int]:
    state = key(5)
    return [fold_in(state, 2**40 + number) for number in range(DRAWS)]


SEQUENCES = (counters, strides, seeds, hops, chain, large)


@pytest.mark.parametrize("shift", [0, 12, BITS - 6], ids=["low", "middle", "high"])
@pytest.mark.parametrize("sequence", SEQUENCES)
def test_any_six_bits_are_uniform(sequence: Callable[[], list[int]], shift: int) -> None:
    states = sequence()
    assert all(0 <= state < 2**BITS for state in states)
    counts = binned([state >> shift & 63 for state in states], 64)
    assert abs(evenness(counts)) < DEVIATIONS_MAX


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_neighbours_are_independent(sequence: Callable[[], list[int]]) -> None:
    """Test the correlation of neighbours, and all 64 pairs of their octiles."""
    draws = [uniform(state) for state in sequence()]
    assert abs(correlation(draws[:-1], draws[1:])) < DEVIATIONS_MAX
    pairs = [
        int(a * 8) * 8 + int(b * 8) for a, b in zip(draws[::2], draws[1::2], strict=False)
    ]
    assert abs(evenness(binned(pairs, 64))) < DEVIATIONS_MAX


@pytest.mark.parametrize(("first", "second"), [(1, 2), (1, 4), (4, 5), (0, 1)])
def test_two_draws_from_one_key_are_independent(first: int, second: int) -> None:
    """For example the loss and the delay of a frame, or two of its transmissions."""
    states = counters()
    xs = [uniform(fold_in(state, first)) for state in states]
    ys = [uniform(fold_in(state, second)) for state in states]
    assert abs(correlation(xs, ys)) < DEVIATIONS_MAX
    pairs = [int(x * 8) * 8 + int(y * 8) for x, y in zip(xs, ys, strict=True)]
    assert abs(evenness(binned(pairs, 64))) < DEVIATIONS_MAX


def test_the_two_directions_of_a_pair_are_independent() -> None:
    state = key(3)
    pairs = [(a, b) for a in range(140) for b in range(a)]
    there = [uniform(fold_in(fold_in(state, a), b)) for a, b in pairs]
    back = [uniform(fold_in(fold_in(state, b), a)) for a, b in pairs]
    assert abs(correlation(there, back)) < DEVIATIONS_MAX


def test_two_neighbouring_seeds_give_independent_sequences() -> None:
    xs = [uniform(fold_in(key(7), number)) for number in range(DRAWS)]
    ys = [uniform(fold_in(key(8), number)) for number in range(DRAWS)]
    assert abs(correlation(xs, ys)) < DEVIATIONS_MAX


def test_each_bit_of_value_or_key_flips_each_result_bit_half_the_time() -> None:
    trials = 1000
    flips = [[0] * BITS for _ in range(BITS)]
    for trial in range(trials):
        state = fold_in(key(6), trial)
        base = fold_in(state, trial)
        for bit in range(BITS):
            changed = base ^ fold_in(state, trial ^ 1 << bit)
            assert changed == base ^ fold_in(state ^ 1 << bit, trial)
            for place in range(BITS):
                flips[bit][place] += changed >> place & 1
    # The largest of 900 deviations: six happen once in half a million such tests.
    worst = max(abs(count - trials / 2) for row in flips for count in row)
    assert worst < 6 * sqrt(trials) / 2


def test_a_number_depends_only_on_its_key() -> None:
    before = fold_in(fold_in(key(11), 3), 4)
    for other in range(100):
        fold_in(before, other)
        key(other)
    assert fold_in(fold_in(key(11), 3), 4) == before
    assert fold_in(fold_in(key(11), 4), 3) != before
    assert fold_in(fold_in(key(12), 3), 4) != before


@pytest.mark.parametrize("bit", [30, 31, 40, 59, 60, 63, 93, 200])
def test_bits_beyond_the_30th_of_a_value_matter(bit: int) -> None:
    state = key(0)
    plain = {fold_in(state, value) for value in range(100)}
    beyond = {fold_in(state, value + (1 << bit)) for value in range(100)}
    assert len(plain | beyond) == 200


@pytest.mark.parametrize("bit", [30, 31, 40, 59])
def test_bits_beyond_the_30th_of_a_seed_matter(bit: int) -> None:
    assert len({key(seed) for seed in range(100)}) == 100
    assert (
        len({key(seed + offset) for seed in range(100) for offset in (0, 1 << bit)}) == 200
    )


def reference(state: int, value: int) -> int:
    """Compute fold_in with unbounded integers: 30-bit digits, the highest first."""
    digits = [value % 2**BITS]
    while value := value // 2**BITS:
        digits.insert(0, value % 2**BITS)
    for digit in digits:
        word = state ^ digit
        for shift, factor in ((15, 0x2C1B3C6D), (14, 0x297A2D39), (13, 0x3AC4F42D)):
            word = (word ^ word // 2**shift) * factor % 2**BITS
        state = word ^ word // 2**15
    return state


@pytest.mark.parametrize("value", [0, 1, 2**30 - 1, 2**30, 5**30, 2**93 + 7])
def test_fold_in_equals_unbounded_arithmetic(value: int) -> None:
    for state in (0, 1, 0x1F83D9AB, 2**BITS - 1):
        assert fold_in(state, value) == reference(state, value)
    seed = value % 2**60
    wanted = reference(reference(0x1F83D9AB, seed % 2**BITS), seed // 2**BITS)
    assert key(seed) == wanted


def test_a_uniform_number_is_strictly_between_0_and_1() -> None:
    step = 2.0**-BITS
    assert uniform(0) == step / 2
    assert uniform(2**BITS - 1) == 1 - step / 2
    assert uniform(2 ** (BITS - 1)) == 0.5 + step / 2


def test_exponential_numbers_have_the_right_mean_deviation_and_tail() -> None:
    draws = [exponential(state, 2.0) for state in counters()]
    mean = sum(draws) / DRAWS
    variance = sum((draw - mean) ** 2 for draw in draws) / DRAWS
    tail = sum(draw > 6.0 for draw in draws) / DRAWS
    assert min(draws) > 0
    # The variance of an exponential sample's variance is 8 mean^4 / n.
    assert abs(mean - 2) < DEVIATIONS_MAX * 2 / sqrt(DRAWS)
    assert abs(variance - 4) < DEVIATIONS_MAX * 4 * sqrt(8 / DRAWS)
    assert abs(tail - exp(-3)) < DEVIATIONS_MAX * sqrt(exp(-3) / DRAWS)


def check_normal(draws: Sequence[float]) -> None:
    count = len(draws)
    mean = sum(draws) / count
    variance = sum(draw**2 for draw in draws) / count
    inside = sum(abs(draw) < 1 for draw in draws) / count
    assert abs(mean) < DEVIATIONS_MAX / sqrt(count)
    assert abs(variance - 1) < DEVIATIONS_MAX * sqrt(2 / count)
    assert abs(inside - 0.682689) < DEVIATIONS_MAX * sqrt(0.22 / count)
    assert 3 < max(draws) < 6
    assert -6 < min(draws) < -3


def test_normal_numbers_have_the_right_mean_deviation_and_shape() -> None:
    check_normal([normal(state) for state in counters()])


def test_logarithms_of_lognormal_numbers_are_normal() -> None:
    draws = [lognormal(state, 0.05, 0.5) for state in hops()]
    check_normal([log(draw / 0.05) / 0.5 for draw in draws])
    # The mean of a log-normal is median exp(sigma^2 / 2), its variance as below.
    deviation = 0.05 * sqrt((exp(0.25) - 1) * exp(0.25))
    error = sum(draws) / len(draws) - 0.05 * exp(0.125)
    assert abs(error) < DEVIATIONS_MAX * deviation / sqrt(len(draws))


def test_a_lognormal_number_with_sigma_0_is_the_median() -> None:
    assert lognormal(12345, 0.05, 0.0) == 0.05
