"""The command that merges what nodes recorded, and what verify says before and after."""

import json
from pathlib import Path

import pytest

from antecede.cli import main as cli
from tests.trace.nodes import history, name_of, record_nodes, swap_deliveries

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def nodes(tmp_path: Path) -> list[str]:
    """The traces of the four nodes of a run."""
    events = history(processes=4, messages=15, loss=0.1)
    return [str(path) for path in record_nodes(events, tmp_path / "nodes")]


def test_merge_then_verify_judges_a_live_run(
    nodes: list[str], tmp_path: Path, capsys: Capture
) -> None:
    out = str(tmp_path / "merged")
    assert cli.main(["merge", out, *nodes]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("test: 4 nodes, 0 restarts, ")
    assert lines[0].endswith(" events, 60 messages")
    assert lines[1:] == [f"merged into {out}; verify it with: antecede verify {out}"]
    assert cli.main(["verify", out]) == 0


def test_merge_takes_a_directory_that_holds_the_nodes(
    nodes: list[str], tmp_path: Path, capsys: Capture
) -> None:
    arguments = ["merge", "--json", str(tmp_path / "merged"), str(tmp_path / "nodes")]
    assert cli.main(arguments) == 0
    merged = json.loads(capsys.readouterr().out)
    assert (merged["nodes"], merged["messages"], merged["missing"]) == (4, 60, [])
    assert merged["path"] == str(tmp_path / "merged")


def test_a_violation_shows_only_in_the_merged_trace(
    tmp_path: Path, capsys: Capture
) -> None:
    events = history(processes=4, messages=30)
    swap_deliveries(events, process=1)
    nodes = [str(path) for path in record_nodes(events, tmp_path / "nodes")]
    assert cli.main(["verify", *nodes]) == 4
    assert cli.main(["merge", str(tmp_path / "merged"), *nodes]) == 0
    capsys.readouterr()
    assert cli.main(["verify", str(tmp_path / "merged")]) == 1
    assert "fifo           violated" in capsys.readouterr().out


def test_what_is_missing_is_named_and_leaves_the_verdict_open(
    nodes: list[str], tmp_path: Path, capsys: Capture
) -> None:
    rest = [path for path in nodes if Path(path).name != name_of(2)]
    assert cli.main(["merge", str(tmp_path / "merged"), *rest]) == 0
    out = capsys.readouterr().out
    assert f"  missing: no trace of {name_of(2)}: " in out
    assert cli.main(["verify", str(tmp_path / "merged")]) == 4
    assert f"unknown: no trace of {name_of(2)}: " in capsys.readouterr().out


def test_verify_of_several_nodes_points_to_merge(
    nodes: list[str], tmp_path: Path, capsys: Capture
) -> None:
    hint = "these are nodes of one run: use antecede merge OUT DIR..."
    assert cli.main(["verify", *nodes]) == 4
    captured = capsys.readouterr()
    assert captured.err.splitlines().count(hint) == 1
    assert captured.out.endswith("4 runs: 4 unknown\n")
    run = ["--processes", "3", "--out", str(tmp_path / "run")]
    assert cli.main(["simulate", *run]) == 0
    assert cli.main(["verify", *nodes, str(tmp_path / "run")]) == 4
    assert cli.main(["verify", nodes[0]]) == 4
    assert hint not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["nowhere"], "no such directory: nowhere"),
        (["{run}"], "is not the trace of a node; verify it directly, without a merge"),
        (["{again}"], "are traces of the same incarnation of"),
        (["{other}"], "merge only nodes of one run"),
    ],
)
def test_bad_input_is_one_line_and_exits_with_2(
    more: list[str], words: str, nodes: list[str], tmp_path: Path, capsys: Capture
) -> None:
    run = ["--processes", "3", "--out", str(tmp_path / "run")]
    assert cli.main(["simulate", *run]) == 0
    events = history(processes=2, messages=1)
    (other, _) = record_nodes(events, tmp_path / "others", run="other")
    capsys.readouterr()
    places = {"run": tmp_path / "run", "again": nodes[0], "other": other}
    given = [each.format(**places) for each in more]
    assert cli.main(["merge", str(tmp_path / "merged"), *nodes, *given]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert words in captured.err
    assert not (tmp_path / "merged").exists()
