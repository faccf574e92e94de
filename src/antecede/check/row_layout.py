"""The layout of a global state: a row of 32-bit numbers.

In this order: the ids of the local states; for each process the pending copies in its
causal past; the pending copies; for each message the pending copies in its past; the fault
budgets; the words of :mod:`antecede.check.removal` and :mod:`antecede.check.silence`, if
there are any; and the ids of the packets in flight.

Every copy of a message has a bit. A copy is *pending* from its send to its delivery.
"""

from typing import Final

from antecede.errors import ConfigError

__all__ = ["RowLayout"]

WORD_BITS: Final = 32


class RowLayout:
    """The offsets of the parts of a row, and the bits of the copies."""

    __slots__ = (
        "bits",
        "budgets",
        "copies_from",
        "copies_of",
        "copies_to",
        "in_flight",
        "messages",
        "pending",
        "processes",
        "removal",
        "sends",
        "silence",
    )

    processes: int
    """The number of processes, and the offset of the causal pasts."""
    sends: int
    """The number of messages that each process sends."""
    bits: dict[int, int]
    """The bit of each copy, by :meth:`copy`."""
    copies_of: list[int]
    """The copies of each message."""
    copies_from: list[int]
    """The copies that each process sends."""
    copies_to: list[int]
    """The copies for each process."""

    def __init__(
        self, options: list[list[list[int]]], removal_words: int, silence_words: int
    ) -> None:
        """Lay out the rows for the target sets that each message may have.

        Raise ConfigError if there are more copies than bits.
        """
        self.processes = len(options)
        self.sends = len(options[0])
        self.bits = {}
        for process in range(self.processes):
            for which in range(self.sends):
                for target in range(self.processes):
                    if any(bits >> target & 1 for bits in options[process][which]):
                        key = self.copy(process, which, target)
                        self.bits[key] = 1 << len(self.bits)
        if len(self.bits) > WORD_BITS:
            raise ConfigError(
                f"too many copies of messages: {len(self.bits)}, at most {WORD_BITS};"
                " reduce processes or messages"
            )
        self.copies_to = [0] * self.processes
        self.copies_from = [0] * self.processes
        self.copies_of = [0] * (self.processes * self.sends)
        for key, bit in self.bits.items():
            message = key // self.processes
            self.copies_of[message] |= bit
            self.copies_to[key % self.processes] |= bit
            self.copies_from[message // self.sends] |= bit
        self.pending = 2 * self.processes
        self.messages = self.pending + 1
        self.budgets = self.messages + self.processes * self.sends
        self.removal = self.budgets + 1
        self.silence = self.removal + removal_words
        self.in_flight = self.silence + silence_words

    def copy(self, process: int, which: int, target: int) -> int:
        """Return the key of the copy for ``target`` of a message, counted from 0."""
        return (process * self.sends + which) * self.processes + target

    def forget(self, row: list[int], copies: int) -> None:
        """Remove copies from all sets of a row: they are delivered, or given up."""
        pending = row[self.pending] & ~copies
        for index in range(self.processes, self.budgets):
            row[index] &= pending
        for message in range(self.processes * self.sends):
            if not self.copies_of[message] & pending:
                row[self.messages + message] = 0
