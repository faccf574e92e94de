"""``antecede show`` on files of other formats."""

from pathlib import Path

import pytest

from antecede.cli import main as cli
from tests.ingest.foreign_samples import SHIVIZ, SHOP_SPANS, span_csv, write_sample


@pytest.fixture
def spans(tmp_path: Path) -> Path:
    """Shop's second call overtakes its first, which violates causal order and FIFO."""
    return write_sample(tmp_path / "spans.csv", span_csv(SHOP_SPANS))


def drawn(words: list[str], path: Path) -> str:
    assert cli.main(["show", *words, "--svg", str(path)]) == 0
    return path.read_text(encoding="utf-8")


def test_a_foreign_trace_is_drawn_with_the_names_of_its_processes(
    spans: Path, tmp_path: Path
) -> None:
    svg = drawn([str(spans)], tmp_path / "all.svg")
    assert ">shop</text>" in svg
    assert ">stöck</text>" in svg
    assert "causal: process 1 delivered 0:2 before 0:1" in svg


def test_a_violation_is_selected_by_its_index_in_the_verdict(
    spans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["verify", str(spans)]) == 1
    lines = capsys.readouterr().out.splitlines()
    found = [line.partition(":")[0] for line in lines if "happened before it" in line]
    assert found == ["causal", "fifo"]
    first = drawn([str(spans), "--violation", "1"], tmp_path / "1.svg")
    second = drawn([str(spans), "--violation", "2"], tmp_path / "2.svg")
    assert ("causal: process" in first, "fifo: process" in first) == (True, False)
    assert ("causal: process" in second, "fifo: process" in second) == (False, True)


def test_a_message_is_found_by_the_name_of_its_source(spans: Path, tmp_path: Path) -> None:
    by_name = drawn([str(spans), "--around", "stöck:1"], tmp_path / "name.svg")
    assert by_name == drawn([str(spans), "--around", "1:1"], tmp_path / "number.svg")
    assert by_name != drawn([str(spans), "--around", "shop:1"], tmp_path / "other.svg")


def test_options_control_how_a_file_is_read(tmp_path: Path) -> None:
    log = write_sample(tmp_path / "run.log", SHIVIZ)
    svg = drawn([str(log), "--format", "shiviz"], tmp_path / "run.svg")
    assert ">alice</text>" in svg


def test_files_of_one_run_are_drawn_together(tmp_path: Path) -> None:
    one = write_sample(tmp_path / "one.csv", span_csv(SHOP_SPANS[:3]))
    other = write_sample(tmp_path / "other.csv", span_csv([SHOP_SPANS[0], *SHOP_SPANS[3:]]))
    whole = drawn([str(one), str(other), "--one-run"], tmp_path / "both.svg")
    assert "causal: process 1 delivered 0:2 before 0:1" in whole


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--violation", "3"], "verify names 2 here"),
        (["--violation", "0"], "verify names 2 here"),
        (["--around", "nobody:1"], "expected SOURCE:NUMBER"),
        (["--around", "shop:9"], "not in this run"),
        (["--format", "zipkin"], "spans.csv"),
        (["other.csv"], "--one-run"),
    ],
    ids=["too many", "none", "nobody", "no message", "wrong format", "two files"],
)
def test_invalid_selections_are_errors(
    words: list[str],
    message: str,
    spans: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    svg = tmp_path / "no.svg"
    assert cli.main(["show", str(spans), *words, "--svg", str(svg)]) == 2
    assert message in capsys.readouterr().err
    assert not svg.exists()


def test_a_file_with_several_runs_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write_sample(tmp_path / "runs.log", f"=== one\n{SHIVIZ}=== two\n{SHIVIZ}")
    words = ["show", str(log), "--delimiter", "^=== (?<run>.*)$", "--format", "shiviz"]
    assert cli.main([*words, "--svg", str(tmp_path / "no.svg")]) == 2
    assert "has 2 runs" in capsys.readouterr().err
