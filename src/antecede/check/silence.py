"""Silent processes: the actions that they add to a state space, and what must be delivered.

*Silence.* At any moment, up to a budget, a process becomes silent: it takes no step any
more. It sends nothing, its timers do not fire, and packets to it are lost, those in flight
included. Packets that it has transmitted arrive, or are lost like those of other processes.
No process removes it.

*Return.* At any later moment, up to another budget, the process takes steps again, with the
state that it had.

*Liveness.* A pending copy is *excused* if its source or its target is silent, or if a copy
of a silent process to the same target is pending in the past of its message: then causal
order itself forbids the delivery. Every other copy must be delivered.
"""

from typing import Final

from antecede.check.actions import RETURN, SILENCE, Action
from antecede.check.row_layout import RowLayout
from antecede.check.symmetry import Symmetry
from antecede.check.transitions import TransitionTable

__all__ = ["WORDS", "Silence"]

# The offset of each word after RowLayout.silence.
BUDGETS: Final = 0
SILENT: Final = 1
"""A bit for every process that is silent."""
WORDS: Final = 2


class Silence:
    """The rules of silence for the rows of one layout."""

    __slots__ = ("_budgets", "_layout", "_processes", "_table", "_words")

    def __init__(
        self, silences: int, returns: int, table: TransitionTable, layout: RowLayout
    ) -> None:
        """Set the maximum numbers of silences and of returns in a schedule."""
        self._budgets = silences << 8 | returns
        self._table = table
        self._layout = layout
        self._processes = layout.processes
        self._words = layout.silence

    def first_words(self) -> list[int]:
        """Return the words of the initial row."""
        return [self._budgets] + [0] * (WORDS - 1)

    def is_silent(self, row: list[int], process: int) -> bool:
        """Return whether a process is silent."""
        return row[self._words + SILENT] >> process & 1 == 1

    def transmit(self, row: list[int], packets: list[int]) -> None:
        """Put packets in flight, except those to silent processes."""
        for packet_id in packets:
            if not self.is_silent(row, self._table.packets[packet_id].target):
                row.append(packet_id)

    def undelivered(self, row: list[int]) -> int:
        """Return the pending copies that must be delivered: all that are not excused."""
        layout = self._layout
        to_silent = 0
        from_silent = 0
        for process in range(self._processes):
            if self.is_silent(row, process):
                to_silent |= layout.copies_to[process]
                from_silent |= layout.copies_from[process]
        pending = row[layout.pending] & ~to_silent & ~from_silent
        found = 0
        for message in range(self._processes * layout.sends):
            copies = layout.copies_of[message] & pending
            if copies:
                missing = row[layout.messages + message] & from_silent
                for target in range(self._processes):
                    if not missing & layout.copies_to[target]:
                        found |= copies & layout.copies_to[target]
        return found

    def moves(self, row: list[int]) -> list[tuple[Action, list[int]]]:
        """Return all actions of silence that a row permits, each with the row after it."""
        found: list[tuple[Action, list[int]]] = []
        budgets = row[self._words + BUDGETS]
        for process in range(self._processes):
            if self.is_silent(row, process):
                if budgets & 0xFF:
                    new = row.copy()
                    new[self._words + BUDGETS] -= 1
                    new[self._words + SILENT] &= ~(1 << process)
                    found.append((Action(RETURN, process, 0), new))
            elif budgets >> 8:
                start = self._layout.in_flight
                new = row[:start]
                new[self._words + BUDGETS] -= 1 << 8
                new[self._words + SILENT] |= 1 << process
                self.transmit(new, row[start:])
                found.append((Action(SILENCE, process, 0), new))
        return found

    def permute(
        self, symmetry: Symmetry, which: int, row: list[int], new: list[int]
    ) -> None:
        """Write the permuted words of ``row`` to ``new``."""
        words = self._words
        new[words + SILENT] = symmetry.process_set(which, row[words + SILENT])
