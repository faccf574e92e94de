"""Portable states, which one Python process finds and another expands.

Within a process, local states and packets have ids in the order in which they were met,
which mean nothing elsewhere. A *portable* state holds their fingerprints instead. An
unknown fingerprint is explained by an :class:`Entry`: the local state or packet results
from another local state by an input. A process that has the entries can compute the local
state itself, and verify its fingerprint.

Of two entries with the same fingerprint, found by different processes, the one of less
weight is kept. It depends on entries of even less weight, so entries never depend on each
other in a cycle.
"""

from array import array
from collections.abc import Iterable

from antecede.check.inputs import TIMER
from antecede.check.search import Level, expand
from antecede.check.state_space import StateSpace
from antecede.check.transitions import LocalState, Packet, TransitionTable
from antecede.errors import InternalError

__all__ = ["Entry", "Portable"]


class Entry:
    """The origin of a local state or a packet."""

    __slots__ = ("before", "fingerprint", "input", "is_packet", "weight")

    is_packet: bool
    """Whether this is a packet, or else a local state."""
    fingerprint: int
    before: int
    """The fingerprint of the local state from which it results."""
    input: int
    """The input: the fingerprint of a packet, or a send, a removal or TIMER unchanged."""
    weight: int
    """The length of the longest chain of entries that it depends on."""

    def __init__(
        self, is_packet: bool, fingerprint: int, before: int, input: int, weight: int
    ) -> None:
        self.is_packet = is_packet
        self.fingerprint = fingerprint
        self.before = before
        self.input = input
        self.weight = weight


class Portable:
    """A state space that takes and returns portable states."""

    __slots__ = (
        "_locals",
        "_packets",
        "_space",
        "_table",
        "_unlearned_locals",
        "_unlearned_packets",
        "_weights",
    )

    def __init__(self, table: TransitionTable, space: StateSpace) -> None:
        """Wrap the space of a fingerprinted table."""
        self._table = table
        self._space = space
        self._locals: dict[int, Entry] = {}
        self._packets: dict[int, Entry] = {}
        self._weights: dict[int, int] = {}  # Of local states and packets, by fingerprint.
        # The first ids that no learned entry explains.
        self._unlearned_locals = 0
        self._unlearned_packets = 0

    def learn(self, entries: Iterable[Entry]) -> None:
        """Add entries that other processes have found."""
        for entry in entries:
            if entry.is_packet:
                self._packets[entry.fingerprint] = entry
            else:
                self._locals[entry.fingerprint] = entry
            self._weights[entry.fingerprint] = entry.weight

    def new_entries(self) -> list[Entry]:
        """Return the entries found here that have not been learned.

        The same entries are returned again until they are learned, because a caller may
        fail to pass them on.
        """
        found: list[Entry] = []
        locals_ = self._table.locals
        while self._unlearned_locals < len(locals_):
            local = locals_[self._unlearned_locals]
            if local.parent is not None and local.fingerprint not in self._locals:
                break
            self._unlearned_locals += 1
        for local in locals_[self._unlearned_locals :]:
            if local.parent is not None and local.fingerprint not in self._locals:
                before, code = local.parent.fingerprint, self._encode_input(local.input)
                weight = self._weight_of_local(local)
                found.append(Entry(False, local.fingerprint, before, code, weight))
        packets = self._table.packets
        while self._unlearned_packets < len(packets):
            if packets[self._unlearned_packets].fingerprint not in self._packets:
                break
            self._unlearned_packets += 1
        for packet in packets[self._unlearned_packets :]:
            if packet.fingerprint not in self._packets:
                assert packet.sender is not None
                before, code = packet.sender.fingerprint, self._encode_input(packet.input)
                weight = self._weight_of_packet(packet)
                found.append(Entry(True, packet.fingerprint, before, code, weight))
        return found

    def expand(self, states: Iterable[bytes]) -> Level:
        """Compute every successor of portable states, in portable form."""
        level = expand(self._space, [self.decode(state) for state in states])
        # Most states have several successors: each is encoded once.
        encoded: dict[bytes, bytes] = {}
        found: dict[bytes, bytes] = {}
        for state, before in level.found.items():
            known = encoded.get(before)
            if known is None:
                known = self.encode(before)
                encoded[before] = known
            found[self.encode(state)] = known
        level.found = found
        if level.violation is not None:
            violated, before = level.violation
            level.violation = (violated, self.encode(before))
        return level

    def encode(self, state: bytes) -> bytes:
        """Return the portable form of a state."""
        row = array("I", state).tolist()
        return array("Q", self._space.canonicalizer.to_fingerprints(row)).tobytes()

    def decode(self, state: bytes) -> bytes:
        """Return the state of a portable form; its entries must have been learned."""
        canonicalizer = self._space.canonicalizer
        row = array("Q", state).tolist()
        locals_, packets = canonicalizer.unknown_fingerprints(row)
        for fingerprint in locals_:
            self._local(fingerprint)
        for fingerprint in packets:
            self._packet(fingerprint)
        return array("I", canonicalizer.from_fingerprints(row)).tobytes()

    def _local(self, fingerprint: int) -> LocalState:
        known = self._table.locals_by_fingerprint.get(fingerprint)
        if known is None:
            entry = self._locals[fingerprint]
            before = self._local(entry.before)
            known = self._table.step(before, self._decode_input(entry.input)).local
            if known.fingerprint != fingerprint:
                raise InternalError(
                    f"the entry of local state {fingerprint} leads to {known.fingerprint}"
                )
        return known

    def _packet(self, fingerprint: int) -> Packet:
        known = self._table.packets_by_fingerprint.get(fingerprint)
        if known is None:
            entry = self._packets[fingerprint]
            before = self._local(entry.before)
            self._table.step(before, self._decode_input(entry.input))
            known = self._table.packets_by_fingerprint.get(fingerprint)
            if known is None:
                raise InternalError(
                    f"the entry of packet {fingerprint} does not lead to it"
                )
        return known

    def _decode_input(self, input: int) -> int:
        return self._packet(input).id if input > TIMER else input

    def _encode_input(self, input: int) -> int:
        return self._table.packets[input].fingerprint if input > TIMER else input

    def _weight_of_local(self, local: LocalState) -> int:
        known = self._weights.get(local.fingerprint, -1)
        if known < 0:
            known = 0
            if local.parent is not None:
                before = self._weight_of_local(local.parent)
                known = 1 + max(before, self._weight_of_input(local.input))
            self._weights[local.fingerprint] = known
        return known

    def _weight_of_packet(self, packet: Packet) -> int:
        known = self._weights.get(packet.fingerprint, -1)
        if known < 0:
            assert packet.sender is not None
            before = self._weight_of_local(packet.sender)
            known = 1 + max(before, self._weight_of_input(packet.input))
            self._weights[packet.fingerprint] = known
        return known

    def _weight_of_input(self, input: int) -> int:
        return self._weight_of_packet(self._table.packets[input]) if input > TIMER else 0
