"""``newtop``: one order for all, live as long as silence is broken, and quiet at rest."""

from math import inf, nan
from random import Random
from typing import cast

import pytest

from antecede.check.snapshot import snapshot
from antecede.core import Delivery, Frame, ProcessId, RetransmissionPolicy, Transmit
from antecede.core.codec import decode, encode
from antecede.core.link import ReliableLink
from antecede.core.protocols.baseline import BaselineMessage
from antecede.core.protocols.newtop import (
    SILENCE_S,
    Newtop,
    NewtopMessage,
    NewtopNull,
    read_newtop,
)
from antecede.errors import ConfigError, LocalError, PeerError
from antecede.testing import Cluster
from antecede.trace import Kind
from antecede.verify import Property
from tests.core.broadcasts import Outputs, assert_right, joined, play, rest

POLICY = RetransmissionPolicy(initial_s=1.0, minimum_s=0.5, maximum_s=8.0)
SILENCE = 0.25
"""A sum of powers of two, like all times here, so that times are exact."""


def bare(processes: int) -> Cluster:
    return Cluster(
        "newtop", processes, make=lambda place: Newtop(place, processes, SILENCE)
    )


def linked(processes: int) -> Cluster:
    return Cluster(
        "newtop",
        processes,
        make=lambda place: ReliableLink(
            Newtop(place, processes, SILENCE), fifo=True, policy=POLICY
        ),
    )


def one_order(cluster: Cluster) -> bool:
    """Tell whether every process has delivered a prefix of one and the same order."""
    orders = [cluster.delivered(place) for place in range(len(cluster.processes))]
    longest = max(orders, key=len)
    return all(order == longest[: len(order)] for order in orders)


class NaiveNewtop(Outputs):
    """The rules as they are written; each is a method for a mutant to break."""

    def __init__(self, id: ProcessId, processes: int) -> None:
        super().__init__()
        self.id = id
        self.clock = 0
        self.number = 0
        self.last = dict.fromkeys(range(processes), 0)
        self.held: list[tuple[int, ProcessId, int, bytes]] = []
        self.known = [0]
        """The stamps of all messages ever heard of."""
        self.silent_since: float | None = None
        self.deadline: float | None = None

    def broadcast(self, payload: bytes, now: float) -> int:
        self.clock += 1
        self.number += 1
        self.known.append(self.clock)
        self.held.append((self.clock, self.id, self.number, payload))
        self.transmit(NewtopMessage(self.clock, self.number, payload), now)
        return self.number

    def transmit(self, frame: NewtopMessage | NewtopNull, now: float) -> None:
        self.transmits += [
            Transmit(ProcessId(member), frame) for member in self.last if member != self.id
        ]
        self.last[self.id] = frame.clock
        self.silent_since = now
        self.deadline = None
        self.deliver()

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        assert isinstance(frame, NewtopMessage | NewtopNull)
        if isinstance(frame, NewtopMessage):
            self.known.append(frame.clock)
            self.held.append((frame.clock, source, frame.number, frame.payload))
        self.last[source] = frame.clock
        self.advance_clock(frame.clock)
        if self.silent_since is None:
            self.silent_since = now
        if self.deadline is None and self.owes_null(frame):
            self.deadline = self.silent_since
            while self.deadline <= now:
                self.deadline += SILENCE
        self.deliver()

    def deliver(self) -> None:
        safe = [message for message in self.held if message[0] <= self.horizon()]
        for message in self.sort(safe):
            self.held.remove(message)
            _, source, number, payload = message
            self.deliveries.append(Delivery(source, number, payload))

    def sort(
        self, safe: list[tuple[int, ProcessId, int, bytes]]
    ) -> list[tuple[int, ProcessId, int, bytes]]:
        return sorted(safe)

    def advance_clock(self, clock: int) -> None:
        self.clock = max(self.clock, clock)

    def horizon(self) -> int:
        return min(self.last.values())

    def owes_null(self, arrived: Frame) -> bool:
        return self.last[self.id] < max(self.known)

    def handle_timer(self, now: float) -> None:
        if self.deadline is not None and self.deadline <= now:
            self.clock += 1
            self.transmit(NewtopNull(self.clock), now)

    def next_timer(self) -> float | None:
        return self.deadline


