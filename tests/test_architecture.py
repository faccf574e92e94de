"""The rules of the house that a machine can check."""

import ast
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import antecede

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "antecede"
MODULES = sorted(SOURCE.rglob("*.py"))

CORE_MAY_IMPORT = {
    "abc",
    "bisect",
    "collections.abc",
    "dataclasses",
    "heapq",
    "math",
    "mypy_extensions",
    "typing",
}
"""What the core may import beside antecede: modules that read no clock, file or socket."""

ALLOWED = {
    "errors": set(),
    "core": {"errors"},
    "engine": {"core"},
    "group": {"core"},
    "trace": {"core"},
    "verify": {"trace"},
    "merge": {"verify"},
    "diagram": {"verify"},
    "sim": {"verify"},
    "check": {"core", "group", "verify"},
    "net": {"engine", "group", "trace"},
    "sync": {"net"},
    "testing": {"sim", "net", "check"},
    "ingest": {"verify"},
    "pipeline": {"sim", "check", "ingest"},
    "report": {"pipeline", "diagram"},
    "advise": {"report"},
    "demo": {"net", "verify", "merge"},
    "top": {"errors"},
    "spark": {"advise"},
    "cli": {"testing", "advise", "demo", "diagram", "top"},
    "__main__": {"cli"},
    "__init__": {"core", "engine", "net", "sim"},
}
"""Which packages a package may import; a row includes the rows of what it names."""

EVERYWHERE = {"__version__", "compiled"}
"""The names of ``antecede`` itself that every package may use."""

FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 400


def imports(path: Path) -> Iterator[str]:
    """Yield every module that a file imports, and every name it uses of ``antecede``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module == "antecede":
                yield from (f"antecede.{alias.name}" for alias in node.names)
            else:
                yield node.module or ""
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "antecede":
            yield f"antecede.{node.attr}"


def within(module: str, packages: set[str]) -> bool:
    return any(
        module == package or module.startswith(f"{package}.") for package in packages
    )


def reachable(package: str) -> set[str]:
    """Return all packages that ``package`` may import: its row, and the rows of these."""
    found: set[str] = set()
    pending = [package]
    while pending:
        for name in ALLOWED[pending.pop()] - found:
            found.add(name)
            pending.append(name)
    return found


def forbidden_imports(source: Path) -> list[str]:
    """List the imports in a source tree that :data:`ALLOWED` does not allow."""
    wrong = []
    for path in sorted(source.rglob("*.py")):
        module = path.relative_to(source).with_suffix("")
        package = module.parts[0]
        allowed = {package, *reachable(package)}
        for name in imports(path):
            root, _, rest = name.partition(".")
            if root == "antecede":
                target = rest.partition(".")[0]
                if target and target not in allowed | EVERYWHERE:
                    wrong.append(f"{module}: {name}")
            elif package == "core" and not within(name, CORE_MAY_IMPORT):
                wrong.append(f"{module}: {name}")
    return wrong


def test_packages_import_only_what_the_table_allows() -> None:
    assert forbidden_imports(SOURCE) == []


def test_the_table_of_imports_names_every_package_and_no_other() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages | {path.stem for path in SOURCE.glob("*.py")} == set(ALLOWED)


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("core/support/planted.py", "import time"),
        ("core/protocols/hybrid/planted.py", "from antecede.engine import Engine"),
        ("verify/kernels/planted.py", "from antecede.sim import simulate"),
        ("verify/planted.py", "from antecede import simulate"),
        ("trace/live/planted.py", "import antecede; antecede.Node"),
        ("ingest/formats/planted.py", "import antecede.pipeline.spark.session"),
        ("pipeline/study/planted.py", "from antecede.cli.terminal import ProgressLine"),
    ],
)
def test_a_wrong_import_in_a_subpackage_is_found(
    where: str, line: str, tmp_path: Path
) -> None:
    planted = tmp_path / where
    planted.parent.mkdir(parents=True)
    planted.write_text(f"def late() -> None:\n    {line}\n", encoding="utf-8")
    assert len(forbidden_imports(tmp_path)) == 1


WATCHED_RUN = """
import builtins, json, sys

def loaded():
    return {name for name in sys.modules}

