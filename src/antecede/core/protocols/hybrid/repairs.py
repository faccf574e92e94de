"""Copies that held messages of ``bounded`` wait for, and when to ask for them again.

A message that is held because a copy of another process has not arrived shows that the
copy may be lost, often long before the timeout of its sender. If the copy does not arrive
within a round trip, the process asks the sender to transmit it again.
"""

from typing import Final

from antecede.core.process import NEVER, ProcessId

__all__ = ["Missing", "RepairQueue"]

ASKED_MAX: Final = 4
"""How often a process asks for a copy, at doubling intervals. After that, it relies on the
timeout of the sender, until the next message is held for a copy of this sender."""


class Missing:
    """The copies of a process that have not arrived."""

    __slots__ = ("ask_at", "asked", "number")

    number: int
    """The last of them that a held message waits for."""
    ask_at: float
    asked: int

    def __init__(self, number: int, ask_at: float) -> None:
        self.number = number
        self.ask_at = ask_at
        self.asked = 0


class RepairQueue:
    """The missing copies for which a process asks, by sender."""

    __slots__ = ("due", "missing")

    missing: dict[int, Missing]
    due: float
    """When to ask next, or earlier; infinite if no copy is missing."""

    def __init__(self) -> None:
        self.missing = {}
        self.due = NEVER

    def expect(self, sender: ProcessId, number: int, ask_at: float) -> None:
        """Ask for the copies up to ``number`` at a time, unless they arrive before."""
        missing = self.missing.get(sender)
        if missing is None:
            self.missing[sender] = Missing(number, ask_at)
            self.due = min(self.due, ask_at)
        elif number > missing.number:
            missing.number = number

    def arrived(self, sender: ProcessId, number: int) -> None:
        """Use the delivery of the copies of a sender up to ``number``."""
        if self.missing:
            missing = self.missing.get(sender)
            if missing is not None and missing.number <= number:
                self.forget(sender)

    def forget(self, sender: ProcessId) -> None:
        """Ask a sender for nothing any more."""
        if self.missing.pop(sender, None) is not None and not self.missing:
            self.due = NEVER

    def take_due(self, now: float, interval_s: float) -> list[ProcessId]:
        """Return the senders to ask now."""
        asked: list[ProcessId] = []
        due = NEVER
        for sender, missing in list(self.missing.items()):
            if missing.ask_at <= now:
                asked.append(ProcessId(sender))
                missing.asked += 1
                missing.ask_at = now + interval_s * (1 << missing.asked)
                if missing.asked == ASKED_MAX:
                    del self.missing[sender]
                    continue
            due = min(due, missing.ask_at)
        self.due = due
        return asked
