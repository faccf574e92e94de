"""The state space: global states, packed into bytes, and the steps between them.

A global state is a row of numbers (:mod:`antecede.check.row_layout`): the local state of
every process, the packets in flight, the budgets of faults, and the sets of copies that the
safety properties need.

*Safety.* A copy of a message is pending from its send to its delivery. Each process has the
set of pending copies in its causal past, and each message the set of its sender at the
send. A delivery violates causal order exactly if a copy for the same process is pending in
the message's past. The delivery of a copy that is not pending is a duplicate, or was never
sent. Delivered copies are forgotten, so that states that differ only in finished messages
are one state.

*Timers* fire when no packet is in flight. A process whose clock has passed the time at
which another's timer is due lets that timer fire first; else a process could repeat
requests for ever while the process that could answer never runs. A process that waits
beyond PATIENCE_S is stuck.

If processes may become silent (:mod:`antecede.check.silence`), timers fire only where
:mod:`antecede.check.recovery` checks liveness, because a copy for a silent process is
retransmitted for ever.

*Reduction.* States that are equal up to a permutation of the processes are one state
(:mod:`antecede.check.canonical`). Steps at different processes commute, so their orders
lead to the same state, which is expanded once.
"""

from array import array
from typing import Final

from antecede.check.actions import (
    ARRIVE,
    DROP,
    DUPLICATE,
    FIRE,
    SEND,
    STOP,
    Action,
    Successor,
)
from antecede.check.canonical import Canonicalizer
from antecede.check.inputs import TIMER, send_input
from antecede.check.removal import WORDS as REMOVAL_WORDS
from antecede.check.removal import Removal, RemovalLimits
from antecede.check.row_layout import RowLayout
from antecede.check.silence import WORDS as SILENCE_WORDS
from antecede.check.silence import Silence
from antecede.check.symmetry import Symmetry
from antecede.check.transitions import Step, TransitionTable
from antecede.core.process import NEVER

__all__ = ["StateSpace"]

WORD_BYTES: Final = 4
PATIENCE_S: Final = 256.0
"""The time allowed for every fault of a schedule; far more than recovery takes."""


