"""The commands on recorded traces: simulate --out, verify, show."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest

from antecede.cli import main as cli
from antecede.trace import Event, Kind
from antecede.trace.reader import read_trace
from antecede.trace.table import events_to_table


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The trace of a small run with losses."""
    arguments = "simulate --processes 4 --messages 10 --loss 0.1"
    assert cli.main([*arguments.split(), "--out", str(tmp_path / "run")]) == 0
    return tmp_path / "run"


def change(run: Path, how: Callable[[list[Event]], None]) -> None:
    """Change the events of a trace."""
    events = list(read_trace(run).events())
    how(events)
    pq.write_table(events_to_table(events, "changed"), run / "events.parquet")


def deliveries(events: list[Event], process: int) -> list[int]:
    return [
        index
        for index, event in enumerate(events)
        if event.kind is Kind.DELIVER and event.process == process
    ]


def swap(events: list[Event]) -> None:
    """Swap two deliveries of one source at one process, both sent long before."""
    sent = {
        (event.source, event.number): index
        for index, event in enumerate(events)
        if event.kind is Kind.SEND
    }
    for process in range(4):
        for first, second in pairwise(deliveries(events, process)):
            early, late = events[first], events[second]
            if early.source == late.source and sent[late.source, late.number] < first:
                events[first], events[second] = late, early
                return
    raise AssertionError("no two deliveries of one source to swap")


def remove(events: list[Event]) -> None:
    del events[deliveries(events, 1)[-1]]


def repeat(events: list[Event]) -> None:
    events.append(events[deliveries(events, 1)[0]])


def invent(events: list[Event]) -> None:
    events.append(Event(process=1, kind=Kind.DELIVER, source=2, number=99, target=1))


@pytest.mark.parametrize(
    ("how", "broken"),
    [
        (swap, {"causal", "fifo"}),
        (remove, {"liveness"}),
        (repeat, {"no-duplication"}),
        (invent, {"no-creation"}),
    ],
)
def test_verify_names_what_is_wrong_with_a_trace(
    how: Callable[[list[Event]], None],
    broken: set[str],
    run: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(run, how)
    capsys.readouterr()
    assert cli.main(["verify", str(run)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines if "violated" in line} >= broken
    assert cli.main(["verify", "--json", str(run)]) == 1
    report = json.loads(capsys.readouterr().out)
    violated = {
        name
        for name, found in report["properties"].items()
        if found["status"] == "violated"
    }
    assert violated == broken
    assert report["violations"]


def test_verify_holds_on_an_unchanged_trace(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert cli.main(["verify", str(run), str(run)]) == 0
    assert capsys.readouterr().out.count("causal") == 2


def test_verify_is_inconclusive_on_a_run_that_was_cut_short(tmp_path: Path) -> None:
    arguments = ["simulate", "--processes", "4", "--until", "0.1"]
    assert cli.main([*arguments, "--out", str(tmp_path / "run")]) == 4
    assert cli.main(["verify", str(tmp_path / "run")]) == 4


def test_verify_refuses_a_truncated_file(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run / "events.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    capsys.readouterr()
    assert cli.main(["verify", str(run)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "is truncated, or is not a Parquet file" in error


def test_verify_refuses_what_is_no_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["verify", str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_simulate_overwrites_no_trace(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert cli.main(["simulate", "--out", str(run)]) == 2
    assert "already holds a trace" in capsys.readouterr().err


def test_a_recorded_run_can_be_replayed(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    arguments = ["simulate", "--protocol", "hybrid-basic", "--json"]
    assert cli.main([*arguments, "--workload", f"replay:{run}"]) == 0
    assert json.loads(capsys.readouterr().out)["copies"] == 40


def test_show_draws_a_diagram(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.svg"
    assert cli.main(["show", str(run), "--around", "1:3", "--svg", str(path)]) == 0
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    assert root.tag.endswith("svg")
    assert "1:3" in path.read_text(encoding="utf-8")


def test_show_draws_a_violation(run: Path, tmp_path: Path) -> None:
    change(run, swap)
    path = tmp_path / "run.svg"
    assert cli.main(["show", str(run), "--svg", str(path)]) == 0
    assert "delivered" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("around", ["3", "a:b", "9:9"])
def test_show_refuses_what_is_no_message(
    around: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    svg = str(tmp_path / "run.svg")
    assert cli.main(["show", str(run), "--around", around, "--svg", svg]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "run.svg").exists()
