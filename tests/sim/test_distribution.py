"""Distributions and delays: draws, parsing, and invalid parameters."""

from collections.abc import Callable
from math import exp, inf, nan, pi, sqrt

import pytest

from antecede.core.support.keyed_random import fold_in, key
from antecede.errors import ConfigError
from antecede.sim.delay import Delay, Everywhere, Geographic, Matrix, parse_delay
from antecede.sim.distribution import (
    Constant,
    Distribution,
    Exponential,
    LogNormal,
    Normal,
    Uniform,
    parse_distribution,
)

DRAWS = 20_000
KEYS = [fold_in(key(17), number) for number in range(DRAWS)]
SIGMA_MEAN = exp(0.5)
"""The mean of a log-normal of median 1 and sigma 1."""


@pytest.mark.parametrize(
    ("text", "mean", "deviation", "low", "high"),
    [
        ("0.25", 0.25, 0, 0.25, 0.25),
        ("constant:3", 3, 0, 3, 3),
        ("constant:0", 0, 0, 0, 0),
        ("uniform:2,6", 4, 4 / sqrt(12), 2, 6),
        ("uniform:2,2", 2, 0, 2, 2),
        ("exponential:0.5", 0.5, 0.5, 0, 0.5 * 25),
        ("exponential:0.5,2", 2.5, 0.5, 2, 2 + 0.5 * 25),
        ("lognormal:2,1", 2 * SIGMA_MEAN, 2 * sqrt(exp(2) - exp(1)), 0, inf),
        ("lognormal:2,0", 2, 0, 2, 2),
        ("normal:10,1", 10, 1, 0, 20),
        ("normal:10,0", 10, 0, 10, 10),
        # Half a standard normal is cut to 0: the mean is 1/sqrt(2 pi), the square 1/2.
        ("normal:0,1", 1 / sqrt(2 * pi), sqrt(0.5 - 0.5 / pi), 0, 10),
        ("1e-3", 0.001, 0, 0.001, 0.001),
    ],
)
def test_a_distribution_has_its_mean_and_bounds(
    text: str, mean: float, deviation: float, low: float, high: float
) -> None:
    draws = [parse_distribution(text).draw(state) for state in KEYS]
    assert low <= min(draws)
    assert max(draws) <= high
    error = abs(sum(draws) / DRAWS - mean)
    assert error <= 5 * deviation / sqrt(DRAWS) + 1e-9 * mean


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1", Constant),
        ("constant:1", Constant),
        ("uniform:1,2", Uniform),
        ("exponential:1", Exponential),
        ("exponential:1,2", Exponential),
        ("lognormal:1,2", LogNormal),
        ("normal:1,2", Normal),
    ],
)
def test_each_word_names_its_distribution(text: str, kind: type[Distribution]) -> None:
    assert type(parse_distribution(text)) is kind


NOT_DISTRIBUTIONS = [
    *("", " ", "x", ":", ":1", "1:", "1,2", "0x10", "0.1.2", "1\n2", "nan", "inf", "-1"),
    *("constant", "constant:", "constant:1,2", "constant:-1", "constant:nan"),
    *("uniform:1", "uniform:2,1", "uniform:-1,1", "uniform:0,inf", "uniform:nan,1"),
    *("uniform:1,nan", "uniform:1,2,3", "uniform:", "uniform:1,", "uniform:1;2"),
    *("exponential:", "exponential:-1", "exponential:1,-1", "exponential:1,2,3"),
    *("exponential:inf", "exponential:1,nan"),
    *("lognormal:1", "lognormal:-1,1", "lognormal:1,-1", "lognormal:1,2,3"),
    *("lognormal:1,inf", "lognormal:nan,1"),
    *("normal:1", "normal:-1,1", "normal:1,-1", "normal:1,2,3", "normal:inf,1"),
    *("pareto:1,2", "Uniform:1,2", "constant:1:2", "uniform=1,2"),
]


