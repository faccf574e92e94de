"""What the README shows works as it stands there."""

import re
import shlex
from pathlib import Path

import pytest

from antecede.cli import main as cli

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)
PROGRAMS = [text for language, text in BLOCKS if language == "python"]
COMMANDS = [
    [tuple(line.partition("#")[::2]) for line in text.splitlines()]
    for language, text in BLOCKS
    if not language and text.startswith(".venv/bin/antecede")
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_readme_does_what_its_comments_say(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(program, "README.md", "exec"), {})
    said = re.findall(r"print\(.*# (.*)", program)
    assert capsys.readouterr().out.splitlines() == said


@pytest.mark.parametrize("commands", COMMANDS)
def test_the_commands_of_the_readme_work_one_after_the_other(
    commands: list[tuple[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for command, remark in commands:
        try:
            code: object = cli.main(shlex.split(command)[1:])
        except SystemExit as exited:  # --version
            code = exited.code
        assert code in ((1,) if "breaks" in remark else (0, None)), command
        assert capsys.readouterr().out


def test_the_readme_shows_something() -> None:
    assert len(PROGRAMS) == 3
    assert [len(commands) for commands in COMMANDS] == [4, 3, 2, 2]


def test_every_file_the_readme_links_to_is_there() -> None:
    links = re.findall(r"\]\((?!http)([^)]+)\)", README)
    assert links
    missing = [
        link for link in links if not (Path(__file__).parent.parent / link).is_file()
    ]
    assert missing == []
