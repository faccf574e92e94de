"""Removal of peers: the rules and actions that it adds to a state space.

The proof that these rules keep causal order is in docs/explanation/peer-removal.md.

*Abandon.* At any moment, up to a budget, a process gives up its copies for a peer. By the
lease, the peer accepts none of the packets that are in flight to it from the process, so
they are dropped in the same step. So are the messages that the peer holds until it has
delivered a message of a third process (``bounded``). From then on the pair is *off*: the
process sends and transmits nothing to the peer. The peer's packets still arrive; schedules
in which they are ignored are included, because a packet may stay in flight for ever.

*Reset.* At any later moment the pair is on again, with a higher epoch. The peer learns of
the reset from the first frame that arrives. No frame arrives before it, so the peer may as
well learn of it at once.

*Stop.* At any moment, up to a budget, a process stops for good. It is declared stopped only
after its leases have ended, so its packets in flight are dropped, and what others hold from
it. Then every other process *forgoes* its permits and abandons the copies for it, in any
order and at any moment.

A copy that is dropped, queued at the sender or held at the target is given up and
forgotten; its delivery would be a violation. Frames are lost in this way, so without timers
liveness is not checked once a process has been removed. With timers (if frames may be lost
anyway) all other messages must be delivered. Timers fire when all pairs are on and every
process has removed those that stopped.

Two options show why the rules are needed. Without the *lease*, packets stay in flight. With
*false suspicion*, processes forgo the permits of a process that has not stopped.
"""

from typing import Final

from antecede.check.actions import ABANDON, FORGO, RESET, STOP, Action
from antecede.check.inputs import (
    ABANDON_PEER,
    DROP_HELD,
    FORGO_PERMITS,
    RESET_CHANNEL,
    removal_input,
)
from antecede.check.row_layout import RowLayout
from antecede.check.symmetry import Symmetry
from antecede.check.transitions import TransitionTable

__all__ = ["WORDS", "Move", "Removal", "RemovalLimits"]

# The offset of each word after RowLayout.removal.
BUDGETS: Final = 0
OFF: Final = 1
"""A bit for every pair of processes that is off, the sender first."""
FORGONE: Final = 2
"""A bit for every process and a peer whose permits it forgoes."""
STOPPED: Final = 3
"""A bit for every process that is declared stopped."""
GIVEN_UP: Final = 4
"""Without the lease: the copies that were given up and may still arrive."""
WORDS: Final = 5


class RemovalLimits:
    """The bounds on removals in a schedule."""

    __slots__ = ("false_suspicion", "lease", "removals", "stops")

    def __init__(
        self, *, removals: int, stops: int, lease: bool, false_suspicion: bool
    ) -> None:
        """Set the bounds.

        Args:
            removals: The maximum number of removals of a live peer.
            stops: The maximum number of processes that stop.
            lease: Copies that were given up do not arrive.
            false_suspicion: A process that is declared stopped keeps running.
        """
        self.removals = removals
        self.stops = stops
        self.lease = lease
        self.false_suspicion = false_suspicion


class Move:
    """A row after an action of removal, and the input that the action gives a process."""

    __slots__ = ("action", "input", "row")

    input: int
    """The input to the process of the action; 0 for STOP, which gives none."""

    def __init__(self, row: list[int], action: Action, input: int) -> None:
        self.row = row
        self.action = action
        self.input = input


