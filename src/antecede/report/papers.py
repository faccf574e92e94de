"""All claims of the five papers, and what the tables say of each."""

from antecede.report import (
    claims_almeida,
    claims_almeida_time,
    claims_blessing,
    claims_cykas,
    claims_mattern,
    claims_nedelec,
)
from antecede.report.claims import Claim, Finding
from antecede.report.tables import Tables

__all__ = ["CLAIMS", "examine_claims"]

CLAIMS: tuple[Claim, ...] = (
    *claims_almeida.CLAIMS,
    *claims_almeida_time.CLAIMS,
    *claims_cykas.CLAIMS,
    *claims_mattern.CLAIMS,
    *claims_nedelec.CLAIMS,
    *claims_blessing.CLAIMS,
)
"""In the order in which to show them; ids are unique."""


def examine_claims(tables: Tables) -> list[tuple[Claim, Finding]]:
    """Judge every claim by the tables."""
    return [(claim, claim.examine(tables)) for claim in CLAIMS]