@pytest.mark.parametrize("faults", [0.0, 0.2])
def test_random_runs_are_totally_ordered_and_live(faults: float) -> None:
    for seed in range(300):
        random = Random(seed)
        processes = random.randint(1, 6)
        cluster = linked(processes) if faults else bare(processes)
        steps = random.choice((30, 100))
        seconds = (0.125, 0.25, 1.0)
        play(cluster, random, steps=steps, fifo=not faults, faults=faults, seconds=seconds)
        try:
            assert one_order(cluster)
            assert_right(cluster, random, fifo=not faults)
            assert one_order(cluster)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        for process in cluster.processes:
            inner = process.inner if isinstance(process, ReliableLink) else process
            assert isinstance(inner, Newtop)
            assert inner.held == 0, f"seed {seed}"
            assert inner.next_timer() is None


def test_does_at_every_step_what_the_naive_rules_do() -> None:
    for seed in range(150):
        random = Random(seed)
        processes = random.randint(1, 6)
        histories = []
        for make in (
            [Newtop(ProcessId(place), processes, SILENCE) for place in range(processes)],
            [NaiveNewtop(ProcessId(place), processes) for place in range(processes)],
        ):
            cluster = joined(make)
            choices = Random(seed)
            play(cluster, choices, steps=120, fifo=True, seconds=(0.125, 0.25, 1.0))
            assert rest(cluster, choices, fifo=True)
            histories.append(cluster.history)
        assert histories[0] == histories[1], f"seed {seed}"


def test_the_same_choices_give_the_same_history() -> None:
    histories = []
    for _ in range(2):
        cluster = linked(4)
        play(cluster, Random(7), steps=300, faults=0.1, seconds=(1.0,))
        cluster.run_until_idle()
        histories.append(cluster.history)
    assert histories[0] == histories[1]


# Mutants: the rules with one broken. Each must be caught, and for the right reason.


class DeliversOnArrival(NaiveNewtop):
    def horizon(self) -> int:
        return max(self.last.values())


class DoesNotWaitForTheSilent(NaiveNewtop):
    def horizon(self) -> int:
        return min(last for last in self.last.values() if last > 0)


class OneOff(NaiveNewtop):
    def horizon(self) -> int:
        return super().horizon() + 1


class IgnoresStamps(NaiveNewtop):
    """Its own entry keeps order, but its nulls do not pass what others wait for."""

    def advance_clock(self, clock: int) -> None:
        pass


class IgnoresStampsAndItself(IgnoresStamps):
    def horizon(self) -> int:
        others = [last for member, last in self.last.items() if member != self.id]
        return min(others)


class BreaksTiesByArrival(NaiveNewtop):
    def sort(
        self, safe: list[tuple[int, ProcessId, int, bytes]]
    ) -> list[tuple[int, ProcessId, int, bytes]]:
        return sorted(safe, key=lambda message: message[0])


class NoNulls(NaiveNewtop):
    def owes_null(self, arrived: Frame) -> bool:
        return False


class NullsOnlyForItself(NaiveNewtop):
    """It ends its silence only if its own message is held up."""

    def owes_null(self, arrived: Frame) -> bool:
        mine = [message for message in self.held if message[1] == self.id]
        return bool(mine) and super().owes_null(arrived)


class AnswersNulls(NaiveNewtop):
    def owes_null(self, arrived: Frame) -> bool:
        return True


@pytest.mark.parametrize(
    ("mutant", "broken", "ordered", "rests"),
    [
        (NaiveNewtop, set(), True, True),
        (DeliversOnArrival, {Property.CAUSAL}, False, True),
        (DoesNotWaitForTheSilent, {Property.CAUSAL}, False, True),
        (OneOff, set(), False, True),
        (IgnoresStamps, {Property.LIVENESS}, True, True),
        (IgnoresStampsAndItself, {Property.CAUSAL, Property.LIVENESS}, False, True),
        (BreaksTiesByArrival, set(), False, True),
        (NoNulls, {Property.LIVENESS}, True, True),
        (NullsOnlyForItself, {Property.LIVENESS}, True, True),
        (AnswersNulls, set(), True, False),
    ],
)
def test_random_runs_catch_a_broken_rule(
    mutant: type[NaiveNewtop], broken: set[Property], ordered: bool, rests: bool
) -> None:
    found: set[Property] = set()
    in_order = at_rest = True
    for seed in range(60):
        random = Random(seed)
        cluster = Cluster("newtop", 4, make=lambda place: mutant(place, 4))
        play(cluster, random, steps=60, fifo=True, seconds=(0.125, 0.25))
        at_rest = rest(cluster, random, fifo=True, steps_max=600) and at_rest
        found |= cluster.verdict().violated()
        in_order = one_order(cluster) and in_order
    assert (found, in_order, at_rest) == (broken, ordered, rests)


