"""``pc-broadcast``: causal broadcast on changing overlays (Nédelec et al.)."""
