"""The notebook of the examples runs, and leaves the session as it was."""

import json

from tests.spark.child_process import ROOT, run_module

NOTEBOOK = ROOT / "examples" / "notebooks" / "verify_a_dataframe.ipynb"


def test_the_notebook_runs_in_a_session_of_its_own() -> None:
    found = run_module("tests.spark.notebook_runner", NOTEBOOK)
    assert found["unchanged"]
    assert found["alive"] == 3
    assert sum(row["count"] for row in found["teams"]) > 0
    assert {row["team"] for row in found["teams"]} <= {"payments", "orders", "stock"}
    assert sorted(found["protocols"]) == ["cykas", "hybrid"]
    assert found["simulated"] == 2
    assert found["loaded"]
    assert found["advice"] in ("hybrid", "fifo", "unordered")
    request = (
        "stock delivered shop:2 before shop:1, which happened before it: shop:1 -> shop:2"
    )
    assert found["calls"] == [f"causal: {request}", f"fifo: {request}"]
    assert found["streamed"] == found["listed"] > 0
    charts = [types for types in found["shown"] if "image/svg+xml" in types]
    assert charts == [["application/vnd.vegalite.v6+json", "image/svg+xml", "text/plain"]]
    assert found["shown"].count(["text/html"]) == 2  # The verdicts and the advice.


def test_the_notebook_is_stored_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 8
    assert all(cell["outputs"] == [] for cell in code)
