"""Readers of foreign formats, one module per format."""
