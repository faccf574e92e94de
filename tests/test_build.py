"""The build step: compiled where it can be, the same source interpreted elsewhere."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

import pytest

pytestmark = pytest.mark.own_build

ROOT = Path(__file__).parent.parent
NO_COMPILER = {"CC": "/nonexistent/cc", "CXX": "/nonexistent/c++"}


def has_c_compiler() -> bool:
    compiler = os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc")
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    return shutil.which(compiler.split()[0]) is not None and headers.exists()


def build(directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build a wheel into ``directory`` from a copy of the tree."""
    tree = directory / "tree"
    tree.mkdir()
    shutil.copytree(
        ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("*.egg-info", "*.so")
    )
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    return subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps"),
            *("--no-build-isolation", "--wheel-dir", str(directory), str(tree)),
        ],
        env={k: v for k, v in os.environ.items() if k != "ANTECEDE_COMPILE"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def contents(directory: Path) -> list[str]:
    (wheel,) = directory.glob("*.whl")
    return ZipFile(wheel).namelist()


def run_from(directory: Path) -> str:
    """Unpack the wheel and ask the package in it what it is, after a short run."""
    (wheel,) = directory.glob("*.whl")
    ZipFile(wheel).extractall(directory / "site")
    program = (
        "import antecede; from antecede.testing import Cluster;"
        "c = Cluster('hybrid', 3); c.send(0, [1, 2]); c.settle();"
        "print(antecede.compiled, c.verdict().held, antecede.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": str(directory / "site")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(directory) in done.stdout
    return " ".join(done.stdout.split()[:2])


def test_without_a_c_compiler_the_same_source_runs_interpreted(tmp_path: Path) -> None:
    done = build(tmp_path, **NO_COMPILER)
    assert done.returncode == 0, done.stderr
    names = contents(tmp_path)
    assert "antecede/core/hybrid.py" in names
    assert [name for name in names if name.endswith((".so", ".pyd"))] == []
    assert run_from(tmp_path) == "False True"


def test_without_a_c_compiler_a_demanded_compilation_fails(tmp_path: Path) -> None:
    done = build(tmp_path, ANTECEDE_COMPILE="1", **NO_COMPILER)
    assert done.returncode != 0
    assert list(tmp_path.glob("*.whl")) == []


def test_compilation_can_be_turned_off(tmp_path: Path) -> None:
    done = build(tmp_path, ANTECEDE_COMPILE="0")
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")


@pytest.mark.skipif(not has_c_compiler(), reason="optional: C compiler")
def test_with_a_c_compiler_the_core_is_compiled_and_its_source_comes_along(
    tmp_path: Path,
) -> None:
    done = build(tmp_path, ANTECEDE_COMPILE="1", ANTECEDE_OPTIMISE="0")
    assert done.returncode == 0, done.stderr
    names = contents(tmp_path)
    compiled = {name.split(".")[0] for name in names if name.endswith((".so", ".pyd"))}
    assert {"antecede/core/hybrid", "antecede/core/sliding"} <= compiled
    assert "antecede/core/hybrid.py" in names
    assert "antecede/py.typed" in names
    assert run_from(tmp_path) == "True True"
