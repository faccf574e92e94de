"""Processes run the same code: states that differ only in their names are one state.

Renaming a local state needs no knowledge of its insides. It came about by inputs; the same
inputs with the processes renamed lead to the renamed state. A packet likewise: it is what
the renamed process transmits to the renamed target at the renamed step. A protocol for
which that is not so, because it treats process 0 differently, is found out on the way.

Of all renamings of a global state the least is kept. To find it, processes are first put in
the order of the least ranks that any renaming gives their local states; only where two
are equal is more than one order tried.
"""

from itertools import permutations
from typing import Final

from antecede.check.transitions import (
    CHANGE_KINDS,
    CHANGES,
    TIMER,
    Local,
    Model,
    Packet,
    change_input,
    send_input,
)
from antecede.errors import ConfigError

__all__ = ["NOT_SYMMETRIC", "Symmetry"]

NOT_SYMMETRIC: Final = "this protocol is not symmetric: check it with --reduce off"


class Symmetry:
    """All renamings of a model's processes."""

    __slots__ = ("_least", "_locals", "_model", "_packets", "_places", "renamings")

    renamings: list[list[int]]
    """In each, the process ``p`` is called ``renaming[p]``; the first changes nothing."""

    def __init__(self, model: Model) -> None:
        """Prepare for the renamings of all processes of ``model``."""
        self._model = model
        self._places = len(model.start)
        self.renamings = [list(order) for order in permutations(range(self._places))]
        self._locals: list[dict[int, Local]] = [{} for _ in self.renamings]
        self._packets: list[dict[int, int]] = [{} for _ in self.renamings]
        self._least: dict[int, int] = {}

    def local(self, which: int, local: Local) -> Local:
        """Return a local state under a renaming."""
        known = self._locals[which].get(local.id)
        if known is None:
            place = self.renamings[which][local.place]
            if local.parent is None:
                known = self._model.start[place]
            else:
                parent = self.local(which, local.parent)
                step = self._model.step(parent, self.input(which, local.input))
                known = step.local
            self._locals[which][local.id] = known
        return known

    def input(self, which: int, given: int) -> int:
        """Return an input under a renaming."""
        if given > TIMER:
            return self.packet(which, given)
        if given == TIMER:
            return TIMER
        if given <= CHANGES:
            peer, kind = divmod(CHANGES - given, CHANGE_KINDS)
            return change_input(kind, self.renamings[which][peer])
        return send_input(self.targets(which, TIMER - given))

    def targets(self, which: int, bits: int) -> int:
        """Return a set of processes under a renaming."""
        renaming = self.renamings[which]
        renamed = 0
        for place in range(self._places):
            if bits >> place & 1:
                renamed |= 1 << renaming[place]
        return renamed

    def packet(self, which: int, number: int) -> int:
        """Return the number of a packet under a renaming."""
        known = self._packets[which].get(number, -1)
        if known < 0:
            known = self._find_packet(which, self._model.packets[number])
            self._packets[which][number] = known
        return known

    def _find_packet(self, which: int, packet: Packet) -> int:
        maker = packet.maker
        assert maker is not None
        before = self._model.step(maker, packet.input)
        rank = 0  # Among those to the same target.
        for other in before.packets:
            if other == packet.id:
                break
            rank += self._model.packets[other].target == packet.target
        renamed = self._model.step(
            self.local(which, maker), self.input(which, packet.input)
        )
        target = self.renamings[which][packet.target]
        for other in renamed.packets:
            if self._model.packets[other].target == target:
                if rank == 0:
                    return other
                rank -= 1
        raise ConfigError(NOT_SYMMETRIC)

    def least(self, local: Local) -> int:
        """Return the least rank that any renaming gives a local state."""
        known = self._least.get(local.id, -1)
        if known < 0:
            known = min(
                [self.local(which, local).rank for which in range(len(self.renamings))]
            )
            self._least[local.id] = known
        return known

    def candidates(self, locals: list[Local]) -> list[int]:
        """Return the renamings that put processes in the order of their least ranks."""
        keys = [self.least(local) for local in locals]
        found: list[int] = []
        for which in range(len(self.renamings)):
            renaming = self.renamings[which]
            ordered = True
            for a in range(self._places):
                for b in range(self._places):
                    if keys[a] < keys[b] and renaming[a] > renaming[b]:
                        ordered = False
            if ordered:
                found.append(which)
        return found
