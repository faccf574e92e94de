"""The pairs of processes whose copies ``bounded`` keeps track of.

A :class:`Pair` is a source and a target. For the copies of a pair, a process knows

* the *unsettled entries* that messages have brought,
* the *reported numbers*: entries that it has put on messages to its peers and that were not
  settled then. When they are settled, these peers get a note.

An entry of number n is settled when all copies of the pair up to n are delivered, or will
never be. That is a fact about two other processes that never changes, so it does not matter
who reports it.
"""

from typing import Final

from antecede.core.process import NEVER, UNBOUNDED
from antecede.core.protocols.hybrid.entry import Entry

__all__ = ["PAIR_BITS", "Pair", "PairTable", "Unsettled"]

REMEMBERED_MAX: Final = 4096
"""For how many pairs without unsettled entries a process remembers what is settled."""
PAIR_BITS: Final = 31
"""The bits of a process id in the key of a pair."""


class Unsettled:
    """An unsettled entry: the copies of a pair up to ``entry.number``.

    It is in the causal past of the copies that were sent after it was delivered.
    """

    __slots__ = (
        "answerer",
        "asked",
        "entry",
        "is_reporter_gone",
        "next_ask",
        "others",
        "position",
        "reporter",
        "since",
    )

    entry: Entry
    position: int
    """The number of deliveries with entries before the one that brought this entry."""
    reporter: int
    """The process whose message brought the entry first."""
    others: list[int]
    """Further processes whose messages brought the same entry."""
    since: float
    """The time of the delivery."""
    answerer: int
    """The process to ask whether the entry is settled: the reporter, unless it is gone;
    NO_PROCESS if there is no process to ask."""
    is_reporter_gone: bool
    next_ask: float
    """When to ask it."""
    asked: int
    """How often it was asked."""

    def __init__(
        self, entry: Entry, position: int, reporter: int, since: float, next_ask: float
    ) -> None:
        self.entry = entry
        self.position = position
        self.reporter = reporter
        self.answerer = reporter
        self.is_reporter_gone = False
        self.others = []
        self.since = since
        self.next_ask = next_ask
        self.asked = 0

    def is_reported_by(self, process: int) -> bool:
        """Return whether a process has this entry itself, because it reported it."""
        return process == self.reporter or process in self.others


class Pair:
    """The copies from one process to another."""

    __slots__ = ("reported", "settled", "source", "target", "unsettled")

    source: int
    target: int
    settled: int
    """All copies up to this number are settled."""
    unsettled: list[Unsettled]
    """The unsettled entries, in ascending order of numbers and positions."""
    reported: dict[int, list[int]]
    """For each peer, the unsettled numbers of entries on messages to it, ascending."""

    def __init__(self, source: int, target: int, settled: int) -> None:
        self.source = source
        self.target = target
        self.settled = settled
        self.unsettled = []
        self.reported = {}

    def unsettled_before(self, position: int) -> Unsettled | None:
        """Return the last entry in the past of a copy with that position."""
        unsettled = self.unsettled
        index = len(unsettled) - 1
        while index >= 0:
            found = unsettled[index]
            if found.position < position:
                return found
            index -= 1
        return None

    def report(self, peer: int, number: int) -> None:
        """Record that a message to ``peer`` carries the entry of that number."""
        numbers = self.reported.get(peer)
        if numbers is None:
            self.reported[peer] = [number]
        elif number > numbers[-1]:  # Copies to a peer leave in order.
            numbers.append(number)


class PairTable:
    """The pairs with unsettled entries or reported numbers, by source and by target."""

    __slots__ = ("_settled", "settled_at", "sources", "targets")

    sources: dict[int, dict[int, Pair]]
    targets: dict[int, dict[int, Pair]]
    settled_at: dict[int, float]
    """When an entry for a target in ``targets`` was settled last."""

    def __init__(self) -> None:
        self.sources = {}
        self.targets = {}
        self.settled_at = {}
        self._settled: dict[int, int] = {}  # What is settled of other pairs, by key.

    def find(self, source: int, target: int) -> Pair | None:
        """Return a pair, or None if it is not in the table."""
        targets = self.sources.get(source)
        return None if targets is None else targets.get(target)

    def pair(self, source: int, target: int) -> Pair:
        """Return a pair; create it if there is none."""
        targets = self.sources.get(source)
        if targets is None:
            targets = {}
            self.sources[source] = targets
        pair = targets.get(target)
        if pair is None:
            settled = self._settled.pop(source << PAIR_BITS | target, 0)
            pair = Pair(source, target, settled)
            targets[target] = pair
            self.targets.setdefault(target, {})[source] = pair
        return pair

    def settled(self, source: int, target: int) -> int:
        """Return the number up to which the copies of a pair are known to be settled."""
        pair = self.find(source, target)
        if pair is not None:
            return pair.settled
        return self._settled.get(source << PAIR_BITS | target, 0)

    def discard(self, pair: Pair) -> None:
        """Remove a pair without unsettled entries and reported numbers."""
        targets = self.sources[pair.source]
        del targets[pair.target]
        if not targets:
            del self.sources[pair.source]
        sources = self.targets[pair.target]
        del sources[pair.source]
        if not sources:
            del self.targets[pair.target]
            self.settled_at.pop(pair.target, None)

    def first_position(self, target: int) -> int:
        """Return the lowest position of the entries for a target, or UNBOUNDED."""
        first = UNBOUNDED
        sources = self.targets.get(target)
        if sources is not None:
            for pair in sources.values():
                if pair.unsettled and pair.unsettled[0].position < first:
                    first = pair.unsettled[0].position
        return first

    def progress_at(self, target: int) -> float:
        """Return when entries for a target made progress last, or infinity without any.

        They make progress when one of them is settled, and when the oldest one is added.
        """
        first = NEVER
        for pair in self.targets.get(target, {}).values():
            if pair.unsettled and pair.unsettled[0].since < first:
                first = pair.unsettled[0].since
        return max(first, self.settled_at.get(target, first))

    def is_reported(self, target: int, peer: int) -> bool:
        """Return whether an unsettled entry for a target was reported to a peer."""
        sources = self.targets.get(target, {})
        return True in [peer in pair.reported for pair in sources.values()]

    def used_ids(self) -> set[int]:
        """Return the ids of all processes in the table, and in the remembered pairs."""
        used = set(self.sources)
        used.update(self.targets)
        for key in self._settled:
            used.update((key >> PAIR_BITS, key & ((1 << PAIR_BITS) - 1)))
        return used

    def remember(self, source: int, target: int, number: int) -> None:
        """Remember for some time that the copies of a pair are settled.

        Without this, an entry could be passed around forever among processes that hear of
        it again after they have learned that it is settled.
        """
        remembered = self._settled
        key = source << PAIR_BITS | target
        number = max(number, remembered.pop(key, 0))
        if len(remembered) >= REMEMBERED_MAX:
            del remembered[next(iter(remembered))]
        remembered[key] = number
