"""Count what breaks a property, and keep the earliest cases to show.

A run may break a property millions of times; what is kept is bounded.
"""

from collections.abc import Sequence

import numpy as np

from antecede.verify.kernels.matching import Faults
from antecede.verify.kernels.slots import Slots
from antecede.verify.kernels.stream import Rows, Stream
from antecede.verify.kernels.walk import Overtaken
from antecede.verify.oracle import MessageId, Property, Violation
from antecede.verify.witnesses import Suspect, find_chains

__all__ = ["Fault", "FaultFindings", "OrderFindings", "order_violations"]


Fault = tuple[int, int, int, int]
"""A row, the process, and the message's source and number: what faults are sorted by, so
that those that are kept do not depend on how the run was cut."""


class FaultFindings:
    """Breaches of one property that shows in a message by itself."""

    count: int
    """How many there are."""
    kept: list[Fault]
    """The earliest of them, in order."""

    def __init__(self, which: Property, kind: int, kept_max: int) -> None:
        """Look for faults of a kind, which break a property; keep so many of them."""
        self.which = which
        self.count = 0
        self.kept = []
        self._kind = kind
        self._kept_max = kept_max

    def take(self, faults: Faults, processes: Slots) -> None:
        """Take in faults, from anywhere in the run."""
        places = np.flatnonzero(faults.kind == self._kind)
        self.count += len(places)
        ids = processes.first
        columns = (
            faults.row[places],
            ids[faults.process[places]],
            ids[faults.source[places]],
            faults.number[places],
        )
        first = np.lexsort(columns[::-1])[: self._kept_max]
        found: list[Fault] = list(
            zip(*(column[first].tolist() for column in columns), strict=True)
        )
        self.keep(found)

    def keep(self, found: list[Fault]) -> None:
        """Keep of these and of those that were kept the earliest."""
        self.kept = sorted([*self.kept, *found])[: self._kept_max]

    def violations(self) -> list[Violation]:
        """Return those that were kept, the earliest first."""
        return [
            Violation(
                property=self.which, process=process, message=MessageId(source, number)
            )
            for _, process, source, number in self.kept
        ]


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
