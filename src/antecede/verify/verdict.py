"""The verdict of the verifier on a trace."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from antecede.verify.breakdown import ViolationBreakdown
from antecede.verify.oracle import MessageId, Property, Violation

__all__ = ["Status", "TraceVerdict"]


class Status(Enum):
    """Whether a run has a property."""

    HELD = "held"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


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
    gaps: int = field(default=0, compare=False)
    """The number of gaps in the histories of the processes."""
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
        for which in Property:
            count = self.counts[which]
            times = f" ({count})" if count else ""
            lines.append(_status_line(which.value, self.statuses[which].value + times))
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
                }
                for which in Property
            },
            "violations": [
                {
                    "property": violation.property.value,
                    "process": violation.process,
                    "message": str(violation.message),
                    "chain": [str(message) for message in violation.chain],
                    "text": violation.format(self.names, label),
                }
                for violation in self.violations
            ],
            "unknown": list(self.reasons),
        }


def _status_line(name: str, status: str) -> str:
    return f"  {name:14} {status}"
