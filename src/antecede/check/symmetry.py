"""Symmetry: states that are equal up to a permutation of the processes are one state.

Processes run the same code. Permuting a local state needs no knowledge of its contents: the
inputs that led to it, with the processes permuted, lead to the permuted state. The permuted
packet is the one that the permuted process transmits to the permuted target at the permuted
step. A protocol for which this fails, because it treats process 0 differently, is detected.
"""

import itertools
from typing import Final

from antecede.check.inputs import (
    REMOVAL_KINDS,
    REMOVALS,
    TIMER,
    removal_input,
    send_input,
)
from antecede.check.transitions import LocalState, Packet, TransitionTable
from antecede.errors import ConfigError

__all__ = ["NOT_SYMMETRIC", "Symmetry"]

NOT_SYMMETRIC: Final = "this protocol is not symmetric: check it with --symmetry off"


class Symmetry:
    """All permutations of the processes of a table."""

    __slots__ = ("_least", "_locals", "_packets", "_processes", "_table", "permutations")

    permutations: list[list[int]]
    """Each maps process ``p`` to ``permutation[p]``; the first is the identity."""

    def __init__(self, table: TransitionTable) -> None:
        self._table = table
        self._processes = len(table.start)
        indices = range(self._processes)
        self.permutations = [list(order) for order in itertools.permutations(indices)]
        self._locals: list[dict[int, LocalState]] = [{} for _ in self.permutations]
        self._packets: list[dict[int, int]] = [{} for _ in self.permutations]
        self._least: dict[int, int] = {}

    def local(self, which: int, local: LocalState) -> LocalState:
        """Return a local state under a permutation."""
        known = self._locals[which].get(local.id)
        if known is None:
            if local.parent is None:
                known = self._table.start[self.permutations[which][local.process]]
            else:
                parent = self.local(which, local.parent)
                known = self._table.step(parent, self.input(which, local.input)).local
            self._locals[which][local.id] = known
        return known

    def input(self, which: int, input: int) -> int:
        """Return an input under a permutation."""
        if input > TIMER:
            return self.packet(which, input)
        if input == TIMER:
            return TIMER
        if input <= REMOVALS:
            peer, kind = divmod(REMOVALS - input, REMOVAL_KINDS)
            return removal_input(kind, self.permutations[which][peer])
        return send_input(self.process_set(which, TIMER - input))

    def process_set(self, which: int, bits: int) -> int:
        """Return a bit set of processes under a permutation."""
        permutation = self.permutations[which]
        permuted = 0
        for process in range(self._processes):
            if bits >> process & 1:
                permuted |= 1 << permutation[process]
        return permuted

    def packet(self, which: int, id: int) -> int:
        """Return the id of a packet under a permutation."""
        known = self._packets[which].get(id, -1)
        if known < 0:
            known = self._find_packet(which, self._table.packets[id])
            self._packets[which][id] = known
        return known

    def _find_packet(self, which: int, packet: Packet) -> int:
        sender = packet.sender
        assert sender is not None
        position = 0  # Among the packets of the step that have the same target.
        for other in self._table.step(sender, packet.input).packets:
            if other == packet.id:
                break
            position += self._table.packets[other].target == packet.target
        permuted = self._table.step(
            self.local(which, sender), self.input(which, packet.input)
        )
        target = self.permutations[which][packet.target]
        for other in permuted.packets:
            if self._table.packets[other].target == target:
                if position == 0:
                    return other
                position -= 1
        raise ConfigError(NOT_SYMMETRIC)

    def least_fingerprint(self, local: LocalState) -> int:
        """Return the least fingerprint of a local state under all permutations."""
        known = self._least.get(local.id, -1)
        if known < 0:
            known = min(
                [self.local(i, local).fingerprint for i in range(len(self.permutations))]
            )
            self._least[local.id] = known
        return known

    def candidates(self, locals: list[LocalState]) -> list[int]:
        """Return the permutations that sort the processes by their least fingerprint."""
        keys = [self.least_fingerprint(local) for local in locals]
        found: list[int] = []
        for which in range(len(self.permutations)):
            permutation = self.permutations[which]
            ordered = True
            for a in range(self._processes):
                for b in range(self._processes):
                    if keys[a] < keys[b] and permutation[a] > permutation[b]:
                        ordered = False
            if ordered:
                found.append(which)
        return found
