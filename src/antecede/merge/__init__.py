"""Merge the traces of the nodes of one run into one trace."""
