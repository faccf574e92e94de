"""A claim of a paper, and the result of comparing it with the tables of studies.

The claims are in modules by paper, such as :mod:`antecede.report.claims.almeida`.
:mod:`antecede.report.claims.rules` has the rules that several claims share.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from antecede.report.tables import Tables

__all__ = ["NO_VALUE", "Claim", "ClaimResult", "ClaimStatus", "not_measured"]

NO_VALUE = "\N{EN DASH}"
"""Printed instead of a value that was not measured."""


class ClaimStatus(Enum):
    """Whether a claim holds in the tables."""

    HOLDS = "holds"
    PARTLY = "holds in part"
    FAILS = "does not hold"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimResult:
    """The status of a claim, and the values that decide it."""

    observed: str
    """The measured values."""
    status: ClaimStatus
    explanation: str = ""
    """Why the claim does not hold, if known, or what is missing to measure it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim of a paper."""

    id: str
    paper: str
    section: str
    """The section, table or figure of the paper."""
    claim: str
    """One sentence."""
    measurement: str
    """The quantity that is measured."""
    rule: str
    """The condition under which the claim holds, with its thresholds."""
    study: str
    """The built-in study that measures it."""
    decide: Callable[[Tables], ClaimResult]
    """Applies the rule to the tables."""

    def evaluate(self, tables: Tables) -> ClaimResult:
        """Apply the rule; if the tables lack the runs, name the study that has them."""
        result = self.decide(tables)
        if result.status is ClaimStatus.NOT_MEASURED and not result.explanation:
            return not_measured(f"run: antecede study run {self.study}")
        return result


def not_measured(explanation: str = "") -> ClaimResult:
    """Return the result of a claim that the tables cannot decide."""
    return ClaimResult(
        observed=NO_VALUE, status=ClaimStatus.NOT_MEASURED, explanation=explanation
    )