# Waiting for everybody.


def arrive(cluster: Cluster, *, source: int, target: int) -> None:
    """Let the first frame between the two arrive."""
    for index, packet in enumerate(cluster.in_flight):
        if (packet.source, packet.target) == (source, target):
            cluster.arrive(index)
            return
    raise AssertionError(f"nothing from {source} to {target} in flight")


def arrive_all(cluster: Cluster) -> None:
    while cluster.in_flight:
        cluster.arrive()


def nulls(cluster: Cluster) -> int:
    """Count the null frames transmitted so far, each once for every target."""
    return sum(event.kind is Kind.CONTROL for event in cluster.history)


def test_nobody_delivers_while_one_member_is_silent() -> None:
    """Stuck with time standing still, however many messages the others send."""
    cluster = bare(3)
    for _ in range(10):
        cluster.broadcast(0)
        cluster.broadcast(1)
        arrive_all(cluster)
    assert all(cluster.delivered(place) == [] for place in range(3))
    assert cluster.verdict().violated() == {Property.LIVENESS}
    cluster.pass_time(SILENCE)  # Now 2 says a null.
    arrive_all(cluster)
    assert one_order(cluster)
    assert len(cluster.delivered(0)) >= 18
    cluster.run_until_idle()
    assert cluster.verdict().held


def test_a_message_is_delivered_when_everybody_has_passed_its_stamp() -> None:
    cluster = bare(3)
    cluster.broadcast(0)
    arrive(cluster, source=0, target=1)
    cluster.broadcast(1)
    arrive(cluster, source=0, target=2)
    arrive(cluster, source=1, target=2)
    assert cluster.delivered(2) == []  # Its own entry is lacking, as in the paper.
    cluster.broadcast(2)
    assert cluster.delivered(2) == [(0, 1)]
    process = cluster.processes[2]
    assert isinstance(process, Newtop)
    assert process.received == [1, 2, 3]
    assert (process.clock, process.held) == (3, 2)
    arrive(cluster, source=1, target=0)
    assert cluster.delivered(0) == []
    arrive(cluster, source=2, target=0)
    assert cluster.delivered(0) == [(0, 1)]


def test_messages_with_equal_stamps_are_delivered_by_source_everywhere() -> None:
    cluster = bare(3)
    for member in (2, 1, 0):
        cluster.broadcast(member)
    arrive_all(cluster)
    assert all(cluster.delivered(place) == [(0, 1), (1, 1), (2, 1)] for place in range(3))
    assert nulls(cluster) == 0
    assert all(process.next_timer() is None for process in cluster.processes)


def test_a_message_waits_for_concurrent_ones_which_causal_order_does_not_ask_for() -> None:
    cluster = bare(2)
    cluster.broadcast(0)
    cluster.broadcast(1)
    arrive(cluster, source=0, target=1)
    assert cluster.delivered(1) == [(0, 1), (1, 1)]
    cluster.broadcast(1)
    assert cluster.delivered(1) == [(0, 1), (1, 1)]  # Its own waits for 0.


def test_ones_own_message_is_delivered_in_its_turn() -> None:
    cluster = bare(2)
    cluster.broadcast(0)
    assert cluster.delivered(0) == []
    cluster.run_until_idle()
    assert cluster.delivered(0) == [(0, 1)]


def test_a_group_of_one_delivers_at_once() -> None:
    cluster = bare(1)
    cluster.broadcast(0)
    cluster.broadcast(0)
    assert cluster.delivered(0) == [(0, 1), (0, 2)]
    assert cluster.processes[0].next_timer() is None


# Time-silence.


