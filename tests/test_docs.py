"""Every code block of the README and the docs works, and every link leads somewhere."""

import json
import os
import re
import subprocess
import sys
import tomllib
from itertools import groupby
from pathlib import Path

import pytest

from tests.docs import PAGES, ROOT, Block, blocks, broken_links

ALL_BLOCKS = [block for page in PAGES for block in blocks(page)]
RUN = [block for block in ALL_BLOCKS if not block.note.startswith("not run: ")]
PROGRAMS = [block for block in RUN if block.language == "python"]
CONSOLES = [
    (str(page.relative_to(ROOT)), list(found))
    for page, found in groupby(
        [block for block in RUN if block.language == "console"], lambda block: block.page
    )
]
DATA = [block for block in RUN if block.language in ("json", "toml")]
LANGUAGES = {"console", "json", "mermaid", "python", "text", "toml"}
"""``text`` is output or a picture in characters, and is not run."""
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)
LIMIT_S = 300


def environment(directory: Path) -> dict[str, str]:
    """Return the environment of a reader who has installed antecede."""
    scripts = str(Path(sys.executable).parent)
    return os.environ | {
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(directory),
    }


def run(arguments: list[str] | str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments,
        shell=isinstance(arguments, str),
        cwd=directory,
        env=environment(directory),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def output_lines(block: Block) -> list[str]:
    """Return the output that a console block shows; ``...`` stands for more lines."""
    output = COMMAND.sub("", block.text).splitlines()
    return [line for line in output if line not in ("", "...")]


@pytest.mark.parametrize("block", PROGRAMS, ids=str)
def test_a_program_prints_what_its_comments_say(block: Block, tmp_path: Path) -> None:
    done = run([sys.executable, "-c", block.text], tmp_path)
    assert done.returncode == 0, done.stderr
    expected = re.findall(r"print\(.*# (.*)", block.text)
    if expected:
        assert done.stdout.splitlines() == expected


@pytest.mark.parametrize(("page", "consoles"), CONSOLES, ids=lambda value: str(value)[:60])
def test_the_commands_of_a_page_work_one_after_the_other(
    page: str, consoles: list[Block], tmp_path: Path
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for block in consoles:
        expected = int(block.note.removeprefix("exit: ") or 0)
        commands = COMMAND.findall(block.text)
        assert commands, f"{block}: no line begins with '$ '"
        printed: list[str] = []
        for command in commands:
            done = run(command.replace("\\\n", " "), tmp_path)
            assert done.returncode == expected, f"{block}: {command}\n{done.stderr}"
            printed += done.stdout.splitlines()
        assert [line for line in output_lines(block) if line not in printed] == []


@pytest.mark.parametrize("block", DATA, ids=str)
def test_a_data_block_is_well_formed(block: Block) -> None:
    (tomllib.loads if block.language == "toml" else json.loads)(block.text)


def test_every_block_has_a_language_and_every_exception_a_reason() -> None:
    wrong = [
        str(block)
        for block in ALL_BLOCKS
        if block.language.partition(" ")[0] not in LANGUAGES
        and not block.language.startswith("{")
    ]
    assert wrong == []
    notes = [block.note for block in ALL_BLOCKS if block.note]
    assert all(re.fullmatch(r"not run: .{10,}|exit: \d+", note) for note in notes)
    assert len(PROGRAMS) >= 5
    assert len(CONSOLES) >= 2


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_internal_link_leads_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_every_test_that_a_page_names_exists() -> None:
    files = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "examples").glob("*.py")]
    known = {path.stem for path in files}
    for path in files:
        known |= set(re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8")))
    missing = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in PAGES
        for name in re.findall(r"\btest_\w+", page.read_text(encoding="utf-8"))
        if name not in known
    ]
    assert missing == []


def test_a_broken_link_and_a_broken_anchor_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A heading\n[a](page.md#a-heading) [b](nowhere.md) [c](#no-heading)\n",
        encoding="utf-8",
    )
    assert broken_links(page) == ["nowhere.md", "#no-heading"]
