from math import isclose, sqrt

import pytest

from antecede.report.claims.evidence import (
    curves,
    fit_exponent,
    mean_interval,
    ratios,
    verdict_counts,
)
from antecede.report.tables import Tables, read_tables
from antecede.sim import Scenario
from tests.report.study_builder import write_synthetic_study

INVENTED = {
    "name": "invented",
    "protocols": ["hybrid", "buffer"],
    "processes": [4, 8, 16, 32],
    "seeds": 3,
    "messages": 5,
    "workloads": {"steady": {"gap": "0.01"}},
    "networks": {"near": {"delay": ["0.01", "0.1", "1"]}},
}


def formula(scenario: Scenario) -> dict[str, float]:
    n = scenario.processes
    slow = 2.0 + scenario.seed if scenario.protocol == "buffer" else 1.0
    return {
        "metadata_bytes_mean": 3.0 * n**2 if scenario.protocol == "buffer" else 7.0,
        "execution_time": slow * n,
        "throughput": 5.0 / float(scenario.delay),
    }


@pytest.fixture(scope="module")
def invented(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    directory = tmp_path_factory.mktemp("invented")
    return read_tables([write_synthetic_study(directory, INVENTED, formula)])


@pytest.mark.parametrize("exponent", [-1.0, 0.0, 0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_law_is_fitted(exponent: float) -> None:
    fit = fit_exponent([(n, 3.5 * n**exponent) for n in (2, 10, 50, 400)])
    assert isclose(fit.exponent, exponent, abs_tol=1e-9)
    assert fit.error is not None
    assert fit.error < 1e-9


def test_an_inexact_fit_has_a_standard_error() -> None:
    fit = fit_exponent([(1, 1), (10, 20), (100, 100)])
    assert fit.error is not None
    assert fit.error > 0.1


def test_points_that_are_not_positive_are_excluded_from_a_fit() -> None:
    assert fit_exponent([(1, 1), (10, 100), (20, 0)]).exponent == pytest.approx(2)
    assert fit_exponent([(5, 1), (5, 2)]).exponent == 0
    assert fit_exponent([]).points == 0


def test_curves_follow_one_parameter_and_keep_the_others_apart(invented: Tables) -> None:
    by_size = curves(invented, "metadata_bytes_mean", "buffer")
    assert [len(curve.points) for curve in by_size] == [4, 4, 4]
    assert all(isclose(curve.fit.exponent, 2) for curve in by_size)
    by_delay = curves(invented, "throughput", "hybrid", along="delay")
    assert [len(curve.points) for curve in by_delay] == [3, 3, 3, 3]
    assert all(isclose(curve.fit.exponent, -1) for curve in by_delay)


def test_a_curve_with_a_short_span_is_excluded(invented: Tables) -> None:
    assert curves(invented, "throughput", "hybrid", span=9) == []


def test_ratios_are_computed_per_seed(invented: Tables) -> None:
    found = ratios(invented, "execution_time", "buffer", "hybrid")
    assert len(found) == 12
    for row in found:
        assert row.mean == pytest.approx(3.0)  # Of 2, 3 and 4.
        assert row.seeds == 3
        assert row.high == pytest.approx(3.0 + 4.302653 * 1 / sqrt(3), rel=1e-5)


def test_the_interval_of_one_value_is_none() -> None:
    assert mean_interval([2.0])["low"] is None


def test_verdicts_are_counted_by_status(tables: Tables) -> None:
    counts = verdict_counts(tables, "unordered", "causal")
    assert counts["held"] + counts["violated"] == 12
    assert counts["violated"] > 0
    assert verdict_counts(tables, "hybrid", "causal")["held"] == 12
