"""Distributed programs, the enumeration of their runs, and the crowns in a run.

A *pattern* is a distributed program as Mattern and Fünfrocken write theirs: for each
process, the sends and the (unselective) receives of its application, in order. A *history*
is its result: for each process, the same events in the same order, with the message that
each receive returned. The program fixes everything except the order of deliveries.

:func:`histories` enumerates all runs of a pattern, and :func:`reachable` returns whether
one of them satisfies a predicate. Both take any class that implements ``Process``.

A *crown* is a set of messages m1 … mk, k > 1, in which each message was sent before the
next one was received, cyclically: s1 ≺ r2, s2 ≺ r3, …, sk ≺ r1. No synchronous run has one.
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
    """The application sends the message ``label``."""

    label: str
    target: int


@dataclass(frozen=True, slots=True)
class Receive:
    """The application takes the next delivered message, and waits until there is one."""


Pattern = Sequence[Sequence[Send | Receive]]
HistoryEvent = tuple[str, str]
"""Either ``SEND`` or ``RECEIVE``, and the label of the message."""
History = tuple[tuple[HistoryEvent, ...], ...]
Predicate = Callable[[History], bool]

FIRST_PROGRAM: Pattern = (
    (Send("x", 2), Send("y", 1)),
    (Receive(), Send("z", 2)),
    (Receive(), Receive()),
)
"""The chain of y and z must not overtake x (§4.1, Fig. 4 to 6)."""

SECOND_PROGRAM: Pattern = (
    (Send("e", 1), Send("d", 2), Receive(), Receive()),
    (Send("c", 2), Send("b", 0), Receive(), Receive()),
    (Send("a", 0), Send("f", 1), Receive(), Receive()),
)
"""No process sends after a receive, so every run is causal (§4.2, Fig. 7 and 8)."""


def history_of(pattern: Pattern, received: Sequence[str]) -> History:
    """Return the history of a pattern whose processes receive messages in this order."""
    events = []
    for program, labels in zip(pattern, received, strict=True):
        remaining = iter(labels)
        events.append(
            tuple(
                (SEND, step.label) if isinstance(step, Send) else (RECEIVE, next(remaining))
                for step in program
            )
        )
    return tuple(events)


FIGURE_4 = history_of(FIRST_PROGRAM, ["", "y", "zx"])
"""z overtakes x: not causal."""
FIGURE_5_AND_6 = history_of(FIRST_PROGRAM, ["", "y", "xz"])
"""The same computation, by the matrix protocol and by the buffer protocol."""
FIGURE_7 = history_of(SECOND_PROGRAM, ["ab", "ef", "cd"])
"""Overlapping crowns: the message sent first is received first."""
FIGURE_8 = history_of(SECOND_PROGRAM, ["ba", "fe", "dc"])
"""Nested crowns: the message sent first is received last."""


# Crowns.


def pasts(history: History) -> dict[HistoryEvent, set[HistoryEvent]]:
    """Return, for each event, itself and every event that happened before it."""
    past: dict[HistoryEvent, set[HistoryEvent]] = {}
    position = [0] * len(history)
    moved = True
    while moved:
        moved = False
        for process, events in enumerate(history):
            while position[process] < len(events):
                index = position[process]
                kind, label = events[index]
                if kind == RECEIVE and (SEND, label) not in past:
                    break  # Wait for its send.
                before = {(kind, label)}
                if index > 0:
                    before |= past[events[index - 1]]
                if kind == RECEIVE:
                    before |= past[SEND, label]
                past[kind, label] = before
                position[process] += 1
                moved = True
    assert len(past) == sum(map(len, history)), "a receive without its send"
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


def _has_shape(history: History, shape: Sequence[tuple[str, int]]) -> bool:
    """Return whether two crowns interleave as in ``shape``, given as (kind, crown)."""
    found = crowns(history)
    processes = len(history)
    for first in found:
        for second in found:
            if first & second or not len(first) == len(second) == processes:
                continue
            crown_of = dict.fromkeys(first, 0) | dict.fromkeys(second, 1)
            if all(
                [(kind, crown_of[label]) for kind, label in events if label in crown_of]
                == list(shape)
                for events in history
            ):
                return True
    return False


def nested_crowns(history: History) -> bool:
    """Return whether one crown lies inside another at every process, as in Figure 8."""
    return _has_shape(history, [(SEND, 0), (SEND, 1), (RECEIVE, 1), (RECEIVE, 0)])


def overlapping_crowns(history: History) -> bool:
    """Return whether one crown follows another at every process, as in Figure 7."""
    return _has_shape(history, [(SEND, 0), (SEND, 1), (RECEIVE, 0), (RECEIVE, 1)])


# Enumeration of all schedules.


@dataclass(frozen=True, slots=True)
class _FrameInFlight:
    """A frame in flight; frames with equal content are equal."""

    source: int
    target: int
    content: bytes


@dataclass(frozen=True, slots=True)
class _LocalState:
    """A process after some inputs, and its deliveries."""

    inputs: tuple[int | _FrameInFlight, ...] = ()
    """Sends, as steps of the program, and arrivals."""
    state: object = None
    """The snapshot of the process."""
    next: int = 0
    """The first step of its program that is not done; a send includes earlier receives."""
    delivered: tuple[tuple[int, int], ...] = ()
    """The (source, number) of each delivery, in order."""


@dataclass(frozen=True, slots=True)
class _State:
    processes: tuple[_LocalState, ...]
    in_flight: tuple[_FrameInFlight, ...] = ()

    def key(self) -> object:
        """Return a key that is equal for states with the same possible continuations."""
        order = sorted(self.in_flight, key=lambda flight: (flight.source, flight.target))
        processes = tuple(
            (local.state, local.next, local.delivered) for local in self.processes
        )
        return processes, tuple(order)


class _Explorer:
    """Enumerates all runs of one pattern.

    Processes cannot be copied, so a state lists the inputs of each, which are replayed on
    a new process for every step; processes are deterministic. States with the same key
    are explored once.
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
        """Yield the history of every final state; histories may repeat."""
        start = _State(tuple(_LocalState() for _ in self.pattern))
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
        """Yield the states after the next send of each process that can do it now."""
        for index, program in enumerate(self.pattern):
            local = state.processes[index]
            step = local.next
            while step < len(program) and isinstance(program[step], Receive):
                step += 1
            receives = sum(isinstance(earlier, Receive) for earlier in program[:step])
            if step < len(program) and receives <= len(local.delivered):
                yield self.after(state, index, step, step + 1)

    def arrivals(self, state: _State) -> Iterator[_State]:
        """Yield the states after the arrival of each frame that may arrive next."""
        seen = set()
        for position, flight in enumerate(state.in_flight):
            pair = (flight.source, flight.target)
            same = pair if self.fifo else flight
            if same not in seen:
                seen.add(same)
                rest = state.in_flight[:position] + state.in_flight[position + 1 :]
                target = state.processes[flight.target]
                yield self.after(
                    replace(state, in_flight=rest), flight.target, flight, target.next
                )

    def after(
        self, state: _State, index: int, step: int | _FrameInFlight, next: int
    ) -> _State:
        """Return the state after one more input of the process at ``index``."""
        local = state.processes[index]
        inputs = (*local.inputs, step)
        process = self.make_process(ProcessId(index))
        delivered: list[tuple[int, int]] = []
        flights: list[_FrameInFlight] = []
        for earlier in inputs:
            flights = []  # The outputs of earlier inputs are already in the state.
            if isinstance(earlier, _FrameInFlight):
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
                flights.append(_FrameInFlight(index, transmit.target, content))
        assert process.next_timer() is None, "timers are not supported"
        assert not getattr(process, "__dict__", None), "a snapshot needs __slots__"
        processes = list(state.processes)
        processes[index] = _LocalState(inputs, snapshot(process), next, tuple(delivered))
        return _State(tuple(processes), state.in_flight + tuple(flights))

    def history(self, state: _State) -> History:
        """Return the history of a final state, up to the first receive without message."""
        labels = {}
        for source, program in enumerate(self.pattern):
            sends = (step for step in program if isinstance(step, Send))
            for number, send in enumerate(sends, start=1):
                labels[source, number] = send.label
        history = []
        for program, local in zip(self.pattern, state.processes, strict=True):
            delivered = iter(local.delivered)
            events: list[HistoryEvent] = []
            for index, step in enumerate(program):
                if isinstance(step, Send) and index < local.next:
                    events.append((SEND, step.label))
                    continue
                message = None if isinstance(step, Send) else next(delivered, None)
                if message is None:
                    break
                events.append((RECEIVE, labels[message]))
            history.append(tuple(events))
        return tuple(history)


def histories(
    make_process: Callable[[ProcessId], Process], pattern: Pattern, *, fifo: bool = False
) -> Counter[History]:
    """Enumerate the runs of ``pattern``, and count the final states per history.

    Frames arrive exactly once, in any order, or with ``fifo`` in the order of each
    channel. The process class must declare ``__slots__`` and have no timers.
    """
    return Counter(_Explorer(make_process, pattern, fifo).histories())


def reachable(
    make_process: Callable[[ProcessId], Process],
    pattern: Pattern,
    predicate: Predicate,
    *,
    fifo: bool = False,
) -> bool:
    """Return whether the history of some run of ``pattern`` satisfies ``predicate``."""
    explorer = _Explorer(make_process, pattern, fifo)
    return any(predicate(history) for history in explorer.histories())
