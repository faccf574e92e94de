"""``newtop``: total order, liveness through null frames, and silence when idle."""

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
from tests.core.broadcasts import (
    Outputs,
    assert_correct,
    cluster_of,
    run_randomly,
    run_until_idle,
)

POLICY = RetransmissionPolicy(initial_s=1.0, minimum_s=0.5, maximum_s=8.0)
SILENCE = 0.25
"""A sum of powers of two, like all times here, so that floats are exact."""


def bare(processes: int) -> Cluster:
    return Cluster(
        "newtop", processes, make=lambda index: Newtop(index, processes, SILENCE)
    )


def linked(processes: int) -> Cluster:
    return Cluster(
        "newtop",
        processes,
        make=lambda index: ReliableLink(
            Newtop(index, processes, SILENCE), fifo=True, policy=POLICY
        ),
    )


def is_totally_ordered(cluster: Cluster) -> bool:
    """Return whether every process has delivered a prefix of the same order."""
    orders = [cluster.delivered(index) for index in range(len(cluster.processes))]
    longest = max(orders, key=len)
    return all(order == longest[: len(order)] for order in orders)


class NaiveNewtop(Outputs):
    """A naive implementation, with a method per rule for the mutants to override."""

    def __init__(self, id: ProcessId, processes: int) -> None:
        super().__init__()
        self.id = id
        self.clock = 0
        self.number = 0
        self.last = dict.fromkeys(range(processes), 0)
        self.held: list[tuple[int, ProcessId, int, bytes]] = []
        self.known = [0]
        """The stamps of all known messages."""
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
        if self.deadline is None and self.is_null_due(frame):
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

    def is_null_due(self, arrived: Frame) -> bool:
        return self.last[self.id] < max(self.known)

    def handle_timer(self, now: float) -> None:
        if self.deadline is not None and self.deadline <= now:
            self.clock += 1
            self.transmit(NewtopNull(self.clock), now)

    def next_timer(self) -> float | None:
        return self.deadline


@pytest.mark.long
@pytest.mark.parametrize("faults", [0.0, 0.2])
def test_random_runs_are_totally_ordered_and_live(faults: float) -> None:
    for seed in range(300):
        random = Random(seed)
        processes = random.randint(1, 6)
        cluster = linked(processes) if faults else bare(processes)
        steps = random.choice((30, 100))
        seconds = (0.125, 0.25, 1.0)
        run_randomly(
            cluster, random, steps=steps, fifo=not faults, faults=faults, seconds=seconds
        )
        try:
            assert is_totally_ordered(cluster)
            assert_correct(cluster, random, fifo=not faults)
            assert is_totally_ordered(cluster)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        for process in cluster.processes:
            inner = process.inner if isinstance(process, ReliableLink) else process
            assert isinstance(inner, Newtop)
            assert inner.held == 0, f"seed {seed}"
            assert inner.next_timer() is None


@pytest.mark.long
def test_has_the_same_history_as_the_naive_implementation() -> None:
    for seed in range(150):
        random = Random(seed)
        processes = random.randint(1, 6)
        histories = []
        for make in (
            [Newtop(ProcessId(index), processes, SILENCE) for index in range(processes)],
            [NaiveNewtop(ProcessId(index), processes) for index in range(processes)],
        ):
            cluster = cluster_of(make)
            choices = Random(seed)
            run_randomly(cluster, choices, steps=120, fifo=True, seconds=(0.125, 0.25, 1.0))
            assert run_until_idle(cluster, choices, fifo=True)
            histories.append(cluster.history)
        assert histories[0] == histories[1], f"seed {seed}"


def test_the_same_choices_give_the_same_history() -> None:
    histories = []
    for _ in range(2):
        cluster = linked(4)
        run_randomly(cluster, Random(7), steps=300, faults=0.1, seconds=(1.0,))
        cluster.run_until_idle()
        histories.append(cluster.history)
    assert histories[0] == histories[1]


# Mutants: each breaks one rule, and must violate the expected properties.


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
    """Its own entry keeps order, but its nulls have too low stamps."""

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
    def is_null_due(self, arrived: Frame) -> bool:
        return False


class NullsOnlyForItself(NaiveNewtop):
    """It transmits a null only while its own message is held."""

    def is_null_due(self, arrived: Frame) -> bool:
        own = [message for message in self.held if message[1] == self.id]
        return bool(own) and super().is_null_due(arrived)


class AnswersNulls(NaiveNewtop):
    def is_null_due(self, arrived: Frame) -> bool:
        return True


