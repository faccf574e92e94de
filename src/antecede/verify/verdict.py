"""The verdict of the verifier on a trace."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from antecede.verify.breakdown import ViolationBreakdown
from antecede.verify.oracle import MessageId, Property, Violation

__all__ = ["Status", "DeliveryCounts", "TraceVerdict"]


class Status(Enum):
    """Whether a run has a property."""

    HELD = "held"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


class DeliveryCounts(NamedTuple):
    """The number of deliveries by their verdict; of liveness, of copies."""

    judged: int
    """The deliveries that were compared with all known messages."""
    violated: int
    """Those of the judged deliveries that violate the property."""
    unknown: int
    """The deliveries for which the property is not decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceVerdict:
    """The status of each property of a run, with examples of violations."""

    run: str
    """The name of the run."""
    messages: int
    """The number of messages sent."""
    deliveries: int
    """The number of deliveries."""
    statuses: Mapping[Property, Status]
    """The status of each property."""
    counts: Mapping[Property, int]
    """The number of violations of each property.

    causal and fifo: copies delivered too early; no-duplication: surplus deliveries;
    no-creation: deliveries of messages that were not sent to the process; liveness: copies
    that were not delivered, also where the status is unknown."""
    violations: tuple[Violation, ...]
    """The earliest violations of each violated property."""
    reasons: tuple[str, ...] = ()
    """Why properties are unknown, one short sentence each."""
    names: Mapping[int, str] = field(default_factory=dict, compare=False)
    """The names of the processes that have one."""
    unverified: int | None = 0
    """The number of deliveries that are missing in the trace, or whose order is unknown;
    None if it is not known."""
    limits_max: int = 0
    """The maximum number of limits that the verifier held at any time
    (:mod:`antecede.verify.kernels.delivery_order`)."""
    breakdown: ViolationBreakdown | None = field(default=None, compare=False)
    """The violations by pair of processes and by time, if they were counted."""

    @property
    def held(self) -> bool:
        """Whether every property held."""
        return self.status is Status.HELD

    @property
    def status(self) -> Status:
        """Violated if any property is, otherwise unknown if any is, otherwise held."""
        for status in (Status.VIOLATED, Status.UNKNOWN):
            if status in self.statuses.values():
                return status
        return Status.HELD

    def delivery_counts(self, which: Property) -> "DeliveryCounts":
        """Return how many deliveries were judged, violated and unknown.

        A violation is certain. If it is not known how many deliveries are missing, all
        other deliveries are unknown.
        """
        status, count = self.statuses[which], self.counts[which]
        total = self.deliveries + (count if which is Property.LIVENESS else 0)
        violated = count if status is Status.VIOLATED else 0
        if status is Status.HELD:
            return DeliveryCounts(total, 0, 0)
        if self.unverified is None:
            return DeliveryCounts(violated, violated, total - violated)
        undecided = count if status is Status.UNKNOWN else 0
        return DeliveryCounts(total - undecided, violated, undecided + self.unverified)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(
        self,
        more_statuses: Mapping[str, str] | None = None,
        label: Callable[[MessageId], str] | None = None,
    ) -> list[str]:
        """Return the verdict as lines of text.

        Args:
            more_statuses: The status of further properties, printed after those of the run.
            label: Returns the text of a message; by default, its source and number.
        """
        size = f"{self.messages} messages, {self.deliveries} deliveries"
        lines = [f"{self.run}: {size}"]
        lines += [_status_line(which.value, self._describe(which)) for which in Property]
        lines += [_status_line(*status) for status in (more_statuses or {}).items()]
        lines += [f"unknown: {reason}" for reason in self.reasons]
        lines += [violation.format(self.names, label) for violation in self.violations]
        total = sum(
            count
            for which, count in self.counts.items()
            if self.statuses[which] is Status.VIOLATED
        )
        if total > len(self.violations):
            lines.append(f"and {total - len(self.violations)} more")
        return lines

    def _describe(self, which: Property) -> str:
        """Return the status of a property with the number of violations and deliveries."""
        count, status = self.counts[which], self.statuses[which]
        text = status.value + (f" ({count:,})" if count else "")
        if status is Status.HELD or self.unverified == 0:
            return text
        judged, _, unknown = self.delivery_counts(which)
        if self.unverified is None:
            found = ": no violation found" if status is Status.UNKNOWN else ""
            return (
                f"{text}{found}, {unknown:,} deliveries unknown because an unknown number"
                " is missing"
            )
        found = ": no violation" if status is Status.UNKNOWN else ""
        total = judged + unknown
        return (
            f"{text}{found} among {judged:,} of {total:,} deliveries, {unknown:,} unknown"
        )

    def to_json(self) -> str:
        """Return the verdict as the text of a JSON object."""
        return json.dumps(self.fields(), indent=2)

    def fields(self, label: Callable[[MessageId], str] | None = None) -> dict[str, Any]:
        """Return the verdict as the fields of a JSON object; see :meth:`lines`."""
        return {
            "run": self.run,
            "held": self.held,
            "status": self.status.value,
            "messages": self.messages,
            "deliveries": self.deliveries,
            "properties": {
                which.value: {
                    "status": self.statuses[which].value,
                    "count": self.counts[which],
                    **self.delivery_counts(which)._asdict(),
                }
                for which in Property
            },
            "violations": [
                {
                    "property": violation.property.value,
                    "process": self.names.get(violation.process, violation.process),
                    "message": violation.message.format(self.names),
                    "chain": [each.format(self.names) for each in violation.chain],
                    "text": violation.format(self.names, label),
                }
                for violation in self.violations
            ],
            "unknown": list(self.reasons),
            **({} if self.breakdown is None else {"breakdown": self._counted()}),
        }

    def _counted(self) -> dict[str, Any]:
        """Return the numbers of all violations as JSON values."""
        assert self.breakdown is not None
        return {
            "pairs": [
                {
                    "property": each.property.value,
                    "source": self.names.get(each.source, each.source),
                    "process": self.names.get(each.process, each.process),
                    "violations": each.count,
                }
                for each in self.breakdown.pairs
            ],
            **self.breakdown.times(),
        }


def _status_line(name: str, status: str) -> str:
    return f"  {name:14} {status}"
