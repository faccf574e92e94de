"""Global states, packed small, and the steps between them.

A global state is a row of numbers: the local state of every process, what is in flight,
the budget of faults, and what the safety properties need to remember.

*Safety.* Every copy of a message has a bit. A copy is pending from its send to its
delivery. Each process has the set of pending copies in its past, each message that of its
sender when it was sent. A delivery breaks causal order exactly if a copy to the same
process is pending in the message's past; delivering what is not pending is a repetition,
or from nowhere. Copies that have been delivered are forgotten, so that states which differ
only in what is over are one state.

*Reduction.* Steps at different processes commute, so of all the orders of a run that
differ only in that, one is enough: the first in the alphabet of the processes' places
(the lexicographic normal form of traces, Anisimov and Knuth). A step *a* is left out if
it could as well have been made before some earlier step *b* of a process with a higher
place. So each packet in flight carries a mark, *stale*: since it was transmitted, and
since its target's last step, a process with a higher place has made a step. A stale packet
waits for its target's next step; a send is stale likewise. Every run has a representative
that is not left out, and what it delivers, and where it ends, is the same. A timer fires
only when nothing is in flight, which no step of another process commutes with; it takes
all marks away.
"""

from array import array
from typing import Final

from antecede.check.model import TIMER, Model, Step, send_input
from antecede.errors import ConfigError

__all__ = ["ARRIVE", "DUPLICATE", "FIRE", "LOSE", "SEND", "Action", "Space", "Successor"]

SEND: Final = 0
ARRIVE: Final = 1
LOSE: Final = 2
DUPLICATE: Final = 3
FIRE: Final = 4

WORD_BITS: Final = 32


class Action:
    """What leads from a global state to the next."""

    __slots__ = ("kind", "place", "what")

    kind: int
    """SEND, ARRIVE, LOSE, DUPLICATE or FIRE."""
    place: int
    """The process that it happens to."""
    what: int
    """Of a send the bit set of the targets, of a packet its number."""

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
        "_fifo",
        "_flags",
        "_from",
        "_messages",
        "_model",
        "_options",
        "_pending",
        "_places",
        "_reduce",
        "_sends",
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
        reduce: bool,
    ) -> None:
        """Set the bounds.

        Args:
            model: The processes.
            options: For each process and each of its messages, the possible target sets.
            fifo: Frames of a pair arrive in the order transmitted.
            losses: How many frames may be lost in a run.
            duplicates: How many frames may arrive twice in a run.
            reduce: Leave out steps whose order does not matter.
        """
        self._model = model
        self._options = options
        self._fifo = fifo
        self._reduce = reduce
        self._timers = losses > 0 or duplicates > 0
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
        self._flags = self._budgets + 1
        row = [local.id for local in model.start] + [0] * self._places + [0]
        row += [0] * (self._places * self._sends) + [losses << 8 | duplicates] + [0]
        self.first = array("I", row).tobytes()

    def successors(self, state: bytes) -> list[Successor]:
        """Return all states that one step leads to."""
        row = array("I", state).tolist()
        found: list[Successor] = []
        flags = row[self._flags]
        for place in range(self._places):
            local = self._model.locals[row[place]]
            if local.sends < self._sends and not flags >> place & 1:
                for targets in self._options[place][local.sends]:
                    found.append(self._send(row, place, local.sends, targets))
        begin = self._flags + 1
        previous = -1
        channel = -1
        for index in range(begin, len(row)):
            entry = row[index]
            if self._fifo:
                packet = self._model.packets[entry >> 1]
                own = packet.source * self._places + packet.target
                if own == channel:
                    continue  # Something is before it.
                channel = own
            elif entry == previous:
                continue  # The same packet twice.
            previous = entry
            if not entry & 1:
                self._take(row, index, found)
        if self._timers and len(row) == begin:
            for place in range(self._places):
                if self._model.locals[row[place]].timed:
                    found.append(self._fire(row, place))
        return found

    def is_over(self, state: bytes) -> bool:
        """Tell whether everything was sent and nothing is in flight or awaited."""
        row = array("I", state).tolist()
        if len(row) > self._flags + 1:
            return False
        for place in range(self._places):
            local = self._model.locals[row[place]]
            if local.sends < self._sends or (self._timers and local.timed):
                return False
        return True

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
        return Successor(self._pack(new, place, step), Action(SEND, place, targets), broken)

    def _take(self, row: list[int], index: int, found: list[Successor]) -> None:
        """Let a packet arrive, or be lost, or be duplicated."""
        number = row[index] >> 1
        place = self._model.packets[number].target
        new = row.copy()
        del new[index]
        step = self._model.step(self._model.locals[row[place]], number)
        broken = self._apply(new, place, step)
        arrive = Action(ARRIVE, place, number)
        found.append(Successor(self._pack(new, place, step), arrive, broken))
        budgets = row[self._budgets]
        if budgets >> 8:
            new = row.copy()
            del new[index]
            new[self._budgets] -= 1 << 8
            state = self._pack(new, place, None)
            found.append(Successor(state, Action(LOSE, place, number), ""))
        if budgets & 0xFF:
            new = row.copy()
            new.insert(index, row[index])
            new[self._budgets] -= 1
            state = self._pack(new, place, None)
            found.append(Successor(state, Action(DUPLICATE, place, number), ""))

    def _fire(self, row: list[int], place: int) -> Successor:
        new = row.copy()
        step = self._model.step(self._model.locals[row[place]], TIMER)
        broken = self._apply(new, place, step)
        state = self._pack(new, self._places, step)
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
                return "once" if bit else "genuine"
            message = source * self._sends + number - 1
            before = row[self._messages + message]
            early = before & self._to[place]
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

    def _pack(self, row: list[int], place: int, step: Step | None) -> bytes:
        """Put what is transmitted in flight, renew the marks, and pack the row.

        A ``place`` above all processes takes all marks away.
        """
        begin = self._flags + 1
        flying = row[begin:]
        del row[begin:]
        packets = self._model.packets
        if self._reduce:
            higher = (1 << place) - 1
            if place == self._places:
                row[self._flags] = 0
            else:
                row[self._flags] = (row[self._flags] | higher) & ~(1 << place)
            for index in range(len(flying)):
                target = packets[flying[index] >> 1].target
                if target < place < self._places:
                    flying[index] |= 1
                elif target == place or place == self._places:
                    flying[index] &= ~1
            # A process that has sent all it will has no send to be marked.
            for other in range(self._places):
                if self._model.locals[row[other]].sends == self._sends:
                    row[self._flags] &= ~(1 << other)
        if step is not None:
            for number in step.packets:
                flying.append(number << 1)
        if self._fifo:
            flying.sort(key=self._channel)
        else:
            flying.sort()
        row += flying
        return array("I", row).tobytes()

    def _channel(self, entry: int) -> int:
        packet = self._model.packets[entry >> 1]
        return packet.source * self._places + packet.target

    def _copy(self, place: int, which: int, target: int) -> int:
        return (place * self._sends + which) * self._places + target
