"""The verdict on a foreign trace, in the names and lines of its own files.

The verdict is that of :func:`antecede.verify.verifier.verify` on the trace made of it.
Beside it stand what was found while reading (:mod:`antecede.ingest.diagnostics`) and whether
the vector clocks make sense, if it has any.
"""

import json
from dataclasses import dataclass

from antecede.ingest.conversion import Ingested
from antecede.verify.oracle import MessageId, Property, Violation
from antecede.verify.verdict import EXIT_VIOLATED, Report

__all__ = ["ForeignReport"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignReport:
    """What is said of a foreign trace; exit with :attr:`exit_code`, or print it."""

    report: Report
    """The verdict on its messages, with our numbers for its processes."""
    ingested: Ingested

    @property
    def clock_faults(self) -> int:
        """How many clocks contradict themselves, others, or the messages."""
        return sum(fault.count for fault in self.ingested.findings.faults or ())

    @property
    def exit_code(self) -> int:
        """What a command that verifies should exit with."""
        return EXIT_VIOLATED if self.clock_faults else self.report.exit_code

    def __str__(self) -> str:
        """Say it in some lines."""
        lines = str(self.report).split("\n")
        told = 1 + len(Property)
        unknown = told + len(self.report.reasons)
        if self.ingested.findings.faults is not None:
            faults = self.clock_faults
            lines[told - 1] += f"\n  {'clocks':8} "
            lines[told - 1] += f"violated ({faults})" if faults else "held"
        found = [self.describe(each) for each in self.report.violations]
        more = lines[unknown + len(found) :]
        return "\n".join([*lines[:unknown], *found, *more, *self.ingested.findings.lines()])

    def to_json(self) -> str:
        """Return all of it as the text of a JSON object."""
        fields = json.loads(self.report.to_json())
        fields["exit_code"] = self.exit_code
        fields["held"] = self.exit_code == 0
        for violation, told in zip(
            self.report.violations, fields["violations"], strict=True
        ):
            told["text"] = self.describe(violation)
        fields["read"] = self.ingested.findings.to_json()
        return json.dumps(fields, indent=2)

    def describe(self, violation: Violation) -> str:
        """Say one violation in one line, in the names of the files."""
        names = self.ingested.written.draft.names
        who = names[violation.process]
        which = self._label(violation.message)
        if violation.chain:
            chain = " -> ".join(self._label(message) for message in violation.chain)
            return (
                f"{violation.property.value}: {who} delivered {which} before"
                f" {self._label(violation.chain[0])}, which happened before it: {chain}"
            )
        how = {Property.ONCE: "twice", Property.LIVE: "never"}.get(violation.property)
        how = how if how is not None else "though it was never sent to it"
        return f"{violation.property.value}: {who} delivered {which} {how}"

    def _label(self, message: MessageId) -> str:
        place = self.ingested.written.place_of(message)
        name = self.ingested.written.draft.names[message.source]
        if place is None:
            return f"{name}:{message.number}"
        several = len(self.ingested.findings.files) > 1
        where = f"{place.file}:{place.line}" if several else f"line {place.line}"
        return f"{name}:{message.number} ({where})"
