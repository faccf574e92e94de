"""Traces of nodes: recording while the node runs, and reading what a node recorded."""
