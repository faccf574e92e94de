"""The charts of `bounded` against its budget."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from antecede.report import write_report
from antecede.report.charts.budget import BudgetFigure, BudgetPanel, budget_figures
from antecede.report.tables import Tables, read_tables
from antecede.sim import Scenario
from tests.report.study_builder import write_synthetic_study

BUDGETS = [0, 16, float("inf")]
STUDY: dict[str, Any] = {
    "name": "budgets",
    "protocols": ["bounded", "hybrid", "optimal"],
    "processes": [4],
    "seeds": 2,
    "messages": 3,
    "networks": {
        "lan": {"delay": "0.001", "loss": [0.0, 0.05], "budget_bytes": BUDGETS},
        "wan": {"delay": "0.1", "budget_bytes": BUDGETS},
    },
    "grids": [
        {"name": "curve"},
        {"name": "one", "networks": {"lan": {"budget_bytes": 8}}},
        {
            "name": "silent",
            "networks": {"lan": {"silent_members": 1, "budget_bytes": BUDGETS}},
        },
    ],
}


def values(scenario: Scenario) -> dict[str, float]:
    """Return latencies of 3 s with a budget of 0, 2 s with 16 and 1 s with any other.

    The second seed doubles the latency of all protocols, and so no ratio.
    """
    seed = scenario.seed + 1
    latency = {0.0: 3.0, 16.0: 2.0}.get(scenario.budget_bytes, 1.0)
    if scenario.protocol == "hybrid":
        latency = 3.0
    found = {
        "latency_mean": (latency if scenario.protocol != "optimal" else 0.5) * seed,
        "metadata_bytes_total": 60.0,
        "copies": 12.0,
        "control_frames": 24.0,
    }
    if scenario.silent_members:
        found["living_delivered_share"] = 1.0 if scenario.budget_bytes else 0.25
    return found


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("budgets") / "study"
    return write_synthetic_study(path, STUDY, values)


@pytest.fixture(scope="module")
def figures(directory: Path) -> dict[str, BudgetFigure]:
    return {each.id: each for each in budget_figures(read_tables([directory]))}


def points(panel: BudgetPanel) -> dict[tuple[str, str], float]:
    """Return the value at each line and position of a chart."""
    found = panel.spec["data"]["values"]
    assert len(found) == len({(each["line"], each["position"]) for each in found})
    return {(each["line"], each["position"]): each["value"] for each in found}


def test_latency_is_relative_to_optimal_in_the_same_cells(
    figures: dict[str, BudgetFigure],
) -> None:
    (panel,) = figures["budget-latency-mean"].panels
    assert panel.label == "default, 4 processes, 3 messages"
    lines = ("lan, no loss", "lan, 5% loss", "wan, no loss")
    by_position = {"0": 6.0, "16": 4.0, "unlimited": 2.0, "hybrid": 6.0}
    assert points(panel) == {
        (line, position): value for line in lines for position, value in by_position.items()
    }
    assert panel.spec["encoding"]["x"]["sort"] == ["0", "16", "unlimited", "hybrid"]
    assert panel.spec["encoding"]["color"]["scale"]["domain"] == [*lines]
    # Both seeds have the same ratio, so the interval is empty.
    assert {(v["low"], v["high"]) for v in panel.spec["data"]["values"]} >= {(6.0, 6.0)}


def test_metadata_and_control_frames_are_per_copy(
    figures: dict[str, BudgetFigure],
) -> None:
    for name, value in (("budget-metadata", 5.0), ("budget-control-frames", 2.0)):
        curve, silent = figures[name].panels
        assert {*points(curve).values(), *points(silent).values()} == {value}
        assert ("wan, no loss", "optimal") in points(curve)


def test_the_share_delivered_is_that_of_runs_with_a_silent_member(
    figures: dict[str, BudgetFigure],
) -> None:
    (panel,) = figures["budget-share-delivered"].panels
    assert panel.label.endswith("messages, 1 silent")
    found = points(panel)
    assert found["lan, no loss", "0"] == 0.25
    assert found["lan, no loss", "16"] == found["lan, no loss", "unlimited"] == 1.0


def test_a_measure_without_values_has_no_figure(figures: dict[str, BudgetFigure]) -> None:
    assert "budget-throughput" not in figures
    assert "budget-latency-p99" not in figures


def test_a_study_without_budgets_has_no_figures(tables: Tables) -> None:
    assert budget_figures(tables) == []


def test_the_page_has_the_charts_and_a_file_for_each_figure(
    directory: Path, figures: dict[str, BudgetFigure], tmp_path: Path
) -> None:
    report = write_report([directory], tmp_path / "report.html")
    page = report.page.read_text(encoding="utf-8")
    found = re.search(r'id="charts-data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    drawn = json.loads(found[1])["costs"]
    for figure in figures.values():
        assert tmp_path / "report_files" / "figures" / f"{figure.id}.svg" in report.figures
        for panel in figure.panels:
            assert drawn[panel.id] == json.loads(json.dumps(panel.spec))
            assert f'data-chart="{panel.id}"' in page
