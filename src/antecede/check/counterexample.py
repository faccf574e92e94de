"""A counterexample: the steps of a schedule, as a file to replay or a run to draw.

The file holds the frames as bytes, so that the steps can be replayed on the current version
of the protocol (:func:`antecede.testing.replay`) and verified by the oracle.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from antecede.check.actions import (
    ABANDON,
    ARRIVE,
    DROP,
    DUPLICATE,
    FIRE,
    FORGO,
    RESET,
    RETURN,
    SEND,
    SILENCE,
    STOP,
    Action,
)
from antecede.check.checker import CheckResult
from antecede.check.inputs import processes_in
from antecede.check.transitions import TransitionTable
from antecede.core.codec import encode
from antecede.core.config import DEFAULT_BUDGET_BYTES
from antecede.errors import ConfigError

__all__ = ["REMOVAL_STEPS", "SILENCE_STEPS", "Counterexample"]

STEP_NAMES = {
    SEND: "send",
    ARRIVE: "arrive",
    DROP: "drop",
    DUPLICATE: "duplicate",
    FIRE: "fire",
    ABANDON: "abandon",
    RESET: "reset",
    STOP: "stop",
    FORGO: "forgo",
    SILENCE: "silence",
    RETURN: "return",
}
REMOVAL_STEPS = {
    "abandon": "process {process} removes process {peer}",
    "reset": "process {process} resets its channel from process {peer}",
    "stop": "process {process} is declared stopped",
    "forgo": "process {process} forgoes the permits of process {peer}",
}
SILENCE_STEPS = {
    "silence": "process {process} becomes silent",
    "return": "process {process} returns",
}
PACKET_STEPS = {"arrive": "arrives", "drop": "is dropped", "duplicate": "is duplicated"}


@dataclass(frozen=True, kw_only=True)
class Counterexample:
    """A schedule, and the property that it violates."""

    protocol: str
    processes: int
    reliable: bool
    """Whether the processes run without the link layer."""
    property: str
    """The violated property."""
    steps: tuple[dict[str, object], ...]
    """The steps in order; the key ``do`` names the action."""
    lease: bool = True
    """Whether copies that were given up do not arrive."""
    false_suspicion: bool = False
    """Whether a process that is declared stopped keeps running."""
    budget_bytes: int = DEFAULT_BUDGET_BYTES
    """The budget of ``bounded``."""
    undelivered: tuple[str, ...] = ()
    """If liveness is violated: the copies that must be delivered, such as "0:1 to 2"."""

    @classmethod
    def from_result(cls, result: CheckResult) -> "Counterexample":
        """Return the counterexample of a check that found a violation."""
        assert result.violation is not None
        config = result.config
        return cls(
            protocol=config.protocol,
            processes=config.processes,
            reliable=config.reliable,
            property=result.violation.property,
            lease=config.lease,
            false_suspicion=config.false_suspicion,
            budget_bytes=config.budget_bytes,
            steps=tuple(_step(result.table, each) for each in result.violation.schedule),
            undelivered=tuple(
                f"{source}:{number} to {target}"
                for source, number, target in result.violation.undelivered
            ),
        )

    @classmethod
    def load(cls, path: Path) -> "Counterexample":
        """Read a counterexample from a file; raise ConfigError if it is not one."""
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                protocol=str(found["protocol"]),
                processes=int(found["processes"]),
                reliable=bool(found["reliable"]),
                property=str(found["property"]),
                steps=tuple([dict(step) for step in found["steps"]]),
                lease=bool(found.get("lease", True)),
                false_suspicion=bool(found.get("false_suspicion", False)),
                budget_bytes=int(found.get("budget_bytes", DEFAULT_BUDGET_BYTES)),
                undelivered=tuple([str(copy) for copy in found.get("undelivered", ())]),
            )
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from error
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{path} is not a valid counterexample: {error!r}") from error

    def to_json(self) -> str:
        """Return the content of a file for :meth:`load`."""
        return json.dumps(
            {
                "protocol": self.protocol,
                "processes": self.processes,
                "reliable": self.reliable,
                "property": self.property,
                "lease": self.lease,
                "false_suspicion": self.false_suspicion,
                "budget_bytes": self.budget_bytes,
                "steps": self.steps,
                "undelivered": self.undelivered,
            },
            indent=2,
        )

    def lines(self) -> list[str]:
        """Describe the steps in numbered lines."""
        return [f"{i:3}. {_line(step)}" for i, step in enumerate(self.steps, 1)]

    def conclusion(self) -> list[str]:
        """State in one line each which copies are not delivered, and which are silent."""
        silent: set[object] = set()
        for step in self.steps:
            if step["do"] == "silence":
                silent.add(step["process"])
            elif step["do"] == "return":
                silent.discard(step["process"])
        names = " and ".join(str(process) for process in sorted(silent, key=str))
        although = ""
        if silent:
            verb = "process {} is" if len(silent) == 1 else "processes {} are"
            although = f" although only {verb.format(names)} silent"
        return [f"{copy} is not delivered{although}" for copy in self.undelivered]


def _step(table: TransitionTable, action: Action) -> dict[str, object]:
    step: dict[str, object] = {"do": STEP_NAMES[action.kind], "process": action.process}
    if action.kind == SEND:
        step["targets"] = processes_in(action.argument)
    elif action.kind in (ABANDON, RESET, FORGO):
        step["peer"] = action.argument
    elif action.kind not in (FIRE, STOP, SILENCE, RETURN):
        packet = table.packets[action.argument]
        step["source"] = packet.source
        step["frame"] = encode([packet.frame]).hex()
        step["shown"] = str(packet.frame)
    return step


def _line(step: dict[str, object]) -> str:
    process, kind = step["process"], str(step["do"])
    if kind == "send":
        return f"process {process} sends to {step['targets']}"
    if kind == "fire":
        return f"a timer of process {process} fires"
    if kind in REMOVAL_STEPS:
        return REMOVAL_STEPS[kind].format(process=process, peer=step.get("peer"))
    if kind in SILENCE_STEPS:
        return SILENCE_STEPS[kind].format(process=process)
    return f"{step['shown']} from {step['source']} to {process} {PACKET_STEPS[kind]}"
