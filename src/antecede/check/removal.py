"""Processes that let go of each other: a space with these actions on top (docs/removal.md).

*Abandon.* At any moment, up to a budget, a process gives up its copies for a peer. By the
lease the peer accepts nothing any more of what is in flight to it from there, so all that
vanishes at the same moment. From then on the pair is *off*: the process sends and
transmits nothing to the peer. What the peer transmits still arrives; that it is ignored is
part of this, since what is in flight may stay there for ever.

*Renew.* At any moment later the pair is on again, with a raised epoch. The peer learns of
it by the first frame that arrives. Nothing arrives in between, so it may as well learn of
it at once.

*Stop.* At any moment, up to a budget, a process stops for good. Who says so has waited for
its leases to end, so what is in flight from it vanishes. Then every other process *waives*
its permits and abandons the copies for it, in any order and at any moment.

A copy that vanishes, waits at the sender, or waits at the target is given up, and
forgotten: should it be delivered, that is a violation. Frames are lost in this, so without
timers nothing is said about liveness once anybody has let go; with timers (there are some
if frames may be lost anyway) everything else must be delivered in the end. Timers fire when
all pairs are on, and all have let go of who stopped.

Two ways to be careless show what the rules are for. Without the *lease*, what is in flight
stays there. If processes are *mistaken*, they waive the permits of one that goes on.
"""

from array import array
from typing import Final

from antecede.check.state_space import Action, Space, Successor
from antecede.check.symmetry import Symmetry
from antecede.check.transitions import (
    ABANDON_PEER,
    RENEW_PEER,
    WAIVE_PEER,
    Model,
    change_input,
)
from antecede.core.process import NEVER

__all__ = ["ABANDON", "RENEW", "STOP", "WAIVE", "RemovalSpace"]

ABANDON: Final = 5
RENEW: Final = 6
STOP: Final = 7
WAIVE: Final = 8

# Where each word is among those that this space adds to a row.
BUDGETS: Final = 0
OFF: Final = 1
"""A bit for every pair of processes that is off, the sender first."""
WAIVED: Final = 2
"""A bit for every process and another whose permits it has waived."""
STOPPED: Final = 3
"""A bit for every process that has stopped."""
GIVEN_UP: Final = 4
"""Without the lease: the copies that were given up and may still come."""
WORDS: Final = 5


