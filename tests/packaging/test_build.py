"""The build: compiled where a C compiler is present, interpreted in every other case."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.metadata import Metadata
from readme_renderer import markdown

from tests.packaging.environments import (
    ROOT,
    Environment,
    build,
    compile_only,
    copy_tree,
    wheel_of_make,
)

pytestmark = pytest.mark.own_build

NO_COMPILER = {"CC": "/nonexistent/cc", "CXX": "/nonexistent/c++"}
FALLBACK_LINE = "antecede: not compiled, runs interpreted: "


def has_c_compiler() -> bool:
    compiler = os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc")
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    return shutil.which(compiler.split()[0]) is not None and headers.exists()


needs_compiler = pytest.mark.skipif(not has_c_compiler(), reason="optional: C compiler")


def wheel_in(directory: Path) -> Path:
    (wheel,) = directory.glob("*.whl")
    return wheel


def extensions_of(wheel: Path) -> list[str]:
    return [name for name in ZipFile(wheel).namelist() if name.endswith((".so", ".pyd"))]


def metadata_of(wheel: Path) -> Message:
    archive = ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
    return Parser().parsestr(archive.read(name).decode())


@pytest.fixture(scope="module")
def pure_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel that was built without compilation."""
    directory = tmp_path_factory.mktemp("pure")
    done = build(copy_tree(directory), directory, isolated=False, ANTECEDE_COMPILE="0")
    assert done.returncode == 0, done.stderr
    return wheel_in(directory)


def test_wheel_without_compilation_is_for_every_platform(pure_wheel: Path) -> None:
    assert pure_wheel.name.endswith("-py3-none-any.whl")
    assert extensions_of(pure_wheel) == []


def test_wheel_holds_every_module_and_data_file_and_no_test(pure_wheel: Path) -> None:
    names = set(ZipFile(pure_wheel).namelist())
    source = ROOT / "src"
    expected = {
        str(path.relative_to(source))
        for path in (source / "antecede").rglob("*")
        if path.suffix in (".py", ".toml", ".jinja", ".js", ".css", ".typed")
    }
    assert "antecede/py.typed" in expected
    assert expected <= names
    assert {name for name in names - expected if ".dist-info/" not in name} == set()


def test_metadata_is_valid_and_the_readme_renders(pure_wheel: Path) -> None:
    found = metadata_of(pure_wheel)
    Metadata.from_email(str(found).encode(), validate=True)
    assert found["Description-Content-Type"] == "text/markdown"
    assert markdown.render(str(found.get_payload())) is not None


def test_extra_all_contains_every_other_extra(pure_wheel: Path) -> None:
    found = metadata_of(pure_wheel)
    extras = set(found.get_all("Provides-Extra", []))
    (everything,) = [
        line for line in found.get_all("Requires-Dist", []) if line.endswith('"all"')
    ]
    named = everything.partition("[")[2].partition("]")[0].split(",")
    assert set(named) == extras - {"all"}


def test_sdist_builds_the_same_wheel(pure_wheel: Path, tmp_path: Path) -> None:
    tree = copy_tree(tmp_path)
    subprocess.run(
        [
            *(sys.executable, "-m", "build", "--sdist", "--no-isolation"),
            *("--outdir", str(tmp_path), str(tree)),
        ],
        check=True,
        capture_output=True,
    )
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        archive.extractall(tmp_path / "unpacked", filter="data")
    assert not [name for name in names if name.startswith(("tests", "bench", "docs"))]
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    done = build(unpacked, tmp_path, isolated=False, ANTECEDE_COMPILE="0")
    assert done.returncode == 0, done.stderr
    assert set(ZipFile(wheel_in(tmp_path)).namelist()) == set(
        ZipFile(pure_wheel).namelist()
    )


def without_compiler(tree: Path) -> dict[str, str]:
    return NO_COMPILER


def with_type_error(tree: Path) -> dict[str, str]:
    with (tree / "src/antecede/errors.py").open("a") as file:
        file.write('\n\nBROKEN: int = "not a number"\n')
    return {}


def with_unsupported_code(tree: Path) -> dict[str, str]:
    """Add correct Python that mypyc cannot translate: a class with two native bases."""
    with (tree / "src/antecede/errors.py").open("a") as file:
        file.write(
            "\n\nclass Left:\n    pass\n\n\nclass Right:\n    pass\n"
            "\n\nclass Both(Left, Right):\n    pass\n"
        )
    return {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "break_build", [without_compiler, with_type_error, with_unsupported_code]
)
def test_failed_compilation_gives_one_line_and_an_interpreted_package(
    break_build: Callable[[Path], dict[str, str]], tmp_path: Path
) -> None:
    tree = copy_tree(tmp_path)
    compile_only(tree, "errors")
    variables = break_build(tree)
    done = build(tree, tmp_path, isolated=False, **variables)
    assert done.returncode == 0, done.stderr
    printed = (done.stdout + done.stderr).splitlines()
    assert len([line for line in printed if FALLBACK_LINE in line]) == 1
    assert extensions_of(wheel_in(tmp_path)) == []


@pytest.mark.slow
def test_failed_compilation_is_an_error_where_it_is_required(tmp_path: Path) -> None:
    tree = copy_tree(tmp_path)
    compile_only(tree, "errors")
    done = build(tree, tmp_path, isolated=False, ANTECEDE_COMPILE="1", **NO_COMPILER)
    assert done.returncode != 0
    assert list(tmp_path.glob("*.whl")) == []


MESSAGE_PROGRAM = """
import asyncio, antecede
from antecede import Node

async def main():
    async with Node("ann") as ann, Node("bob") as bob:
        ann.add_peer("bob", bob.address)
        bob.add_peer("ann", ann.address)
        await ann.send("bob", b"hello")
        message = await asyncio.wait_for(bob.receive(), 60)
        print(message.source, message.data.decode())

asyncio.run(main())
"""


@pytest.mark.slow
@needs_compiler
def test_install_with_a_compiler_is_compiled_and_sends_a_message(tmp_path: Path) -> None:
    wheel = wheel_of_make()
    if wheel is None:
        done = build(copy_tree(tmp_path), tmp_path, isolated=True, ANTECEDE_OPTIMISE="0")
        assert done.returncode == 0, done.stderr
        wheel = wheel_in(tmp_path)
    environment = Environment(tmp_path)
    environment.install(str(wheel))
    assert environment.antecede("--version").endswith("(compiled)\n")
    assert environment.python(MESSAGE_PROGRAM) == "ann hello\n"


@pytest.mark.slow
def test_install_without_a_compiler_is_interpreted_and_sends_a_message(
    tmp_path: Path,
) -> None:
    environment = Environment(tmp_path)
    printed = environment.install(str(copy_tree(tmp_path)), **NO_COMPILER)
    assert printed.count(FALLBACK_LINE) == 1
    assert environment.antecede("--version").endswith("(interpreted)\n")
    assert environment.python(MESSAGE_PROGRAM) == "ann hello\n"
