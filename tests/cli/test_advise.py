"""``antecede advise`` from end to end, on Spark: one run for all tests here."""

import contextlib
import io
import json
from pathlib import Path
from typing import NamedTuple

import pytest

from antecede.advise.advise import Advice, Wishes, prepare
from antecede.advise.network import Delays
from antecede.advise.table import lines, to_json
from antecede.advise.traffic import take_traffic
from antecede.cli import main as cli
from antecede.core.registry import protocol
from antecede.report.tables import StudyTables, read_tables
from antecede.sim.simulate import Scenario, simulate_to
from antecede.trace.reader import read_trace
from tests.advise.recorded import deliver, send, trace_of
from tests.advise.test_recommend import HERE
from tests.ingest.story import STORY, span_csv, write

HOPS = (
    ("ann", "bob", 0, 3),
    ("ann", "carol", 1, 2),
    ("bob", "carol", 4, 5),
    ("carol", "dave", 6, 7),
    ("ann", "dave", 2, 8),
)
"""Ann tells all others, of whom bob tells carol, who tells dave; in milliseconds."""
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
def advised(tmp_path_factory: pytest.TempPathFactory) -> Advised:
    place = tmp_path_factory.mktemp("advise")
    file = write(place / "messages.csv", MESSAGES_CSV)
    said = io.StringIO()
    words = ["advise", str(file), "--out", str(place / "out"), "--cores", "2"]
    words += ["--protocols", "hybrid,optimal", "--delay", "exponential:0.004"]
    with contextlib.redirect_stdout(said):
        code = cli.main(words)
    (tables,) = read_tables([place / "out" / "study"]).studies
    return Advised(code, said.getvalue(), tables, place / "out")


def rows(text: str) -> dict[str, list[float]]:
    """Return the rows of the printed table."""
    found = {}
    for line in text.splitlines():
        name, *values = line.split()
        if len(values) == 9 and values[0].replace(".", "").lstrip("-").isdigit():
            found[name] = [float(value.replace(",", "")) for value in values]
    return found


def test_it_prints_what_the_tables_of_the_study_say(advised: Advised) -> None:
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
        judged = [verdict for verdict in tables.verdicts if verdict.run in own]
        assert len(judged) == len(seeds) == 5
        assert values[7] == sum(each.counts["causal"] or 0 for each in judged)
        assert values[8] == sum(each.counts["fifo"] or 0 for each in judged)


def test_baselines_break_order_and_the_others_keep_it(advised: Advised) -> None:
    found = rows(advised.text)
    assert found["unordered"][7] > found["fifo"][7] > 0
    assert found["fifo"][8] == 0
    for name in ("hybrid", "optimal"):
        assert protocol(name).capabilities.causal
        assert found[name][7] == 0


def test_it_says_what_it_rests_on_and_what_would_change_it(advised: Advised) -> None:
    text = advised.text
    assert "messages.csv: 300 messages to 300 targets, 4 processes" in text
    assert "delay exponential:0.004 (as given)" in text
    assert "Take " in text
    assert "of 1,500 copies in 5 runs unordered delivers" in text
    for words in ("It rests on this", "with 1% loss", "with 10 times the delay"):
        assert words in text


def test_what_is_kept_is_the_workload_and_a_study(advised: Advised) -> None:
    traffic = read_trace(advised.directory / "workload")
    assert sorted(traffic.info.names.values()) == ["ann", "bob", "carol", "dave"]
    assert {cell.network for cell in advised.tables.cells} == {
        "network-0", "network-1", "network-2",
    }  # fmt: skip
    assert all("replay:" in cell.command for cell in advised.tables.cells)


def advice(tmp_path: Path, **more: object) -> Advice:
    events = [send(0, 1, 1), deliver(1, 0, 1), send(1, 1, 0)]
    told: dict[str, object] = {
        "traffic": take_traffic(trace_of(events, tmp_path / "t", 2), messages_max=1),
        "delays": Delays(delay="0.05", origin="trace", samples=30),
        "pause_s": 0.05,
        "wishes": Wishes(loss=0.02, bandwidth=1000.0),
        "seeds": 2,
        "left_out": ("vector: has no unicast, which this workload needs",),
        "broken": (),
        "failed": 0,
        "figures": {"on this network": HERE},
        "recommendation": None,
    }
    return Advice(**{**told, **more})  # type: ignore[arg-type]


def test_everything_that_was_left_out_is_said(tmp_path: Path) -> None:
    text = "\n".join(lines(advice(tmp_path, broken=("hybrid-2-aa",)), "some"))
    for words in (
        "cut: the first messages only",
        "pauses: the trace tells no times; 50 ms",
        "30 of them",
        "loss 2.00%, 1,000 bytes/s",
        "not run: vector",
        "VIOLATED: hybrid-2-aa",
        "no recommendation",
    ):
        assert words in text
    assert rows(text)["hybrid"] == [5.45, 10.9, 4.0, 4000, 0, 0, 0, 0, 0]


def test_json_has_all_of_it(tmp_path: Path) -> None:
    found = json.loads(to_json(advice(tmp_path), "some"))
    assert found["trace"] == "some"
    assert found["is_cut"] is True
    assert found["delay"] == {"delay": "0.05", "origin": "trace", "samples": 30}
    names = [each["protocol"] for each in found["figures"]["on this network"]]
    assert names == [each.protocol for each in HERE]
    assert found["recommendation"] is None


def test_a_broadcast_trace_is_for_protocols_that_broadcast(tmp_path: Path) -> None:
    scenario = Scenario(protocol="vector", processes=3, messages=2, workload="broadcast")
    simulate_to(tmp_path / "run", scenario)
    traffic = take_traffic(read_trace(tmp_path / "run"), messages_max=9)
    plan = prepare(traffic, tmp_path / "out")
    found = {cell.scenario.protocol for cell in plan.study.cells}
    assert {"vector", "newtop", "flood", "preventive", "tree", "unordered"} <= found
    assert "buffer" not in found
    assert plan.left_out == (
        "buffer, buffer-fifo, cykas: no broadcast, which this workload needs",
    )
    assert plan.study.cells[0].scenario.make_workload().broadcast


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--loss", "1"], "--loss must be"),
        (["--cores", "0"], "--cores must be"),
        (["--protocols", ","], "--protocols is NAME"),
        (["--messages-max", "0"], "--messages-max"),
        (["--format", "novel"], "novel"),
        (["--protocols", "vector"], "vector has no unicast"),
        (["--protocols", "psychic"], "psychic"),
        (["--delay", "soon"], "soon"),
        (["--master", "nowhere"], "a master is"),
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
def test_bad_wishes_are_refused_before_anything_is_run(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "spans.csv", span_csv(STORY))
    assert cli.main(["advise", str(file), *words]) == 2
    assert told in capsys.readouterr().err
