"""Inference of messages from vector clocks, tokens, pairs of records and spans."""
