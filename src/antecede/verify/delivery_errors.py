"""Count the violations of each property, and keep the earliest as examples.

A run may violate a property millions of times; the number of examples is bounded.
"""

from collections.abc import Sequence

import numpy as np

from antecede.verify.kernels.matching import DeliveryErrors
from antecede.verify.kernels.slot_map import SlotMap
from antecede.verify.kernels.state import EarlyDeliveries
from antecede.verify.kernels.stream import Rows, Stream
from antecede.verify.oracle import MessageId, Property, Violation
from antecede.verify.witnesses import EarlyDelivery, find_chains

__all__ = [
    "DeliveryError",
    "DeliveryErrorCollector",
    "EarlyDeliveryCollector",
    "order_violations",
]


DeliveryError = tuple[int, int, int, int]
"""A row, the process, and the message's source and number.

Errors sort by these fields, so the choice of examples does not depend on how the run was
divided into batches.
"""


class DeliveryErrorCollector:
    """Collects the violations of one property of single messages.

    These properties are no-duplication, no-creation and liveness.
    """

    count: int
    """The number of violations."""
    examples: list[DeliveryError]
    """The earliest violations, in order."""

    def __init__(self, property: Property, kind: int, examples_max: int) -> None:
        """Collect the errors of one kind, which violate ``property``."""
        self.property = property
        self.count = 0
        self.examples = []
        self._kind = kind
        self._examples_max = examples_max

    def add(self, errors: DeliveryErrors, processes: SlotMap) -> None:
        """Count the errors of this kind; batches may come in any order."""
        indexes = np.flatnonzero(errors.kind == self._kind)
        self.count += len(indexes)
        ids = processes.first
        columns = (
            errors.row[indexes],
            ids[errors.process[indexes]],
            ids[errors.source[indexes]],
            errors.number[indexes],
        )
        first = np.lexsort(columns[::-1])[: self._examples_max]
        found: list[DeliveryError] = list(
            zip(*(column[first].tolist() for column in columns), strict=True)
        )
        self.add_examples(found)

    def add_examples(self, found: list[DeliveryError]) -> None:
        """Keep the earliest of the examples so far and of ``found``."""
        self.examples = sorted([*self.examples, *found])[: self._examples_max]

    def violations(self) -> list[Violation]:
        """Return the examples as violations, the earliest first."""
        return [
            Violation(
                property=self.property, process=process, message=MessageId(source, number)
            )
            for _, process, source, number in self.examples
        ]


class EarlyDeliveryCollector:
    """Collects the violations of causal or of FIFO order; see :func:`order_violations`."""

    count: int
    """The number of violations."""
    examples: list[EarlyDelivery]
    """The earliest violations, in the order of their sends."""

    def __init__(self, property: Property, examples_max: int) -> None:
        """Collect the violations of ``property``, which is causal or fifo."""
        self.property = property
        self.count = 0
        self.examples = []
        self._examples_max = examples_max

    def add(self, rows: Rows, early: EarlyDeliveries) -> None:
        """Count the early deliveries of the next batch."""
        limit = early.own if self.property is Property.FIFO else early.limit
        indexes = np.flatnonzero(limit >= 0)
        self.count += len(indexes)
        for i in indexes[: self._examples_max - len(self.examples)]:
            send = early.send[i]
            example = EarlyDelivery(
                process=int(early.target[i]),
                source=int(rows.source[send]),
                number=int(rows.number[send]),
                send=int(rows.row[send]),
                limit=int(limit[i]),
            )
            self.examples.append(example)


def order_violations(
    stream: Stream, collectors: Sequence[EarlyDeliveryCollector]
) -> list[Violation]:
    """Return the examples of all collectors with their chains; this reads the run again."""
    examples = [
        (collector.property, example)
        for collector in collectors
        for example in collector.examples
    ]
    chains = find_chains(stream, [example for _, example in examples])
    ids = stream.processes.first
    return [
        Violation(
            property=which,
            process=int(ids[example.process]),
            message=chain[-1],
            chain=chain,
        )
        for (which, example), chain in zip(examples, chains, strict=True)
    ]
