"""A mutant: a deliberate fault in the core or the engine."""

from dataclasses import dataclass

__all__ = ["Mutant"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One deliberate fault."""

    name: str
    """The fault, as a claim."""
    module: str
    """The module to change: its path in the core, or in the package for the engine."""
    old: str
    """The source text to replace, which must occur exactly once."""
    new: str
    """The replacement."""
