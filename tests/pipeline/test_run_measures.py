"""Measures of long runs: read in parts, and percentiles from a sketch."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import mean

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pyspark.sql import SparkSession

from antecede.pipeline.study import compare_runs, run_events
from antecede.pipeline.study.compare_runs import RunRows
from antecede.pipeline.study.directory import StudyDirectory
from antecede.pipeline.study.peaks import peaks
from antecede.pipeline.study.results import missing_results, parts_to_measure, write_results
from antecede.pipeline.study.run_copies import RunCopies
from antecede.pipeline.study.run_measures import measure_run
from antecede.pipeline.study.statistics import SKETCH_ERROR, ValueSummary
from antecede.sim.simulate import Scenario
from antecede.trace.reader import Trace, read_trace
from tests.pipeline.test_measure import at_once, percentile
from tests.trace.tables import write_runs

LOSSY = Scenario(
    protocol="hybrid", processes=5, messages=12, payload_bytes="uniform:0,90", loss=0.15,
    silent_members=1, silent_from_s=0.2, until_s=3.0, seed=4,
)  # fmt: skip
RELAYED = Scenario(
    protocol="pc-broadcast", processes=6, messages=8, workload="broadcast", loss=0.1, seed=2
)


def measured(trace: Trace, *, relays: bool) -> tuple[dict[str, float | None], RunCopies]:
    parts: list[RunCopies] = []
    found = measure_run(trace, trace.rows, relays=relays, on_copies=parts.append)
    return found, RunCopies(*map(np.concatenate, zip(*parts, strict=True)))


@pytest.mark.parametrize("scenario", [LOSSY, RELAYED])
def test_a_run_that_is_read_in_parts_has_the_same_measures_and_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: Scenario
) -> None:
    write_runs(tmp_path, {"run": scenario})
    trace = read_trace(tmp_path / "events" / "run")
    relays = scenario is RELAYED
    whole, copies = measured(trace, relays=relays)
    monkeypatch.setattr(run_events, "ROWS_MAX", trace.rows // 5)
    ranges = run_events.message_ranges(trace, trace.rows)
    sizes = [len(run_events.read_events(trace, each).seq) for each in ranges]
    assert len(ranges) >= 5
    assert sum(sizes) == trace.rows
    assert max(sizes) < trace.rows / 2
    parts, copies_of_parts = measured(trace, relays=relays)
    assert parts == pytest.approx(whole, abs=1e-12, nan_ok=True)
    for name, column in copies._asdict().items():
        np.testing.assert_array_equal(column, copies_of_parts._asdict()[name], name)


values = st.floats(-1e9, 1e9).filter(lambda x: x == 0 or abs(x) > 1e-12)


@given(arrays(np.float64, st.integers(1, 200), elements=values), st.integers(1, 50))
def test_percentiles_of_many_values_have_the_stated_error(
    found: np.ndarray, exact_max: int
) -> None:
    summary = ValueSummary(exact_max)
    for part in np.array_split(found, 3):
        summary.add(part)
    result = summary.result("x")
    listed = found.tolist()
    assert result["x_max"] == max(listed)
    assert result["x_mean"] == pytest.approx(mean(listed), rel=1e-9, abs=1e-3)
    for name, share in (("x_p50", 0.5), ("x_p99", 0.99)):
        rank = share * (len(listed) - 1)
        beside = sorted(listed)[int(rank) : int(rank) + 2]
        exact = len(listed) <= exact_max
        # The percentile is interpolated between two values that have the error each.
        error = 0.0 if exact else SKETCH_ERROR * max(map(abs, beside))
        assert result[name] == pytest.approx(
            percentile(listed, share), rel=1e-9, abs=1.001 * error + 1e-9
        )


def test_a_sketch_does_not_grow_with_the_number_of_values() -> None:
    summary = ValueSummary(exact_max=1000)
    random = np.random.default_rng(1)
    sizes = []
    for _ in range(20):
        summary.add(random.exponential(0.05, 10_000))
        sizes.append(len(summary._bins))
    assert sizes[-1] < 1.3 * sizes[4] < 10_000
    exact = np.random.default_rng(1).exponential(0.05, 200_000)
    found = summary.result("x")
    assert found["x_p99"] == pytest.approx(np.percentile(exact, 99), rel=SKETCH_ERROR)
    assert found["x_p99"] != np.percentile(exact, 99)


times = st.one_of(st.none(), st.integers(0, 6).map(float))


@given(
    st.lists(st.tuples(times, st.one_of(st.none(), st.integers(0, 5)), st.integers(0, 2)))
)
def test_peaks_equal_those_of_a_slow_count(
    drawn: list[tuple[float | None, int | None, int]],
) -> None:
    spans = [
        (start, None if start is None or length is None else start + length, group)
        for start, length, group in drawn
    ]
    start, end = (
        np.array([np.nan if each[i] is None else each[i] for each in spans], float)
        for i in (0, 1)
    )
    group = np.array([each[2] for each in spans], np.int64)
    large = group * 100_000  # Too large for the fast sort.
    whole, by_group, by_large = peaks(start, end, (None, group, large))
    assert whole == at_once((a, b) for a, b, _ in spans)
    slow = max(
        (at_once((a, b) for a, b, other in spans if other == each) for each in {*group}),
        default=0,
    )
    assert by_group == by_large == slow


def test_many_copies_are_compared_by_tasks_as_by_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = StudyDirectory(tmp_path)
    names = ("optimal", "hybrid", "unordered")
    base = replace(LOSSY, silent_members=0)
    write_runs(tmp_path, {name: replace(base, protocol=name) for name in names})
    parts = parts_to_measure(directory, {name: name for name in names})
    assert missing_results(directory, parts) == parts
    ((part, relays),) = parts
    write_results(directory, part, relays)
    assert missing_results(directory, parts) == []
    table = pa.parquet.read_table(tmp_path / "results")
    rows = {
        row["cell"]: RunRows(
            row["cell"],
            row["cell"],
            part.path.name,
            row["copies_first"],
            row["copies_rows"],
        )
        for row in table.to_pylist()
    }
    comparables = {"one": list(rows.values()), "none": [rows["hybrid"]]}

    def compare(session: Callable[[], SparkSession]) -> list[dict[str, object]]:
        found = compare_runs.compare_runs(session, directory.copies, comparables)
        return sorted(found.to_pylist(), key=lambda row: str(row["cell"]))

    def no_session() -> SparkSession:
        raise AssertionError("few copies need no job")

    by_driver = compare(no_session)
    assert [row["cell"] for row in by_driver] == sorted(names)
    assert by_driver[0]["non_causal_latency_max"] != 0
    monkeypatch.setattr(compare_runs, "DRIVER_ROWS_MAX", 1)
    assert compare(lambda: spark) == by_driver