@pytest.mark.long
@pytest.mark.parametrize("text", NOT_DISTRIBUTIONS)
@pytest.mark.parametrize("parse", [parse_distribution, parse_delay])
def test_anything_else_is_refused_in_one_line(
    parse: Callable[[str], object], text: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse(text)
    message = str(refusal.value)
    assert message
    assert message.splitlines() == [message]


def test_a_refusal_of_a_word_quotes_it_and_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"'pareto:1,2'.*uniform:LOW,HIGH.*lognormal"):
        parse_distribution("pareto:1,2")


@pytest.mark.parametrize("value", [-1e-9, -inf, inf, nan])
def test_a_distribution_refuses_parameters_that_are_no_amounts(value: float) -> None:
    makers: list[Callable[[], Distribution]] = [
        lambda: Constant(value),
        lambda: Uniform(value, 1),
        lambda: Uniform(0, value),
        lambda: Exponential(value),
        lambda: Exponential(1, value),
        lambda: LogNormal(value, 1),
        lambda: LogNormal(1, value),
        lambda: Normal(value, 1),
        lambda: Normal(1, value),
    ]
    for make in makers:
        with pytest.raises(ConfigError, match=r"finite and at least 0|from 0 to 10"):
            make()


def test_a_spread_that_leaves_the_range_of_floats_is_refused() -> None:
    assert LogNormal(1, 10).draw(0) < inf
    with pytest.raises(ConfigError, match=r"sigma must be from 0 to 10.0, got 1000"):
        LogNormal(1, 1000)


@pytest.mark.parametrize("text", ["0.05", "uniform:0,1", "exponential:1", "normal:1,1"])
def test_a_distribution_as_a_delay_is_the_same_between_any_two(text: str) -> None:
    delay = parse_delay(text)
    assert isinstance(delay, Everywhere)
    for state in KEYS[:50]:
        wanted = parse_distribution(text).draw(state)
        assert delay.draw(0, 1, state) == delay.draw(7, 3, state) == wanted


@pytest.mark.parametrize(
    ("delay", "is_random"),
    [
        (parse_delay("0.05"), False),
        (parse_delay("uniform:0,1"), True),
        (Matrix([[0, 1], [1, 0]]), False),
        (Matrix([[0, 1], [1, 0]], jitter=0.5), True),
        (Geographic(1.0, jitter=0), False),
        (Geographic(1.0), True),
    ],
)
def test_a_delay_is_random_if_it_depends_on_the_key(delay: Delay, is_random: bool) -> None:
    draws = {delay.draw(0, 1, state) for state in KEYS[:50]}
    assert delay.is_random is is_random
    assert (len(draws) > 1) is is_random


def test_a_matrix_gives_every_ordered_pair_its_own_delay() -> None:
    delay = Matrix([[0.0, 0.1, 0.2], [0.3, 0.0, 0.4], [0.5, 0.6, 0.0]])
    drawn = [[delay.draw(source, target, 1) for target in range(3)] for source in range(3)]
    assert drawn == [[0.0, 0.1, 0.2], [0.3, 0.0, 0.4], [0.5, 0.6, 0.0]]


def test_the_jitter_of_a_matrix_adds_up_to_its_share() -> None:
    delay = Matrix([[0.0, 2.0], [4.0, 0.0]], jitter=0.5)
    draws = [delay.draw(0, 1, state) for state in KEYS]
    assert min(draws) > 2.0
    assert max(draws) < 3.0
    assert abs(sum(draws) / DRAWS - 2.5) < 5 / sqrt(12 * DRAWS)
    assert delay.draw(1, 0, KEYS[0]) == 2 * draws[0]


