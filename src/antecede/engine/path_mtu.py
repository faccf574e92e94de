"""Path-MTU discovery: the largest datagram that a path carries (RFC 8899).

Every path carries the *base size*, and messages are cut into fragments of it, so that a
fragment never has to be cut again. A search looks for a larger size, into which several
frames fit. It begins when messages have filled a datagram, and transmits one probe at a
time: a datagram with padding, whose acknowledgement shows that the path carries its size.
A size has failed after :data:`PROBES_MAX` lost probes, or when the socket refuses it. A
lost probe is no sign of congestion.

A path may change. If :data:`BLACK_HOLE_LOSSES` datagrams above the base size are lost, and
none of their size was transmitted later and acknowledged, the path falls back to the base
size and searches below the size that failed. That smaller ones are acknowledged proves
nothing. Larger sizes are tried again after :data:`RAISE_S` seconds.
"""

from typing import Final

from antecede.core.process import NEVER

__all__ = ["BLACK_HOLE_LOSSES", "PROBES_MAX", "RAISE_S", "PathMtu"]

PROBES_MAX: Final = 3
"""The number of lost probes of one size after which the size has failed (RFC 8899,
5.1.2)."""
RAISE_S: Final = 600.0
"""The time after which failed sizes are tried again (RFC 8899, 5.1.1)."""
BLACK_HOLE_LOSSES: Final = 3
RESOLUTION_BYTES: Final = 20
"""The search ends when a size that the path carries and a failed one differ by this
much."""
COMMON_SIZES: Final = (8972, 8952, 1472, 1452)
"""The payloads of UDP datagrams over Ethernet, with jumbo frames and without them, over
IPv4 and over IPv6."""
NO_PROBE: Final = 0


class PathMtu:
    """The search for the largest datagram that one path carries.

    Args:
        base: the size that the path carries without a probe.
        maximum: the largest size to try.
    """

    __slots__ = (
        "_carried",
        "_failed",
        "_lost",
        "_lost_bytes",
        "_maximum",
        "_tries",
        "base",
        "candidate",
        "is_due",
        "is_waiting",
        "probe_number",
        "raise_at",
        "size",
    )

    base: int
    size: int
    """The largest datagram that the path is known to carry."""
    candidate: int
    """The size of the next probe, or of the probe in flight."""
    probe_number: int
    """The packet number of the probe in flight; 0 for none."""
    is_waiting: bool
    """A search begins when messages fill a datagram: call :meth:`start` then."""
    is_due: bool
    """Transmit a probe of the size :attr:`candidate`."""
    raise_at: float
    """The time at which to try failed sizes again; infinite while there are none."""

    def __init__(self, base: int, maximum: int) -> None:
        self.base = base
        self.size = base
        self._maximum = maximum
        self._failed = maximum + 1  # The smallest size that the path does not carry.
        self._tries = 0
        # Sizes of acknowledged datagrams above the base size, each with the last time when
        # one of at least this size was transmitted; the largest first, which is the oldest.
        self._carried: list[tuple[int, float]] = []
        self._lost = 0
        self._lost_bytes = maximum  # The smallest datagram among these.
        self.candidate = base
        self.probe_number = NO_PROBE
        self.is_waiting = maximum > base
        self.is_due = False
        self.raise_at = NEVER

    def start(self, now: float) -> None:
        """Begin or continue the search: datagrams are full."""
        self.is_waiting = False
        self._choose(now)

    def _choose(self, now: float) -> None:
        """Choose the size of the next probe, or end the search."""
        low = self.size
        failed = self._failed
        candidate = 0
        if failed > self._maximum > low:
            candidate = self._maximum
        elif failed - low > RESOLUTION_BYTES:
            candidate = (low + failed) // 2
            for size in COMMON_SIZES:
                if low < size < failed:
                    candidate = size
                    break
        self._tries = 0
        self.probe_number = NO_PROBE
        self.is_due = candidate > 0
        self.candidate = candidate if candidate > 0 else low
        self.raise_at = now + RAISE_S if failed <= self._maximum else NEVER

    def probe_transmitted(self, number: int) -> None:
        """Wait for the acknowledgement of a probe."""
        self.probe_number = number
        self.is_due = False

    def probe_acknowledged(self, now: float) -> None:
        """Use the size of the probe, and continue the search."""
        self.size = self.candidate
        self._forget_losses()
        self._choose(now)

    def forget_probe(self) -> None:
        """Transmit the probe again: the node has ceased to wait for its acknowledgement."""
        if self.probe_number != NO_PROBE:
            self.probe_number = NO_PROBE
            self.is_due = True

    def probe_lost(self, now: float) -> None:
        """Try the size again, or a smaller one if it has failed."""
        self._tries += 1
        if self._tries < PROBES_MAX:
            self.probe_number = NO_PROBE
            self.is_due = True
        else:
            self._failed = self.candidate
            self._choose(now)

    def refused(self, size: int, now: float) -> bool:
        """Use a smaller size, because the socket has refused one; return whether it did."""
        if size <= self.base or size > max(self.size, self.candidate):
            return False
        self._failed = min(self._failed, size)
        if self.size >= size:
            self.size = self.base
        self._choose(now)
        return True

    def try_again(self) -> None:
        """Let a new search begin: the path may have changed."""
        self.raise_at = NEVER
        self._failed = self._maximum + 1
        self.is_waiting = True

    def datagram_acknowledged(self, size: int, sent_at: float) -> None:
        """Note that the path carried a datagram above the base size at that time."""
        carried = self._carried
        if not carried or carried[-1][1] <= sent_at:
            while carried and carried[-1][0] <= size:
                carried.pop()
            carried.append((size, sent_at))
        if size >= self._lost_bytes:
            self._forget_losses()

    def datagram_lost(self, size: int, sent_at: float, now: float) -> None:
        """Fall back to the base size if too many datagrams above it were lost."""
        for carried_bytes, carried_at in self._carried:
            if carried_bytes >= size and carried_at >= sent_at:
                return
        self._lost += 1
        self._lost_bytes = min(self._lost_bytes, size)
        if self._lost >= BLACK_HOLE_LOSSES and self.size > self.base:
            self._failed = self.size
            self.size = self.base
            self._forget_losses()
            self._choose(now)

    def _forget_losses(self) -> None:
        self._lost = 0
        self._lost_bytes = self._maximum
