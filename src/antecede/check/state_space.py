"""Global states, packed small, and the steps between them.

A global state is a row of numbers: the local state of every process, what is in flight,
the budget of faults, and what the safety properties need to remember.

*Safety.* Every copy of a message has a bit. A copy is pending from its send to its
delivery. Each process has the set of pending copies in its past, each message that of its
sender when it was sent. A delivery breaks causal order exactly if a copy to the same
process is pending in the message's past; delivering what is not pending is a repetition,
or from nowhere. Copies that have been delivered are forgotten, so that states which differ
only in what is over are one state.

*Timers* fire when nothing is in flight. A process whose clock has passed the moment at
which another's timer is due lets that one go first; else a process could ask for ever while
the one that could help does not get its turn. Who has waited beyond patience is stuck.

*Reduction.* Processes run the same code, so states that differ only in the names of
processes are one (:mod:`antecede.check.symmetry`). Steps at different processes commute,
so what differs only in their order ends in the same state anyway, and is expanded once.
"""

from array import array
from collections.abc import Sequence
from typing import Final

from antecede.check.symmetry import Symmetry
from antecede.check.transitions import TIMER, Model, Step, send_input
from antecede.core.process import NEVER
from antecede.errors import ConfigError

__all__ = ["ARRIVE", "DUPLICATE", "FIRE", "LOSE", "SEND", "Action", "Space", "Successor"]

SEND: Final = 0
ARRIVE: Final = 1
LOSE: Final = 2
DUPLICATE: Final = 3
FIRE: Final = 4

WORD_BITS: Final = 32

PATIENCE_S: Final = 256.0
"""Far longer than it takes to get over a fault; there is so much for every fault."""


class Action:
    """What leads from a global state to the next."""

    __slots__ = ("kind", "place", "what")

    kind: int
    """SEND, ARRIVE, LOSE, DUPLICATE or FIRE, or one of a subclass."""
    place: int
    """The process that it happens to."""
    what: int
    """Of a send the bit set of the targets, of a packet its number, else a process."""

    def __init__(self, kind: int, place: int, what: int) -> None:
        """Make the record."""
        self.kind = kind
        self.place = place
        self.what = what


class Successor:
    """A state, the action that leads to it, and what that action breaks."""

    __slots__ = ("action", "broken", "state")

    broken: str
    """The property that the action breaks; empty if none."""

    def __init__(self, state: bytes, action: Action, broken: str) -> None:
        """Make the record."""
        self.state = state
        self.action = action
        self.broken = broken


