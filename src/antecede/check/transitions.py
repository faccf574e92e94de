"""The transition table: what each input does to each local state, computed once.

A process is deterministic: its next step depends on its own state and its input alone. The
checker meets the same local state in many global states, so local states are *interned*:
each gets an id, and the result of an input is looked up once it has been computed. To
compute it, a new process is driven through the inputs that led to the state, and then
through the new input. Nothing is copied, and only the protocol's own code decides. Two
local states are equal if everything that can be reached from the process is equal
(:mod:`antecede.check.snapshot`).

Time stands still, except that a timer that fires advances the clock of its process.
"""

from array import array
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

from antecede.check.inputs import REMOVALS, TIMER, apply_removal, processes_in
from antecede.check.snapshot import snapshot
from antecede.core.codec import Frame
from antecede.core.driver import drain
from antecede.core.process import NEVER, Delivery, Process, ProcessId, Transmit
from antecede.core.support.retransmission import (
    RetransmissionPolicy,
    RetransmissionTimer,
    SharedRttEstimate,
    TimerQueue,
)
from antecede.errors import InternalError, PeerError

__all__ = ["LocalState", "Packet", "Step", "TransitionTable"]

FINGERPRINT_BITS: Final = 62
"""The bits of a small integer of compiled code. Among a million fingerprints, two collide
with a probability of 1 in ten million; a collision is detected."""
DIGEST_BYTES: Final = 16


class Packet:
    """A frame with its source and target, interned: equal packets share one id."""

    __slots__ = ("fingerprint", "frame", "id", "input", "sender", "source", "target")

    sender: "LocalState | None"
    """The local state in which the packet was transmitted first."""
    input: int
    """The input to which the sender transmitted it."""
    fingerprint: int
    """The sort key of packets: a hash of the content if the table is fingerprinted, else
    the id."""

    def __init__(self, id: int, source: int, target: int, frame: Frame) -> None:
        self.sender = None
        self.input = 0
        self.id = id
        self.fingerprint = id
        self.source = source
        self.target = target
        self.frame = frame


class LocalState:
    """The state of one process, and the input that led to it."""

    __slots__ = (
        "clock",
        "due",
        "fingerprint",
        "id",
        "input",
        "parent",
        "process",
        "sends",
        "steps",
    )

    process: int
    """The index of the process."""
    parent: "LocalState | None"
    """The state before the last input; None for an initial state."""
    input: int
    """The last input; see :mod:`antecede.check.inputs`."""
    fingerprint: int
    """The sort key of local states: a hash of the content if the table is fingerprinted,
    else the id."""
    sends: int
    """The number of messages that the process has sent."""
    clock: float
    """The time of the process."""
    due: float
    """When its next timer is due; infinite if there is none."""
    steps: "dict[int, Step]"
    """The steps computed so far, by input."""

    def __init__(
        self, id: int, process: int, parent: "LocalState | None", input: int
    ) -> None:
        self.id = id
        self.fingerprint = id
        self.process = process
        self.parent = parent
        self.input = input
        self.sends = 0
        self.clock = 0.0
        self.due = NEVER
        self.steps = {}


class Step:
    """The effect of an input on a local state."""

    __slots__ = ("deliveries", "local", "packets")

    local: LocalState
    """The state afterwards."""
    packets: list[int]
    """The ids of the packets transmitted, in order."""
    deliveries: list[tuple[int, int]]
    """The deliveries as (source, number), in order, without the process's own messages."""

    def __init__(
        self, local: LocalState, packets: list[int], deliveries: list[tuple[int, int]]
    ) -> None:
        self.local = local
        self.packets = packets
        self.deliveries = deliveries


