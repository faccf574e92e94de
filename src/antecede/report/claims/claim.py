"""What the papers claim, and whether it holds in the tables.

A :class:`Claim` is one sentence of ours about one place in a paper, what is measured for
it, the rule by which code decides, and the function that does. The claims themselves are
in one module per paper, :mod:`antecede.report.claims.almeida` and its neighbours; what
several of them need is in :mod:`antecede.report.claims.rules`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from antecede.report.tables import Tables

__all__ = ["NOTHING", "Claim", "Finding", "Outcome", "unmeasured"]

NOTHING = "\N{EN DASH}"
"""Stands where there is no figure."""


class Outcome(Enum):
    """What becomes of a claim."""

    HOLDS = "holds"
    PART = "holds in part"
    FAILS = "does not hold"
    UNMEASURED = "not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found about a claim."""

    figure: str
    """What was measured, with numbers."""
    outcome: Outcome
    why: str = ""
    """Why it is so, as far as we know; or what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim of a paper."""

    id: str
    paper: str
    place: str
    """Where in the paper."""
    claim: str
    """In our words."""
    measured: str
    """What is measured for it."""
    rule: str
    """When it holds, with the thresholds."""
    study: str
    """The built-in study that measures it."""
    judge: Callable[[Tables], Finding]

    def examine(self, tables: Tables) -> Finding:
        """Judge the claim; where the tables lack what it takes, say how to get it."""
        finding = self.judge(tables)
        if finding.outcome is Outcome.UNMEASURED and not finding.why:
            return unmeasured(f"run: antecede study run {self.study}")
        return finding


def unmeasured(why: str = "") -> Finding:
    """Return that the tables do not have what a claim takes."""
    return Finding(figure=NOTHING, outcome=Outcome.UNMEASURED, why=why)
