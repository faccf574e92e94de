"""The rule that picks: on figures of our own making."""

from dataclasses import replace

import pytest

from antecede.advise.recommend import Figures, fast, growth_limit, pick, recommend

PLAIN = Figures(
    protocol="unordered", network="n", causal=False, held=False, runs=2, copies=1000,
    latency_p50=0.010, latency_p99=0.100, added_p50=0.0, added_p99=0.0,
    metadata_bytes=6.0, metadata_total=6000.0, control_frames=0.0, sender_buffer=0.0,
    receiver_buffer=0.0, too_early=30, too_early_fifo=20, duration=1.0,
)  # fmt: skip


def figures(protocol: str, added_ms: float, total: float, **more: object) -> Figures:
    told = replace(
        PLAIN, protocol=protocol, causal=True, held=True, too_early=0, too_early_fifo=0,
        added_p50=added_ms / 2e3, added_p99=added_ms / 1e3, metadata_total=total,
    )  # fmt: skip
    return replace(told, **more)  # type: ignore[arg-type]


FIFO = figures("fifo", 0.0, 6000, causal=False, held=False, too_early=10)
OPTIMAL = figures("optimal", 1.0, 50_000, metadata_bytes=50.0)
HYBRID = figures("hybrid", 10.9, 4000, metadata_bytes=4.0)
BUFFER = figures("buffer", 300.0, 3000)
HERE = (PLAIN, FIFO, OPTIMAL, HYBRID, BUFFER)


def test_of_those_about_as_fast_as_the_fastest_the_leanest_is_picked() -> None:
    """A tenth of unordered's 100 ms may be added to the best, so 11 ms is the limit."""
    assert [each.protocol for each in fast(HERE)] == ["hybrid", "optimal"]
    assert pick(HERE) == HYBRID
    slower = figures("hybrid", 11.1, 4000)
    assert pick((PLAIN, FIFO, OPTIMAL, slower, BUFFER)) == OPTIMAL


def test_a_tenth_more_bytes_count_as_equal_and_of_equals_the_faster_is_picked() -> None:
    twin = figures("cykas", 5.0, 4400)
    assert pick((*HERE, twin)) == twin
    heavier = figures("cykas", 5.0, 4401)
    assert pick((*HERE, heavier)) == HYBRID


def test_who_broke_its_promise_is_not_picked_and_neither_is_a_baseline() -> None:
    broken = replace(HYBRID, held=False)
    here = (PLAIN, FIFO, OPTIMAL, broken)
    assert pick(here) == OPTIMAL
    found = recommend({"here": here}, 10)
    assert found is not None
    assert any("violated: hybrid" in line for line in found.rests_on)
    assert recommend({"here": (PLAIN, FIFO, broken)}, 10) is None
    assert recommend({"here": (OPTIMAL, HYBRID)}, 10) is None, "nothing to compare with"


@pytest.mark.parametrize(
    ("unordered", "fifo", "words"),
    [
        (30, 10, "Take hybrid"),
        (30, 0, "FIFO channels were enough"),
        (0, 0, "came in causal order by itself"),
    ],
    ids=["causal", "fifo", "none"],
)
def test_the_sentence_says_whether_order_is_needed(
    unordered: int, fifo: int, words: str
) -> None:
    here = (replace(PLAIN, too_early=unordered), replace(FIFO, too_early=fifo), HYBRID)
    found = recommend({"here": here}, 10)
    assert found is not None
    assert words in found.sentence
    assert "take hybrid, for +5.45 ms at the median, +10.90 ms at p99" in (
        found.sentence.replace("Take", "take")
    )
    assert "of 1,000 copies in 2 runs" in found.sentence


def test_it_says_what_would_change_it() -> None:
    lossy = (PLAIN, FIFO, OPTIMAL, figures("hybrid", 900.0, 4000))
    found = recommend({"here": HERE, "with loss": lossy, "far": HERE}, 10)
    assert found is not None
    assert found.protocol == "hybrid"
    told = "\n".join(found.changes)
    assert "with loss: optimal, +0.50 ms at the median" in told
    assert "(hybrid: +450.00 ms at the median" in told
    assert "far: the same" in told
    assert told.count("; too early: unordered 30, fifo 10") == 2
    assert "if only latency counted: optimal" in told
    assert "if only bytes counted: buffer" in told
    assert "more processes: the same" in told


def test_a_pick_whose_metadata_grows_is_given_up_from_some_size_on() -> None:
    matrix = figures("matrix", 0.5, 1000)
    other = figures("hybrid", 1.0, 100_000)
    assert growth_limit(matrix, other, 10) == 100, "ten times n is a hundred times n^2"
    assert growth_limit(other, matrix, 10) is None
    found = recommend({"here": (PLAIN, matrix, other)}, 10)
    assert found is not None
    assert "beyond about 100, hybrid carries less" in found.changes[-1]
    alone = recommend({"here": (PLAIN, matrix)}, 10)
    assert alone is not None
    assert "no other is as fast" in alone.changes[-1]