class Removal:
    """The rules of removal for the rows of one layout."""

    __slots__ = (
        "_budgets",
        "_false_suspicion",
        "_layout",
        "_lease",
        "_processes",
        "_table",
        "_words",
    )

    def __init__(
        self, limits: RemovalLimits, table: TransitionTable, layout: RowLayout
    ) -> None:
        self._lease = limits.lease
        self._false_suspicion = limits.false_suspicion
        self._budgets = limits.removals << 8 | limits.stops
        self._table = table
        self._layout = layout
        self._processes = layout.processes
        self._words = layout.removal

    def first_words(self) -> list[int]:
        """Return the words of the initial row."""
        return [self._budgets] + [0] * (WORDS - 1)

    # What a row permits.

    def allowed(self, row: list[int], process: int, options: list[int]) -> list[int]:
        """Return those of the target sets ``options`` to which a process may send."""
        if self._has_stopped(row, process):
            return []
        off = row[self._words + OFF] >> (process * self._processes)
        off &= (1 << self._processes) - 1
        return [targets for targets in options if not targets & off] if off else options

    def may_fire(self, row: list[int], process: int) -> bool:
        """Return whether the timers of a process may fire."""
        return not self._has_stopped(row, process) and self._is_settled(row)

    def transmit(self, row: list[int], packets: list[int]) -> None:
        """Put packets in flight, except those between a pair that is off."""
        off = row[self._words + OFF]
        for packet_id in packets:
            packet = self._table.packets[packet_id]
            if off >> self._pair(packet.source, packet.target) & 1:
                continue
            if not self._has_stopped(row, packet.target):
                row.append(packet_id)

    def given_up(self, row: list[int]) -> int:
        """Return the copies that need not be delivered, though they may still arrive."""
        return row[self._words + GIVEN_UP]

    def undelivered(self, row: list[int], *, timers: bool) -> int:
        """Return the pending copies that must be delivered: none that was given up."""
        if not timers and row[self._words + BUDGETS] != self._budgets:
            return 0
        layout = self._layout
        pending = row[layout.pending] & ~row[self._words + GIVEN_UP]
        for process in range(self._processes):
            if self._has_stopped(row, process):
                pending &= ~(layout.copies_to[process] | layout.copies_from[process])
        return pending

    # The actions.

    def moves(self, row: list[int]) -> list[Move]:
        """Return all actions of removal that a row permits."""
        found: list[Move] = []
        for process in range(self._processes):
            if self._has_stopped(row, process):
                continue
            if row[self._words + BUDGETS] & 0xFF and not self._is_declared(row, process):
                found.append(self._stop(row, process))
            for peer in range(self._processes):
                if peer != process:
                    self._add_moves(row, process, peer, found)
        return found

    def _add_moves(
        self, row: list[int], process: int, peer: int, found: list[Move]
    ) -> None:
        """Append the actions of a process that concern a peer."""
        off = row[self._words + OFF] >> self._pair(process, peer) & 1
        forgone = row[self._words + FORGONE] >> self._pair(process, peer) & 1
        stopped = self._has_stopped(row, peer)
        if not off and (stopped or row[self._words + BUDGETS] >> 8):
            found.append(self._abandon(row, process, peer))
        if not forgone and self._is_declared(row, peer):
            new = row.copy()
            new[self._words + FORGONE] |= 1 << self._pair(process, peer)
            code = removal_input(FORGO_PERMITS, peer)
            found.append(Move(new, Action(FORGO, process, peer), code))
        if off and not stopped and self._lease:
            new = row.copy()
            new[self._words + OFF] &= ~(1 << self._pair(process, peer))
            code = removal_input(RESET_CHANNEL, process)
            found.append(Move(new, Action(RESET, peer, process), code))

    def _abandon(self, row: list[int], process: int, peer: int) -> Move:
        new = row.copy()
        if not self._has_stopped(row, peer):
            new[self._words + BUDGETS] -= 1 << 8
        new[self._words + OFF] |= 1 << self._pair(process, peer)
        layout = self._layout
        self._give_up(new, layout.copies_from[process] & layout.copies_to[peer])
        if self._lease:
            self._drop(new, 1 << self._pair(process, peer))
            self._drop_held(new, process, peer)
        action = Action(ABANDON, process, peer)
        return Move(new, action, removal_input(ABANDON_PEER, peer))

    def _stop(self, row: list[int], process: int) -> Move:
        new = row.copy()
        new[self._words + BUDGETS] -= 1
        new[self._words + STOPPED] |= 1 << process
        if not self._false_suspicion:
            self._give_up(new, self._layout.copies_from[process])
            pairs = 0
            for peer in range(self._processes):
                pairs |= 1 << self._pair(peer, process)
                if self._lease and peer != process:
                    pairs |= 1 << self._pair(process, peer)
                    self._drop_held(new, process, peer)
            self._drop(new, pairs)
        return Move(new, Action(STOP, process, 0), 0)

    def _give_up(self, row: list[int], copies: int) -> None:
        if self._lease:
            self._layout.forget(row, copies)
        else:
            row[self._words + GIVEN_UP] |= copies & row[self._layout.pending]

    def _drop(self, row: list[int], pairs: int) -> None:
        """Drop the packets in flight between these pairs."""
        start = self._layout.in_flight
        in_flight = row[start:]
        del row[start:]
        for packet_id in in_flight:
            packet = self._table.packets[packet_id]
            if not pairs >> self._pair(packet.source, packet.target) & 1:
                row.append(packet_id)

    def _drop_held(self, row: list[int], source: int, target: int) -> None:
        """Let a target drop the messages that it holds from a source."""
        if self._has_stopped(row, target):
            return
        local = self._table.locals[row[target]]
        step = self._table.step(local, removal_input(DROP_HELD, source))
        row[target] = step.local.id

    def _is_settled(self, row: list[int]) -> bool:
        """Return whether all pairs are on, and all have removed those that stopped."""
        for process in range(self._processes):
            for peer in range(self._processes):
                if process == peer or self._has_stopped(row, process):
                    continue
                off = row[self._words + OFF] >> self._pair(process, peer) & 1
                forgone = row[self._words + FORGONE] >> self._pair(process, peer) & 1
                stopped = self._has_stopped(row, peer)
                if (not off or not forgone) if stopped else off:
                    return False
        return True

    def _is_declared(self, row: list[int], process: int) -> bool:
        """Return whether a process is declared stopped, rightly or not."""
        return row[self._words + STOPPED] >> process & 1 == 1

    def _has_stopped(self, row: list[int], process: int) -> bool:
        return not self._false_suspicion and self._is_declared(row, process)

    def _pair(self, process: int, peer: int) -> int:
        return process * self._processes + peer

    def permute(
        self,
        symmetry: Symmetry,
        which: int,
        row: list[int],
        new: list[int],
        given_up: int,
    ) -> None:
        """Write the permuted words of ``row`` to ``new``; ``given_up`` is permuted."""
        words = self._words
        new[words + GIVEN_UP] = given_up
        new[words + STOPPED] = symmetry.process_set(which, row[words + STOPPED])
        permutation = symmetry.permutations[which]
        for word in (OFF, FORGONE):
            permuted = 0
            pairs = row[words + word]
            while pairs:
                pair = pairs.bit_length() - 1
                pairs ^= 1 << pair
                process, peer = divmod(pair, self._processes)
                permuted |= 1 << self._pair(permutation[process], permutation[peer])
            new[words + word] = permuted
