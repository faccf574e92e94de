"""Overlays: which processes have links to which others."""
