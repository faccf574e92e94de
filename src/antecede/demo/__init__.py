"""The demonstration: nodes as OS processes on an unreliable network, verified at the end."""
