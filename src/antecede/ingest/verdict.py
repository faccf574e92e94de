"""The verdict on an ingested run, with the names and the lines of its files."""

import json
from dataclasses import dataclass
from typing import Protocol

from antecede.ingest.conversion import IngestedRun
from antecede.ingest.diagnostics import IngestSummary, SourceLocation
from antecede.verify.oracle import MessageId
from antecede.verify.verdict import Status, TraceVerdict

__all__ = ["IngestedVerdict", "LocatedRun", "LocatedVerdict"]


class LocatedRun(Protocol):
    """A run of foreign files, such as :class:`antecede.ingest.conversion.IngestedRun`."""

    @property
    def summary(self) -> IngestSummary:
        """The number of records that were read, and all diagnostics."""

    def location_of_send(self, message: MessageId) -> SourceLocation | None:
        """Return the location of the send of a message, or None if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedVerdict:
    """The verdict on a run of foreign files, with the names and lines of the files."""

    trace_verdict: TraceVerdict
    """The verdict on the events of the run, which numbers the processes."""
    ingested: LocatedRun

    @property
    def clock_error_count(self) -> int:
        """The number of inconsistent vector clocks."""
        return sum(error.count for error in self.ingested.summary.clock_errors or ())

    @property
    def status(self) -> Status:
        """Violated if a property or a clock is, otherwise the status of the trace."""
        return Status.VIOLATED if self.clock_error_count else self.trace_verdict.status

    def __str__(self) -> str:
        clocks = {}
        if self.ingested.summary.clock_errors is not None:
            errors = self.clock_error_count
            clocks = {"clocks": f"violated ({errors})" if errors else "held"}
        lines = self.trace_verdict.lines(clocks, self._label)
        return "\n".join([*lines, *self.ingested.summary.lines()])

    def to_json(self) -> str:
        """Return the verdict and the summary as the text of a JSON object."""
        fields = self.trace_verdict.fields(self._label)
        fields["status"] = self.status.value
        fields["held"] = self.status is Status.HELD
        fields["read"] = self.ingested.summary.to_json()
        return json.dumps(fields, indent=2)

    def _label(self, message: MessageId) -> str:
        label = message.format(self.trace_verdict.names)
        location = self.ingested.location_of_send(message)
        if location is None:
            return label
        if len(self.ingested.summary.files) > 1:
            return f"{label} ({location.file}:{location.line})"
        return f"{label} (line {location.line})"


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestedVerdict(LocatedVerdict):
    """The verdict on the messages and the vector clocks of an ingested run."""

    ingested: IngestedRun
