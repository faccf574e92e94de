"""The rule that recommends a protocol, on synthetic costs."""

from dataclasses import replace

import pytest

from antecede.advise.recommend import ProtocolCost, crossover_size, fast, pick, recommend

UNORDERED = ProtocolCost(
    protocol="unordered", network="n", causal=False, held=False,
    runs=2, copies=1000,
    latency_p50=0.010, latency_p99=0.100, added_p50=0.0, added_p99=0.0,
    metadata_bytes=6.0, metadata_total=6000.0, control_frames=0.0, sender_buffer=0.0,
    receiver_buffer=0.0, too_early=30, too_early_fifo=20, duration=1.0,
)  # fmt: skip


def cost(protocol: str, added_ms: float, total: float, **more: object) -> ProtocolCost:
    base = replace(
        UNORDERED, protocol=protocol, causal=True, held=True, too_early=0, too_early_fifo=0,
        added_p50=added_ms / 2e3, added_p99=added_ms / 1e3, metadata_total=total,
    )  # fmt: skip
    return replace(base, **more)  # type: ignore[arg-type]


FIFO = cost("fifo", 0.0, 6000, causal=False, held=False, too_early=10)
OPTIMAL = cost("optimal", 1.0, 50_000, metadata_bytes=50.0)
HYBRID = cost("hybrid", 10.9, 4000, metadata_bytes=4.0)
BUFFER = cost("buffer", 300.0, 3000)
HERE = (UNORDERED, FIFO, OPTIMAL, HYBRID, BUFFER)


def test_the_leanest_of_the_fast_protocols_is_picked() -> None:
    """The limit is the best, 1 ms, plus a tenth of the 100 ms of unordered."""
    assert [each.protocol for each in fast(HERE)] == ["hybrid", "optimal"]
    assert pick(HERE) == HYBRID
    slower = cost("hybrid", 11.1, 4000)
    assert pick((UNORDERED, FIFO, OPTIMAL, slower, BUFFER)) == OPTIMAL


def test_a_tenth_more_bytes_count_as_equal_and_the_faster_of_equals_is_picked() -> None:
    twin = cost("cykas", 5.0, 4400)
    assert pick((*HERE, twin)) == twin
    heavier = cost("cykas", 5.0, 4401)
    assert pick((*HERE, heavier)) == HYBRID


def test_a_protocol_with_a_violation_and_a_baseline_are_not_picked() -> None:
    violated = replace(HYBRID, held=False)
    here = (UNORDERED, FIFO, OPTIMAL, violated)
    assert pick(here) == OPTIMAL
    found = recommend({"here": here}, 10)
    assert found is not None
    assert any("violated: hybrid" in line for line in found.evidence)
    assert recommend({"here": (UNORDERED, FIFO, violated)}, 10) is None
    assert recommend({"here": (OPTIMAL, HYBRID)}, 10) is None, "nothing to compare with"


@pytest.mark.parametrize(
    ("unordered", "fifo", "text"),
    [
        (30, 10, "Use hybrid"),
        (30, 0, "FIFO channels were sufficient"),
        (0, 0, "was in causal order without a protocol"),
    ],
    ids=["causal", "fifo", "none"],
)
def test_the_sentence_states_whether_order_is_needed(
    unordered: int, fifo: int, text: str
) -> None:
    here = (replace(UNORDERED, too_early=unordered), replace(FIFO, too_early=fifo), HYBRID)
    found = recommend({"here": here}, 10)
    assert found is not None
    assert text in found.sentence
    assert "use hybrid, for +5.45 ms at the median, +10.90 ms at p99" in (
        found.sentence.replace("Use", "use")
    )
    assert "of 1,000 copies in 2 runs" in found.sentence


def test_the_sensitivity_covers_networks_criteria_and_size() -> None:
    lossy = (UNORDERED, FIFO, OPTIMAL, cost("hybrid", 900.0, 4000))
    found = recommend({"here": HERE, "with loss": lossy, "far": HERE}, 10)
    assert found is not None
    assert found.protocol == "hybrid"
    text = "\n".join(found.sensitivity)
    assert "with loss: optimal, +0.50 ms at the median" in text
    assert "(hybrid: +450.00 ms at the median" in text
    assert "far: the same" in text
    assert text.count("; too early: unordered 30, fifo 10") == 2
    assert "if only latency mattered: optimal" in text
    assert "if only bytes mattered: buffer" in text
    assert "more processes: the same" in text


def test_the_crossover_size_of_growing_metadata() -> None:
    matrix = cost("matrix", 0.5, 1000)
    other = cost("hybrid", 1.0, 100_000)
    assert crossover_size(matrix, other, 10) == 100, "ten times n is a hundred times n^2"
    assert crossover_size(other, matrix, 10) is None
    found = recommend({"here": (UNORDERED, matrix, other)}, 10)
    assert found is not None
    assert "beyond about 100, hybrid carries less" in found.sensitivity[-1]
    alone = recommend({"here": (UNORDERED, matrix)}, 10)
    assert alone is not None
    assert "no other protocol is as fast" in alone.sensitivity[-1]
