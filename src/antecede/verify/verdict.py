"""What the verifier says of a trace."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from antecede.verify.oracle import Property, Violation

__all__ = ["EXIT_HELD", "EXIT_UNKNOWN", "EXIT_VIOLATED", "Report", "Status"]

EXIT_HELD = 0
"""Every property held."""
EXIT_VIOLATED = 1
"""Some property is violated."""
EXIT_UNKNOWN = 4
"""None is violated, but of some the trace does not tell."""


class Status(Enum):
    """Whether a run has a property."""

    HELD = "held"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What the verifier found; exit with :attr:`exit_code`, print it, or ask on."""

    run: str
    """Which run."""
    messages: int
    """How many messages were sent."""
    deliveries: int
    """How many deliveries there were."""
    statuses: Mapping[Property, Status]
    """Of each property, whether it held."""
    counts: Mapping[Property, int]
    """Of each property, how often it is broken.

    Causal and fifo: copies delivered too early; once: deliveries too many; genuine:
    deliveries of what was not sent there; live: copies that were not delivered, also where
    it is unknown whether they ever would be."""
    violations: tuple[Violation, ...]
    """Some violations of each violated property, the earliest in the run."""
    reasons: tuple[str, ...] = ()
    """Why something is unknown, in a few words each."""
    names: Mapping[int, str] = field(default_factory=dict, compare=False)
    """What processes are called, where they have names."""
    kept_max: int = 0
    """The most limits that the walk kept at any time (:mod:`antecede.verify.kernels.walk`)."""

    @property
    def held(self) -> bool:
        """Whether every property held."""
        return self.exit_code == EXIT_HELD

    @property
    def exit_code(self) -> int:
        """What a command that verifies should exit with."""
        if Status.VIOLATED in self.statuses.values():
            return EXIT_VIOLATED
        return EXIT_UNKNOWN if Status.UNKNOWN in self.statuses.values() else EXIT_HELD

    def __str__(self) -> str:
        """Say it in a few lines."""
        size = f"{self.messages} messages, {self.deliveries} deliveries"
        lines = [f"{self.run}: {size}"]
        for which in Property:
            count = self.counts[which]
            times = f" ({count})" if count else ""
            lines.append(f"  {which.value:8} {self.statuses[which].value}{times}")
        lines += [f"unknown: {reason}" for reason in self.reasons]
        lines += [violation.told(self.names) for violation in self.violations]
        violated = [which for which in Property if self._is_violated(which)]
        more = sum(self.counts[which] for which in violated) - len(self.violations)
        if more:
            lines.append(f"and {more} more")
        return "\n".join(lines)

    def to_json(self) -> str:
        """Return all of it as the text of a JSON object."""
        fields = {
            "run": self.run,
            "held": self.held,
            "exit_code": self.exit_code,
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
                    "text": str(violation),
                }
                for violation in self.violations
            ],
            "unknown": list(self.reasons),
        }
        return json.dumps(fields, indent=2)

    def _is_violated(self, which: Property) -> bool:
        return self.statuses[which] is Status.VIOLATED
