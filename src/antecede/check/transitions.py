"""The real processes as a transition system, each local step computed once.

A process is deterministic, so what it does next depends on its own state and its next
input alone. The checker meets the same local state in very many global ones; here each is
*interned*: it gets a number, and what an input does to it is looked up, once it has been
found out. To find out, a fresh process is driven through the inputs that led to the state,
and then through the new one: nothing is copied, and nothing but the protocol's own code
decides. Two local states are the same if everything that can be reached from the process
is (:mod:`antecede.check.snapshot`).

Time stands still, save that a timer which fires moves its own process's clock to it.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Final

from antecede.check.snapshot import snapshot
from antecede.core.codec import Frame
from antecede.core.process import NEVER, Process, ProcessBase, ProcessId
from antecede.core.support.retransmission import (
    Experience,
    RetransmissionPolicy,
    RetransmissionTimer,
    TimerQueue,
)
from antecede.errors import InternalError, PeerError

__all__ = [
    "ABANDON_PEER",
    "CHANGES",
    "CHANGE_KINDS",
    "RENEW_PEER",
    "TIMER",
    "WAIVE_PEER",
    "Local",
    "Model",
    "Packet",
    "Step",
    "change_input",
    "members",
    "send_input",
]

TIMER: Final = -1
"""The input of a timer that fires. Sends are right below it, arrivals above."""
CHANGES: Final = -64
"""From here down, the inputs that let go of a peer; below all sends."""
ABANDON_PEER: Final = 0
RENEW_PEER: Final = 1
WAIVE_PEER: Final = 2
CHANGE_KINDS: Final = 3
RANK_BITS: Final = 62
"""As many as a small integer has, compiled; among a million things, two are alike with a
probability of 1 in ten million, which is then found out."""


class Packet:
    """A frame with its way, interned: the same frame on the same way has one number."""

    __slots__ = ("frame", "id", "input", "maker", "rank", "source", "target")

    maker: "Local | None"
    """The local state in which it was transmitted first."""
    input: int
    """The input that made it so."""
    rank: int
    """Its place in the order of packets."""

    def __init__(self, id: int, source: int, target: int, frame: Frame) -> None:
        """Make the record; use :meth:`Model.packet`."""
        self.maker = None
        self.input = 0
        self.id = id
        self.rank = id
        self.source = source
        self.target = target
        self.frame = frame


class Local:
    """A state of one process, and how it came about."""

    __slots__ = (
        "due",
        "id",
        "input",
        "moment",
        "parent",
        "place",
        "rank",
        "sends",
        "steps",
    )

    place: int
    """Which process."""
    parent: "Local | None"
    """The state before the last input, None at the start."""
    input: int
    """That input: a packet, a send, TIMER, or a change."""
    rank: int
    """Its place in the order of local states."""
    sends: int
    """How many messages it has sent."""
    moment: float
    """Its clock."""
    due: float
    """When its next timer is due; infinite if it waits for none."""
    steps: "dict[int, Step]"
    """What is known of its next steps, by input."""

    def __init__(self, id: int, place: int, parent: "Local | None", input: int) -> None:
        """Make the record; use :meth:`Model.step`."""
        self.id = id
        self.rank = id
        self.place = place
        self.parent = parent
        self.input = input
        self.sends = 0
        self.moment = 0.0
        self.due = NEVER
        self.steps = {}


class Step:
    """What an input does to a local state."""

    __slots__ = ("deliveries", "local", "packets")

    local: Local
    """The state afterwards."""
    packets: list[int]
    """What it transmits, in order."""
    deliveries: list[tuple[int, int]]
    """What it delivers, in order: source and number; its own messages aside."""

    def __init__(
        self, local: Local, packets: list[int], deliveries: list[tuple[int, int]]
    ) -> None:
        """Make the record."""
        self.local = local
        self.packets = packets
        self.deliveries = deliveries


class Model:
    """All local states, packets and steps that have been met."""

    __slots__ = (
        "_inspect",
        "_keys",
        "_local_keys",
        "_make",
        "_ordered",
        "_without",
        "broadcast",
        "by_rank",
        "locals",
        "packets",
        "packets_by_rank",
        "ranked",
        "refusals",
        "start",
    )

    start: list[Local]
    """The state in which each process begins."""
    locals: list[Local]
    """Every local state, by its number."""
    packets: list[Packet]
    """Every packet, by its number."""
    by_rank: dict[int, Local]
    """Every local state of a ranked model, by its rank."""
    packets_by_rank: dict[int, Packet]
    """Every packet of a ranked model, by its rank."""

    def __init__(
        self,
        make: Callable[[int], Process],
        processes: int,
        *,
        timers: bool = False,
        ordered: bool = True,
        broadcast: bool = False,
        ranked: bool = False,
        refusals: bool = False,
        inspect: Callable[[Process], None] | None = None,
    ) -> None:
        """Begin with fresh processes.

        Args:
            make: Makes a fresh process from its place.
            processes: How many there are.
            timers: Timers may fire; else their state does not count.
            ordered: The order of dictionaries counts.
            broadcast: What is sent goes to all, without naming them.
            ranked: Put things in the order of fingerprints of what they are, the same in
                every model; else in the order in which they are met, which is faster.
            refusals: A frame that a process refuses is dropped; else that is an error.
            inspect: Is shown a process in every local state, once; it raises what it
                finds wrong.
        """
        self._make = make
        self._without: tuple[type, ...] = (
            ()
            if timers
            else (TimerQueue, RetransmissionTimer, RetransmissionPolicy, Experience)
        )
        self._ordered = ordered
        self.broadcast = broadcast
        self.ranked = ranked
        self.refusals = refusals
        self._inspect = inspect
        self.locals = []
        self.packets = []
        self.by_rank = {}
        self.packets_by_rank = {}
        self._keys: dict[object, Packet] = {}
        self._local_keys: dict[object, Local] = {}
        self.start = []
        for place in range(processes):
            process = make(place)
            self.start.append(self._intern(process, place, None, 0, 0, 0.0))

    def step(self, local: Local, given: int) -> Step:
        """Return what an input does to a local state."""
        known = local.steps.get(given)
        if known is None:
            known = self._find_out(local, given)
            local.steps[given] = known
        return known

    def _find_out(self, local: Local, given: int) -> Step:
        process = self._rebuild(local)
        moment = _feed(self, process, given, local.moment)
        deliveries = [
            (int(delivery.source), delivery.number)
            for delivery in process.messages_to_deliver()
            if delivery.source != local.place
        ]
        packets: list[int] = []
        for transmit in process.frames_to_transmit():
            packet = self.packet(local.place, transmit.target, transmit.frame)
            if packet.maker is None:
                packet.maker = local
                packet.input = given
            packets.append(packet.id)
        sends = local.sends + (1 if CHANGES < given < TIMER else 0)
        after = self._intern(process, local.place, local, given, sends, moment)
        return Step(after, packets, deliveries)

    def packet(self, source: int, target: int, frame: Frame) -> Packet:
        """Return the record of a frame on its way."""
        key = (source, target, snapshot(frame))
        known = self._keys.get(key)
        if known is None:
            known = Packet(len(self.packets), source, target, frame)
            self.packets.append(known)
            self._keys[key] = known
            if self.ranked:
                known.rank = _fingerprint(key)
                if known.rank in self.packets_by_rank:
                    raise InternalError(f"two packets have the rank {known.rank}")
                self.packets_by_rank[known.rank] = known
        return known

    def _rebuild(self, local: Local) -> Process:
        """Drive a fresh process to a local state."""
        inputs: list[Local] = []
        state = local
        while state.parent is not None:
            inputs.append(state)
            state = state.parent
        process = self._make(local.place)
        moment = 0.0
        while inputs:
            moment = _feed(self, process, inputs.pop().input, moment)
            process.messages_to_deliver()
            process.frames_to_transmit()
        return process

    def _intern(
        self,
        process: Process,
        place: int,
        parent: Local | None,
        given: int,
        sends: int,
        moment: float,
    ) -> Local:
        due = process.next_timer()
        key = (place, sends, moment, snapshot(process, self._without, self._ordered))
        known = self._local_keys.get(key)
        if known is None:
            known = Local(len(self.locals), place, parent, given)
            known.sends = sends
            known.moment = moment
            known.due = NEVER if due is None else due
            self.locals.append(known)
            self._local_keys[key] = known
            if self.ranked:
                known.rank = _fingerprint(key)
                if known.rank in self.by_rank:
                    raise InternalError(f"two local states have the rank {known.rank}")
                self.by_rank[known.rank] = known
            if self._inspect is not None:
                self._inspect(process)
        return known


def members(bits: int) -> list[int]:
    """List the processes in a bit set."""
    return [place for place in range(bits.bit_length()) if bits >> place & 1]


def send_input(targets: int) -> int:
    """Return the input of a send to the processes in a bit set."""
    return TIMER - targets


def change_input(kind: int, peer: int) -> int:
    """Return the input of letting go of a peer, or of what follows from it."""
    return CHANGES - peer * CHANGE_KINDS - kind


def _fingerprint(key: object) -> int:
    """Return a number that tells what a snapshot holds, the same in every process."""
    digest = blake2b(repr(key).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> (64 - RANK_BITS)


def _feed(model: Model, process: Process, given: int, moment: float) -> float:
    """Give a process an input, and return its clock afterwards."""
    if given > TIMER:
        packet = model.packets[given]
        try:
            process.receive(ProcessId(packet.source), packet.frame, moment)
        except PeerError:
            if not model.refusals:
                raise
    elif given == TIMER:
        due = process.next_timer()
        assert due is not None
        moment = max(moment, due)
        process.handle_timer(moment)
    elif given <= CHANGES:
        _change(process, CHANGES - given, moment)
    else:
        bits = TIMER - given
        if model.broadcast:
            process.broadcast(b"", moment)
        else:
            process.send([ProcessId(target) for target in members(bits)], b"", moment)
    process.next_timer()  # As every driver asks after every input; it may tidy up.
    return moment


def _change(process: Process, change: int, moment: float) -> None:
    assert isinstance(process, ProcessBase)
    peer = ProcessId(change // CHANGE_KINDS)
    kind = change % CHANGE_KINDS
    if kind == ABANDON_PEER:
        process.abandon(peer, moment)
    elif kind == RENEW_PEER:
        process.renew(peer, moment)
    else:
        process.waive(peer, moment)