class StateSpace:
    """The global states of a transition table, for one program or for all of them."""

    __slots__ = (
        "_budgets",
        "_canonicalizing",
        "_in_flight",
        "_messages",
        "_pending",
        "_processes",
        "_removal",
        "_sends",
        "_silence",
        "_symmetric",
        "canonicalizer",
        "fifo",
        "first",
        "has_removals",
        "has_silences",
        "layout",
        "options",
        "patience_s",
        "recovering",
        "symmetry",
        "table",
        "timers",
    )

    first: bytes
    """The initial state."""
    canonicalizer: Canonicalizer
    table: TransitionTable
    layout: RowLayout
    options: list[list[list[int]]]
    """For each process and each of its messages, the possible target sets."""
    symmetry: Symmetry | None
    fifo: bool
    """Whether frames of a pair arrive in the order in which they were transmitted."""
    timers: bool
    """Whether timers fire."""
    patience_s: float
    """The maximum wait of a process."""
    has_removals: bool
    """Whether processes may remove others, or stop."""
    has_silences: bool
    """Whether processes may become silent."""
    recovering: set[bytes]
    """States that lead to the delivery of all copies that must be delivered, as known."""

    def __init__(
        self,
        table: TransitionTable,
        options: list[list[list[int]]],
        *,
        fifo: bool,
        losses: int,
        duplicates: int,
        symmetry: Symmetry | None,
        removal: RemovalLimits | None = None,
        silences: int = 0,
        returns: int = 0,
    ) -> None:
        """Set the bounds.

        Args:
            table: The steps of the processes.
            options: For each process and each of its messages, the possible target sets.
            fifo: Frames of a pair arrive in the order in which they were transmitted.
            losses: The maximum number of frames lost in a schedule.
            duplicates: The maximum number of frames that arrive twice in a schedule.
            symmetry: Merge states that are equal up to a permutation of the processes; the
                options must be the same for all processes.
            removal: Bounds on removals, which need a network without ``fifo``.
            silences: The maximum number of processes that become silent in a schedule;
                not with ``removal``.
            returns: The maximum number of silent processes that return.
        """
        self.table = table
        self.options = options
        self.fifo = fifo
        self.symmetry = symmetry
        self._symmetric = symmetry is not None
        self._canonicalizing = self._symmetric
        self.timers = losses > 0 or duplicates > 0
        faults = losses + duplicates + silences + returns
        layout = RowLayout(
            options,
            0 if removal is None else REMOVAL_WORDS,
            SILENCE_WORDS if silences else 0,
        )
        self.layout = layout
        self._removal: Removal | None = None
        row = [local.id for local in table.start] + [0] * layout.processes + [0]
        row += [0] * (layout.processes * layout.sends) + [losses << 8 | duplicates]
        if removal is not None:
            self._removal = Removal(removal, table, layout)
            row += self._removal.first_words()
            faults += removal.removals + removal.stops
        self._silence: Silence | None = None
        self.recovering = set()
        self.has_silences = silences > 0
        self.has_removals = removal is not None
        if silences:
            self._silence = Silence(silences, returns, table, layout)
            row += self._silence.first_words()
        self.patience_s = PATIENCE_S * faults
        self._processes = layout.processes
        self._sends = layout.sends
        self._pending = layout.pending
        self._messages = layout.messages
        self._budgets = layout.budgets
        self._in_flight = layout.in_flight
        self.canonicalizer = Canonicalizer(
            table, layout, symmetry, self._removal, self._silence, fifo=fifo
        )
        self.first = self.canonical(array("I", row).tobytes())

    def canonical(self, state: bytes) -> bytes:
        """Return the least of the states that are equal up to a permutation."""
        if not self._symmetric:
            return state
        row = self.canonicalizer.canonical(array("I", state).tolist())
        return array("I", row).tobytes()

    def successors(self, state: bytes, *, canonical: bool = True) -> list[Successor]:
        """Return all states that one action leads to, by default in canonical form."""
        self._canonicalizing = canonical and self._symmetric
        row = array("I", state).tolist()
        found: list[Successor] = []
        for process in range(self._processes):
            for targets in self._target_sets(row, process):
                which = self.table.locals[row[process]].sends
                found.append(self._send(row, process, which, targets))
        self._add_packet_steps(row, found)
        if self._silence is not None:
            for action, new in self._silence.moves(row):
                found.append(Successor(self._pack(new), action, ""))
        elif self.timers and len(row) == self._in_flight:
            self._add_timer_steps(row, found)
        if self._removal is not None:
            self._add_removals(self._removal, row, found)
        return found

    def is_over(self, state: bytes) -> bool:
        """Return whether all is sent, nothing is in flight, and no timer will fire."""
        row = array("I", state).tolist()
        if len(row) > self._in_flight:
            return False
        for process in range(self._processes):
            if self._target_sets(row, process):
                return False
        if not self.timers or self._silence is not None:
            return True
        due = self._earliest_timer(row)
        return due == NEVER or due > self.patience_s

    def is_delivered(self, state: bytes) -> bool:
        """Return whether every copy that must be delivered is delivered."""
        return self._undelivered(array("I", state).tolist()) == 0

    def undelivered(self, state: bytes) -> list[tuple[int, int, int]]:
        """Return source, number and target of the copies that must be delivered."""
        copies = self._undelivered(array("I", state).tolist())
        found: list[tuple[int, int, int]] = []
        for key, bit in self.layout.bits.items():
            if copies & bit:
                message, target = divmod(key, self._processes)
                source, which = divmod(message, self._sends)
                found.append((source, which + 1, target))
        return found

    def is_at_rest(self, state: bytes) -> bool:
        """Return whether no packet is in flight."""
        return len(state) == self._in_flight * WORD_BYTES

    def continuations(self, state: bytes, *, canonical: bool = True) -> list[Successor]:
        """Return the steps in which a packet arrives, or else a timer fires.

        These are the steps without further sends and faults.
        """
        self._canonicalizing = canonical and self._symmetric
        row = array("I", state).tolist()
        row[self._budgets] = 0  # No further losses and duplications.
        found: list[Successor] = []
        self._add_packet_steps(row, found)
        if not found:
            self._add_timer_steps(row, found)
        return found

    def _undelivered(self, row: list[int]) -> int:
        """Return the pending copies that must be delivered."""
        if self._removal is not None:
            return self._removal.undelivered(row, timers=self.timers)
        if self._silence is not None:
            return self._silence.undelivered(row)
        return row[self._pending]

    def _target_sets(self, row: list[int], process: int) -> list[int]:
        """Return the target sets to which a process may send its next message."""
        if self._silence is not None and self._silence.is_silent(row, process):
            return []
        which = self.table.locals[row[process]].sends
        options = self.options[process][which] if which < self._sends else []
        if self._removal is not None:
            return self._removal.allowed(row, process, options)
        return options

    def _due(self, row: list[int], process: int) -> float:
        """Return when the next timer of a process is due."""
        if self._removal is not None and not self._removal.may_fire(row, process):
            return NEVER
        if self._silence is not None and self._silence.is_silent(row, process):
            return NEVER
        return self.table.locals[row[process]].due

    def _earliest_timer(self, row: list[int]) -> float:
        due = NEVER
        for process in range(self._processes):
            due = min(due, self._due(row, process))
        return due

    # The actions.

    def _send(self, row: list[int], process: int, which: int, targets: int) -> Successor:
        new = row.copy()
        layout = self.layout
        copies = 0
        for target in range(self._processes):
            if targets >> target & 1:
                copies |= layout.bits[layout.copy(process, which, target)]
        message = process * self._sends + which
        new[self._messages + message] = new[self._processes + process]
        new[self._pending] |= copies
        new[self._processes + process] |= copies
        action = Action(SEND, process, targets)
        return self._successor(row, new, action, send_input(targets))

    def _add_packet_steps(self, row: list[int], found: list[Successor]) -> None:
        """Append the steps of each packet that may arrive next."""
        previous = -1
        channel = -1
        for index in range(self._in_flight, len(row)):
            packet_id = row[index]
            if self.fifo:
                packet = self.table.packets[packet_id]
                own = packet.source * self._processes + packet.target
                if own == channel:
                    continue  # Another packet of the channel is before it.
                channel = own
            elif packet_id == previous:
                continue  # A second instance of the same packet.
            previous = packet_id
            self._handle_packet(row, index, found)

    def _handle_packet(self, row: list[int], index: int, found: list[Successor]) -> None:
        """Append the steps in which a packet arrives, is dropped, or is duplicated."""
        packet_id = row[index]
        process = self.table.packets[packet_id].target
        new = row.copy()
        del new[index]
        found.append(
            self._successor(row, new, Action(ARRIVE, process, packet_id), packet_id)
        )
        budgets = row[self._budgets]
        if budgets >> 8:
            new = row.copy()
            del new[index]
            new[self._budgets] -= 1 << 8
            found.append(Successor(self._pack(new), Action(DROP, process, packet_id), ""))
        if budgets & 0xFF:
            new = row.copy()
            new.insert(index, packet_id)
            new[self._budgets] -= 1
            found.append(
                Successor(self._pack(new), Action(DUPLICATE, process, packet_id), "")
            )

    def _add_timer_steps(self, row: list[int], found: list[Successor]) -> None:
        """Append the steps in which a timer fires."""
        due = self._earliest_timer(row)
        for process in range(self._processes):
            local = self.table.locals[row[process]]
            has_timer = self._due(row, process) < NEVER
            if due <= self.patience_s and has_timer and local.clock <= due:
                action = Action(FIRE, process, 0)
                found.append(self._successor(row, row.copy(), action, TIMER))

    def _add_removals(
        self, removal: Removal, row: list[int], found: list[Successor]
    ) -> None:
        for move in removal.moves(row):
            if move.action.kind == STOP:
                found.append(Successor(self._pack(move.row), move.action, ""))
            else:
                found.append(self._successor(row, move.row, move.action, move.input))

    def _successor(
        self, row: list[int], new: list[int], action: Action, input: int
    ) -> Successor:
        """Carry out the local step of an action on ``new``, a changed copy of ``row``."""
        process = action.process
        step = self.table.step(self.table.locals[row[process]], input)
        violated = self._apply(new, process, step)
        if self._removal is not None:
            self._removal.transmit(new, step.packets)
        elif self._silence is not None:
            self._silence.transmit(new, step.packets)
        else:
            new += step.packets
        return Successor(self._pack(new), action, violated)

    def _apply(self, row: list[int], process: int, step: Step) -> str:
        """Carry out a local step; return the property that a delivery violates, if any."""
        row[process] = step.local.id
        layout = self.layout
        violated = ""
        for source, number in step.deliveries:
            bit = 0
            if number <= self._sends:
                bit = layout.bits.get(layout.copy(source, number - 1, process), 0)
            if not bit & row[self._pending]:
                sends = self.table.locals[row[source]].sends
                return "no-duplication" if bit and number <= sends else "no-creation"
            message = source * self._sends + number - 1
            before = row[self._messages + message]
            given_up = 0 if self._removal is None else self._removal.given_up(row)
            early = before & layout.copies_to[process] & ~given_up
            if bit & given_up & row[self._processes + process]:
                violated = "causal"  # A message that depends on it was delivered before.
            if early:
                violated = "fifo" if early & layout.copies_from[source] else "causal"
            # Its past, and its copies for others, are now in the past of the process.
            row[self._processes + process] |= before | layout.copies_of[message]
            layout.forget(row, bit)
        return violated

    def _pack(self, row: list[int]) -> bytes:
        self.canonicalizer.sort(row)
        if self._canonicalizing:
            row = self.canonicalizer.canonical(row)
        return array("I", row).tobytes()
