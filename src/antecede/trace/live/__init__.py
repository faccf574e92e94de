"""Traces of nodes: written while a node runs, read after it was closed or killed."""