import antecede.core                      # whatever importing needs may be read now
from antecede.core import ProcessConfig, decode, encode, protocols

touched = []
armed = False

def watch(event, arguments):
    if armed:
        touched.append(event)

sys.addaudithook(watch)

def fail(*arguments, **options):
    touched.append("the world")
    raise AssertionError("the core looked at the world")

import io, os, random, socket, threading, time
for module, names in (
    (time, ("time", "monotonic", "perf_counter", "sleep", "time_ns", "monotonic_ns")),
    (random, ("random", "randrange", "choice", "getrandbits", "Random")),
    (os, ("urandom", "getpid", "open")),
    (socket, ("socket",)),
    (threading, ("Thread",)),
    (builtins, ("open", "print", "input")),
):
    for name in names:
        setattr(module, name, fail)

armed = True
for info in protocols():
    everyone = [info.make(id, ProcessConfig(processes=3)) for id in range(3)]
    now = 0.0
    for turn in range(40):
        if info.capabilities.multicast:
            everyone[turn % 3].send([(turn + 1) % 3, (turn + turn // 3) % 3], b"x", now)
        elif info.capabilities.unicast:
            everyone[turn % 3].send([(turn + turn // 3) % 3], b"x", now)
        else:
            everyone[turn % 3].broadcast(b"x", now)
        for process in everyone:
            for out in process.frames_to_transmit():
                if turn % 4:                # some frames are lost, so that timers run
                    for frame in decode(encode([out.frame]), info.read_frame):
                        everyone[out.target].receive(process.id, frame, now)
            process.messages_to_deliver()
        now += 0.5
        for process in everyone:
            process.next_timer()
            process.handle_timer(now)
armed = False
sys.stdout.write(json.dumps(touched))
"""


def test_a_running_core_touches_nothing_of_the_world() -> None:
    """Audited in a process of its own: no clock, random, file, socket, thread or output."""
    done = subprocess.run(
        [sys.executable, "-c", WATCHED_RUN], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_importing_the_core_loads_nothing_but_the_core() -> None:
    """In a process of its own, since this one has loaded everything already."""
    program = (
        "import sys; before = set(sys.modules); import antecede.core;"
        "print('\\n'.join(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    banned = {
        "asyncio", "socket", "logging", "random", "threading", "subprocess", "selectors",
        "pyspark", "pandas", "pyarrow", "hypothesis",
    }  # fmt: skip
    assert loaded & banned == set()
    ours = {name for name in loaded if within(name, {"antecede"})}
    assert {name for name in ours if not within(name, {"antecede.core"})} <= {
        "antecede",
        "antecede.errors",
    }


def test_no_function_is_longer_than_70_lines_and_no_module_longer_than_400() -> None:
    long = []
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > MODULE_LINES_MAX:
            long.append(str(path))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    long.append(f"{path}:{node.lineno} {node.name} {lines}")
    assert long == []


@pytest.mark.parametrize(
    "package",
    ["antecede", "antecede.core", "antecede.sim", "antecede.testing", "antecede.trace"],
)
def test_a_package_exports_just_what_it_imports(package: str) -> None:
    module = importlib.import_module(package)
    tree = ast.parse(
        (SOURCE.parent / package.replace(".", "/") / "__init__.py").read_text()
    )
    names = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    public = {name for name in names if not name.startswith("_")}
    assert public <= set(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)
    assert list(module.__all__) == sorted(module.__all__)


def test_every_public_name_of_a_module_is_in_its_all() -> None:
    for path in MODULES:
        if path.name in ("__init__.py", "__main__.py"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        defined = {
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            and not node.name.startswith("_")
        }
        exported = {
            element.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == "__all__"
            and isinstance(node.value, ast.List)
            for element in node.value.elts
            if isinstance(element, ast.Constant)
        }
        assert defined <= exported, f"{path.name}: {defined - exported}"


def test_version_says_how_it_runs() -> None:
    how = "compiled" if antecede.compiled else "interpreted"
    done = subprocess.run(
        [sys.executable, "-m", "antecede", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"antecede {antecede.__version__} ({how})"
    core = importlib.import_module("antecede.core.protocols.hybrid.hybrid")
    assert (Path(str(core.__file__)).suffix == ".py") is not antecede.compiled
