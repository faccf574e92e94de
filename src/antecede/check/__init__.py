"""The model checker: every schedule of the real protocol classes, up to a bound."""
