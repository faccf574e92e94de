"""A mutant: a deliberate fault in the core."""

from dataclasses import dataclass

__all__ = ["Mutant"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One deliberate fault in the core."""

    name: str
    """The fault, as a claim."""
    module: str
    """The module of the core to change."""
    old: str
    """The source text to replace, which must occur exactly once."""
    new: str
    """The replacement."""
