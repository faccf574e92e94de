"""Data structures and timers that several protocols share."""
