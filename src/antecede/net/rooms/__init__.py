"""Rooms: causal domains of their own, which share the links between their nodes."""