@pytest.mark.parametrize(
    ("rows", "jitter", "message"),
    [
        ([[0.0, 1.0]], 0.0, "1 rows, one with 2"),
        ([[0.0, 1.0], [1.0]], 0.0, "2 rows, one with 1"),
        ([[0.0], [1.0]], 0.0, "2 rows, one with 1"),
        ([[0.0, -1.0], [1.0, 0.0]], 0.0, "at least 0, got -1"),
        ([[0.0, nan], [1.0, 0.0]], 0.0, "finite"),
        ([[0.0, 1.0], [inf, 0.0]], 0.0, "finite"),
        ([[0.0, 1.0], [1.0, 0.0]], -0.1, "jitter"),
        ([[0.0, 1.0], [1.0, 0.0]], nan, "jitter"),
    ],
)
def test_an_invalid_matrix_is_refused(
    rows: list[list[float]], jitter: float, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Matrix(rows, jitter)


def test_a_matrix_refuses_more_processes_than_it_has_rows() -> None:
    delay = Matrix([[0, 1], [1, 0]])
    delay.check_processes(2)
    with pytest.raises(ConfigError, match="for 2 processes, not 3"):
        delay.check_processes(3)


@pytest.mark.parametrize("delay", [Everywhere(Constant(1)), Geographic(0.1)])
def test_other_delays_are_for_any_number_of_processes(delay: Delay) -> None:
    delay.check_processes(10**9)


def test_a_matrix_keeps_its_delays_though_the_rows_it_was_given_change() -> None:
    rows = [[0.0, 1.0], [1.0, 0.0]]
    delay = Matrix(rows)
    rows[0][1] = 9.0
    assert delay.draw(0, 1, 1) == 1.0


def test_places_are_uniform_in_the_unit_square_and_depend_on_the_seed() -> None:
    count = 4000
    positions = [Geographic(1.0, seed=3).position(process) for process in range(count)]
    assert all(0 < x < 1 and 0 < y < 1 for x, y in positions)
    cells = [0] * 16
    for x, y in positions:
        cells[int(x * 4) * 4 + int(y * 4)] += 1
    statistic = sum((cell - count / 16) ** 2 / (count / 16) for cell in cells)
    assert abs(statistic - 15) < 5 * sqrt(30)
    assert Geographic(9.0, 1.0, 0.5, seed=3).position(5) == positions[5]
    assert Geographic(1.0, seed=4).position(5) != positions[5]


def test_a_geographic_delay_is_the_distance_and_the_same_both_ways() -> None:
    delay = Geographic(2.0, 0.25, 0.0)
    for source, target in ((0, 1), (3, 8), (100_000, 2)):
        (x, y), (u, v) = delay.position(source), delay.position(target)
        wanted = 0.25 + 2.0 * sqrt((x - u) ** 2 + (y - v) ** 2)
        assert delay.draw(source, target, 1) == pytest.approx(wanted, rel=1e-12)
        assert delay.draw(source, target, 1) == delay.draw(target, source, 1)
    assert delay.draw(4, 4, 1) == 0.25


def test_the_jitter_of_a_geographic_delay_stretches_the_distance_only() -> None:
    still = Geographic(2.0, 0.25, 0.0).draw(0, 1, 1) - 0.25
    jumpy = Geographic(2.0, 0.25, 0.5)
    stretches = [(jumpy.draw(0, 1, state) - 0.25) / still for state in KEYS]
    assert min(stretches) >= 1
    assert max(stretches) <= 1.5
    assert abs(sum(stretches) / DRAWS - 1.25) < 5 * 0.5 / sqrt(12 * DRAWS)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("geographic:2", Geographic(2.0, 0.0, 0.1)),
        ("geographic:2,0.5", Geographic(2.0, 0.5, 0.1)),
        ("geographic:2,0.5,0", Geographic(2.0, 0.5, 0.0)),
    ],
)
def test_geographic_delays_are_read_as_documented(text: str, wanted: Geographic) -> None:
    delay = parse_delay(text)
    assert isinstance(delay, Geographic)
    for state in KEYS[:20]:
        assert delay.draw(1, 2, state) == wanted.draw(1, 2, state)


@pytest.mark.parametrize(
    "rest",
    [
        *(
            "",
            ":",
            ":x",
            ":1,2,3,4",
            ":-1",
            ":1,-1",
            ":1,0,-1",
            ":nan",
            ":inf",
            ":1,",
            ":1,nan",
        )
    ],
)
def test_invalid_geographic_delays_are_refused_in_one_line(rest: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_delay(f"geographic{rest}")
    assert "\n" not in str(refusal.value)


def test_base_classes_draw_nothing() -> None:
    with pytest.raises(NotImplementedError):
        Distribution().draw(1)
    with pytest.raises(NotImplementedError):
        Delay().draw(0, 1, 1)
