"""Builds and environments for the tests of the package as users install it."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

__all__ = ["ROOT", "Environment", "build", "compile_only", "copy_tree", "wheel_of_make"]

ROOT = Path(__file__).parent.parent.parent
LIMIT_S = 900
BUILD_FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in")


def copy_tree(directory: Path) -> Path:
    """Copy what a build reads to ``directory``, without anything that a build made."""
    tree = directory / "tree"
    tree.mkdir(parents=True)
    ignored = shutil.ignore_patterns("*.egg-info", "*.so", "__pycache__")
    shutil.copytree(ROOT / "src", tree / "src", ignore=ignored)
    for name in BUILD_FILES:
        shutil.copy(ROOT / name, tree)
    return tree


def compile_only(tree: Path, module: str) -> None:
    """Let a build of ``tree`` compile a single module, which takes less time."""
    setup = tree / "setup.py"
    text = setup.read_text(encoding="utf-8")
    start = text.index("COMPILED = (")
    end = text.index("\n)\n", start) + 3
    setup.write_text(
        f'{text[:start]}COMPILED = ("{module}",)\n{text[end:]}', encoding="utf-8"
    )


def wheel_of_make() -> Path | None:
    """Return the wheel that make has built in isolation; None if a source is newer."""
    sources = [ROOT / name for name in BUILD_FILES] + list((ROOT / "src").rglob("*.py"))
    newest = max(path.stat().st_mtime for path in sources)
    for wheel in (Path(sys.prefix) / "wheel").glob("antecede-*.whl"):
        if wheel.stat().st_mtime > newest:
            return wheel
    return None


def clean_environment(**variables: str) -> dict[str, str]:
    """Return the environment variables for a user's command: nothing of this test run."""
    ours = ("ANTECEDE_", "PYTHONPATH", "VIRTUAL_ENV", "COV_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | variables


def build(
    tree: Path, out: Path, *, isolated: bool, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Build a wheel of ``tree`` into ``out`` with pip."""
    isolation = [] if isolated else ["--no-build-isolation", "--no-index"]
    return subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--verbose", "--no-deps", *isolation),
            *("--wheel-dir", str(out), str(tree)),
        ],
        env=clean_environment(**variables),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


class Environment:
    """An empty virtual environment in which a user installs and runs antecede."""

    def __init__(self, directory: Path) -> None:
        venv.create(directory / "venv", with_pip=False)
        self.bin = directory / "venv" / "bin"
        self._work = directory / "work"
        self._work.mkdir()
        self._home = directory / "home"
        self._home.mkdir()

    def install(self, requirement: str, **variables: str) -> str:
        """Install a requirement with pip, and return what pip printed."""
        done = self._run(
            *(sys.executable, "-m", "pip", "--python", str(self.bin / "python")),
            *("install", "--verbose", "--no-compile", requirement),
            **variables,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout + done.stderr

    def run(self, command: str, *arguments: str, **variables: str) -> "Done":
        """Run a command of the environment in an empty directory."""
        return self._run(str(self.bin / command), *arguments, **variables)

    def _run(self, *arguments: str, **variables: str) -> "Done":
        # The cache of pip stays that of the user who runs the tests.
        cache = os.environ.get("PIP_CACHE_DIR") or str(Path.home() / ".cache" / "pip")
        return subprocess.run(
            arguments,
            cwd=self._work,
            env=clean_environment(
                **{"HOME": str(self._home), "PIP_CACHE_DIR": cache, **variables}
            ),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def python(self, program: str) -> str:
        """Run a program, and return what it printed."""
        done = self.run("python", "-c", program)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def antecede(self, *arguments: str) -> str:
        """Run the command ``antecede`` successfully, and return what it printed."""
        done = self.run("antecede", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


Done = subprocess.CompletedProcess[str]
