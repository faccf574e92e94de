"""The claims of all papers."""

from antecede.report.claims import (
    almeida,
    almeida_delivery,
    almeida_latency,
    blessing,
    cykas,
    cykas_speedup,
    mattern,
    nedelec,
)
from antecede.report.claims.claim import Claim, ClaimResult
from antecede.report.tables import Tables

__all__ = ["CLAIMS", "evaluate_claims"]


def _by_number(*parts: tuple[Claim, ...]) -> list[Claim]:
    return sorted(
        (claim for part in parts for claim in part), key=lambda each: int(each.id[1:])
    )


CLAIMS: tuple[Claim, ...] = (
    *_by_number(almeida.CLAIMS, almeida_latency.CLAIMS, almeida_delivery.CLAIMS),
    *_by_number(cykas.CLAIMS, cykas_speedup.CLAIMS),
    *mattern.CLAIMS,
    *nedelec.CLAIMS,
    *blessing.CLAIMS,
)
"""In the order of display; every id is unique."""


def evaluate_claims(tables: Tables) -> list[tuple[Claim, ClaimResult]]:
    """Evaluate every claim on the tables."""
    return [(claim, claim.evaluate(tables)) for claim in CLAIMS]
