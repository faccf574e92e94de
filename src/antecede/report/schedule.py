"""Space-time diagrams of one schedule under two protocols."""

from dataclasses import dataclass, replace

from antecede.diagram.draw import draw
from antecede.sim.simulate import Scenario, simulate

__all__ = ["Drawing", "draw_schedule"]

SCENARIO = Scenario(processes=3, messages=2, seed=36)
"""A small run; under ``unordered`` a chain of messages overtakes another message."""
NAMES = {0: "process 0", 1: "process 1", 2: "process 2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """The diagram of a run, and its verdict."""

    protocol: str
    svg: str
    held: bool
    violations: tuple[str, ...]
    command: str


def draw_schedule() -> tuple[Drawing, ...]:
    """Draw the schedule under ``unordered``, which violates causal order, and ``hybrid``.

    Both runs have the same sends and the same network delay of each message.
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
