"""One schedule, two protocols: a space-time diagram of what causal order prevents."""

from dataclasses import dataclass, replace

from antecede.diagram.draw import draw
from antecede.sim.simulate import Scenario, simulate

__all__ = ["Drawing", "draw_schedule"]

SCENARIO = Scenario(processes=3, messages=2, seed=36)
"""Small enough to be read; under ``unordered`` a chain of messages overtakes another."""
NAMES = {0: "process 0", 1: "process 1", 2: "process 2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A run, drawn."""

    protocol: str
    svg: str
    held: bool
    violations: tuple[str, ...]
    command: str


def draw_schedule() -> tuple[Drawing, ...]:
    """Simulate the schedule under ``unordered``, which breaks causal order, and ``hybrid``.

    The sends, and the delay of each message, are the same in both.
    """
    return tuple(_draw(name) for name in ("unordered", "hybrid"))


def _draw(protocol: str) -> Drawing:
    run = simulate(replace(SCENARIO, protocol=protocol))
    return Drawing(
        protocol=protocol,
        svg=draw(run.history, violations=run.verdict.violations, names=NAMES, axis="time"),
        held=run.verdict.held,
        violations=tuple(str(violation) for violation in run.verdict.violations),
        command=run.scenario.command(),
    )
