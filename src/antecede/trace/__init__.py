"""What happened in a run, and whether it was right."""

from antecede.trace.event import Event, Kind
from antecede.trace.oracle import MessageId, Property, Verdict, Violation, judge

__all__ = ["Event", "Kind", "MessageId", "Property", "Verdict", "Violation", "judge"]
