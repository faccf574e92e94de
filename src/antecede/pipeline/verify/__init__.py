"""Verification of recorded traces on Spark: many runs, or one long run in windows."""
