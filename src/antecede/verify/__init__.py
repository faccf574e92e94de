"""Verification: was a run causal, and were its messages delivered exactly once?

:func:`judge` is the reference oracle for events in memory. :mod:`antecede.verify.verifier`
verifies a trace on disk, of any size, with the extra ``antecede[trace]``.
"""

from antecede.verify.oracle import MessageId, Property, Verdict, Violation, judge

__all__ = ["MessageId", "Property", "Verdict", "Violation", "judge"]