class TransitionTable:
    """All local states, packets and steps met so far."""

    __slots__ = (
        "_inspect",
        "_local_keys",
        "_make",
        "_ordered",
        "_packet_keys",
        "_without",
        "broadcast",
        "fingerprinted",
        "locals",
        "locals_by_fingerprint",
        "new_steps",
        "packets",
        "packets_by_fingerprint",
        "refusals",
        "start",
    )

    start: list[LocalState]
    """The initial state of each process."""
    locals: list[LocalState]
    """Every local state, by its id."""
    packets: list[Packet]
    """Every packet, by its id."""
    new_steps: "array[int]"
    """The local state and the input of every step that led to a new local state or packet,
    in order. To take these steps again gives all of them the same ids."""
    locals_by_fingerprint: dict[int, LocalState]
    """Every local state of a fingerprinted table."""
    packets_by_fingerprint: dict[int, Packet]
    """Every packet of a fingerprinted table."""

    def __init__(
        self,
        make: Callable[[int], Process],
        processes: int,
        *,
        timers: bool = False,
        ordered: bool = True,
        broadcast: bool = False,
        fingerprinted: bool = False,
        refusals: bool = False,
        inspect: Callable[[Process], None] | None = None,
    ) -> None:
        """Start with the initial states.

        Args:
            make: Makes a new process from its index.
            processes: The number of processes.
            timers: Timers may fire; without them, their state is ignored.
            ordered: Dictionaries that differ in their order make different states.
            broadcast: Send by broadcast instead of naming the targets.
            fingerprinted: Order states and packets by a hash of their content, which is the
                same in every table, instead of the order in which they were met, which is
                faster.
            refusals: Drop a frame that a process refuses, instead of raising the error.
            inspect: Called once with a process in every local state; raises an error if the
                state is wrong.
        """
        self._make = make
        self._without: tuple[type, ...] = (
            ()
            if timers
            else (TimerQueue, RetransmissionTimer, RetransmissionPolicy, SharedRttEstimate)
        )
        self._ordered = ordered
        self.broadcast = broadcast
        self.fingerprinted = fingerprinted
        self.refusals = refusals
        self._inspect = inspect
        self.locals = []
        self.packets = []
        self.new_steps = array("q")
        self.locals_by_fingerprint = {}
        self.packets_by_fingerprint = {}
        self._packet_keys: dict[object, Packet] = {}
        self._local_keys: dict[bytes, LocalState] = {}
        self.start = []
        for index in range(processes):
            self.start.append(self._intern(make(index), index, None, 0, 0, 0.0))

    def step(self, local: LocalState, input: int) -> Step:
        """Return the effect of an input on a local state."""
        known = local.steps.get(input)
        if known is None:
            known = self._compute_step(local, input)
            local.steps[input] = known
        return known

    def _compute_step(self, local: LocalState, input: int) -> Step:
        known = len(self.locals) + len(self.packets)
        process = self._rebuild(local)
        clock = self._apply(process, input, local.clock)
        deliveries: list[tuple[int, int]] = []
        packets: list[int] = []

        def deliver(delivery: Delivery) -> None:
            if delivery.source != local.process:
                deliveries.append((int(delivery.source), delivery.number))

        def transmit(output: Transmit) -> None:
            packet = self._intern_packet(local.process, output.target, output.frame)
            if packet.sender is None:
                packet.sender = local
                packet.input = input
            packets.append(packet.id)

        drain(process, deliver, transmit)
        sends = local.sends + (1 if REMOVALS < input < TIMER else 0)
        after = self._intern(process, local.process, local, input, sends, clock)
        if len(self.locals) + len(self.packets) > known:
            self.new_steps.append(local.id)
            self.new_steps.append(input)
        return Step(after, packets, deliveries)

    def _rebuild(self, local: LocalState) -> Process:
        """Drive a new process to a local state."""
        path: list[LocalState] = []
        state = local
        while state.parent is not None:
            path.append(state)
            state = state.parent
        process = self._make(local.process)
        clock = 0.0
        while path:
            clock = self._apply(process, path.pop().input, clock)
            process.messages_to_deliver()
            process.frames_to_transmit()
        return process

    def _apply(self, process: Process, input: int, clock: float) -> float:
        """Give a process an input, and return its clock afterwards."""
        if input > TIMER:
            packet = self.packets[input]
            try:
                process.receive(ProcessId(packet.source), packet.frame, clock)
            except PeerError:
                if not self.refusals:
                    raise
        elif input == TIMER:
            due = process.next_timer()
            assert due is not None
            clock = max(clock, due)
            process.handle_timer(clock)
        elif input <= REMOVALS:
            apply_removal(process, input, clock)
        elif self.broadcast:
            process.broadcast(b"", clock)
        else:
            targets = [ProcessId(target) for target in processes_in(TIMER - input)]
            process.send(targets, b"", clock)
        process.next_timer()  # Every driver asks after every input; it may change state.
        return clock

    def _intern_packet(self, source: int, target: int, frame: Frame) -> Packet:
        key = (source, target, snapshot(frame))
        known = self._packet_keys.get(key)
        if known is None:
            known = Packet(len(self.packets), source, target, frame)
            self.packets.append(known)
            self._packet_keys[key] = known
            if self.fingerprinted:
                known.fingerprint = _fingerprint(_digest(key))
                if known.fingerprint in self.packets_by_fingerprint:
                    raise InternalError(
                        f"fingerprint collision: packet {known.fingerprint}"
                    )
                self.packets_by_fingerprint[known.fingerprint] = known
        return known

    def _intern(
        self,
        process: Process,
        index: int,
        parent: LocalState | None,
        input: int,
        sends: int,
        clock: float,
    ) -> LocalState:
        due = process.next_timer()
        content = (index, sends, clock, snapshot(process, self._without, self._ordered))
        key = _digest(content)  # A snapshot takes kilobytes.
        known = self._local_keys.get(key)
        if known is None:
            known = LocalState(len(self.locals), index, parent, input)
            known.sends = sends
            known.clock = clock
            known.due = NEVER if due is None else due
            self.locals.append(known)
            self._local_keys[key] = known
            if self.fingerprinted:
                known.fingerprint = _fingerprint(key)
                if known.fingerprint in self.locals_by_fingerprint:
                    raise InternalError(
                        f"fingerprint collision: local state {known.fingerprint}"
                    )
                self.locals_by_fingerprint[known.fingerprint] = known
            if self._inspect is not None:
                self._inspect(process)
        return known


def _digest(key: object) -> bytes:
    """Return a hash of a snapshot that is the same in every Python process.

    Of a million snapshots, two have the same hash with a probability of 1 in 10^26.
    """
    return blake2b(repr(key).encode(), digest_size=DIGEST_BYTES).digest()


def _fingerprint(digest: bytes) -> int:
    """Return the first bits of a hash as an integer."""
    return int.from_bytes(digest[:8], "big") >> (64 - FINGERPRINT_BITS)
