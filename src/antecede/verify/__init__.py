"""Verification: was delivery causal, and was each message delivered exactly once?

:func:`verify_events` is the reference oracle for events in memory.
:func:`antecede.verify.verifier.verify_trace` verifies a trace on disk, of any size; it
needs the extra ``antecede[trace]``.
"""

from antecede.verify.oracle import (
    MessageId,
    Property,
    Verdict,
    Violation,
    verify_events,
)

__all__ = ["MessageId", "Property", "Verdict", "Violation", "verify_events"]
