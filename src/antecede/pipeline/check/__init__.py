"""The model checker on Spark."""
