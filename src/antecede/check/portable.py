"""States that one process found and another goes on from.

Within a process, local states and packets have the numbers in which they were met, which
mean nothing elsewhere. So a *portable* state has their ranks instead: fingerprints of what
they are. And an unknown rank is explained by an :class:`Entry`: the local state (or packet)
arises from this one by that input. Whoever has the entries can drive a fresh process of its
own there, and finds out whether what arises has that rank.

Entries of several processes are put together by taking, of two that explain the same, that
of less weight. Its explanation rests on entries of even less weight, so explanations never
go in a circle.
"""

from array import array
from collections.abc import Iterable

from antecede.check.search import Level, expand
from antecede.check.state_space import Space
from antecede.check.transitions import TIMER, Local, Model, Packet
from antecede.errors import InternalError

__all__ = ["Entry", "Portable"]


class Entry:
    """How a local state or a packet arises."""

    __slots__ = ("before", "given", "is_packet", "rank", "weight")

    is_packet: bool
    """Whether it is a packet that arises, or a local state."""
    rank: int
    """Its rank."""
    before: int
    """The rank of the local state from which it arises."""
    given: int
    """The input by which it does: the rank of a packet, or a send or TIMER as they are."""
    weight: int
    """The longest chain of entries that it rests on."""

    def __init__(
        self, is_packet: bool, rank: int, before: int, given: int, weight: int
    ) -> None:
        """Make the record."""
        self.is_packet = is_packet
        self.rank = rank
        self.before = before
        self.given = given
        self.weight = weight


class Portable:
    """A space that takes and gives portable states."""

    __slots__ = (
        "_locals",
        "_model",
        "_packets",
        "_space",
        "_unlearned_locals",
        "_unlearned_packets",
        "_weights",
    )

    def __init__(self, model: Model, space: Space) -> None:
        """Wrap a space of a ranked model."""
        self._model = model
        self._space = space
        self._locals: dict[int, Entry] = {}
        self._packets: dict[int, Entry] = {}
        self._weights: dict[int, int] = {}  # By rank; local states and packets alike.
        # From where on there is something that nobody has explained to us.
        self._unlearned_locals = 0
        self._unlearned_packets = 0

    def learn(self, entries: Iterable[Entry]) -> None:
        """Take over explanations that others have found."""
        for entry in entries:
            if entry.is_packet:
                self._packets[entry.rank] = entry
            else:
                self._locals[entry.rank] = entry
            self._weights[entry.rank] = entry.weight

    def news(self) -> list[Entry]:
        """Return what has arisen here and has not been learned.

        It is the same again until it is learned: what was told may not have arrived.
        """
        found: list[Entry] = []
        locals_ = self._model.locals
        while self._unlearned_locals < len(locals_):
            local = locals_[self._unlearned_locals]
            if local.parent is not None and local.rank not in self._locals:
                break
            self._unlearned_locals += 1
        for local in locals_[self._unlearned_locals :]:
            if local.parent is not None and local.rank not in self._locals:
                before, given = local.parent.rank, self._rank_of(local.input)
                weight = self._weight_of_local(local)
                found.append(Entry(False, local.rank, before, given, weight))
        packets = self._model.packets
        while self._unlearned_packets < len(packets):
            if packets[self._unlearned_packets].rank not in self._packets:
                break
            self._unlearned_packets += 1
        for packet in packets[self._unlearned_packets :]:
            if packet.rank not in self._packets:
                assert packet.maker is not None
                before, given = packet.maker.rank, self._rank_of(packet.input)
                weight = self._weight_of_packet(packet)
                found.append(Entry(True, packet.rank, before, given, weight))
        return found

    def expand(self, states: Iterable[bytes]) -> Level:
        """Make every step from portable states, to portable states."""
        level = expand(self._space, [self.come_in(state) for state in states])
        # Most states of a level lead to several: each is told only once.
        outside: dict[bytes, bytes] = {}
        found: dict[bytes, bytes] = {}
        for state, before in level.found.items():
            known = outside.get(before)
            if known is None:
                known = self.go_out(before)
                outside[before] = known
            found[self.go_out(state)] = known
        level.found = found
        if level.broken is not None:
            what, before = level.broken
            level.broken = (what, self.go_out(before))
        return level

    def go_out(self, state: bytes) -> bytes:
        """Return the portable form of a state."""
        return array("Q", self._space.ranks(array("I", state).tolist())).tobytes()

    def come_in(self, state: bytes) -> bytes:
        """Return the state of a portable form; its entries must have been learned."""
        ranks = array("Q", state).tolist()
        locals_, packets = self._space.strangers(ranks)
        for rank in locals_:
            self._local(rank)
        for rank in packets:
            self._packet(rank)
        return array("I", self._space.numbers(ranks)).tobytes()

    # Explanations.

    def _local(self, rank: int) -> Local:
        known = self._model.by_rank.get(rank)
        if known is None:
            entry = self._locals[rank]
            before = self._local(entry.before)
            known = self._model.step(before, self._input(entry.given)).local
            if known.rank != rank:
                raise InternalError(f"the local state {rank} does not arise as explained")
        return known

    def _packet(self, rank: int) -> Packet:
        known = self._model.packets_by_rank.get(rank)
        if known is None:
            entry = self._packets[rank]
            before = self._local(entry.before)
            self._model.step(before, self._input(entry.given))
            known = self._model.packets_by_rank.get(rank)
            if known is None:
                raise InternalError(f"the packet {rank} does not arise as explained")
        return known

    def _input(self, given: int) -> int:
        return self._packet(given).id if given > TIMER else given

    def _rank_of(self, given: int) -> int:
        return self._model.packets[given].rank if given > TIMER else given

    def _weight_of_local(self, local: Local) -> int:
        known = self._weights.get(local.rank, -1)
        if known < 0:
            known = 0
            if local.parent is not None:
                before = self._weight_of_local(local.parent)
                known = 1 + max(before, self._weight_of_input(local.input))
            self._weights[local.rank] = known
        return known

    def _weight_of_packet(self, packet: Packet) -> int:
        known = self._weights.get(packet.rank, -1)
        if known < 0:
            assert packet.maker is not None
            before = self._weight_of_local(packet.maker)
            known = 1 + max(before, self._weight_of_input(packet.input))
            self._weights[packet.rank] = known
        return known

    def _weight_of_input(self, given: int) -> int:
        return self._weight_of_packet(self._model.packets[given]) if given > TIMER else 0
