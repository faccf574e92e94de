"""The same API in a Connect session."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.ingest.foreign_samples import SHOP_SPANS, span_csv, write_sample
from tests.spark.child_process import run_module


@pytest.mark.slow
@pytest.mark.skipif(find_spec("grpc") is None, reason="optional: Spark Connect")
def test_tables_of_a_connect_session_are_verified(tmp_path: Path) -> None:
    file = write_sample(tmp_path / "spans.csv", span_csv(SHOP_SPANS))
    found = run_module("tests.spark.connect_client", file)
    assert found["texts"] == [
        "causal: process 3 delivered 2:1 before 0:1, which happened before it:"
        " 0:1 -> 0:2 -> 1:1 -> 2:1"
    ]
    assert found["windows"] == found["texts"]
    assert found["small"]
    assert found["error"] == "run 'broken': message 0:1 is sent twice"
    assert "<td>figure</td><td>violated (1)</td>" in found["page"]
    assert found["deliveries"] == 5 * 3
    assert found["spans"] == ["d", "d"]
    assert found["simulated"] > 0
    assert found["tags"] == []
