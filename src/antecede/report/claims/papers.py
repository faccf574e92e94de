"""All claims of the five papers, and what the tables say of each."""

from antecede.report.claims import (
    almeida,
    almeida_time,
    blessing,
    cykas,
    mattern,
    nedelec,
)
from antecede.report.claims.claim import Claim, Finding
from antecede.report.tables import Tables

__all__ = ["CLAIMS", "examine_claims"]

CLAIMS: tuple[Claim, ...] = (
    *almeida.CLAIMS,
    *almeida_time.CLAIMS,
    *cykas.CLAIMS,
    *mattern.CLAIMS,
    *nedelec.CLAIMS,
    *blessing.CLAIMS,
)
"""In the order in which to show them; ids are unique."""


def examine_claims(tables: Tables) -> list[tuple[Claim, Finding]]:
    """Judge every claim by the tables."""
    return [(claim, claim.examine(tables)) for claim in CLAIMS]
