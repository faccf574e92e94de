"""Count what breaks a property, and keep the earliest cases to show.

A run may break a property millions of times; what is kept is bounded.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np

from antecede.trace.kernel import Overtaken
from antecede.trace.matching import Faults
from antecede.trace.oracle import MessageId, Property, Violation
from antecede.trace.slots import Slots
from antecede.trace.stream import Rows, Stream
from antecede.trace.witness import Suspect, find_chains

__all__ = ["FaultFindings", "OrderFindings", "order_violations"]


class FaultFindings:
    """Breaches of one property that shows in a message by itself."""

    count: int
    """How many there are."""

    def __init__(self, which: Property, kind: int, kept_max: int) -> None:
        """Look for faults of a kind, which break a property; keep so many of them."""
        self.which = which
        self.count = 0
        self._kind = kind
        self._kept_max = kept_max
        # The pass is backward, so the last to come are the earliest, which are kept.
        self._kept: deque[tuple[int, ...]] = deque(maxlen=kept_max)

    def take(self, faults: Faults) -> None:
        """Take in the faults of a batch, the last ones first."""
        places = np.flatnonzero(faults.kind == self._kind)
        self.count += len(places)
        for i in places[max(0, len(places) - self._kept_max) :]:
            self._kept.append(_fault(faults, i))

    def take_invented(self, faults: Faults) -> None:
        """Take in faults that may lie anywhere in the run, the first ones first."""
        self.count += len(faults.row)
        invented = [_fault(faults, i) for i in range(min(len(faults.row), self._kept_max))]
        earliest = sorted([*self._kept, *invented])[: self._kept_max]
        self._kept = deque(reversed(earliest), maxlen=self._kept_max)

    def violations(self, processes: Slots) -> list[Violation]:
        """Return those that were kept, the earliest first."""
        ids = processes.first
        return [
            Violation(
                property=self.which,
                process=int(ids[process]),
                message=MessageId(int(ids[source]), number),
            )
            for _, process, source, number in sorted(self._kept)
        ]


def _fault(faults: Faults, i: int) -> tuple[int, ...]:
    columns = (faults.row, faults.process, faults.source, faults.number)
    return tuple(int(column[i]) for column in columns)


class OrderFindings:
    """Breaches of causal order, or of FIFO order alone; see :func:`order_violations`."""

    count: int
    """How many there are."""
    kept: list[Suspect]
    """The earliest of them."""

    def __init__(self, which: Property, kept_max: int) -> None:
        """Look for breaches of causal or fifo, and keep so many of them."""
        self.which = which
        self.count = 0
        self._kept_max = kept_max
        self.kept: list[Suspect] = []

    def take(self, rows: Rows, overtaken: Overtaken) -> None:
        """Take in what the walk of a batch has found."""
        limit = overtaken.own if self.which is Property.FIFO else overtaken.limit
        places = np.flatnonzero(limit >= 0)
        self.count += len(places)
        for i in places[: self._kept_max - len(self.kept)]:
            send = overtaken.send[i]
            suspect = Suspect(
                process=int(overtaken.target[i]),
                source=int(rows.source[send]),
                number=int(rows.number[send]),
                send=int(rows.row[send]),
                limit=int(limit[i]),
            )
            self.kept.append(suspect)


def order_violations(stream: Stream, orders: Sequence[OrderFindings]) -> list[Violation]:
    """Return the breaches that were kept, with their chains; reads the run again."""
    kept = [(order.which, suspect) for order in orders for suspect in order.kept]
    chains = find_chains(stream, [suspect for _, suspect in kept])
    ids = stream.processes.first
    return [
        Violation(
            property=which,
            process=int(ids[suspect.process]),
            message=chain[-1],
            chain=chain,
        )
        for (which, suspect), chain in zip(kept, chains, strict=True)
    ]
