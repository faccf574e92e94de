"""Claims hold in the tables of correct protocols, and fail in those of broken ones."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from antecede.report.claims.claim import Claim, ClaimResult, ClaimStatus
from antecede.report.claims.papers import CLAIMS, evaluate_claims
from antecede.report.tables import Tables, read_tables
from antecede.sim import Scenario
from tests.report.study_builder import make_study, write_synthetic_study
from tests.report.study_fixtures import STUDY

BY_ID = {claim.id: claim for claim in CLAIMS}
Formula = Callable[[Scenario], Mapping[str, float]]


def evaluate(tables: Tables, id: str) -> ClaimResult:
    return BY_ID[id].evaluate(tables)


def test_every_claim_has_a_sentence_a_rule_a_section_and_a_measurement() -> None:
    assert len(BY_ID) == len(CLAIMS) >= 60
    for claim in CLAIMS:
        assert claim.claim.endswith("."), claim.id
        assert not claim.rule.endswith("."), claim.id
        assert claim.section, claim.id
        assert claim.measurement, claim.id


def test_claims_hold_in_tables_of_correct_protocols(tables: Tables) -> None:
    for which in ("A1", "A6", "A22", "A26", "C11", "C12", "C13", "M1", "M4", "M5"):
        result = evaluate(tables, which)
        assert result.status is ClaimStatus.HOLDS, (which, result)


@pytest.mark.parametrize(
    ("protocol", "substitute", "failing"),
    [
        ("hybrid", "unordered", ["A26"]),  # It does not preserve causal order.
        ("hybrid", "matrix", ["A1"]),  # Its metadata grows with n.
        ("cykas", "unordered", ["C12"]),
        ("cykas", "matrix", ["A6", "C11"]),
        ("buffer", "unordered", ["M1", "M4"]),
        ("buffer", "matrix", ["M3", "M4", "M5"]),
        ("matrix", "hybrid", ["A2", "A24"]),
    ],
)
def test_claims_fail_if_another_protocol_runs_under_the_name(
    tmp_path: Path, protocol: str, substitute: str, failing: list[str]
) -> None:
    study = {**STUDY, "protocols": [protocol], "processes": [4, 16]}
    tables = read_tables([make_study(tmp_path, study, substitutes={protocol: substitute})])
    statuses = {which: evaluate(tables, which).status for which in failing}
    assert ClaimStatus.FAILS in statuses.values()
    assert set(statuses.values()) <= {ClaimStatus.FAILS, ClaimStatus.PARTLY}, statuses


def test_a_claim_that_was_not_measured_names_the_study_to_run(tables: Tables) -> None:
    result = evaluate(tables, "N8")
    assert result.status is ClaimStatus.NOT_MEASURED
    assert "antecede study run pc-fig7" in result.explanation


def test_without_tables_no_claim_is_measured() -> None:
    statuses = {result.status for _, result in evaluate_claims(Tables(studies=()))}
    assert statuses == {ClaimStatus.NOT_MEASURED}


JOBS = {
    "name": "jobs",
    "protocols": ["buffer", "cykas"],
    "processes": [100],
    "seeds": 2,
    "messages": 100,
    "workloads": {
        "jobs": {
            "gap": ["0.001", "0.01", "0.1"],
            "service_time": ["0.0005", "0.0125", "0.05"],
            "service_share": 0.1,
        },
        "hot": {
            "workload": ["hotspot:hot=0,share=0.8", "hotspot:hot=0.1,share=0.8"],
            "gap": "0.01",
        },
        "hot-jobs": {
            "workload": ["hotspot:hot=0,share=0.8", "hotspot:hot=0.1,share=0.8"],
            "gap": "0.01",
            "service_time": "normal:0.025,0.005",
            "service_share": 0.1,
        },
    },
    "networks": {"paper": {"delay": "0.005", "bandwidth": 50000, "reliable": True}},
}


def as_in_the_paper(scenario: Scenario) -> dict[str, float]:
    """Return times with the speed-ups of the Cykas paper."""
    speed_up = {"0.001": 1.4, "0.01": 1.3, "0.1": 1.1}[scenario.gap]
    if scenario.service_time == "0.0125":
        speed_up += 0.05
    if "hot=0.1" in scenario.workload:
        speed_up = 1.15 if scenario.service_share else 0.9
    faster = speed_up if scenario.protocol == "cykas" else 1.0
    return {"execution_time": 10 / faster, "job_start_mean": 5 / faster}


def inverted(scenario: Scenario) -> dict[str, float]:
    """Return the reciprocal times, so that cykas is slower than buffer."""
    times = as_in_the_paper(scenario)
    return {name: 1 / value for name, value in times.items()}


@pytest.mark.parametrize("id", ["C4", "C5", "C6", "C8", "C9", "C10"])
def test_claims_on_speedup_hold_only_with_the_speedups_of_the_paper(
    id: str, tmp_path: Path
) -> None:
    honest = read_tables(
        [write_synthetic_study(tmp_path / "honest", JOBS, as_in_the_paper)]
    )
    broken = read_tables([write_synthetic_study(tmp_path / "broken", JOBS, inverted)])
    assert evaluate(honest, id).status is ClaimStatus.HOLDS, evaluate(honest, id)
    assert evaluate(broken, id).status is ClaimStatus.FAILS, evaluate(broken, id)


OVERLAY = {
    "name": "overlay",
    "protocols": ["flood", "pc-broadcast"],
    "processes": [1000],
    "seeds": 1,
    "messages": 1,
    "workloads": {"one": {"workload": "broadcast:senders=1"}},
    "networks": {"spray": {"delay": ["0.1", "1", "5"], "reliable": True}},
}


def authors(scenario: Scenario) -> dict[str, float]:
    """Return the results of the authors' simulator."""
    delay = float(scenario.delay)
    if scenario.protocol == "flood":
        path = {0.1: 2.771, 1.0: 2.760, 5.0: 2.757}[delay]
        return {"mean_path": path, "unsafe_links": 0.0, "links": 16.3}
    path = {0.1: 2.774, 1.0: 2.779, 5.0: 2.969}[delay]
    unsafe = {0.1: 0.06, 1.0: 0.65, 5.0: 3.46}[delay]
    return {"mean_path": path, "unsafe_links": unsafe, "links": 16.3}


