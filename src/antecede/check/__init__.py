"""The model checker: every schedule of the real protocol classes, up to a bound."""

from antecede.check.checker import Bound, Checked, check
from antecede.check.counterexample import Story, load_story, tell

__all__ = ["Bound", "Checked", "Story", "check", "load_story", "tell"]
