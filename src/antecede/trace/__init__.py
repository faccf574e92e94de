"""What happened in a run, and whether it was right."""

from antecede.trace.event import Event, Kind
from antecede.trace.oracle import MessageId, Property, Verdict, Violation, judge
from antecede.trace.recorder import Recorder

__all__ = [
    "Event",
    "Kind",
    "MessageId",
    "Property",
    "Recorder",
    "Verdict",
    "Violation",
    "judge",
]
