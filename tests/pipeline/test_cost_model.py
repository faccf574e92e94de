"""Estimated costs of cells, compared with measured ones."""

import tracemalloc
from dataclasses import replace

import pytest

from antecede.core.config import ProcessConfig
from antecede.core.process import ProcessId
from antecede.core.registry import protocol
from antecede.pipeline.study.cells_table import CELLS_SCHEMA, cell_row
from antecede.pipeline.study.cost_model import PAIR_BYTES, copies, estimate
from antecede.pipeline.study.study import parse_study
from antecede.sim import Scenario, simulate

WORKLOADS = [
    "uniform",
    "uniform:fan_out=3",
    "hotspot",
    "groups:group=4",
    "broadcast",
    "broadcast:senders=3",
    "pipeline",
    "request-reply:servers=0.3",
    "microservices:layers=3,fan_out=2",
    "microservices:layers=2,fan_out=4",
]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_estimated_copies_equal_the_copies_of_a_run(workload: str) -> None:
    scenario = Scenario(
        protocol="unordered", processes=12, messages=4, workload=workload, reliable=True
    )
    assert copies(scenario.make_workload()) == simulate(scenario).summary.copies


def test_copies_of_a_conversation_are_estimated_within_15_percent() -> None:
    scenario = Scenario(protocol="unordered", processes=20, workload="conversation")
    sent = simulate(scenario).summary.copies
    assert copies(scenario.make_workload()) == pytest.approx(sent, rel=0.15)


@pytest.mark.parametrize("name", PAIR_BYTES)
def test_state_per_member_is_within_60_percent_of_the_constant(name: str) -> None:
    n = 300
    config = ProcessConfig(processes=n, reliable=True)
    processes = []
    tracemalloc.start()
    for i in range(20):
        processes.append(protocol(name).make(ProcessId(i), config))  # noqa: PERF401
    found = tracemalloc.get_traced_memory()[0] / len(processes) / n
    tracemalloc.stop()
    assert 0.4 * PAIR_BYTES[name] < found < 1.6 * PAIR_BYTES[name]


def test_larger_scenarios_have_larger_estimates() -> None:
    base = Scenario(processes=100, messages=10)
    for changes in ({"processes": 1000}, {"messages": 100}, {"protocol": "matrix"}):
        more = estimate(replace(base, **changes))
        assert more.seconds > estimate(base).seconds
        assert more.memory_bytes >= estimate(base).memory_bytes
    linked = replace(base, protocol="cykas")
    assert estimate(linked).seconds > estimate(replace(linked, reliable=True)).seconds
    spray = replace(base, protocol="flood", overlay="spray:exchange_s=10,until_s=600")
    assert estimate(spray).seconds > estimate(replace(spray, overlay="")).seconds / 10


def test_a_cell_row_contains_its_scenario() -> None:
    table = {
        "name": "rows",
        "protocols": ["flood"],
        "processes": [6],
        "grids": [{"name": "one"}],
        "workloads": {"x": {"workload": "broadcast:senders=2", "gap": "uniform:1,3"}},
        "networks": {
            "far": {"delay": "lognormal:0.1,0", "bandwidth": 5000, "overlay": "ring"},
            "wide": {"delay": "geographic:0.1", "loss": 0.5},
        },
    }
    far, wide = (cell_row(cell) for cell in parse_study(table).cells)
    for row in (far, wide):
        assert set(row) >= set(CELLS_SCHEMA.names)
        assert (row["grid"], row["workload"]) == ("one", "x")
        assert row["traffic"] == "broadcast:senders=2"
        assert (row["traffic_senders"], row["traffic_hot"]) == (2, None)
        assert row["gap_s"] == 2
        assert row["until_s"] is row["too_large"] is None
    assert (far["delay_s"], far["bandwidth"], far["overlay"]) == (0.1, 5000, "ring")
    assert (wide["delay_s"], wide["bandwidth"], wide["loss"]) == (None, None, 0.5)


def test_means_of_distributions() -> None:
    for text, mean in (
        ("3", 3.0),
        ("exponential:2,1", 3.0),
        ("normal:4,1", 4.0),
        ("uniform:0,1", 0.5),
        ("lognormal:1,1", 1.6487212707),
    ):
        table = {
            "name": "m",
            "protocols": ["hybrid"],
            "processes": [2],
            "workloads": {"x": {"service_time": text}},
        }
        assert cell_row(parse_study(table).cells[0])["service_time_s"] == pytest.approx(
            mean
        )
