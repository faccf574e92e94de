"""Fixtures: studies and a report for the tests of the report and of its command."""

from pathlib import Path

import pytest

from antecede.report import ReportFiles, write_report
from antecede.report.tables import Tables, read_tables
from tests.report.study_builder import make_study

STUDY = {
    "name": "small",
    "title": "A <small> study & nothing more",
    "protocols": ["hybrid", "buffer", "cykas", "matrix", "optimal", "unordered"],
    "processes": [4, 8, 16],
    "seeds": 2,
    "messages": 6,
    "workloads": {"steady": {"workload": "uniform", "gap": "exponential:0.02"}},
    "networks": {
        "even": {"delay": "exponential:0.02", "reliable": True},
        "rough": {"delay": "exponential:0.02", "loss": 0.05, "duplicate": 0.05},
    },
}


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_study(tmp_path_factory.mktemp("studies") / "small", STUDY)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a study of two runs, for tests that write a report."""
    few = {"protocols": ["hybrid", "unordered"], "processes": [4], "seeds": 1}
    rough = {"networks": {"rough": STUDY["networks"]["rough"]}}  # type: ignore[index]
    study = {**STUDY, "name": "tiny", **few, **rough}
    return make_study(tmp_path_factory.mktemp("studies") / "tiny", study)


@pytest.fixture(scope="session")
def tables(study: Path) -> Tables:
    return read_tables([study])


@pytest.fixture(scope="session")
def report(study: Path, tmp_path_factory: pytest.TempPathFactory) -> ReportFiles:
    return write_report([study], tmp_path_factory.mktemp("report") / "report.html")
