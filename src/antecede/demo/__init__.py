"""The demonstration: nodes as OS processes on a faulty network, verified at the end."""
