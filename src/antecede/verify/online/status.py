"""The violations that the online verifier finds, and its counters."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from antecede.verify.oracle import MessageId, Property
from antecede.verify.verdict import Status

__all__ = ["ONLINE_PROPERTIES", "Counters", "OnlineViolation", "determine_online_statuses"]

ONLINE_PROPERTIES = (
    Property.CAUSAL,
    Property.FIFO,
    Property.NO_DUPLICATION,
    Property.NO_CREATION,
)
"""The properties that can be judged before the end of a run: all but liveness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineViolation:
    """A violation, as soon as it is known."""

    property: Property
    process: int
    """The process at which the property is violated."""
    message: MessageId
    """The message that was delivered too early, twice, or without being sent to it."""
    sent_time: float | None
    """The time of the send of the message, if it is still known."""
    delivered_time: float
    """The time of the delivery that violates the property."""
    earlier: MessageId | None = None
    """For causal and fifo: a message that should have been delivered first."""
    earlier_sent_time: float | None = None
    earlier_delivered_time: float | None = None
    chain: tuple[MessageId, ...] = ()
    """For causal and fifo: messages from the earlier one to the message, each of which
    happened directly before the next; empty if the search took too long."""

    def format(self, names: Mapping[int, str]) -> str:
        """Return the violation as one line.

        Args:
            names: The names of the processes that have one.
        """

        def name(message: MessageId) -> str:
            return f"{names.get(message.source, message.source)}:{message.number}"

        process = names.get(self.process, f"process {self.process}")
        text = f"{self.property.value}: {process} delivered {name(self.message)}"
        if self.earlier is not None:
            text += f" before {name(self.earlier)}, which happened before it"
            chain = " -> ".join(map(name, self.chain))
            return f"{text}: {chain}" if chain else text
        if self.property is Property.NO_DUPLICATION:
            return f"{text} twice"
        return f"{text}, which was never sent to it"


@dataclass(slots=True)
class Counters:
    """What the online verifier has counted so far."""

    events: int = 0
    """Events of all kinds that arrived, without repeated ones."""
    messages: int = 0
    """Sends that were processed."""
    deliveries: int = 0
    """Deliveries that were processed."""
    late: int = 0
    """Events that arrived after the verifier had given them up."""
    repeated: int = 0
    """Rows of events that had arrived before."""
    missing: int = 0
    """Events that were given up: their ``seq`` is in a gap of a history."""
    unsent: int = 0
    """Deliveries whose send was given up."""
    lost_copies: int = 0
    """Copies to a target that were given up, because no delivery arrived."""
    violated: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys((p.value for p in ONLINE_PROPERTIES), 0)
    )
    """By property, the number of violations."""
    unknown: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys((p.value for p in ONLINE_PROPERTIES), 0)
    )
    """By property, the number of deliveries that cannot be judged."""

    def to_fields(self) -> dict[str, object]:
        """Return the counters as a JSON object."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


def determine_online_statuses(
    counters: Counters, *, has_ended: bool
) -> dict[Property, Status]:
    """Return the status of each property; before the end, none is held."""
    statuses = {}
    for which in ONLINE_PROPERTIES:
        if counters.violated[which.value]:
            statuses[which] = Status.VIOLATED
        elif not has_ended or counters.unknown[which.value] or counters.missing:
            statuses[which] = Status.UNKNOWN
        else:
            statuses[which] = Status.HELD
    return statuses
