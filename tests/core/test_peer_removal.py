"""A process lets go of a peer: abandon, renew and waive, of both hybrids."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import inf
from random import Random

import pytest

from antecede.check.snapshot import snapshot
from antecede.core.codec import Frame
from antecede.core.config import ProcessConfig
from antecede.core.link import ReliableLink
from antecede.core.link_frames import LinkAck
from antecede.core.process import Delivery, Process, ProcessId, Transmit
from antecede.core.protocols.baseline import Baseline
from antecede.core.protocols.buffer import Buffer
from antecede.core.protocols.cykas import Cykas
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit, PermitRequest
from antecede.core.protocols.hybrid.hybrid import make_hybrid
from antecede.core.protocols.hybrid.process import HybridProcess
from antecede.core.registry import protocols
from antecede.errors import LocalError, PeerError
from antecede.testing import Cluster, Packet, StepKind, random_schedule, run_schedule
from antecede.trace import Kind
from antecede.verify import Property, Violation
from tests.core.hybrids import MakeHybrid, both_hybrids

ZERO, ONE, TWO, THREE = (ProcessId(place) for place in range(4))
NAMES = ("hybrid", "hybrid-basic")
RUNS = 300


def sent(process: HybridProcess, *targets: ProcessId, payload: bytes = b"") -> int:
    return process.send(targets, payload, 0.0)


def transmitted(process: Process) -> list[tuple[int, str]]:
    """Take the frames to transmit, as their targets and what they show."""
    return [(each.target, shown(each.frame)) for each in process.frames_to_transmit()]


def shown(frame: Frame) -> str:
    if isinstance(frame, MessageFrame):
        permitted = " permitted" if frame.permitted else ""
        return f"message {frame.number} after {frame.predecessor}{permitted}"
    if isinstance(frame, Ack):
        return f"ack {frame.delivered}, arrived {frame.arrived}"
    if isinstance(frame, Permit):
        return f"permit {frame.number}"
    assert isinstance(frame, PermitRequest)
    return f"request {frame.number}"


def delivered(process: Process) -> list[tuple[int, int]]:
    return [(each.source, each.number) for each in process.messages_to_deliver()]


# Abandon, by what has become of the copy.


@both_hybrids
def test_who_was_never_sent_to_can_be_abandoned(make: MakeHybrid) -> None:
    process = make(ZERO)
    process.recovery.abandon(ONE, 0.0)
    process.receive(ONE, MessageFrame(1, 0, True, b""), 0.0)
    before = snapshot(process)
    process.recovery.abandon(ONE, 0.0)
    assert snapshot(process) == before


@both_hybrids
def test_abandoned_released_copy_is_not_transmitted_again(make: MakeHybrid) -> None:
    process = make(ZERO)
    sent(process, ONE)
    sent(process, ONE)
    assert process.backlog(ONE) == 2
    process.frames_to_transmit()
    process.recovery.abandon(ONE, 0.0)
    assert process.backlog(ONE) == 0
    assert process.next_timer() is None
    process.handle_timer(1000.0)
    assert [what for _, what in transmitted(process) if "message" in what] == []


@both_hybrids
def test_abandoned_unreleased_copy_is_never_released(make: MakeHybrid) -> None:
    process = make(ZERO)
    process.receive(ONE, MessageFrame(1, 0, False, b""), 0.0)
    sent(process, TWO)
    assert process.backlog(TWO) == 1
    process.frames_to_transmit()
    process.recovery.abandon(TWO, 0.0)
    assert process.backlog(TWO) == 0
    process.receive(ONE, Permit(1), 0.0)
    assert [what for _, what in transmitted(process) if "message" in what] == []


@both_hybrids
def test_what_was_sent_to_others_around_an_abandoned_copy_is_released(
    make: MakeHybrid,
) -> None:
    process = make(ZERO)
    process.receive(ONE, MessageFrame(1, 0, False, b""), 0.0)
    for target in (THREE, TWO, THREE):
        sent(process, target)
    process.frames_to_transmit()
    process.recovery.abandon(TWO, 0.0)
    process.receive(ONE, Permit(1), 0.0)
    found = [each for each in transmitted(process) if "message" in each[1]]
    assert found == [(THREE, "message 1 after 0 permitted"), (THREE, found[1][1])]
    assert found[1][1].startswith("message 3 after 1")


@both_hybrids
def test_abandoned_copy_that_is_held_at_the_peer_is_no_longer_waited_for(
    make: MakeHybrid,
) -> None:
    process = make(ZERO)
    sent(process, ONE)
    sent(process, ONE)
    process.receive(ONE, Ack(0, 2), 0.0)  # 2 is there, 1 is lost.
    process.recovery.abandon(ONE, 0.0)
    assert process.next_timer() is None
    process.frames_to_transmit()
    sent(process, TWO)
    assert transmitted(process) == [(TWO, "message 3 after 0 permitted")]


@both_hybrids
def test_acked_copies_stay_acked(make: MakeHybrid) -> None:
    process = make(ZERO)
    sent(process, ONE)
    sent(process, ONE)
    process.receive(ONE, Ack(1, 1), 0.0)
    assert process.backlog(ONE) == 1
    process.recovery.abandon(ONE, 0.0)
    assert process.backlog(ONE) == 0
    sent(process, TWO)
    assert process.backlog(TWO) == 1


@both_hybrids
def test_abandonment_lets_the_permits_flow(make: MakeHybrid) -> None:
    process = make(ZERO)
    sent(process, ONE)
    sent(process, TWO)
    assert transmitted(process) == [
        (ONE, "message 1 after 0 permitted"),
        (TWO, "message 2 after 0"),
    ]
    process.receive(TWO, Ack(2, 2), 0.0)
    assert transmitted(process) == []
    process.recovery.abandon(ONE, 0.0)
    assert transmitted(process) == [(TWO, "permit 2")]


@both_hybrids
def test_abandonment_of_another_lets_the_first_ones_permit_flow(
    make: MakeHybrid,
) -> None:
    """The peer whose ack is missing first waits for that of the one abandoned."""
    process = make(ZERO)
    sent(process, ONE, TWO)
    assert transmitted(process) == [
        (ONE, "message 1 after 0"),
        (TWO, "message 1 after 0"),
    ]
    process.recovery.abandon(TWO, 0.0)
    assert transmitted(process) == [(ONE, "permit 1")]
    assert process.backlog(ONE) == 1


@both_hybrids
def test_multicast_goes_on_to_who_is_not_abandoned(make: MakeHybrid) -> None:
    process = make(ZERO)
    sent(process, ONE, TWO, THREE)
    process.receive(ONE, Ack(1, 1), 0.0)
    process.frames_to_transmit()
    process.recovery.abandon(TWO, 0.0)
    # One of the other copies is still unacked: only its own target may be permitted.
    assert (ONE, "permit 1") not in transmitted(process)
    process.handle_timer(5.0)
    assert [each for each in transmitted(process) if "message" in each[1]] == [
        (THREE, "message 1 after 0 permitted")
    ]
    process.receive(THREE, Ack(1, 1), 6.0)
    assert (ONE, "permit 1") in transmitted(process)
    assert process.next_timer() is None


@both_hybrids
def test_payload_of_an_abandoned_copy_is_not_kept(make: MakeHybrid) -> None:
    process = make(ZERO)
    sent(process, TWO)
    sent(process, ONE, payload=b"a large one")  # Behind one that stays unacked.
    process.frames_to_transmit()
    process.recovery.abandon(ONE, 0.0)
    assert "a large one" not in repr(snapshot(process))


# After it.


@both_hybrids
def test_stale_acks_are_harmless(make: MakeHybrid) -> None:
    process = make(ZERO)
    sent(process, ONE)
    sent(process, ONE)
    process.recovery.abandon(ONE, 0.0)
    process.frames_to_transmit()
    before = snapshot(process)
    for ack in (Ack(1, 1), Ack(0, 2), Ack(2, 2)):
        process.receive(ONE, ack, 0.0)
    assert snapshot(process) == before
    assert sent(process, ONE) == 3
    before = snapshot(process)
    for ack in (Ack(1, 1), Ack(0, 2), Ack(2, 2)):
        process.receive(ONE, ack, 0.0)
    assert snapshot(process) == before
    assert process.backlog(ONE) == 1
    process.receive(ONE, Ack(3, 3), 0.0)
    assert process.backlog(ONE) == 0


@both_hybrids
def test_ack_of_what_was_not_sent_since_is_refused(make: MakeHybrid) -> None:
    process = make(ZERO)
    sent(process, ONE)
    process.recovery.abandon(ONE, 0.0)
    with pytest.raises(PeerError):
        process.receive(ONE, Ack(2, 2), 0.0)


@both_hybrids
def test_permits_from_before_can_still_be_asked_for(make: MakeHybrid) -> None:
    process = make(ZERO)
    sent(process, TWO)
    sent(process, ONE)
    process.receive(ONE, Ack(2, 2), 0.0)
    process.recovery.abandon(ONE, 0.0)
    process.receive(TWO, Ack(1, 1), 0.0)
    process.frames_to_transmit()
    process.receive(ONE, PermitRequest(2), 0.0)
    assert transmitted(process) == [(ONE, "permit 2")]


@both_hybrids
def test_abandoned_peer_that_is_renewed_gets_what_is_sent_anew(
    make: MakeHybrid,
) -> None:
    source, target = make(ZERO), make(ONE)
    for _ in range(3):
        sent(source, ONE)
    first, lost, early = source.frames_to_transmit()
    assert isinstance(lost, Transmit)
    target.receive(ZERO, first.frame, 0.0)
    target.receive(ZERO, early.frame, 0.0)  # Held, since the one before is lost.
    assert delivered(target) == [(0, 1)]
    target.frames_to_transmit()
    source.recovery.abandon(ONE, 0.0)
    source.frames_to_transmit()
    sent(source, ONE)
    sent(source, ONE)
    anew = source.frames_to_transmit()
    assert [shown(each.frame) for each in anew] == [
        "message 4 after 0 permitted",
        "message 5 after 4 permitted" if make is make_hybrid else "message 5 after 4",
    ]
    with pytest.raises(PeerError):  # It would contradict what was delivered.
        target.receive(ZERO, anew[0].frame, 0.0)
    target.recovery.reset_channel(ZERO, 0.0)
    target.receive(ZERO, anew[1].frame, 0.0)
    target.receive(ZERO, anew[0].frame, 0.0)
    assert delivered(target) == [(0, 4), (0, 5)]
    for transmit in target.frames_to_transmit():
        source.receive(ONE, transmit.frame, 0.0)
    assert source.backlog(ONE) == 0
    assert source.next_timer() is None


@both_hybrids
def test_renewal_forgets_what_was_held_and_keeps_what_is_owed(
    make: MakeHybrid,
) -> None:
    process = make(ONE)
    process.receive(ZERO, MessageFrame(2, 0, False, b""), 0.0)
    process.receive(ZERO, MessageFrame(7, 5, False, b""), 0.0)
    sent(process, TWO)
    process.frames_to_transmit()
    process.messages_to_deliver()
    process.recovery.reset_channel(ZERO, 0.0)
    process.receive(ZERO, MessageFrame(9, 0, True, b""), 0.0)
    assert delivered(process) == [(0, 9)]
    # A permit for 9 covers all before it: the send that waited for that of 2 is released.
    assert (TWO, "message 1 after 0 permitted") in transmitted(process)


@both_hybrids
def test_renewal_by_a_stranger_does_nothing(make: MakeHybrid) -> None:
    process = make(ONE)
    sent(process, TWO)
    before = snapshot(process)
    process.recovery.reset_channel(ZERO, 0.0)
    process.recovery.reset_channel(TWO, 0.0)
    assert snapshot(process) == before


@both_hybrids
def test_abandonment_can_be_repeated(make: MakeHybrid) -> None:
    process = make(ZERO)
    for number in (1, 2, 3):
        sent(process, ONE)
        assert transmitted(process) == [(ONE, f"message {number} after 0 permitted")]
        process.recovery.abandon(ONE, 0.0)
        process.frames_to_transmit()
    assert process.backlog(ONE) == 0


# Waive.


@both_hybrids
def test_waiving_releases_what_waited_for_the_permits_of_one(
    make: MakeHybrid,
) -> None:
    process = make(ZERO)
    process.receive(ONE, MessageFrame(1, 0, False, b""), 0.0)
    process.receive(ONE, MessageFrame(2, 1, False, b""), 0.0)
    process.frames_to_transmit()
    sent(process, TWO)
    assert transmitted(process) == []
    process.recovery.forgo_permits(ONE, 0.0)
    assert transmitted(process) == [(TWO, "message 1 after 0 permitted")]


@both_hybrids
def test_waiving_releases_nothing_that_waits_for_another(make: MakeHybrid) -> None:
    process = make(ZERO)
    process.receive(ONE, MessageFrame(1, 0, False, b""), 0.0)
    process.receive(THREE, MessageFrame(1, 0, False, b""), 0.0)
    process.frames_to_transmit()
    sent(process, TWO)
    process.recovery.forgo_permits(ONE, 0.0)
    assert transmitted(process) == []
    process.receive(THREE, Permit(1), 0.0)
    assert transmitted(process) == [(TWO, "message 1 after 0 permitted")]


@both_hybrids
def test_permits_of_who_was_waived_are_not_requested(make: MakeHybrid) -> None:
    process = make(ZERO)
    process.receive(ONE, MessageFrame(1, 0, False, b""), 0.0)
    assert process.next_timer() is not None
    process.recovery.forgo_permits(ONE, 0.0)
    assert process.next_timer() is None
    process.frames_to_transmit()
    process.handle_timer(1000.0)
    assert transmitted(process) == []


@both_hybrids
@pytest.mark.parametrize("order", ["abandon first", "waive first", "waive only"])
def test_namesake_that_comes_after_the_one_waived_is_heard_from_its_first_message(
    make: MakeHybrid, order: str
) -> None:
    process = make(ZERO)
    sent(process, ONE)
    process.receive(ONE, MessageFrame(1, 0, True, b""), 0.0)
    process.receive(ONE, MessageFrame(2, 1, True, b""), 0.0)
    process.receive(ONE, MessageFrame(9, 8, True, b""), 0.0)
    process.receive(ONE, Permit(20), 0.0)
    if order == "abandon first":
        process.recovery.abandon(ONE, 0.0)
    process.recovery.forgo_permits(ONE, 0.0)
    if order == "waive first":
        process.recovery.abandon(ONE, 0.0)
    process.frames_to_transmit()
    process.messages_to_deliver()
    # The new one's first message needs a permit of the new one, whatever the old one said.
    process.receive(ONE, MessageFrame(1, 0, False, b""), 0.0)
    assert delivered(process) == [(1, 1)]
    process.frames_to_transmit()
    sent(process, TWO)
    assert transmitted(process) == []
    process.receive(ONE, Permit(1), 0.0)
    assert [target for target, _ in transmitted(process)] == [TWO]


@both_hybrids
def test_nothing_is_kept_of_who_was_abandoned_and_waived(make: MakeHybrid) -> None:
    process = make(ZERO)
    sizes: list[int] = []
    for peer in range(1, 500):
        process.receive(ProcessId(peer), MessageFrame(1, 0, False, b""), 0.0)
        process.receive(ProcessId(peer), MessageFrame(3, 2, False, b""), 0.0)
        sent(process, ProcessId(peer))
        process.recovery.abandon(ProcessId(peer), 0.0)
        process.recovery.forgo_permits(ProcessId(peer), 0.0)
        process.next_timer()
        process.frames_to_transmit()
        process.messages_to_deliver()
        sizes.append(len(repr(snapshot(process))))
    assert max(sizes[100:]) < 1.2 * max(sizes[:100])


@both_hybrids
def test_waiving_a_stranger_does_nothing(make: MakeHybrid) -> None:
    process = make(ZERO)
    sent(process, ONE)
    before = snapshot(process)
    process.recovery.forgo_permits(ONE, 0.0)
    process.recovery.forgo_permits(TWO, 0.0)
    assert snapshot(process) == before


# What all processes say.


@both_hybrids
def test_letting_go_at_no_time_is_refused_and_changes_nothing(
    make: MakeHybrid,
) -> None:
    process = make(ZERO)
    sent(process, ONE)
    process.receive(ONE, MessageFrame(1, 0, False, b""), 0.0)
    before = snapshot(process)
    recovery = process.recovery
    for change in (recovery.abandon, recovery.reset_channel, recovery.forgo_permits):
        with pytest.raises(LocalError, match="finite"):
            change(ONE, inf)
    with pytest.raises(LocalError, match="finite"):
        process.recovery.restore(0, [], [], [], inf)
    assert snapshot(process) == before


@pytest.mark.parametrize(
    "name", [info.name for info in protocols() if info.name not in NAMES]
)
def test_other_protocols_cannot_let_go(name: str) -> None:
    info = next(info for info in protocols() if info.name == name)
    process = info.make(ZERO, ProcessConfig(processes=2))
    assert process.recovery is None
    assert process.pending is None


def test_backlog_of_a_stranger_is_empty() -> None:
    assert make_hybrid(ZERO).backlog(ONE) == 0
    assert ReliableLink(Baseline(ZERO), True).backlog(ONE) == 0


def test_backlog_of_a_link_counts_what_is_not_acked_and_what_waits_above() -> None:
    process = ReliableLink(Buffer(ZERO), False)
    process.send([ONE], b"", 0.0)
    process.send([TWO], b"", 0.0)
    # One is on the link to the first; the protocol above counts both, for any peer.
    assert process.backlog(ONE) == 3
    assert process.backlog(TWO) == 2
    process.receive(ONE, LinkAck(1, 1), 0.0)
    assert process.backlog(ONE) == 2


@pytest.mark.parametrize("kind", [Buffer, Cykas])
def test_backlog_of_a_protocol_that_cannot_tell_peers_apart_counts_all(
    kind: type[Buffer | Cykas],
) -> None:
    process = kind(ZERO)
    assert process.backlog(ONE) == 0
    for target in (ONE, TWO, TWO):
        process.send([target], b"", 0.0)
    assert process.backlog(ONE) == process.backlog(TWO) == 3


# Random runs, judged by the oracle.


class Silence:
    """What has stopped: it takes everything and does nothing."""

    def __init__(self, id: ProcessId) -> None:
        self.id = id

    def send(self, targets: Iterable[ProcessId], payload: bytes, now: float) -> int:
        raise NotImplementedError

    def broadcast(self, payload: bytes, now: float) -> int:
        raise NotImplementedError

    def connect(self, peer: ProcessId, now: float) -> None:
        raise NotImplementedError

    def disconnect(self, peer: ProcessId, now: float) -> None:
        raise NotImplementedError

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        pass

    def handle_timer(self, now: float) -> None:
        raise NotImplementedError

    def next_timer(self) -> float | None:
        return None

    def frames_to_transmit(self) -> list[Transmit]:
        return []

    def messages_to_deliver(self) -> list[Delivery]:
        return []


class Run:
    """A random run in which processes let go of each other."""

    def __init__(self, name: str, seed: int, *, lease: bool = True) -> None:
        self.random = Random(seed)
        self.lease = lease
        self.processes = self.random.randint(3, 4)
        self.cluster = Cluster(name, self.processes)
        self.given_up: set[tuple[int, int, int]] = set()
        """Source, number and target of what was abandoned before it was delivered."""
        self.stopped = self.processes
        """The process that has stopped, if it is one."""

    def play(self, *, letting_go: float, stop: bool = False) -> None:
        """Play a schedule, and come to rest."""
        random = self.random
        schedule = random_schedule(
            random,
            processes=self.processes,
            steps=120,
            fan_out_max=random.choice([1, 3]),
            loss=random.choice([0.0, 0.2]),
            duplicate=random.choice([0.0, 0.1]),
            seconds=(0.5, 2.0),
        )
        steps = range(len(schedule))
        stop_at, known_at = sorted(random.sample(steps, 2)) if stop else (-1, -1)
        for index, step in enumerate(schedule):
            if index == stop_at:
                self.stop(random.randrange(self.processes))
            if index == known_at:
                self.let_go_of_the_stopped()
            if random.random() < letting_go:
                self.let_go(*random.sample(range(self.processes), 2))
            if step.kind is StepKind.SEND and step.pick % self.processes == self.stopped:
                continue
            with self.refusals():
                run_schedule(self.cluster, [step])
        if self.lease:
            self.let_go_of_the_stopped()  # Some may have sent to it since.
            self.cluster.run_until_idle(random)
        while self.cluster.in_flight:  # Without, there may be requests without an end.
            with self.refusals():
                self.cluster.arrive(random.randrange(len(self.cluster.in_flight)))

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Drop what is refused, as drivers do; nothing is where the lease is kept."""
        try:
            yield
        except PeerError:
            if self.lease:
                raise

    def let_go(self, source: int, target: int) -> None:
        """Let a process abandon another that goes on, and begin anew at once."""
        if self.stopped in (source, target):
            return
        done = set(self.cluster.delivered(target))
        for event in self.cluster.history:
            number = event.number or 0
            is_copy = event.kind is Kind.SEND and target in (event.targets or ())
            if is_copy and event.process == source and (source, number) not in done:
                self.given_up.add((source, number, target))
        if self.lease:
            self.drop(lambda packet: (packet.source, packet.target) == (source, target))
        self.cluster.abandon(source, target)
        self.cluster.reset_channel(target, source)

    def stop(self, process: int) -> None:
        self.stopped = process
        self.cluster.replace(process, Silence(ProcessId(process)))
        if self.lease:
            self.drop(lambda packet: packet.source == process)

    def let_go_of_the_stopped(self) -> None:
        for process in range(self.processes):
            if self.stopped in (process, self.processes):
                continue
            changes = [self.cluster.abandon, self.cluster.forgo_permits]
            self.random.shuffle(changes)
            for change in changes:
                change(process, self.stopped)

    def drop(self, which: Callable[[Packet], bool]) -> None:
        flying = self.cluster.in_flight
        for index in range(len(flying) - 1, -1, -1):
            if which(flying[index]):
                self.cluster.drop(index)

    def unexcused(self) -> list[Violation]:
        """List the violations, save that what was given up is not delivered."""
        return [
            violation
            for violation in self.cluster.verdict().violations
            if violation.property is not Property.LIVENESS
            or (
                (violation.message.source, violation.message.number, violation.process)
                not in self.given_up
                and self.stopped not in (violation.process, violation.message.source)
            )
        ]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stop", [False, True], ids=["all go on", "one stops"])
def test_whatever_is_delivered_is_in_causal_order_and_the_rest_was_given_up(
    name: str, stop: bool
) -> None:
    given_up = 0
    for seed in range(RUNS):
        run = Run(name, seed)
        run.play(letting_go=0.05, stop=stop)
        assert run.unexcused() == [], seed
        given_up += len(run.given_up)
    assert given_up > 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stop", [False, True], ids=["all go on", "one stops"])
def test_without_the_lease_causal_order_breaks(name: str, stop: bool) -> None:
    """The test above can fail: so it does where late copies are not refused."""
    for seed in range(RUNS):
        run = Run(name, seed, lease=False)
        run.play(letting_go=0.0 if stop else 0.05, stop=stop)
        if any(each.property is Property.CAUSAL for each in run.unexcused()):
            return
    raise AssertionError("nothing came late")
