"""A process restored from its journal behaves like one that never stopped."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest

from antecede.core.process import ProcessBase, ProcessId
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit, PermitRequest
from antecede.core.protocols.hybrid.process import HybridProcess
from antecede.errors import LocalError, PeerError
from antecede.testing import Cluster, random_schedule, run_schedule
from antecede.verify import Violation
from tests.core.hybrids import MakeHybrid, both_hybrids
from tests.core.journals import BROKEN, Journal, Journaled

ZERO, ONE, TWO, THREE = (ProcessId(index) for index in range(4))
RUNS = 100


def messages_of(process: ProcessBase) -> list[tuple[int, int, int, bool, bytes]]:
    """Take the frames to transmit, and return the messages among them."""
    return sorted(
        (each.target, frame.number, frame.predecessor, frame.permitted, frame.payload)
        for each in process.frames_to_transmit()
        if isinstance(frame := each.frame, MessageFrame)
    )


class ScriptedRun:
    """One process with a journal and scripted peers, whose frames arrive in order."""

    def __init__(self, make: MakeHybrid, random: Random) -> None:
        self.random = random
        self.process = Journaled(make, ZERO)
        self.in_flight: dict[ProcessId, list[int]] = {}
        self.received: dict[ProcessId, tuple[int, int]] = {}
        """For each peer: the last number sent, and the last one to ZERO since a reset."""

    def draw(self) -> tuple[str, ProcessId, object]:
        """Draw a valid input: its name, the peer, and the argument."""
        random = self.random
        peer = random.choice((ONE, TWO, THREE))
        last, predecessor = self.received.get(peer, (0, 0))
        what = random.choice(["send"] * 4 + ["message"] * 4 + ["permit", "ack"] * 3)
        if random.random() < 0.06:
            what = random.choice(["abandon", "reset_channel", "forgo_permits"])
        if what == "send":
            targets = random.sample((ZERO, ONE, TWO, THREE), random.randint(1, 3))
            return "send", peer, targets
        if what == "message":
            number = last + random.randint(1, 3)
            self.received[peer] = (number, number)
            permitted = random.random() < 0.3
            return "receive", peer, MessageFrame(number, predecessor, permitted, b"x")
        if what == "permit" and last > 0:
            return "receive", peer, Permit(random.randint(1, last))
        if what == "ack" and self.in_flight.get(peer):
            number = random.choice(self.in_flight[peer])
            kept = [each for each in self.in_flight[peer] if each > number]
            self.in_flight[peer] = kept
            return "receive", peer, Ack(number, number)
        if what == "abandon":
            self.in_flight[peer] = []
        elif what == "reset_channel":
            self.received[peer] = (last, 0)
        elif what == "forgo_permits":
            self.received[peer] = (0, 0)
        else:
            return "nothing", peer, None
        return what, peer, None

    def step(self, others: list[HybridProcess]) -> None:
        """Give the same input to all processes, and compare their outputs."""
        what, peer, argument = self.draw()
        processes: list[Journaled | HybridProcess] = [self.process, *others]
        for process in processes:
            if what == "send":
                assert isinstance(argument, list)
                process.send(argument, b"payload", 0.0)
            elif what == "receive":
                assert isinstance(argument, MessageFrame | Ack | Permit)
                process.receive(peer, argument, 0.0)
            elif what != "nothing":
                owner = process if isinstance(process, Journaled) else process.recovery
                getattr(owner, what)(peer, 0.0)
        released = messages_of(self.process.inner)
        delivered = [(d.source, d.number) for d in self.process.messages_to_deliver()]
        for target, number, *_ in released:
            self.in_flight.setdefault(ProcessId(target), []).append(number)
        for other in others:
            assert messages_of(other) == released
            found = [(d.source, d.number) for d in other.messages_to_deliver()]
            assert found == delivered
            for peer in (ONE, TWO, THREE):
                assert other.backlog(peer) == self.process.inner.backlog(peer)


@both_hybrids
def test_restored_process_behaves_like_one_that_never_stopped(
    make: MakeHybrid,
) -> None:
    for seed in range(RUNS):
        random = Random(seed)
        run = ScriptedRun(make, random)
        others: list[HybridProcess] = []
        for _ in range(60):
            if random.random() < 0.05:
                live = run.process.inner
                others.append(run.process.restart(0.0))
                run.process.inner = live
                again = messages_of(others[-1])
                expected = [
                    (peer, number)
                    for peer, numbers in run.in_flight.items()
                    for number in numbers
                ]
                assert [(each[0], each[1]) for each in again] == sorted(expected), seed
                assert others[-1].messages_to_deliver() == []
            run.step(others)


@both_hybrids
def test_restored_process_without_copies_is_idle(make: MakeHybrid) -> None:
    process = make(ZERO)
    process.recovery.restore(7, [(ONE, 5, 3, 3), (TWO, 7, 0, 0)], [], [], 0.0)
    assert process.frames_to_transmit() == []
    assert process.next_timer() is None
    assert process.send([ONE], b"", 0.0) == 8
    assert messages_of(process) == [(ONE, 8, 5, True, b"")]


@both_hybrids
def test_restored_process_requests_the_missing_permits(
    make: MakeHybrid,
) -> None:
    process = make(ZERO)
    process.recovery.restore(0, [(ONE, 0, 4, 2)], [(ONE, 3), (ONE, 4)], [], 10.0)
    assert process.next_timer() == 11.0
    process.handle_timer(11.0)
    (transmit,) = process.frames_to_transmit()
    assert isinstance(transmit.frame, PermitRequest)
    assert (transmit.target, transmit.frame.number) == (ONE, 3)


@both_hybrids
def test_missing_permit_of_a_peer_whose_channel_was_reset_is_restored(
    make: MakeHybrid,
) -> None:
    process = make(ZERO)
    channels = [(ONE, 0, 0, 0), (TWO, 1, 0, 0)]
    process.recovery.restore(1, channels, [(ONE, 4)], [(TWO, 1, 0, 1, b"waits")], 0.0)
    assert messages_of(process) == []
    process.receive(ONE, Permit(4), 0.0)
    assert messages_of(process) == [(TWO, 1, 0, True, b"waits")]


@both_hybrids
def test_restored_process_grants_permits_to_a_peer_it_has_abandoned(
    make: MakeHybrid,
) -> None:
    process = make(ZERO)
    process.recovery.restore(9, [(ONE, 0, 0, 0)], [], [], 0.0)
    process.receive(ONE, PermitRequest(4), 0.0)
    (transmit,) = process.frames_to_transmit()
    assert isinstance(transmit.frame, Permit)
    assert transmit.frame.number == 9


# Clusters whose processes are restarted at random times.


def run_cluster(make: MakeHybrid, journal: type[Journal], seed: int) -> list[Violation]:
    """Run a random schedule with restarts, and return the violations."""
    random = Random(seed)
    processes = random.randint(2, 4)
    cluster = Cluster(
        "hybrid", processes, make=lambda own_id: Journaled(make, own_id, journal())
    )
    schedule = random_schedule(
        random,
        processes=processes,
        steps=120,
        fan_out_max=random.choice([1, 3]),
        loss=random.choice([0.0, 0.2]),
        duplicate=0.1,
        seconds=(0.5, 2.0),
    )
    broken = journal is not Journal
    for step in schedule:
        if random.random() < 0.05:
            restart(cluster, random.randrange(processes), random)
        with refusals(broken):
            run_schedule(cluster, [step])
    if not broken:
        cluster.run_until_idle(random)
    for _ in range(20 * broken):  # A broken process may never become idle.
        while cluster.in_flight:
            with refusals(broken):
                cluster.arrive(random.randrange(len(cluster.in_flight)))
        cluster.pass_time(100.0)
    return list(cluster.verdict().violations)


def restart(cluster: Cluster, index: int, random: Random) -> None:
    """Restart a process; the packets from and to it may be lost."""
    process = cluster.processes[index]
    assert isinstance(process, Journaled)
    if random.random() < 0.5:
        for position in range(len(cluster.in_flight) - 1, -1, -1):
            packet = cluster.in_flight[position]
            if index in (packet.source, packet.target):
                cluster.drop(position)
    process.restart(cluster.now)
    cluster.replace(index, process)


@contextmanager
def refusals(allowed: bool) -> Iterator[None]:
    """Ignore refused inputs if ``allowed``."""
    try:
        yield
    except (LocalError, PeerError):
        if not allowed:
            raise


@pytest.mark.long
@both_hybrids
def test_no_message_is_lost_repeated_or_reordered_across_restarts(
    make: MakeHybrid,
) -> None:
    for seed in range(RUNS):
        assert run_cluster(make, Journal, seed) == [], seed


@both_hybrids
@pytest.mark.parametrize("journal", BROKEN)
def test_violation_of_a_broken_journal_is_found(
    make: MakeHybrid, journal: type[Journal]
) -> None:
    assert any(run_cluster(make, journal, seed) for seed in range(RUNS))
