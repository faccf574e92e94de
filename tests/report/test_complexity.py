from pathlib import Path

from antecede.report.claims.complexity import complexity_tables
from antecede.report.tables import Tables, read_tables
from antecede.sim import Scenario
from tests.report.study_builder import write_synthetic_study

GROWTH = {
    "name": "growth",
    "protocols": ["matrix", "hybrid"],
    "processes": [10, 100],
    "seeds": 1,
    "messages": 2,
    "workloads": {"steady": {"gap": "0.01"}},
    "networks": {"paper": {"delay": ["0.01", "0.1"], "reliable": True}},
}


def formula(scenario: Scenario) -> dict[str, float]:
    n = scenario.processes
    power = 2 if scenario.protocol == "matrix" else 0
    return {
        "metadata_bytes_mean": 4.0 * n**power,
        "throughput": 1 / float(scenario.delay),
        "in_transit_pair_max": 7.0,
        "control_frames": 30.0,
        "copies": 20.0,
    }


def test_every_entry_has_the_claim_and_the_measured_value(tmp_path: Path) -> None:
    tables = read_tables([write_synthetic_study(tmp_path, GROWTH, formula)])
    (table,) = complexity_tables(tables)
    assert table.title == "Almeida, Table 1"
    rows = {
        criterion: dict(zip(table.protocols, entries, strict=True))
        for criterion, entries in table.rows
    }
    metadata = rows["metadata per message"]
    assert (metadata["matrix"].claimed, metadata["matrix"].measured) == ("n²", "n^2.00")
    assert (metadata["hybrid"].claimed, metadata["hybrid"].measured) == ("1", "n^0.00")
    assert metadata["cykas"].measured == "\N{EN DASH}"
    assert rows["throughput scales"]["hybrid"].measured == "delay^-1.00"
    assert (
        rows["messages in transit"]["hybrid"].measured == "up to 7 per sender and receiver"
    )
    assert rows["control messages"]["hybrid"].measured == "1.50 per copy"


def test_without_tables_there_are_no_complexity_tables() -> None:
    assert complexity_tables(Tables(studies=())) == []
