"""The verdict on an ingested run, with the names and the lines of its files."""

import json
from dataclasses import dataclass

from antecede.ingest.conversion import IngestedRun
from antecede.verify.oracle import MessageId, Property, Violation
from antecede.verify.verdict import Status, TraceVerdict

__all__ = ["IngestedVerdict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestedVerdict:
    """The verdict on the messages and the vector clocks of an ingested run."""

    trace_verdict: TraceVerdict
    """The verdict on the trace that was written, which numbers the processes."""
    ingested: IngestedRun

    @property
    def clock_error_count(self) -> int:
        """The number of inconsistent vector clocks."""
        return sum(error.count for error in self.ingested.summary.clock_errors or ())

    @property
    def status(self) -> Status:
        """Violated if a property or a clock is, otherwise the status of the trace."""
        return Status.VIOLATED if self.clock_error_count else self.trace_verdict.status

    def __str__(self) -> str:
        lines = str(self.trace_verdict).split("\n")
        properties = 1 + len(Property)
        reasons = properties + len(self.trace_verdict.reasons)
        violations = [self.describe(each) for each in self.trace_verdict.violations]
        clocks = []
        if self.ingested.summary.clock_errors is not None:
            errors = self.clock_error_count
            clocks = [f"  {'clocks':14} {f'violated ({errors})' if errors else 'held'}"]
        return "\n".join(
            [
                *lines[:properties],
                *clocks,
                *lines[properties:reasons],
                *violations,
                *lines[reasons + len(violations) :],
                *self.ingested.summary.lines(),
            ]
        )

    def to_json(self) -> str:
        """Return the verdict and the summary as the text of a JSON object."""
        fields = json.loads(self.trace_verdict.to_json())
        fields["status"] = self.status.value
        fields["held"] = self.status is Status.HELD
        for violation, entry in zip(
            self.trace_verdict.violations, fields["violations"], strict=True
        ):
            entry["text"] = self.describe(violation)
        fields["read"] = self.ingested.summary.to_json()
        return json.dumps(fields, indent=2)

    def describe(self, violation: Violation) -> str:
        """Return a violation in one line, with the names and the lines of the files."""
        process = self.ingested.written.table.names[violation.process]
        message = self._label(violation.message)
        text = f"{process} delivered {message}"
        if violation.chain:
            chain = [self._label(each) for each in violation.chain]
            text += f" before {chain[0]}, which happened before it: {' -> '.join(chain)}"
        elif violation.property is Property.NO_DUPLICATION:
            text += " twice"
        elif violation.property is Property.NO_CREATION:
            text += ", which was never sent to it"
        else:
            text = f"{process} never delivered {message}"
        return f"{violation.property.value}: {text}"

    def _label(self, message: MessageId) -> str:
        label = f"{self.ingested.written.table.names[message.source]}:{message.number}"
        location = self.ingested.written.location_of_send(message)
        if location is None:
            return label
        if len(self.ingested.summary.files) > 1:
            return f"{label} ({location.file}:{location.line})"
        return f"{label} (line {location.line})"
