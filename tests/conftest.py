"""Settings of all tests: Hypothesis profiles, heavy tests, and the rule on skips."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

ROOT = Path(__file__).parent.parent

OPTIONAL = (
    "C compiler",
    "Chromium",
    "Spark Connect",
    "network namespaces",
    "shared data",
    "stores and tables",
    "uvloop",
)
"""Optional parts, as the docs list them; a skip names one of them as its reason."""

settings.register_profile(
    "antecede",
    deadline=None,
    derandomize=os.environ.get("CI") == "true",
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile("short", settings.get_profile("antecede"), max_examples=40)
settings.register_profile(
    "mutant",
    settings.get_profile("short"),
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),  # No shrinking: any failure is enough.
)
USUAL_PROFILE = "short" if os.environ.get("CI") == "true" else "antecede"
settings.load_profile("mutant" if "ANTECEDE_MUTANT" in os.environ else USUAL_PROFILE)

FIRST_FILES = (
    "tests/packaging/",
    "tests/pipeline/",
    "tests/mutation/",
    "tests/advise/",
    "tests/report/",
    "tests/spark/",
)
"""Files that take minutes run first, so that no core idles at the end."""

HEAVY_FILES = (
    "tests/advise/",
    "tests/cli/test_advise.py",
    "tests/cli/test_follow.py",
    "tests/cli/test_report.py",
    "tests/cli/test_verify.py",
    "tests/cli/test_verify_files.py",
    "tests/demo/",
    "tests/ingest/test_data_sources.py",
    "tests/ingest/test_streams.py",
    "tests/mutation/",
    "tests/net/test_faults.py",
    "tests/net/test_namespaces.py",
    "tests/net/test_processes.py",
    "tests/net/test_protocols.py",
    "tests/packaging/",
    "tests/pipeline/",
    "tests/report/",
    "tests/spark/",
    "tests/test_docs.py",
    "tests/test_example_processes.py",
    "tests/test_examples.py",
    "tests/test_readme.py",
    "tests/trace/test_other_readers.py",
)
"""Files that need Spark, OS processes or a browser; `make test-fast` leaves them out."""

pytest_plugins = (
    []  # Mutants need neither, and the imports take longer than most of their tests.
    if "ANTECEDE_MUTANT" in os.environ
    else ["tests.pipeline.session", "tests.report.browser", "tests.report.study_fixtures"]
)

_undue_skips: list[str] = []


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import heavy tests if the expression of ``-m`` leaves them out."""
    name = collection_path.relative_to(ROOT).as_posix()
    is_heavy = f"{name}/".startswith(HEAVY_FILES) or name in HEAVY_FILES
    return True if is_heavy and "not heavy" in config.option.markexpr else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark heavy tests, and run the files of :data:`FIRST_FILES` first."""

    def rank(item: pytest.Item) -> int:
        found = [n for n, name in enumerate(FIRST_FILES) if item.nodeid.startswith(name)]
        return found[0] if found else len(FIRST_FILES)

    for item in items:
        if item.nodeid.startswith(HEAVY_FILES):
            item.add_marker(pytest.mark.heavy)
    items.sort(key=rank)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect every skip whose reason is not in :data:`OPTIONAL`."""
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        if not any(f"optional: {what}" in reason for what in OPTIONAL):
            _undue_skips.append(f"{report.nodeid}: {reason}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run on an undue skip if ANTECEDE_STRICT_SKIPS is 1."""
    if _undue_skips and os.environ.get("ANTECEDE_STRICT_SKIPS") == "1":
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the undue skips."""
    for skip in _undue_skips:
        terminalreporter.write_line(f"undue skip: {skip}")
