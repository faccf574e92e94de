import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from antecede.cli import report as command


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    options = parser.parse_args(["report", *words])
    code: int = options.run(options)
    return code


def test_the_last_line_is_the_path_of_the_page(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(tiny), "--out", str(tmp_path / "page.html")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == str(tmp_path / "page.html")
    assert lines[0].startswith("claims: ")
    assert (tmp_path / "page_files" / "tables" / "claims.csv").is_file()


def test_json_has_every_claim_and_every_file(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(tiny), "--out", str(tmp_path / "page.html"), "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert {claim["status"] for claim in result["claims"]} >= {"holds", "not measured"}
    assert all(Path(path).is_file() for path in result["figures"] + result["tables"])


def test_the_parser_does_not_import_the_packages_of_the_extras() -> None:
    code = (
        "import sys, antecede.cli.report; heavy = {'pyarrow', 'jinja2', 'vl_convert'};"
        " sys.exit(bool(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    tiny: Path, tmp_path: Path
) -> None:
    # The first directory of the path has a jinja2 that cannot be imported.
    (tmp_path / "jinja2.py").write_text("raise ModuleNotFoundError(name='jinja2')")
    code = (
        "import argparse, pathlib, sys; sys.path.insert(0, sys.argv[1]);"
        "from antecede.errors import ConfigError;"
        "from antecede.cli import report as command;"
        "options = argparse.Namespace(directory=[pathlib.Path(sys.argv[2])], out=None,"
        " json=False)\n"
        "try: command.run(options)\n"
        "except ConfigError as error: print(error)"
    )
    words = [sys.executable, "-c", code, str(tmp_path), str(tiny)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "needs the package jinja2: pip install 'antecede[report,trace]'" in done.stdout