@pytest.mark.long
@pytest.mark.parametrize(
    ("mutant", "violated", "ordered", "becomes_idle"),
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
    mutant: type[NaiveNewtop], violated: set[Property], ordered: bool, becomes_idle: bool
) -> None:
    found: set[Property] = set()
    in_order = is_idle = True
    for seed in range(60):
        random = Random(seed)
        cluster = Cluster("newtop", 4, make=lambda index: mutant(index, 4))
        run_randomly(cluster, random, steps=60, fifo=True, seconds=(0.125, 0.25))
        is_idle = run_until_idle(cluster, random, fifo=True, steps_max=600) and is_idle
        found |= cluster.verdict().violated()
        in_order = is_totally_ordered(cluster) and in_order
    assert (found, in_order, is_idle) == (violated, ordered, becomes_idle)


# Deliveries wait for all members.


def arrive(cluster: Cluster, *, source: int, target: int) -> None:
    """Let the first frame from ``source`` to ``target`` arrive."""
    for index, packet in enumerate(cluster.in_flight):
        if (packet.source, packet.target) == (source, target):
            cluster.arrive(index)
            return
    raise AssertionError(f"nothing from {source} to {target} in flight")


def arrive_all(cluster: Cluster) -> None:
    while cluster.in_flight:
        cluster.arrive()


def nulls(cluster: Cluster) -> int:
    """Return the number of null frames transmitted so far, over all targets."""
    return sum(event.kind is Kind.CONTROL for event in cluster.history)


def test_no_member_delivers_while_one_member_is_silent() -> None:
    """Without timers, the group makes no progress, however much the others send."""
    cluster = bare(3)
    for _ in range(10):
        cluster.broadcast(0)
        cluster.broadcast(1)
        arrive_all(cluster)
    assert all(cluster.delivered(index) == [] for index in range(3))
    assert cluster.verdict().violated() == {Property.LIVENESS}
    cluster.pass_time(SILENCE)  # Process 2 transmits a null.
    arrive_all(cluster)
    assert is_totally_ordered(cluster)
    assert len(cluster.delivered(0)) >= 18
    cluster.run_until_idle()
    assert cluster.verdict().held


def test_message_is_delivered_when_all_members_have_passed_its_stamp() -> None:
    cluster = bare(3)
    cluster.broadcast(0)
    arrive(cluster, source=0, target=1)
    cluster.broadcast(1)
    arrive(cluster, source=0, target=2)
    arrive(cluster, source=1, target=2)
    assert cluster.delivered(2) == []  # Its own entry is 0, as in the paper.
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
    assert all(cluster.delivered(index) == [(0, 1), (1, 1), (2, 1)] for index in range(3))
    assert nulls(cluster) == 0
    assert all(process.next_timer() is None for process in cluster.processes)


def test_message_waits_for_concurrent_ones_unlike_in_causal_order() -> None:
    cluster = bare(2)
    cluster.broadcast(0)
    cluster.broadcast(1)
    arrive(cluster, source=0, target=1)
    assert cluster.delivered(1) == [(0, 1), (1, 1)]
    cluster.broadcast(1)
    assert cluster.delivered(1) == [(0, 1), (1, 1)]  # Its own message waits for 0.


def test_own_message_is_delivered_in_the_total_order() -> None:
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


def test_message_in_a_silent_group_causes_one_null_of_each_other_member() -> None:
    cluster = bare(4)
    cluster.broadcast(0)
    cluster.run_until_idle()
    assert cluster.verdict().held
    assert nulls(cluster) == 3 * 3
    cluster.pass_time(100.0)
    assert cluster.in_flight == []


def test_members_that_all_send_transmit_no_null() -> None:
    cluster = bare(3)
    for turn in range(30):
        cluster.pass_time(SILENCE / 4)
        cluster.broadcast(turn % 3)
        arrive_all(cluster)
    assert nulls(cluster) == 0
    assert all(len(cluster.delivered(index)) == 28 for index in range(3))


def test_silence_ends_at_a_multiple_of_omega_after_the_last_transmission() -> None:
    process = Newtop(ProcessId(0), 2, SILENCE)
    peer = ProcessId(1)
    process.broadcast(b"", 10.0)
    process.receive(peer, NewtopMessage(1, 1, b""), 10.1)
    assert process.next_timer() is None  # It has passed that stamp already.
    process.receive(peer, NewtopMessage(2, 2, b""), 10.125)
    assert process.next_timer() == 10.25
    process.receive(peer, NewtopMessage(3, 3, b""), 10.1875)
    assert process.next_timer() == 10.25  # Not postponed.
    process.frames_to_transmit()
    process.handle_timer(10.24)  # Too early: no effect.
    assert process.frames_to_transmit() == []
    process.handle_timer(10.25)
    (transmit,) = process.frames_to_transmit()
    assert isinstance(transmit.frame, NewtopNull)
    assert (transmit.target, transmit.frame.clock) == (1, 4)
    assert process.next_timer() is None
    process.receive(peer, NewtopNull(9), 12.0)
    assert process.next_timer() is None  # A null needs no null.
    process.receive(peer, NewtopMessage(10, 4, b""), 12.3)
    assert process.next_timer() == 12.5  # 10.25 and nine times 0.25.
    process.broadcast(b"", 12.4)
    assert process.next_timer() is None  # The message has ended the silence.


