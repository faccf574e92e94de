"""A sort by several numbers has the order of a comparison of all of them."""

import numpy as np
import pytest

from antecede.verify.kernels.sorting import stable_order

LOWEST, HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 3), (-5, 5), (10**18, 10**18 + 10**6), (LOWEST, HIGHEST)],
    ids=["few", "negative", "times", "too large for one number"],
)
def test_elements_are_in_the_order_of_their_keys_and_equal_ones_keep_theirs(
    low: int, high: int
) -> None:
    random = np.random.default_rng(1)
    first = random.integers(4, size=1000).astype(np.int32)
    second = random.integers(low, high, size=1000, endpoint=True)
    second[500:] = second[:500]
    expected = sorted(range(1000), key=lambda i: (first[i], second[i], i))
    assert stable_order(first, second).tolist() == expected


def test_no_element_and_one_element_are_sorted() -> None:
    assert stable_order(np.empty(0, np.int64)).tolist() == []
    assert stable_order(np.array([LOWEST]), np.array([HIGHEST])).tolist() == [0]
