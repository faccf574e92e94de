"""Names that were replaced by the field's words stay replaced.

The test looks at identifiers in the syntax tree, not at text: ``take`` and ``show`` are
ordinary words in a sentence, and some are good names in other packages.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "antecede"

REFUSED: dict[str, str] = {
    "": "Setting Experience Linked NumberRuns Preventive early_max begin_to_send"
    " begin_to_hear waive renew forget_arrivals ITSELF NOBODY Tally"
    " PackedRecorder LiveTrace Agenda Happening Waits Stopwatch chancy troubled"
    " hand_over_again is_lone FAREWELL Fate Passage Story load_story Wishes Figures"
    " rests_on unhurried mistaken strangers renamings go_out come_in tell_stories"
    " told ONCE GENUINE LIVE Bound Checked settle name_in_life life",
    "core": "repeat repeated stir begin file Request Lane Flight Peer",
    "engine": "repeat Group Gate Remote Seal reading echo cut post feed take urgent judge"
    " close",
    "net": "Driver Waiting _settle _soon _due _shut",
    "trace": "Report judge holes",
    "verify": "Report judge Fault Faults holes",
    "diagram": "Story tell",
    "sim": "Loop Member Wire carry note take narrow orderly Sending Traffic Outcome"
    " Simulation job",
    "check": "Space Local Model tell rank least news reduce place",
    "testing": "Act settle play lose",
    "ingest": "Place Draft Finding Findings Collector moments say",
    "pipeline": "Place capacity say TOLD LIVES WIDE Judged left_out",
    "advise": "changes say",
    "report": "place calm pressed looks Look LOOKS tell",
    "cli": "deeds story tell told",
}
"""Package, or an empty string for all packages, and the names refused in it."""


def identifiers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield every name that a module defines or uses, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.Name):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute):
            yield node.attr, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.keyword) and node.arg is not None:
            yield node.arg, node.value.lineno
        elif isinstance(node, ast.alias):
            yield from ((part, node.lineno) for part in node.name.split("."))


def refused_names(source: Path) -> list[str]:
    """Return where a source tree uses a refused name."""
    found = []
    for path in sorted(source.rglob("*.py")):
        relative = path.relative_to(source)
        refused = set(f"{REFUSED['']} {REFUSED.get(relative.parts[0], '')}".split())
        names = identifiers(ast.parse(path.read_text(encoding="utf-8")))
        found += [f"{relative}:{line} {name}" for name, line in names if name in refused]
    return found


def test_no_module_uses_a_replaced_name() -> None:
    assert refused_names(SOURCE) == []


@pytest.mark.parametrize(
    ("package", "code"),
    [
        ("core", "class Setting: ..."),
        ("sim", "def take(): ..."),
        ("net", "node._settle()"),
        ("report", "from antecede.report import looks"),
        ("pipeline", "run(say=print)"),
    ],
)
def test_a_replaced_name_is_found(package: str, code: str, tmp_path: Path) -> None:
    (tmp_path / package).mkdir()
    (tmp_path / package / "module.py").write_text(f"{code}\n", encoding="utf-8")
    assert len(refused_names(tmp_path)) == 1


def test_an_ordinary_word_of_another_package_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "module.py").write_text("def take(): ...\n", encoding="utf-8")
    assert refused_names(tmp_path) == []
