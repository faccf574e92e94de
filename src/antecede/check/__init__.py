"""The model checker: every schedule of the real protocol classes, within bounds."""

from antecede.check.checker import CheckConfig, CheckResult, check
from antecede.check.counterexample import Counterexample

__all__ = ["CheckConfig", "CheckResult", "Counterexample", "check"]
