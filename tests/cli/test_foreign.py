"""``antecede verify`` on files of other formats."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from antecede.cli import main as cli
from antecede.trace.reader import read_trace
from tests.ingest.foreign_samples import (
    MESSAGES_CSV,
    SHIVIZ,
    SHOP_SPANS,
    LoggedEvent,
    as_tracechecker,
    changed,
    span_csv,
    write_sample,
)

HELD = as_tracechecker(
    [LoggedEvent("a", {"a": 1}, "x"), LoggedEvent("b", {"a": 1, "b": 1}, "x", True)]
)


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "code"),
    [(HELD, 0), (span_csv(SHOP_SPANS), 1), ("nothing", 2), (SHIVIZ, 4)],
    ids=["held", "violated", "invalid", "unknown"],
)
def test_exit_codes_report_the_verdict(
    text: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_sample(tmp_path / "file", text)
    assert cli.main(["verify", str(file)]) == code
    shown = capsys.readouterr()
    if code == 2:
        assert shown.err.count("\n") == 1
        assert f"{file}: line 1" in shown.err
    else:
        assert shown.out.startswith(f"{file}\n")
        assert " verified, 0 unknown" in shown.out


def test_an_invalid_file_does_not_stop_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [
        write_sample(tmp_path / name, text)
        for name, text in (("held", HELD), ("bad", "nothing"), ("unknown", SHIVIZ))
    ]
    assert cli.main(["verify", *(str(file) for file in files)]) == 2
    shown = capsys.readouterr()
    assert "bad: line 1" in shown.err
    assert "3 runs: 1 held, 1 unknown, 1 not verified" in shown.out


def test_options_control_how_a_file_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = '<a> {"a":1} put\nnoise\n<b> {"a":1,"b":1} got\n'
    file = write_sample(tmp_path / "log", text)
    regex = ["--regex", r"<(?<host>\w+)> (?<clock>\{.*\}) (?<event>\w+)"]
    assert cli.main(["verify", str(file), *regex, "--receives", "got"]) == 4
    assert "log:2" in capsys.readouterr().out
    more = ["--receives", "got", "--ignore", "noise"]
    assert cli.main(["verify", str(file), *regex, *more]) == 0


def test_columns_are_given_as_ours_and_theirs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = MESSAGES_CSV.replace("source,target", "wer,wem")
    file = str(write_sample(tmp_path / "file", text))
    arguments = ["verify", file, "--format", "messages"]
    assert cli.main(arguments) == 2
    assert "--columns source=NAME" in capsys.readouterr().err
    assert cli.main([*arguments, "--columns", "source=wer,target=wem"]) == 1
    assert cli.main([*arguments, "--columns", "source=wer", "--columns", "target=wem"]) == 1
    assert cli.main([*arguments, "--columns", "source"]) == 2
    assert "OURS=THEIRS" in capsys.readouterr().err
    assert cli.main(["verify", file, "--format", "other"]) == 2
    assert "must be one of shiviz" in capsys.readouterr().err


def test_json_has_the_verdict_and_the_summary_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = changed(changed(SHOP_SPANS, "c", begin=5), "e", parent="x")
    file = write_sample(tmp_path / "file", span_csv(late))
    assert cli.main(["verify", str(file), "--json"]) == 4
    found = json.loads(capsys.readouterr().out)
    assert found["status"] == "unknown"
    read = found["read"]
    assert (read["records"], read["verified"], read["unknown"]) == (5, 4, 1)
    assert read["missing"][0]["locations"] == [
        {"file": str(file), "line": 6, "process": "stöck"}
    ]
    assert read["skew"]["count"] == 1
    assert read["skew"]["pairs"][0]["worst_ms"] == 5.0
    assert read["clock_errors"] is None


def test_json_names_processes_as_the_file_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_sample(tmp_path / "file", span_csv(SHOP_SPANS))
    assert cli.main(["verify", str(file), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["held"]
    assert "stöck delivered shop:2 (line 5)" in found["violations"][0]["text"]


def test_inconsistent_clocks_are_a_violation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_sample(tmp_path / "log", HELD.replace('{"a": 1, "b": 1}', '{"b": 1}'))
    assert cli.main(["verify", str(file)]) == 1
    assert "clocks         violated (1)" in capsys.readouterr().out
    assert cli.main(["verify", str(file), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["status"], found["held"]) == ("violated", False)


def test_a_trace_written_to_out_gets_the_same_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """This includes an unknown verdict, because the trace records what is missing."""
    for index, text in enumerate((HELD, span_csv(SHOP_SPANS), SHIVIZ)):
        file, out = write_sample(tmp_path / "file", text), tmp_path / str(index)
        code = cli.main(["verify", str(file), "--out", str(out)])
        assert cli.main(["verify", str(out)]) == code
    assert read_trace(tmp_path / "1").info.names == {0: "shop", 1: "stöck"}
    assert cli.main(["verify", str(file), "--out", str(out)]) == 2
    assert "already holds a trace" in capsys.readouterr().err


def test_files_and_directories_can_be_verified_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_sample(tmp_path / "file", HELD)
    assert cli.main(["verify", str(file), "--out", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    assert cli.main(["verify", str(file), str(tmp_path / "run")]) == 0
    assert "2 runs: 2 held" in capsys.readouterr().out


def test_files_of_one_run_are_verified_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = HELD.splitlines()
    files = [
        str(write_sample(tmp_path / "a", first)),
        str(write_sample(tmp_path / "b", second)),
    ]
    assert cli.main(["verify", *files]) == 4
    assert "1 receives without a send" in capsys.readouterr().out
    assert cli.main(["verify", *files, "--one-run"]) == 0
    assert "read 2 events of 2 processes" in capsys.readouterr().out


def test_the_runs_of_one_file_are_verified_separately(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_sample(tmp_path / "log", f"--- one\n{SHIVIZ}--- two\n{SHIVIZ}")
    arguments = ["--delimiter", "^--- (?<run>.*)", "--receives", "^Got"]
    assert cli.main(["verify", str(file), *arguments]) == 0
    shown = capsys.readouterr().out
    assert f"{file} run one\n" in shown
    assert f"{file} run two\n" in shown


@pytest.mark.long
def test_the_temporary_directory_is_removed(tmp_path: Path) -> None:
    file = write_sample(tmp_path / "file", HELD)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "antecede", "verify", str(file)],
        env={**os.environ, "TMPDIR": str(temporary)},
        check=False,
    )
    assert done.returncode == 0
    assert list(temporary.iterdir()) == []
