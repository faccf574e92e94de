"""Traces: the events of a run, how they are recorded, written and read."""

from antecede.trace.event import Event, Kind
from antecede.trace.recorders import EventCounter, MemoryRecorder

__all__ = ["Event", "EventCounter", "Kind", "MemoryRecorder"]
