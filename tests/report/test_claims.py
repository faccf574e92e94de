"""Claims are computed: with the tables of a broken protocol they turn red."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from antecede.report.claims.claim import Claim, Finding, Outcome
from antecede.report.claims.papers import CLAIMS, examine_claims
from antecede.report.tables import Tables, read_tables
from antecede.sim import Scenario
from tests.report.studies import STUDY
from tests.report.made import invent_study, make_study

BY_ID = {claim.id: claim for claim in CLAIMS}
Formula = Callable[[Scenario], Mapping[str, float]]


def found(tables: Tables, id: str) -> Finding:
    return BY_ID[id].examine(tables)


def test_every_claim_says_what_a_reader_needs() -> None:
    assert len(BY_ID) == len(CLAIMS) >= 60
    for claim in CLAIMS:
        assert claim.claim.endswith("."), claim.id
        assert not claim.rule.endswith("."), claim.id
        assert claim.place, claim.id
        assert claim.measured, claim.id


def test_claims_that_hold_in_honest_tables_hold(tables: Tables) -> None:
    for which in ("A1", "A6", "A22", "A26", "C11", "C12", "C13", "M1", "M4", "M5"):
        finding = found(tables, which)
        assert finding.outcome is Outcome.HOLDS, (which, finding)


@pytest.mark.parametrize(
    ("victim", "impostor", "broken"),
    [
        ("hybrid", "unordered", ["A26"]),  # It does not keep causal order.
        ("hybrid", "matrix", ["A1"]),  # Its messages grow with n.
        ("cykas", "unordered", ["C12"]),
        ("cykas", "matrix", ["A6", "C11"]),
        ("buffer", "unordered", ["M1", "M4"]),
        ("buffer", "matrix", ["M3", "M4", "M5"]),
        ("matrix", "hybrid", ["A2", "A24"]),
    ],
)
def test_a_broken_protocol_turns_its_claims_red(
    tmp_path: Path, victim: str, impostor: str, broken: list[str]
) -> None:
    study = {**STUDY, "protocols": [victim], "sizes": [4, 16]}
    tables = read_tables([make_study(tmp_path, study, impostors={victim: impostor})])
    outcomes = {which: found(tables, which).outcome for which in broken}
    assert Outcome.FAILS in outcomes.values()
    assert set(outcomes.values()) <= {Outcome.FAILS, Outcome.PART}, outcomes


def test_what_was_not_run_is_not_measured_and_says_how_to(tables: Tables) -> None:
    finding = found(tables, "N8")
    assert finding.outcome is Outcome.UNMEASURED
    assert "antecede study run pc-fig7" in finding.why


def test_no_tables_decide_nothing() -> None:
    outcomes = {finding.outcome for _, finding in examine_claims(Tables(studies=()))}
    assert outcomes == {Outcome.UNMEASURED}


JOBS = {
    "name": "jobs",
    "protocols": ["buffer", "cykas"],
    "sizes": [100],
    "seeds": 2,
    "messages": 100,
    "workloads": {
        "jobs": {
            "gap": ["0.001", "0.01", "0.1"],
            "job": ["0.0005", "0.0125", "0.05"],
            "job_share": 0.1,
        },
        "hot": {
            "workload": ["hotspot:hot=0,share=0.8", "hotspot:hot=0.1,share=0.8"],
            "gap": "0.01",
        },
        "hot-jobs": {
            "workload": ["hotspot:hot=0,share=0.8", "hotspot:hot=0.1,share=0.8"],
            "gap": "0.01",
            "job": "normal:0.025,0.005",
            "job_share": 0.1,
        },
    },
    "networks": {"paper": {"delay": "0.005", "bandwidth": 50000, "reliable": True}},
}


def as_in_the_paper(scenario: Scenario) -> dict[str, float]:
    """Return times with the speed-ups that the Cykas paper reports."""
    speed_up = {"0.001": 1.4, "0.01": 1.3, "0.1": 1.1}[scenario.gap]
    if scenario.job == "0.0125":
        speed_up += 0.05
    if "hot=0.1" in scenario.workload:
        speed_up = 1.15 if scenario.job_share else 0.9
    faster = speed_up if scenario.protocol == "cykas" else 1.0
    return {"execution_time": 10 / faster, "job_start_mean": 5 / faster}


def upside_down(scenario: Scenario) -> dict[str, float]:
    """Return the same with the roles exchanged: a Cykas that is slower."""
    times = as_in_the_paper(scenario)
    return {name: 1 / value for name, value in times.items()}


@pytest.mark.parametrize("id", ["C4", "C5", "C6", "C8", "C9", "C10"])
def test_the_claims_of_cykas_hold_in_its_own_figures_only(id: str, tmp_path: Path) -> None:
    honest = read_tables([invent_study(tmp_path / "honest", JOBS, as_in_the_paper)])
    broken = read_tables([invent_study(tmp_path / "broken", JOBS, upside_down)])
    assert found(honest, id).outcome is Outcome.HOLDS, found(honest, id)
    assert found(broken, id).outcome is Outcome.FAILS, found(broken, id)


OVERLAY = {
    "name": "overlay",
    "protocols": ["flood", "preventive"],
    "sizes": [1000],
    "seeds": 1,
    "messages": 1,
    "workloads": {"one": {"workload": "broadcast:senders=1"}},
    "networks": {"spray": {"delay": ["0.1", "1", "5"], "reliable": True}},
}


def authors(scenario: Scenario) -> dict[str, float]:
    """Return what the authors' own simulator gives."""
    delay = float(scenario.delay)
    if scenario.protocol == "flood":
        path = {0.1: 2.771, 1.0: 2.760, 5.0: 2.757}[delay]
        return {"mean_path": path, "unsafe_links": 0.0, "links": 16.3}
    path = {0.1: 2.774, 1.0: 2.779, 5.0: 2.969}[delay]
    unsafe = {0.1: 0.06, 1.0: 0.65, 5.0: 3.46}[delay]
    return {"mean_path": path, "unsafe_links": unsafe, "links": 16.3}


def stuck(scenario: Scenario) -> dict[str, float]:
    """Return what links give that never become safe, the fewer the longer the delay."""
    delay = float(scenario.delay)
    path = 2.7 + (delay if scenario.protocol == "preventive" else delay / 2)
    return {"mean_path": 2 * path, "unsafe_links": 16.0 - delay, "links": 16.3}


@pytest.mark.parametrize("id", ["N8", "N9", "N10", "N11", "N12", "N13"])
def test_the_claims_on_overlays_hold_in_the_authors_figures_only(
    id: str, tmp_path: Path
) -> None:
    honest = read_tables([invent_study(tmp_path / "honest", OVERLAY, authors)])
    broken = read_tables([invent_study(tmp_path / "broken", OVERLAY, stuck)])
    assert found(honest, id).outcome is Outcome.HOLDS, found(honest, id)
    assert found(broken, id).outcome in (Outcome.FAILS, Outcome.PART), found(broken, id)


def test_a_verdict_comes_with_a_figure(tables: Tables) -> None:
    for claim, finding in examine_claims(tables):
        check_told(claim, finding)


def check_told(claim: Claim, finding: Finding) -> None:
    if finding.outcome is not Outcome.UNMEASURED:
        assert finding.figure, claim.id
        assert finding.figure[0].islower() or finding.figure[0].isdigit(), claim.id
    if finding.outcome is Outcome.UNMEASURED:
        assert finding.why, claim.id
