"""Verify long runs of spans or messages, with tasks that each read a part of the run."""
