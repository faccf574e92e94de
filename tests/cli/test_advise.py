"""``antecede advise`` on Spark, with one run for all tests."""

import contextlib
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from antecede.advise.advise import (
    Advice,
    AdviceOptions,
    Plan,
    network_costs,
    prepare,
)
from antecede.advise.network import Delays
from antecede.advise.table import lines, to_json
from antecede.advise.traffic import extract_traffic
from antecede.cli import main as cli
from antecede.core.registry import protocol
from antecede.pipeline.study.study import Study
from antecede.report.tables import StudyTables, read_tables
from antecede.sim.simulate import Scenario, simulate_to
from antecede.trace.reader import read_trace
from tests.advise.recorded import deliver, send, trace_of
from tests.advise.test_recommend import HERE
from tests.ingest.foreign_samples import SHOP_SPANS, span_csv, write_sample

HOPS = (
    ("ann", "bob", 0, 3),
    ("ann", "carol", 1, 2),
    ("bob", "carol", 4, 5),
    ("carol", "dave", 6, 7),
    ("ann", "dave", 2, 8),
)
"""Source, target, send and receive times in ms; the last message is late for dave."""
MESSAGES_CSV = "source,target,sent,received\n" + "".join(
    f"{source},{target},{(10 * turn + sent) / 1000},{(10 * turn + received) / 1000}\n"
    for turn in range(60)
    for source, target, sent, received in HOPS
)


class Advised(NamedTuple):
    code: int
    text: str
    tables: StudyTables
    directory: Path


