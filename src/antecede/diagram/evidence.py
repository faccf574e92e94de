"""The copies that prove a violation."""

from itertools import pairwise

from antecede.diagram.timeline import CopyId
from antecede.verify.oracle import Violation

__all__ = ["evidence_copies"]


def evidence_copies(violation: Violation) -> set[CopyId]:
    """Return the copies that prove a violation."""
    copies = {(violation.message, violation.process)}
    if violation.chain:
        copies.add((violation.chain[0], violation.process))
    for cause, effect in pairwise(violation.chain):
        if cause.source != effect.source:
            copies.add((cause, effect.source))
    return copies
