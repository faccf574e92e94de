"""Deliberate faults in the core, each of which a test must catch."""
