"""What all tests share: profiles for Hypothesis, and the rule on skips."""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

OPTIONAL = ("C compiler", "Chromium", "shared data", "network namespaces", "uvloop")
"""What the README lists as optional; a skip's reason is `optional: ` and one of these."""

settings.register_profile(
    "antecede",
    deadline=None,
    derandomize=os.environ.get("CI") == "true",
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile(
    "mutant",
    settings.get_profile("antecede"),
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),  # A failure is enough, it need not be short.
)
settings.load_profile("mutant" if "ANTECEDE_MUTANT" in os.environ else "antecede")

SLOW_FILES = (
    "tests/test_build.py",
    "tests/pipeline/",
    "tests/mutation/",
    "tests/report/",
)
"""What takes minutes by itself begins first, so that no core waits for it at the end."""

pytest_plugins = ["tests.pipeline.session", "tests.report.studies"]

_undue_skips: list[str] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put slow files first; the order within a file stays."""

    def place(item: pytest.Item) -> int:
        slow = [n for n, name in enumerate(SLOW_FILES) if item.nodeid.startswith(name)]
        return slow[0] if slow else len(SLOW_FILES)

    items.sort(key=place)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note every skip whose reason is not on the list."""
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        if not any(f"optional: {what}" in reason for what in OPTIONAL):
            _undue_skips.append(f"{report.nodeid}: {reason}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run on an undue skip, where that is asked for."""
    if _undue_skips and os.environ.get("ANTECEDE_STRICT_SKIPS") == "1":
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the undue skips."""
    for skip in _undue_skips:
        terminalreporter.write_line(f"undue skip: {skip}")