def test_a_message_in_a_silent_group_costs_one_null_from_each_other_member() -> None:
    cluster = bare(4)
    cluster.broadcast(0)
    cluster.run_until_idle()
    assert cluster.verdict().held
    assert nulls(cluster) == 3 * 3
    cluster.pass_time(100.0)
    assert cluster.in_flight == []


def test_members_that_all_talk_need_no_null() -> None:
    cluster = bare(3)
    for turn in range(30):
        cluster.pass_time(SILENCE / 4)
        cluster.broadcast(turn % 3)
        arrive_all(cluster)
    assert nulls(cluster) == 0
    assert all(len(cluster.delivered(place)) == 28 for place in range(3))


def test_silence_ends_at_a_multiple_of_omega_after_the_last_transmission() -> None:
    process = Newtop(ProcessId(0), 2, SILENCE)
    peer = ProcessId(1)
    process.broadcast(b"", 10.0)
    process.receive(peer, NewtopMessage(1, 1, b""), 10.1)
    assert process.next_timer() is None  # It has passed that stamp already.
    process.receive(peer, NewtopMessage(2, 2, b""), 10.125)
    assert process.next_timer() == 10.25
    process.receive(peer, NewtopMessage(3, 3, b""), 10.1875)
    assert process.next_timer() == 10.25  # Not put off.
    process.frames_to_transmit()
    process.handle_timer(10.24)  # Early: harmless.
    assert process.frames_to_transmit() == []
    process.handle_timer(10.25)
    (transmit,) = process.frames_to_transmit()
    assert isinstance(transmit.frame, NewtopNull)
    assert (transmit.target, transmit.frame.clock) == (1, 4)
    assert process.next_timer() is None
    process.receive(peer, NewtopNull(9), 12.0)
    assert process.next_timer() is None  # Nobody waits for a null to be passed.
    process.receive(peer, NewtopMessage(10, 4, b""), 12.3)
    assert process.next_timer() == 12.5  # 10.25 and nine times 0.25.
    process.broadcast(b"", 12.4)
    assert process.next_timer() is None  # That was no silence.


def test_a_null_that_is_overdue_is_not_put_off_by_another_message() -> None:
    process = Newtop(ProcessId(0), 2, SILENCE)
    process.receive(ProcessId(1), NewtopMessage(1, 1, b""), 1.0)
    process.receive(ProcessId(1), NewtopMessage(2, 2, b""), 1.5)  # The driver is late.
    assert process.next_timer() == 1.25
    process.handle_timer(1.5)
    assert [transmit.target for transmit in process.frames_to_transmit()] == [1]
    assert len(process.messages_to_deliver()) == 2


def test_who_never_transmitted_is_silent_since_its_first_frame() -> None:
    process = Newtop(ProcessId(0), 2)
    process.receive(ProcessId(1), NewtopNull(1), 3.0)
    assert process.next_timer() is None
    process.receive(ProcessId(1), NewtopMessage(2, 1, b""), 3.0 + SILENCE_S / 2)
    assert process.next_timer() == pytest.approx(3.0 + SILENCE_S)


# Frames.


def test_frames_survive_the_wire_and_their_size_is_exact() -> None:
    random = Random(1)
    bounds = (1, 255, 256, 65535, 65536, 2**40, 2**63 - 1)
    for _ in range(300):
        message = NewtopMessage(
            random.randint(1, random.choice(bounds)),
            random.randint(1, random.choice(bounds)),
            random.randbytes(random.choice((0, 1, 127, 128, 20000))),
        )
        null = NewtopNull(random.randint(1, random.choice(bounds)))
        for frame in (message, null):
            data = encode([frame])
            assert len(data) == 1 + frame.size()
            with pytest.raises(PeerError):
                decode(data[: random.randrange(2, len(data))], read_newtop)
        back, after = decode(encode([message, null]), read_newtop)
        assert isinstance(back, NewtopMessage)
        assert isinstance(after, NewtopNull)
        assert (back.clock, back.number, back.payload) == (
            message.clock,
            message.number,
            message.payload,
        )
        assert after.clock == null.clock
        assert (back.kind(), after.kind()) == (1, 2)
        assert (back.message_number(), after.message_number()) == (message.number, 0)
        assert back.metadata_size() == back.size() - len(back.payload)