def stuck(scenario: Scenario) -> dict[str, float]:
    """Return results of links that stay unsafe, fewer of them with longer delays."""
    delay = float(scenario.delay)
    path = 2.7 + (delay if scenario.protocol == "pc-broadcast" else delay / 2)
    return {"mean_path": 2 * path, "unsafe_links": 16.0 - delay, "links": 16.3}


@pytest.mark.parametrize("id", ["N8", "N9", "N10", "N11", "N12", "N13"])
def test_claims_on_overlays_hold_only_with_the_results_of_the_authors(
    id: str, tmp_path: Path
) -> None:
    honest = read_tables([write_synthetic_study(tmp_path / "honest", OVERLAY, authors)])
    broken = read_tables([write_synthetic_study(tmp_path / "broken", OVERLAY, stuck)])
    assert evaluate(honest, id).status is ClaimStatus.HOLDS, evaluate(honest, id)
    assert evaluate(broken, id).status in (ClaimStatus.FAILS, ClaimStatus.PARTLY), evaluate(
        broken, id
    )


def test_every_result_has_observed_values_or_an_explanation(tables: Tables) -> None:
    for claim, result in evaluate_claims(tables):
        check_result(claim, result)


def check_result(claim: Claim, result: ClaimResult) -> None:
    if result.status is not ClaimStatus.NOT_MEASURED:
        assert result.observed, claim.id
        assert result.observed[0].islower() or result.observed[0].isdigit(), claim.id
    if result.status is ClaimStatus.NOT_MEASURED:
        assert result.explanation, claim.id
