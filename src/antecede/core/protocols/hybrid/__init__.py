"""Hybrid buffering (Almeida): ``hybrid`` and ``hybrid-basic``."""
