"""Distributed programs, all the ways they can run, and the crowns in a run.

A *pattern* is a distributed program as Mattern and Fünfrocken write theirs: for each
process, the sends and the (unselective) receives of its application, in order. A *history*
is what came of it: for each process, the same events in the same order, with the message
that each receive took. The program fixes everything but the order of deliveries.

:func:`histories` runs a pattern in every possible way, and :func:`reachable` asks whether
one of these satisfies a predicate. Both take any process class, by the contract alone.

A *crown* is a set of messages m1 … mk, k > 1, of which each, in a circle, was sent before
the next was received: s1 ≺ r2, s2 ≺ r3, …, sk ≺ r1. No synchronous run has one.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations

from antecede.check.snapshot import snapshot
from antecede.core import Frame, Process, ProcessId, encode

SEND = "send"
RECEIVE = "receive"


@dataclass(frozen=True, slots=True)
class Send:
    """The application sends the message called ``label``."""

    label: str
    target: int


@dataclass(frozen=True, slots=True)
class Receive:
    """The application takes the next message delivered to it, and waits if none is."""


Pattern = Sequence[Sequence[Send | Receive]]
Happening = tuple[str, str]
"""Either ``SEND`` or ``RECEIVE``, and the label of the message."""
History = tuple[tuple[Happening, ...], ...]
Predicate = Callable[[History], bool]

FIRST_PROGRAM: Pattern = (
    (Send("x", 2), Send("y", 1)),
    (Receive(), Send("z", 2)),
    (Receive(), Receive()),
)
"""Three processes; x must not be overtaken by y and z (§4.1, Fig. 4 to 6)."""

SECOND_PROGRAM: Pattern = (
    (Send("e", 1), Send("d", 2), Receive(), Receive()),
    (Send("c", 2), Send("b", 0), Receive(), Receive()),
    (Send("a", 0), Send("f", 1), Receive(), Receive()),
)
"""Nobody sends after a receive, so that every run is causal (§4.2, Fig. 7 and 8)."""


def history_of(pattern: Pattern, received: Sequence[str]) -> History:
    """Return the history of a pattern whose processes receive messages in this order."""
    happenings = []
    for program, labels in zip(pattern, received, strict=True):
        remaining = iter(labels)
        happenings.append(
            tuple(
                (SEND, step.label) if isinstance(step, Send) else (RECEIVE, next(remaining))
                for step in program
            )
        )
    return tuple(happenings)


FIGURE_4 = history_of(FIRST_PROGRAM, ["", "y", "zx"])
"""x is overtaken: not causal."""
FIGURE_5_AND_6 = history_of(FIRST_PROGRAM, ["", "y", "xz"])
"""One computation; the two protocols come to it in different ways."""
FIGURE_7 = history_of(SECOND_PROGRAM, ["ab", "ef", "cd"])
"""Overlapping crowns: what was sent first is received first."""
FIGURE_8 = history_of(SECOND_PROGRAM, ["ba", "fe", "dc"])
"""Nested crowns: what was sent first is received last."""


# Crowns.


def pasts(history: History) -> dict[Happening, set[Happening]]:
    """Return, for each event, itself and every event that happened before it."""
    past: dict[Happening, set[Happening]] = {}
    position = [0] * len(history)
    moved = True
    while moved:
        moved = False
        for process, happenings in enumerate(history):
            while position[process] < len(happenings):
                index = position[process]
                kind, label = happenings[index]
                if kind == RECEIVE and (SEND, label) not in past:
                    break  # Its send comes first.
                before = {(kind, label)}
                if index > 0:
                    before |= past[happenings[index - 1]]
                if kind == RECEIVE:
                    before |= past[SEND, label]
                past[kind, label] = before
                position[process] += 1
                moved = True
    assert len(past) == sum(map(len, history)), "a receive whose send is not there"
    return past


def crowns(history: History) -> list[frozenset[str]]:
    """Return every set of messages that is a crown, small ones first."""
    past = pasts(history)
    received = sorted(label for kind, label in past if kind == RECEIVE)
    found = []
    for size in range(2, len(received) + 1):
        for labels in combinations(received, size):
            rings = ((labels[0], *rest) for rest in permutations(labels[1:]))
            if any(
                all((SEND, ring[i - 1]) in past[RECEIVE, ring[i]] for i in range(len(ring)))
                for ring in rings
            ):
                found.append(frozenset(labels))
    return found


def _shaped(history: History, shape: Sequence[tuple[str, int]]) -> bool:
    """Tell whether two crowns interleave in this shape, as (kind, which) per process."""
    found = crowns(history)
    processes = len(history)
    for first in found:
        for second in found:
            if first & second or not len(first) == len(second) == processes:
                continue
            which = dict.fromkeys(first, 0) | dict.fromkeys(second, 1)
            if all(
                [(kind, which[label]) for kind, label in happenings if label in which]
                == list(shape)
                for happenings in history
            ):
                return True
    return False


def nested_crowns(history: History) -> bool:
    """Tell whether one crown lies inside another at every process, as in Figure 8."""
    return _shaped(history, [(SEND, 0), (SEND, 1), (RECEIVE, 1), (RECEIVE, 0)])


def overlapping_crowns(history: History) -> bool:
    """Tell whether one crown follows another at every process, as in Figure 7."""
    return _shaped(history, [(SEND, 0), (SEND, 1), (RECEIVE, 0), (RECEIVE, 1)])


# Every schedule.


@dataclass(frozen=True, slots=True)
class _Flight:
    """A frame in flight; two of the same content are the same."""

    source: int
    target: int
    content: bytes


@dataclass(frozen=True, slots=True)
class _Place:
    """A process after some inputs, and what these have given so far."""

    inputs: tuple[int | _Flight, ...] = ()
    """Sends, as steps of the program, and arrivals."""
    state: object = None
    """All that the process remembers."""
    next: int = 0
    """The first step of its program that is not done; receives are done with a send."""
    delivered: tuple[tuple[int, int], ...] = ()
    """The (source, number) of each, in order."""


@dataclass(frozen=True, slots=True)
class _State:
    places: tuple[_Place, ...]
    in_flight: tuple[_Flight, ...] = ()

    def key(self) -> object:
        """Two states with the same key go on in the same ways to the same histories."""
        order = sorted(self.in_flight, key=lambda flight: (flight.source, flight.target))
        places = tuple((place.state, place.next, place.delivered) for place in self.places)
        return places, tuple(order)


class _Explorer:
    """Runs one pattern in every way.

    Processes cannot be copied, so a state names the inputs of each, which are repeated on
    a new process for every step: a process is deterministic. States that differ only in
    how they came about are explored once.
    """

    def __init__(
        self, make_process: Callable[[ProcessId], Process], pattern: Pattern, fifo: bool
    ) -> None:
        self.make_process = make_process
        self.pattern = pattern
        self.fifo = fifo
        self.frames: dict[bytes, Frame] = {}
        self.states = 0

    def histories(self) -> Iterator[History]:
        """Yield the history of every run that has come to rest; repeats are possible."""
        start = _State(tuple(_Place() for _ in self.pattern))
        known = {start.key()}
        stack = [start]
        while stack:
            state = stack.pop()
            self.states += 1
            successors = [*self.sends(state), *self.arrivals(state)]
            if not successors:
                yield self.history(state)
            for successor in successors:
                key = successor.key()
                if key not in known:
                    known.add(key)
                    stack.append(successor)

    def sends(self, state: _State) -> Iterator[_State]:
        """Let each process whose receives so far can be done carry out its next send."""
        for index, program in enumerate(self.pattern):
            place = state.places[index]
            step = place.next
            while step < len(program) and isinstance(program[step], Receive):
                step += 1
            receives = sum(isinstance(earlier, Receive) for earlier in program[:step])
            if step < len(program) and receives <= len(place.delivered):
                yield self.after(state, index, step, step + 1)

    def arrivals(self, state: _State) -> Iterator[_State]:
        """Let each frame in flight arrive that may be the next to do so."""
        seen = set()
        for position, flight in enumerate(state.in_flight):
            pair = (flight.source, flight.target)
            same = pair if self.fifo else flight
            if same not in seen:
                seen.add(same)
                rest = state.in_flight[:position] + state.in_flight[position + 1 :]
                target = state.places[flight.target]
                yield self.after(
                    replace(state, in_flight=rest), flight.target, flight, target.next
                )

    def after(self, state: _State, index: int, step: int | _Flight, next: int) -> _State:
        """Return the state after one more input of the process at ``index``."""
        place = state.places[index]
        inputs = (*place.inputs, step)
        process = self.make_process(ProcessId(index))
        delivered: list[tuple[int, int]] = []
        flights: list[_Flight] = []
        for earlier in inputs:
            flights = []  # What the earlier inputs gave is in the state already.
            if isinstance(earlier, _Flight):
                frame = self.frames[earlier.content]
                process.receive(ProcessId(earlier.source), frame, 0.0)
            else:
                send = self.pattern[index][earlier]
                assert isinstance(send, Send)
                process.send([ProcessId(send.target)], send.label.encode(), 0.0)
            delivered += [(d.source, d.number) for d in process.messages_to_deliver()]
            for transmit in process.frames_to_transmit():
                content = encode([transmit.frame])
                self.frames.setdefault(content, transmit.frame)
                flights.append(_Flight(index, transmit.target, content))
        assert process.next_timer() is None, "time does not pass here"
        assert not getattr(process, "__dict__", None), "a snapshot would not see it all"
        places = list(state.places)
        places[index] = _Place(inputs, snapshot(process), next, tuple(delivered))
        return _State(tuple(places), state.in_flight + tuple(flights))

    def history(self, state: _State) -> History:
        """Return what happened; a process that waits in vain stops there."""
        labels = {}
        for source, program in enumerate(self.pattern):
            sends = (step for step in program if isinstance(step, Send))
            for number, send in enumerate(sends, start=1):
                labels[source, number] = send.label
        history = []
        for program, place in zip(self.pattern, state.places, strict=True):
            delivered = iter(place.delivered)
            happenings: list[Happening] = []
            for index, step in enumerate(program):
                if isinstance(step, Send) and index < place.next:
                    happenings.append((SEND, step.label))
                    continue
                message = None if isinstance(step, Send) else next(delivered, None)
                if message is None:
                    break
                happenings.append((RECEIVE, labels[message]))
            history.append(tuple(happenings))
        return tuple(history)


def histories(
    make_process: Callable[[ProcessId], Process], pattern: Pattern, *, fifo: bool = False
) -> Counter[History]:
    """Run ``pattern`` in every way and count the ends that have each history.

    Frames arrive exactly once, in any order, or with ``fifo`` in the order of each pair.
    The process class must declare ``__slots__``, and have no timers.
    """
    return Counter(_Explorer(make_process, pattern, fifo).histories())


def reachable(
    make_process: Callable[[ProcessId], Process],
    pattern: Pattern,
    predicate: Predicate,
    *,
    fifo: bool = False,
) -> bool:
    """Tell whether some run of ``pattern`` comes to rest with such a history."""
    explorer = _Explorer(make_process, pattern, fifo)
    return any(predicate(history) for history in explorer.histories())
