"""Traces: the events of a run, their schema, and how they are recorded, written and read."""

from antecede.trace.event import Event, Kind
from antecede.trace.recorders import Recorder

__all__ = ["Event", "Kind", "Recorder"]
