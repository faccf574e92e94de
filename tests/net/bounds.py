"""Limits under which tests do not wait long."""

from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.engine.limits import Limits

QUICK = RetransmissionPolicy(initial_s=0.1, minimum_s=0.02, maximum_s=0.5)
"""Repeats soon."""


def quick_limits(**bounds: float) -> Limits:
    """Make such limits, with datagrams as a real path carries."""
    return Limits(policy=QUICK, hello_s=0.05, **bounds)  # type: ignore[arg-type]
