"""Deliberate breakages of the core, each of which some test must catch."""