@pytest.fixture(scope="module")
def advised(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Advised:
    """The result of the command, which gets the session of all tests."""
    scratch = tmp_path_factory.mktemp("advise")
    file = write_sample(scratch / "messages.csv", MESSAGES_CSV)
    printed = io.StringIO()
    arguments = ["advise", str(file), "--out", str(scratch / "out"), "--cores", "2"]
    arguments += ["--protocols", "hybrid,optimal", "--delay", "exponential:0.004"]

    def open_session(
        master: str | None, *, cores: int | None, fast_start: bool, conf: dict[str, str]
    ) -> contextlib.AbstractContextManager[SparkSession]:
        assert (master, cores, fast_start, conf) == (None, 2, True, {})
        return contextlib.nullcontext(spark)

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr("antecede.pipeline.spark.session.open_session", open_session)
        code = cli.main(arguments)
    (tables,) = read_tables([scratch / "out" / "study"]).studies
    return Advised(code, printed.getvalue(), tables, scratch / "out")


def rows(text: str) -> dict[str, list[float]]:
    """Return the rows of the printed table."""
    found = {}
    for line in text.splitlines():
        name, *values = line.split()
        if len(values) == 9 and values[0].replace(".", "").lstrip("-").isdigit():
            found[name] = [float(value.replace(",", "")) for value in values]
    return found


def test_the_printed_table_equals_the_tables_of_the_study(advised: Advised) -> None:
    assert advised.code == 0
    found = rows(advised.text)
    assert found.keys() == {"unordered", "fifo", "hybrid", "optimal"}
    tables = advised.tables
    seeds = {cell.seed for cell in tables.cells}
    here = [cell for cell in tables.cells if cell.network == "network-0"]
    groups = {cell.protocol: cell.group for cell in here}

    def mean(name: str, measure: str) -> float:
        return tables.index[groups[name], measure].mean or 0.0

    for name, values in found.items():
        added = [
            1e3 * (mean(name, each) - mean("unordered", each))
            for each in ("latency_p50", "latency_p99")
        ]
        assert values[:2] == pytest.approx(added, abs=0.0051)
        for value, measure in zip(
            values[2:7],
            (
                "metadata_bytes_mean",
                "metadata_bytes_total",
                "control_frames",
                "sender_buffer_max",
                "receiver_buffer_max",
            ),
            strict=True,
        ):
            assert value == pytest.approx(mean(name, measure), abs=0.51)
        own = {cell.cell for cell in here if cell.protocol == name}
        verdicts = [verdict for verdict in tables.verdicts if verdict.run in own]
        assert len(verdicts) == len(seeds) == 5
        assert values[7] == sum(each.counts["causal"] or 0 for each in verdicts)
        assert values[8] == sum(each.counts["fifo"] or 0 for each in verdicts)


def test_baselines_violate_causal_order_and_the_others_preserve_it(
    advised: Advised,
) -> None:
    found = rows(advised.text)
    assert found["unordered"][7] > found["fifo"][7] > 0
    assert found["fifo"][8] == 0
    for name in ("hybrid", "optimal"):
        assert protocol(name).capabilities.causal
        assert found[name][7] == 0


def test_a_protocol_whose_violating_run_is_not_measured_has_not_held(
    advised: Advised,
) -> None:
    tables = advised.tables
    network = "network-0"
    run = next(
        cell.cell
        for cell in tables.cells
        if (cell.protocol, cell.network) == ("hybrid", network)
    )
    (verdict,) = (each for each in tables.verdicts if each.run == run)
    violated = replace(
        verdict,
        statuses={**verdict.statuses, "causal": "violated"},
        counts={**verdict.counts, "causal": 7},
    )
    others = tuple(each for each in tables.verdicts if each.run != run)
    values = {cell: value for cell, value in tables.values.items() if cell != run}
    changed = replace(tables, verdicts=(*others, violated), values=values)
    before = {cost.protocol: cost for cost in network_costs(tables, network)}
    after = {cost.protocol: cost for cost in network_costs(changed, network)}
    assert (before["hybrid"].held, before["hybrid"].too_early) == (True, 0)
    assert (after["hybrid"].held, after["hybrid"].too_early) == (False, 7)
    assert after["hybrid"].runs == before["hybrid"].runs - 1
    assert after["optimal"] == before["optimal"]


def test_the_text_contains_evidence_and_sensitivity(advised: Advised) -> None:
    text = advised.text
    assert "messages.csv: 300 messages to 300 targets, 4 processes" in text
    assert "delay exponential:0.004 (from --delay)" in text
    assert "Use " in text
    assert "of 1,500 copies in 5 runs unordered delivers" in text
    for part in ("Evidence:", "with 1% loss", "with 10 times the delay"):
        assert part in text


def test_the_directory_contains_the_workload_and_a_study(advised: Advised) -> None:
    traffic = read_trace(advised.directory / "workload")
    assert sorted(traffic.info.names.values()) == ["ann", "bob", "carol", "dave"]
    assert {cell.network for cell in advised.tables.cells} == {
        "network-0", "network-1", "network-2",
    }  # fmt: skip
    assert all("replay:" in cell.command for cell in advised.tables.cells)


def make_advice(tmp_path: Path, *, violated: tuple[str, ...] = ()) -> Advice:
    events = [send(0, 1, 1), deliver(1, 0, 1), send(1, 1, 0)]
    traffic = extract_traffic(trace_of(events, tmp_path / "t", 2), messages_max=1)
    plan = Plan(
        traffic=replace(traffic, copies=2000),
        delays=Delays(delay="0.05", origin="trace", samples=30),
        pause_s=0.05,
        options=AdviceOptions(loss=0.02, bandwidth=1000.0),
        skipped=("vector: has no unicast, which this workload needs",),
        networks=("on this network",),
        study=Study(name="advise", cells=(), skipped=()),
        directory=tmp_path,
    )
    return Advice(
        plan=plan,
        failed=("hybrid-2-bb failed: no space left",),
        violated=violated,
        costs={"on this network": HERE},
        recommendation=None,
    )


def test_the_text_lists_everything_that_was_skipped(tmp_path: Path) -> None:
    text = "\n".join(lines(make_advice(tmp_path, violated=("hybrid-2-aa",)), "some"))
    for part in (
        "sample: 1 of 2 messages (50.00%), in one window",
        "pauses: the trace has no times; 50 ms",
        "half of the 30 round trips",
        "loss 2.00%, 1,000 bytes/s",
        "means of 2 runs each",
        "not run: vector",
        "not run: hybrid-2-bb failed: no space left",
        "VIOLATED: hybrid-2-aa",
        "no recommendation",
    ):
        assert part in text
    assert rows(text)["hybrid"] == [5.45, 10.9, 4.0, 4000, 0, 0, 0, 0, 0]


def test_the_json_contains_all_fields(tmp_path: Path) -> None:
    found = json.loads(to_json(make_advice(tmp_path), "some"))
    assert found["trace"] == "some"
    assert (found["recorded_messages"], found["sampled_messages"]) == (2, 1)
    assert found["windows"] == 1
    assert found["delay"] == {"delay": "0.05", "origin": "trace", "samples": 30}
    names = [each["protocol"] for each in found["costs"]["on this network"]]
    assert names == [each.protocol for each in HERE]
    assert found["recommendation"] is None


def test_a_broadcast_trace_is_replayed_by_protocols_that_broadcast(tmp_path: Path) -> None:
    scenario = Scenario(protocol="vector", processes=3, messages=2, workload="broadcast")
    simulate_to(tmp_path / "run", scenario)
    traffic = extract_traffic(read_trace(tmp_path / "run"), messages_max=9)
    plan = prepare(traffic, tmp_path / "out")
    found = {cell.scenario.protocol for cell in plan.study.cells}
    assert {"vector", "newtop", "flood", "pc-broadcast", "tree", "unordered"} <= found
    assert "buffer" not in found
    assert plan.skipped == (
        "buffer, buffer-fifo, cykas: no broadcast, which this workload needs",
    )
    assert plan.study.cells[0].scenario.make_workload().broadcast


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--loss", "1"], "--loss must be"),
        (["--cores", "0"], "--cores must be"),
        (["--protocols", ","], "--protocols names no protocol"),
        (["--messages-max", "0"], "--messages-max"),
        (["--format", "novel"], "novel"),
        (["--protocols", "vector"], "vector has no unicast"),
        (["--protocols", "psychic"], "psychic"),
        (["--delay", "soon"], "soon"),
        (["--master", "nowhere"], "'nowhere' is not a valid master"),
    ],
    ids=[
        "loss",
        "cores",
        "no protocol",
        "messages",
        "format",
        "unable",
        "unknown",
        "delay",
        "master",
    ],
)
def test_invalid_options_are_refused_before_anything_is_run(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_sample(tmp_path / "spans.csv", span_csv(SHOP_SPANS))
    assert cli.main(["advise", str(file), *arguments]) == 2
    assert message in capsys.readouterr().err