class RemovalSpace(Space):
    """A space in which processes let go of each other."""

    __slots__ = ("_first_budgets", "_lease", "_mistaken")

    def __init__(
        self,
        model: Model,
        options: list[list[list[int]]],
        *,
        abandons: int,
        stops: int,
        lease: bool,
        mistaken: bool,
        losses: int,
        duplicates: int,
        symmetry: Symmetry | None,
    ) -> None:
        """Set the bounds, as those of a :class:`Space`, and these.

        Args:
            model: The processes.
            options: For each process and each of its messages, the possible target sets.
            abandons: How often a process may let go of another in a run.
            stops: How many processes may stop in a run.
            lease: What was given up does not come late.
            mistaken: Who is said to have stopped goes on.
            losses: How many frames may be lost in a run.
            duplicates: How many frames may arrive twice in a run.
            symmetry: To take states for one that differ in names only.
        """
        self._lease = lease
        self._mistaken = mistaken
        self._first_budgets = abandons << 8 | stops
        extra = [self._first_budgets] + [0] * (WORDS - 1)
        super().__init__(
            model,
            options,
            fifo=False,
            losses=losses,
            duplicates=duplicates,
            symmetry=symmetry,
            extra=extra,
            faults=abandons + stops,
        )

    def successors(self, state: bytes, *, renamed: bool = True) -> list[Successor]:
        """Return all states that one step leads to; ``renamed`` to the least like them."""
        found = super().successors(state, renamed=renamed)
        row = array("I", state).tolist()
        for place in range(self._places):
            if self._has_stopped(row, place):
                continue
            if row[self._extra + BUDGETS] & 0xFF and not self._said_stopped(row, place):
                found.append(self._stop(row, place))
            for peer in range(self._places):
                if peer != place:
                    self._let_go(row, place, peer, found)
        return found

    def is_delivered(self, state: bytes) -> bool:
        """Tell whether everything was delivered that nobody has given up."""
        row = array("I", state).tolist()
        if not self._timers and row[self._extra + BUDGETS] != self._first_budgets:
            return True
        pending = row[self._pending] & ~row[self._extra + GIVEN_UP]
        for place in range(self._places):
            if self._has_stopped(row, place):
                pending &= ~(self._to[place] | self._from[place])
        return pending == 0

    # The actions.

    def _let_go(
        self, row: list[int], place: int, peer: int, found: list[Successor]
    ) -> None:
        """Add what a process may do about a peer."""
        off = row[self._extra + OFF] >> self._pair(place, peer) & 1
        waived = row[self._extra + WAIVED] >> self._pair(place, peer) & 1
        stopped = self._has_stopped(row, peer)
        if not off and (stopped or row[self._extra + BUDGETS] >> 8):
            found.append(self._abandon(row, place, peer))
        if not waived and self._said_stopped(row, peer):
            found.append(self._waive(row, place, peer))
        if off and not stopped and self._lease:
            found.append(self._renew(row, place, peer))

    def _abandon(self, row: list[int], place: int, peer: int) -> Successor:
        new = row.copy()
        if not self._has_stopped(row, peer):
            new[self._extra + BUDGETS] -= 1 << 8
        new[self._extra + OFF] |= 1 << self._pair(place, peer)
        self._give_up(new, self._from[place] & self._to[peer])
        if self._lease:
            self._vanish(new, 1 << self._pair(place, peer))
        step = self._model.step(
            self._model.locals[row[place]], change_input(ABANDON_PEER, peer)
        )
        broken = self._apply(new, place, step)
        return Successor(self._pack(new, step), Action(ABANDON, place, peer), broken)

    def _renew(self, row: list[int], place: int, peer: int) -> Successor:
        new = row.copy()
        new[self._extra + OFF] &= ~(1 << self._pair(place, peer))
        step = self._model.step(
            self._model.locals[row[peer]], change_input(RENEW_PEER, place)
        )
        broken = self._apply(new, peer, step)
        return Successor(self._pack(new, step), Action(RENEW, peer, place), broken)

    def _stop(self, row: list[int], place: int) -> Successor:
        new = row.copy()
        new[self._extra + BUDGETS] -= 1
        new[self._extra + STOPPED] |= 1 << place
        if not self._mistaken:
            self._give_up(new, self._from[place])
            pairs = 0
            for peer in range(self._places):
                pairs |= 1 << self._pair(peer, place)
                if self._lease:
                    pairs |= 1 << self._pair(place, peer)
            self._vanish(new, pairs)
        return Successor(self._pack(new, None), Action(STOP, place, 0), "")

    def _waive(self, row: list[int], place: int, peer: int) -> Successor:
        new = row.copy()
        new[self._extra + WAIVED] |= 1 << self._pair(place, peer)
        step = self._model.step(
            self._model.locals[row[place]], change_input(WAIVE_PEER, peer)
        )
        broken = self._apply(new, place, step)
        return Successor(self._pack(new, step), Action(WAIVE, place, peer), broken)

    def _give_up(self, row: list[int], copies: int) -> None:
        """Wait for these copies no longer; by the lease, none of them can come."""
        if self._lease:
            self._forget(row, copies)
        else:
            row[self._extra + GIVEN_UP] |= copies & row[self._pending]

    def _vanish(self, row: list[int], pairs: int) -> None:
        """Remove what is in flight between these pairs."""
        flying = row[self._flying :]
        del row[self._flying :]
        row += [number for number in flying if not pairs >> self._channel(number) & 1]

    # What is not possible any more.

    def _possible(self, row: list[int], place: int) -> list[int]:
        possible = super()._possible(row, place)
        if self._has_stopped(row, place):
            return []
        off = row[self._extra + OFF] >> (place * self._places)
        off &= (1 << self._places) - 1
        return [targets for targets in possible if not targets & off] if off else possible

    def _due(self, row: list[int], place: int) -> float:
        if self._has_stopped(row, place) or not self._has_let_go(row):
            return NEVER
        return super()._due(row, place)

    def _post(self, row: list[int], packets: list[int]) -> None:
        off = row[self._extra + OFF]
        for number in packets:
            packet = self._model.packets[number]
            if off >> self._channel(number) & 1 or self._has_stopped(row, packet.target):
                continue
            row.append(number)

    def _given_up(self, row: list[int]) -> int:
        return row[self._extra + GIVEN_UP]

    def _has_let_go(self, row: list[int]) -> bool:
        """Tell whether all pairs are on, save those with a process that has stopped."""
        for place in range(self._places):
            for peer in range(self._places):
                if place == peer or self._has_stopped(row, place):
                    continue
                off = row[self._extra + OFF] >> self._pair(place, peer) & 1
                waived = row[self._extra + WAIVED] >> self._pair(place, peer) & 1
                stopped = self._has_stopped(row, peer)
                if (not off or not waived) if stopped else off:
                    return False
        return True

    def _said_stopped(self, row: list[int], place: int) -> bool:
        return row[self._extra + STOPPED] >> place & 1 == 1

    def _has_stopped(self, row: list[int], place: int) -> bool:
        return not self._mistaken and self._said_stopped(row, place)

    def _pair(self, place: int, peer: int) -> int:
        return place * self._places + peer

    def _rename_extra(self, which: int, row: list[int], new: list[int]) -> None:
        assert self._symmetry is not None
        extra = self._extra
        new[extra + STOPPED] = self._symmetry.targets(which, row[extra + STOPPED])
        new[extra + GIVEN_UP] = self._rename_copies(which, row[extra + GIVEN_UP])
        for word in (OFF, WAIVED):
            renamed = 0
            pairs = row[extra + word]
            while pairs:
                pair = pairs.bit_length() - 1
                pairs ^= 1 << pair
                place, peer = divmod(pair, self._places)
                renaming = self._symmetry.renamings[which]
                renamed |= 1 << self._pair(renaming[place], renaming[peer])
            new[extra + word] = renamed
