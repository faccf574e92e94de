"""The page of ``antecede verify --report``."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from antecede.cli.report import PACKAGES
from antecede.errors import ConfigError
from antecede.ingest.verdict import LocatedVerdict
from antecede.trace.reader import read_trace
from antecede.trace.run_info import RunInfo
from antecede.trace.uri import redact
from antecede.verify.verdict import TraceVerdict

if TYPE_CHECKING:
    from antecede.cli.spark_files import SparkVerdict
    from antecede.report.verification.page import VerificationPage
    from antecede.trace.store import StorePath

__all__ = ["VerifyPage", "first_violations"]


class VerifyPage:
    """Adds the verdicts of a command to a page, and writes it to a file."""

    def __init__(self, out: Path) -> None:
        """Check that the page can be made, before the runs are verified.

        Raises:
            ConfigError: ``out`` is a directory, or a package is missing.
        """
        if out.is_dir():
            raise ConfigError(f"--report {out} is a directory: give the name of a file")
        self._out = out
        self._page = _new_page()

    @property
    def violations_min(self) -> int:
        """The number of violations of each property to list for the page."""
        from antecede.report.verification.page import VIOLATIONS_LISTED

        return VIOLATIONS_LISTED

    def add(
        self,
        name: str,
        where: "Path | StorePath",
        verdict: TraceVerdict | LocatedVerdict | None,
        error: str | None,
    ) -> None:
        """Add the verdict on a run, or its error; reads the trace at ``where``."""
        if verdict is None:
            self.add_error(name, str(error))
            return
        trace_verdict, more_statuses = _parts(verdict)
        listed = json.loads(verdict.to_json())["violations"]
        self._page.add(
            name,
            read_trace(where),
            trace_verdict,
            texts=[each["text"] for each in listed],
            status=verdict.status,
            more_statuses=more_statuses,
        )

    def add_from_spark(self, title: str, verified: "SparkVerdict") -> None:
        """Add the verdict on files that Spark verified, or its error."""
        if verified.verdict is None or verified.found is None:
            self.add_error(title, str(verified.error))
            return
        from antecede.report.verification.examples import events_of_rows

        verdict, found = verified.verdict.trace_verdict, verified.found
        listed = json.loads(verified.verdict.to_json())["violations"]
        info = RunInfo(
            run=verdict.run,
            names=dict(verdict.names),
            parameters={"time_zero_ns": found.zero_ns},
        )
        self._page.add_run(
            title,
            info,
            verdict,
            lambda messages: events_of_rows(found.found),
            texts=[each["text"] for each in listed],
        )

    def add_error(self, name: str, error: str) -> None:
        """Add a run that has no verdict."""
        self._page.add_error(name, redact(error))

    def write(self) -> Path:
        """Write the page, and return its path."""
        self._page.write(self._out)
        return self._out


def first_violations(
    verdict: TraceVerdict | LocatedVerdict, count: int
) -> TraceVerdict | LocatedVerdict:
    """Return a verdict that lists at most ``count`` violations of each property."""
    if isinstance(verdict, LocatedVerdict):
        return replace(verdict, trace_verdict=_first(verdict.trace_verdict, count))
    return _first(verdict, count)


def _first(verdict: TraceVerdict, count: int) -> TraceVerdict:
    listed: list[int] = []
    for which in verdict.counts:
        indexes = [i for i, v in enumerate(verdict.violations) if v.property is which]
        listed += indexes[:count]
    kept = tuple(verdict.violations[i] for i in sorted(listed))
    return replace(verdict, violations=kept)


def _parts(
    verdict: TraceVerdict | LocatedVerdict,
) -> tuple[TraceVerdict, Mapping[str, str]]:
    """Return the verdict on the messages, and the statuses of other properties."""
    if isinstance(verdict, TraceVerdict):
        return verdict, {}
    if verdict.ingested.summary.clock_errors is None:
        return verdict.trace_verdict, {}
    errors = verdict.clock_error_count
    return verdict.trace_verdict, {"clocks": f"violated ({errors})" if errors else "held"}


def _new_page() -> "VerificationPage":
    try:
        from antecede.report.verification.page import VerificationPage

        return VerificationPage()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in PACKAGES:
            raise
        raise ConfigError(
            f"--report needs the package {error.name}: pip install 'antecede[report,trace]'"
        ) from error