class Space:
    """The global states of a model, for one program or for all of them at once."""

    __slots__ = (
        "_bits",
        "_budgets",
        "_copies",
        "_extra",
        "_fifo",
        "_flying",
        "_from",
        "_messages",
        "_model",
        "_options",
        "_patience",
        "_pending",
        "_places",
        "_renamed_copies",
        "_renaming",
        "_sends",
        "_symmetry",
        "_timers",
        "_to",
        "first",
    )

    first: bytes
    """The state in which everything begins."""

    def __init__(
        self,
        model: Model,
        options: list[list[list[int]]],
        *,
        fifo: bool,
        losses: int,
        duplicates: int,
        symmetry: Symmetry | None,
        extra: Sequence[int] = (),
        faults: int = 0,
    ) -> None:
        """Set the bounds.

        Args:
            model: The processes.
            options: For each process and each of its messages, the possible target sets.
            fifo: Frames of a pair arrive in the order transmitted.
            losses: How many frames may be lost in a run.
            duplicates: How many frames may arrive twice in a run.
            symmetry: To take states for one that differ in names only; the options must
                be the same for all processes then.
            extra: What a subclass remembers beside, as it is at the start.
            faults: How many faults of its own a subclass adds.
        """
        self._model = model
        self._options = options
        self._fifo = fifo
        self._symmetry = symmetry
        self._renaming = symmetry is not None
        self._renamed_copies: list[dict[int, int]] = []
        if symmetry is not None:
            self._renamed_copies = [{} for _ in symmetry.renamings]
        self._timers = losses > 0 or duplicates > 0
        self._patience = PATIENCE_S * (losses + duplicates + faults)
        self._places = len(options)
        self._sends = len(options[0])
        self._bits: dict[int, int] = {}
        for place in range(self._places):
            for which in range(self._sends):
                for target in range(self._places):
                    if any(bits >> target & 1 for bits in options[place][which]):
                        key = self._copy(place, which, target)
                        self._bits[key] = 1 << len(self._bits)
        if len(self._bits) > WORD_BITS:
            raise ConfigError(f"{len(self._bits)} copies of messages are too many to check")
        self._to = [0] * self._places
        self._from = [0] * self._places
        self._copies = [0] * (self._places * self._sends)
        for key, bit in self._bits.items():
            message = key // self._places
            self._copies[message] |= bit
            self._to[key % self._places] |= bit
            self._from[message // self._sends] |= bit
        # Where in a row of numbers each part begins; locals and pasts come first.
        self._pending = 2 * self._places
        self._messages = self._pending + 1
        self._budgets = self._messages + self._places * self._sends
        self._extra = self._budgets + 1
        self._flying = self._extra + len(extra)
        row = [local.id for local in model.start] + [0] * self._places + [0]
        row += [0] * (self._places * self._sends) + [losses << 8 | duplicates, *extra]
        self.first = self.least(array("I", row).tobytes())

    def successors(self, state: bytes, *, renamed: bool = True) -> list[Successor]:
        """Return all states that one step leads to; ``renamed`` to the least like them."""
        self._renaming = renamed and self._symmetry is not None
        row = array("I", state).tolist()
        found: list[Successor] = []
        for place in range(self._places):
            for targets in self._possible(row, place):
                which = self._model.locals[row[place]].sends
                step = self._send(row, place, which, targets)
                found.append(step)
        begin = self._flying
        previous = -1
        channel = -1
        for index in range(begin, len(row)):
            entry = row[index]
            if self._fifo:
                packet = self._model.packets[entry]
                own = packet.source * self._places + packet.target
                if own == channel:
                    continue  # Something is before it.
                channel = own
            elif entry == previous:
                continue  # The same packet twice.
            previous = entry
            self._take(row, index, found)
        if self._timers and len(row) == begin:
            due = self._earliest(row)
            for place in range(self._places):
                local = self._model.locals[row[place]]
                waits = self._due(row, place) < NEVER
                if due <= self._patience and waits and local.moment <= due:
                    step = self._fire(row, place)
                    found.append(step)
        return found

    def _earliest(self, row: list[int]) -> float:
        """Return when the first timer of all is due."""
        due = NEVER
        for place in range(self._places):
            due = min(due, self._due(row, place))
        return due

    # What a subclass may restrict.

    def _possible(self, row: list[int], place: int) -> list[int]:
        """Return the target sets to which a process may send now."""
        which = self._model.locals[row[place]].sends
        return self._options[place][which] if which < self._sends else []

    def _due(self, row: list[int], place: int) -> float:
        """Return when the next timer of a process is due."""
        return self._model.locals[row[place]].due

    def _post(self, row: list[int], packets: list[int]) -> None:
        """Put what is transmitted in flight."""
        row += packets

    def _given_up(self, row: list[int]) -> int:
        """Return the copies that nobody has to wait for, though they may still come."""
        return 0

    def _rename_extra(self, which: int, row: list[int], new: list[int]) -> None:
        """Rename what a subclass remembers."""

    def is_over(self, state: bytes) -> bool:
        """Tell whether everything was sent and nothing is in flight or awaited."""
        row = array("I", state).tolist()
        if len(row) > self._flying:
            return False
        for place in range(self._places):
            if self._possible(row, place):
                return False
        due = self._earliest(row)
        return not self._timers or due == NEVER or due > self._patience

    def is_delivered(self, state: bytes) -> bool:
        """Tell whether everything that was sent has been delivered."""
        return bool(array("I", state)[self._pending] == 0)

    # Steps.

    def _send(self, row: list[int], place: int, which: int, targets: int) -> Successor:
        new = row.copy()
        message = place * self._sends + which
        copies = 0
        for target in range(self._places):
            if targets >> target & 1:
                copies |= self._bits[self._copy(place, which, target)]
        new[self._messages + message] = new[self._places + place]
        new[self._pending] |= copies
        new[self._places + place] |= copies
        step = self._model.step(self._model.locals[row[place]], send_input(targets))
        broken = self._apply(new, place, step)
        return Successor(self._pack(new, step), Action(SEND, place, targets), broken)

    def _take(self, row: list[int], index: int, found: list[Successor]) -> None:
        """Let a packet arrive, or be lost, or be duplicated."""
        number = row[index]
        place = self._model.packets[number].target
        new = row.copy()
        del new[index]
        step = self._model.step(self._model.locals[row[place]], number)
        broken = self._apply(new, place, step)
        arrive = Action(ARRIVE, place, number)
        found.append(Successor(self._pack(new, step), arrive, broken))
        budgets = row[self._budgets]
        if budgets >> 8:
            new = row.copy()
            del new[index]
            new[self._budgets] -= 1 << 8
            state = self._pack(new, None)
            found.append(Successor(state, Action(LOSE, place, number), ""))
        if budgets & 0xFF:
            new = row.copy()
            new.insert(index, row[index])
            new[self._budgets] -= 1
            state = self._pack(new, None)
            found.append(Successor(state, Action(DUPLICATE, place, number), ""))

    def _fire(self, row: list[int], place: int) -> Successor:
        new = row.copy()
        step = self._model.step(self._model.locals[row[place]], TIMER)
        broken = self._apply(new, place, step)
        state = self._pack(new, step)
        return Successor(state, Action(FIRE, place, 0), broken)

    def _apply(self, row: list[int], place: int, step: Step) -> str:
        """Carry out a local step, and name the property that a delivery breaks, if any."""
        row[place] = step.local.id
        broken = ""
        for source, number in step.deliveries:
            bit = 0
            if number <= self._sends:
                bit = self._bits.get(self._copy(source, number - 1, place), 0)
            if not bit & row[self._pending]:
                sends = self._model.locals[row[source]].sends
                return "once" if bit and number <= sends else "genuine"
            message = source * self._sends + number - 1
            before = row[self._messages + message]
            given_up = self._given_up(row)
            early = before & self._to[place] & ~given_up
            if bit & given_up & row[self._places + place]:
                broken = "causal"  # What follows it was delivered already.
            if early:
                broken = "fifo" if early & self._from[source] else "causal"
            # From now on its past, and its copies to others, are in the target's past.
            row[self._places + place] |= before | self._copies[message]
            self._forget(row, bit)
        return broken

    def _forget(self, row: list[int], bit: int) -> None:
        """Remove a copy that has been delivered from all sets."""
        pending = row[self._pending] & ~bit
        for index in range(self._places, self._budgets):
            row[index] &= pending
        for message in range(self._places * self._sends):
            if not self._copies[message] & pending:
                row[self._messages + message] = 0

    def _pack(self, row: list[int], step: Step | None) -> bytes:
        """Put what is transmitted in flight, and pack the row, or the least like it."""
        if step is not None:
            self._post(row, step.packets)
        self._sort(row)
        if self._renaming:
            row = self._renamed(row)
        return array("I", row).tobytes()

    def least(self, state: bytes) -> bytes:
        """Return the least of the states that differ from this one in names only."""
        if self._symmetry is None:
            return state
        return array("I", self._renamed(array("I", state).tolist())).tobytes()

    def _sort(self, row: list[int]) -> None:
        flying = row[self._flying :]
        if len(flying) > 1:
            del row[self._flying :]
            if self._fifo:
                flying.sort(key=self._channel)  # The order of a pair stays.
            elif self._model.ranked:
                flying.sort(key=self._packet_rank)
            else:
                flying.sort()
            row += flying

    def _channel(self, number: int) -> int:
        packet = self._model.packets[number]
        return packet.source * self._places + packet.target

    def _packet_rank(self, number: int) -> int:
        return self._model.packets[number].rank

    def ranks(self, row: list[int]) -> list[int]:
        """Return a row with the ranks of local states and packets in place of numbers."""
        new = row.copy()
        for place in range(self._places):
            new[place] = self._model.locals[row[place]].rank
        for index in range(self._flying, len(row)):
            new[index] = self._model.packets[row[index]].rank
        return new

    def numbers(self, ranks: list[int]) -> list[int]:
        """Undo :meth:`ranks`; the model must know them all."""
        new = ranks.copy()
        for place in range(self._places):
            new[place] = self._model.by_rank[ranks[place]].id
        for index in range(self._flying, len(ranks)):
            new[index] = self._model.packets_by_rank[ranks[index]].id
        return new

    def strangers(self, ranks: list[int]) -> tuple[list[int], list[int]]:
        """Return the ranks of local states and of packets that the model does not know."""
        locals_ = [
            rank for rank in ranks[: self._places] if rank not in self._model.by_rank
        ]
        known = self._model.packets_by_rank
        return locals_, [rank for rank in ranks[self._flying :] if rank not in known]

    def _renamed(self, row: list[int]) -> list[int]:
        symmetry = self._symmetry
        assert symmetry is not None
        locals_ = [self._model.locals[row[place]] for place in range(self._places)]
        ranked = self._model.ranked
        best: list[int] = []
        best_ranks: list[int] = []
        for which in symmetry.candidates(locals_):
            renaming = symmetry.renamings[which]
            new = row.copy()
            for place in range(self._places):
                new[renaming[place]] = symmetry.local(which, locals_[place]).id
                past = self._rename_copies(which, row[self._places + place])
                new[self._places + renaming[place]] = past
                for send in range(self._sends):
                    before = row[self._messages + place * self._sends + send]
                    message = renaming[place] * self._sends + send
                    new[self._messages + message] = self._rename_copies(which, before)
            new[self._pending] = self._rename_copies(which, row[self._pending])
            self._rename_extra(which, row, new)
            for index in range(self._flying, len(row)):
                new[index] = symmetry.packet(which, row[index])
            self._sort(new)
            ranks = self.ranks(new) if ranked else new
            if not best or ranks < best_ranks:
                best = new
                best_ranks = ranks
        return best

    def _rename_copies(self, which: int, copies: int) -> int:
        if copies == 0:
            return 0
        known = self._renamed_copies[which].get(copies, -1)
        if known < 0:
            assert self._symmetry is not None
            renaming = self._symmetry.renamings[which]
            known = 0
            for key, bit in self._bits.items():
                if copies & bit:
                    message = key // self._places
                    place = renaming[message // self._sends]
                    target = renaming[key % self._places]
                    known |= self._bits[self._copy(place, message % self._sends, target)]
            self._renamed_copies[which][copies] = known
        return known

    def _copy(self, place: int, which: int, target: int) -> int:
        return (place * self._sends + which) * self._places + target