def test_metadata_does_not_grow_with_the_group() -> None:
    for processes in (2, 300):
        process = Newtop(ProcessId(0), processes)
        process.broadcast(b"", 0.0)
        assert process.frames_to_transmit()[0].frame.metadata_size() == 4


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x01\x30\x01", "kind 3"),
        (b"\x01\x11\x01\x01\x00", "kind 1 with its flag"),
        (b"\x01\x21\x01", "kind 2 with its flag"),
        (b"\x01\x10\x01\x01\x02", "cut short"),
    ],
)
def test_bytes_that_are_no_frame_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(PeerError, match=words):
        decode(data, read_newtop)


# Bad input.


def busy_process() -> Newtop:
    """Process 1 of 3: it owes a null and holds 0:1, 0:2 and its own first message."""
    process = Newtop(ProcessId(1), 3)
    process.broadcast(b"", 0.0)
    process.receive(ProcessId(0), NewtopMessage(1, 1, b""), 0.01)
    process.receive(ProcessId(0), NewtopMessage(5, 2, b""), 0.01)
    process.frames_to_transmit()
    assert process.messages_to_deliver() == []
    assert process.next_timer() is not None
    return process


@pytest.mark.parametrize(
    ("source", "frame", "words"),
    [
        (0, BaselineMessage(3, b""), "not a frame of this protocol"),
        (3, NewtopNull(6), "not in the group"),
        (-1, NewtopNull(6), "not in the group"),
        (0, NewtopNull(5), "after the stamp 5"),
        (0, NewtopNull(4), "after the stamp 5"),
        (2, NewtopNull(0), "after the stamp 0"),
        (0, NewtopMessage(5, 3, b""), "after the stamp 5"),
        (0, NewtopMessage(6, 2, b""), "after message 2"),
        (0, NewtopMessage(6, 4, b""), "after message 2"),
        (2, NewtopMessage(6, 0, b""), "after message 0"),
        (2, NewtopMessage(0, 1, b""), "after the stamp 0"),
    ],
)
def test_a_frame_that_cannot_be_is_the_peers_fault_and_changes_nothing(
    source: int, frame: Frame, words: str
) -> None:
    process = busy_process()
    before = snapshot(process)
    with pytest.raises(PeerError, match=words):
        process.receive(ProcessId(source), frame, 1.0)
    assert snapshot(process) == before
    process.receive(ProcessId(2), NewtopMessage(1, 1, b""), 1.0)
    delivered = [(d.source, d.number) for d in process.messages_to_deliver()]
    assert delivered == [(0, 1), (1, 1), (2, 1)]


def test_what_the_caller_does_wrong_is_refused_and_changes_nothing() -> None:
    process = busy_process()
    before = snapshot(process)
    with pytest.raises(LocalError, match="itself"):
        process.receive(ProcessId(1), NewtopNull(9), 1.0)
    with pytest.raises(LocalError, match="must be bytes, not str"):
        process.broadcast(cast("bytes", "text"), 1.0)
    with pytest.raises(LocalError, match="broadcast only"):
        process.send([ProcessId(0)], b"", 1.0)
    with pytest.raises(LocalError, match="overlay"):
        process.disconnect(ProcessId(0), 1.0)
    for now in (nan, inf, -inf):
        with pytest.raises(LocalError, match="finite"):
            process.broadcast(b"", now)
        with pytest.raises(LocalError, match="finite"):
            process.receive(ProcessId(0), NewtopNull(9), now)
        with pytest.raises(LocalError, match="finite"):
            process.handle_timer(now)
    assert snapshot(process) == before


@pytest.mark.parametrize(("id", "processes"), [(0, 0), (3, 3), (-1, 3)])
def test_a_process_outside_the_group_cannot_be_made(id: int, processes: int) -> None:
    with pytest.raises(ConfigError, match="no process"):
        Newtop(ProcessId(id), processes)


@pytest.mark.parametrize("silence_s", [0.0, -1.0, inf, nan])
def test_a_silence_that_is_no_time_is_refused(silence_s: float) -> None:
    with pytest.raises(ConfigError, match="silence_s"):
        Newtop(ProcessId(0), 3, silence_s)
