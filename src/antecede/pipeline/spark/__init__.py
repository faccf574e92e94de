"""Spark sessions, the Java runtime, progress, interruption and data sources."""
