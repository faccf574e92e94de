"""The actions of a schedule, and the successor states that they lead to."""

from typing import Final

__all__ = [
    "ABANDON",
    "ARRIVE",
    "DROP",
    "DUPLICATE",
    "FIRE",
    "FORGO",
    "RESET",
    "RETURN",
    "SEND",
    "SILENCE",
    "STOP",
    "Action",
    "Successor",
]

SEND: Final = 0
ARRIVE: Final = 1
DROP: Final = 2
DUPLICATE: Final = 3
FIRE: Final = 4
# The actions of a removal; see antecede.check.removal.
ABANDON: Final = 5
RESET: Final = 6
STOP: Final = 7
FORGO: Final = 8
# See antecede.check.silence.
SILENCE: Final = 9
RETURN: Final = 10


class Action:
    """One step from a global state to the next."""

    __slots__ = ("argument", "kind", "process")

    kind: int
    """One of the constants of this module."""
    process: int
    """The process that acts, or at which a packet arrives."""
    argument: int
    """For SEND the bit set of the targets; for ARRIVE, DROP and DUPLICATE the id of the
    packet; for ABANDON, RESET and FORGO the peer; else 0."""

    def __init__(self, kind: int, process: int, argument: int) -> None:
        self.kind = kind
        self.process = process
        self.argument = argument


class Successor:
    """A state, the action that leads to it, and the property that the action violates."""

    __slots__ = ("action", "state", "violated")

    violated: str
    """The name of the violated property, or an empty string."""

    def __init__(self, state: bytes, action: Action, violated: str) -> None:
        self.state = state
        self.action = action
        self.violated = violated