def test_overdue_null_is_not_postponed_by_another_message() -> None:
    process = Newtop(ProcessId(0), 2, SILENCE)
    process.receive(ProcessId(1), NewtopMessage(1, 1, b""), 1.0)
    process.receive(ProcessId(1), NewtopMessage(2, 2, b""), 1.5)  # The driver is late.
    assert process.next_timer() == 1.25
    process.handle_timer(1.5)
    assert [transmit.target for transmit in process.frames_to_transmit()] == [1]
    assert len(process.messages_to_deliver()) == 2


def test_silence_of_a_new_member_begins_with_the_first_frame() -> None:
    process = Newtop(ProcessId(0), 2)
    process.receive(ProcessId(1), NewtopNull(1), 3.0)
    assert process.next_timer() is None
    process.receive(ProcessId(1), NewtopMessage(2, 1, b""), 3.0 + SILENCE_S / 2)
    assert process.next_timer() == pytest.approx(3.0 + SILENCE_S)


# Frames.


def test_frames_are_decoded_as_they_were_encoded_and_have_the_given_size() -> None:
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
    ("data", "match"),
    [
        (b"\x01\x30\x01", "kind 3"),
        (b"\x01\x11\x01\x01\x00", "kind 1 with its flag"),
        (b"\x01\x21\x01", "kind 2 with its flag"),
        (b"\x01\x10\x01\x01\x02", "cut short"),
    ],
)
def test_invalid_bytes_are_refused(data: bytes, match: str) -> None:
    with pytest.raises(PeerError, match=match):
        decode(data, read_newtop)


# Bad input.


def busy_process() -> Newtop:
    """Process 1 of 3: a null is due; it holds 0:1, 0:2 and its own first message."""
    process = Newtop(ProcessId(1), 3)
    process.broadcast(b"", 0.0)
    process.receive(ProcessId(0), NewtopMessage(1, 1, b""), 0.01)
    process.receive(ProcessId(0), NewtopMessage(5, 2, b""), 0.01)
    process.frames_to_transmit()
    assert process.messages_to_deliver() == []
    assert process.next_timer() is not None
    return process


@pytest.mark.parametrize(
    ("source", "frame", "match"),
    [
        (0, BaselineMessage(3, b""), "not a frame of this protocol"),
        (3, NewtopNull(6), "not in a group of 3"),
        (-1, NewtopNull(6), "not in a group of 3"),
        (0, NewtopNull(5), "expected a stamp above 5"),
        (0, NewtopNull(4), "expected a stamp above 5"),
        (2, NewtopNull(0), "expected a stamp above 0"),
        (0, NewtopMessage(5, 3, b""), "expected a stamp above 5"),
        (0, NewtopMessage(6, 2, b""), "expected message 3"),
        (0, NewtopMessage(6, 4, b""), "expected message 3"),
        (2, NewtopMessage(6, 0, b""), "expected message 1"),
        (2, NewtopMessage(0, 1, b""), "expected a stamp above 0"),
    ],
)
def test_invalid_frame_raises_peer_error_and_changes_nothing(
    source: int, frame: Frame, match: str
) -> None:
    process = busy_process()
    before = snapshot(process)
    with pytest.raises(PeerError, match=match):
        process.receive(ProcessId(source), frame, 1.0)
    assert snapshot(process) == before
    process.receive(ProcessId(2), NewtopMessage(1, 1, b""), 1.0)
    delivered = [(d.source, d.number) for d in process.messages_to_deliver()]
    assert delivered == [(0, 1), (1, 1), (2, 1)]


def test_invalid_call_raises_local_error_and_changes_nothing() -> None:
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
def test_process_outside_the_group_is_refused(id: int, processes: int) -> None:
    with pytest.raises(ConfigError, match="is not in a group of"):
        Newtop(ProcessId(id), processes)


@pytest.mark.parametrize("silence_s", [0.0, -1.0, inf, nan])
def test_invalid_silence_is_refused(silence_s: float) -> None:
    with pytest.raises(ConfigError, match="silence_s"):
        Newtop(ProcessId(0), 3, silence_s)
