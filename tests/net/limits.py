"""Limits with short timeouts, for fast tests."""

from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.engine.limits import Limits

FAST_RETRANSMISSION = RetransmissionPolicy(initial_s=0.1, minimum_s=0.02, maximum_s=0.5)


def quick_limits(**bounds: float) -> Limits:
    """Return limits with short timeouts and the default datagram size."""
    return Limits(policy=FAST_RETRANSMISSION, hello_timeout_s=0.05, **bounds)  # type: ignore[arg-type]
