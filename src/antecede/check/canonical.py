"""The canonical form of a global state: packets sorted, processes permuted.

Of all permutations of a state, the least is kept. To find it, the processes are first
sorted by the least fingerprint of their local states (:mod:`antecede.check.symmetry`); only
where two are equal are several orders tried.
"""

from antecede.check.removal import Removal
from antecede.check.row_layout import RowLayout
from antecede.check.silence import Silence
from antecede.check.symmetry import Symmetry
from antecede.check.transitions import TransitionTable

__all__ = ["Canonicalizer"]


class Canonicalizer:
    """Brings rows into canonical form, and translates ids to fingerprints and back."""

    __slots__ = (
        "_fifo",
        "_in_flight",
        "_layout",
        "_permuted_copies",
        "_processes",
        "_removal",
        "_silence",
        "_symmetry",
        "_table",
    )

    def __init__(
        self,
        table: TransitionTable,
        layout: RowLayout,
        symmetry: Symmetry | None,
        removal: Removal | None,
        silence: Silence | None,
        *,
        fifo: bool,
    ) -> None:
        self._table = table
        self._layout = layout
        self._symmetry = symmetry
        self._removal = removal
        self._silence = silence
        self._fifo = fifo
        self._processes = layout.processes
        self._in_flight = layout.in_flight
        self._permuted_copies: list[dict[int, int]] = []
        if symmetry is not None:
            self._permuted_copies = [{} for _ in symmetry.permutations]

    def sort(self, row: list[int]) -> None:
        """Sort the packets in flight; with FIFO channels, by channel alone."""
        in_flight = row[self._in_flight :]
        if len(in_flight) > 1:
            del row[self._in_flight :]
            if self._fifo:
                in_flight.sort(key=self._channel)  # The sort is stable.
            elif self._table.fingerprinted:
                in_flight.sort(key=self._fingerprint)
            else:
                in_flight.sort()
            row += in_flight

    def _channel(self, id: int) -> int:
        packet = self._table.packets[id]
        return packet.source * self._processes + packet.target

    def _fingerprint(self, id: int) -> int:
        return self._table.packets[id].fingerprint

    def canonical(self, row: list[int]) -> list[int]:
        """Return the least permutation of a row; the row itself without symmetry."""
        symmetry = self._symmetry
        if symmetry is None:
            return row
        locals_ = [self._table.locals[row[process]] for process in range(self._processes)]
        fingerprinted = self._table.fingerprinted
        best: list[int] = []
        best_key: list[int] = []
        for which in symmetry.candidates(locals_):
            permutation = symmetry.permutations[which]
            new = row.copy()
            for process in range(self._processes):
                new[permutation[process]] = symmetry.local(which, locals_[process]).id
            self._permute_sets(which, permutation, row, new)
            for index in range(self._in_flight, len(row)):
                new[index] = symmetry.packet(which, row[index])
            self.sort(new)
            key = self.to_fingerprints(new) if fingerprinted else new
            if not best or key < best_key:
                best = new
                best_key = key
        return best

    def _permute_sets(
        self, which: int, permutation: list[int], row: list[int], new: list[int]
    ) -> None:
        """Write the permuted sets of copies of ``row`` to ``new``."""
        processes = self._processes
        messages = self._layout.messages
        sends = self._layout.sends
        for process in range(processes):
            past = self.permute_copies(which, row[processes + process])
            new[processes + permutation[process]] = past
            for send in range(sends):
                before = row[messages + process * sends + send]
                message = permutation[process] * sends + send
                new[messages + message] = self.permute_copies(which, before)
        pending = self._layout.pending
        new[pending] = self.permute_copies(which, row[pending])
        if self._removal is not None:
            assert self._symmetry is not None
            given_up = self.permute_copies(which, self._removal.given_up(row))
            self._removal.permute(self._symmetry, which, row, new, given_up)
        if self._silence is not None:
            assert self._symmetry is not None
            self._silence.permute(self._symmetry, which, row, new)

    def permute_copies(self, which: int, copies: int) -> int:
        """Return a set of copies under a permutation."""
        if copies == 0:
            return 0
        known = self._permuted_copies[which].get(copies, -1)
        if known < 0:
            assert self._symmetry is not None
            permutation = self._symmetry.permutations[which]
            layout = self._layout
            known = 0
            for key, bit in layout.bits.items():
                if copies & bit:
                    message = key // self._processes
                    process = permutation[message // layout.sends]
                    target = permutation[key % self._processes]
                    copy = layout.copy(process, message % layout.sends, target)
                    known |= layout.bits[copy]
            self._permuted_copies[which][copies] = known
        return known

    # Fingerprints, which mean the same in every table of the same configuration.

    def to_fingerprints(self, row: list[int]) -> list[int]:
        """Return a row with fingerprints in place of ids."""
        new = row.copy()
        for process in range(self._processes):
            new[process] = self._table.locals[row[process]].fingerprint
        for index in range(self._in_flight, len(row)):
            new[index] = self._table.packets[row[index]].fingerprint
        return new

    def from_fingerprints(self, row: list[int]) -> list[int]:
        """Return a row with ids in place of fingerprints, which the table must know."""
        new = row.copy()
        for process in range(self._processes):
            new[process] = self._table.locals_by_fingerprint[row[process]].id
        for index in range(self._in_flight, len(row)):
            new[index] = self._table.packets_by_fingerprint[row[index]].id
        return new

    def unknown_fingerprints(self, row: list[int]) -> tuple[list[int], list[int]]:
        """Return the local states and the packets of a row that the table does not know."""
        locals_ = self._table.locals_by_fingerprint
        packets = self._table.packets_by_fingerprint
        return (
            [each for each in row[: self._processes] if each not in locals_],
            [each for each in row[self._in_flight :] if each not in packets],
        )
