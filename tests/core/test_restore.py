"""A process restored from its journal goes on as one that never stopped."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest

from antecede.core.process import ProcessBase, ProcessId
from antecede.core.protocols.hybrid.basic import HybridBasic
from antecede.core.protocols.hybrid.frames import Ack, Message, Permit, Request
from antecede.core.protocols.hybrid.hybrid import Hybrid
from antecede.errors import LocalError, PeerError
from antecede.testing import Cluster, play, random_schedule
from antecede.verify import Violation
from tests.core.journals import BROKEN, Journal, Journaled

ZERO, ONE, TWO, THREE = (ProcessId(place) for place in range(4))
RUNS = 100

both = pytest.mark.parametrize("kind", [Hybrid, HybridBasic])


def messages_of(process: ProcessBase) -> list[tuple[int, int, int, bool, bytes]]:
    """Take the frames to transmit, and return the messages among them."""
    return sorted(
        (each.target, frame.number, frame.predecessor, frame.permitted, frame.payload)
        for each in process.frames_to_transmit()
        if isinstance(frame := each.frame, Message)
    )


class Alone:
    """One process with a journal, whose peers are made up; nothing comes out of order."""

    def __init__(self, kind: type[HybridBasic], random: Random) -> None:
        self.random = random
        self.process = Journaled(kind, ZERO)
        self.outstanding: dict[ProcessId, list[int]] = {}
        self.heard: dict[ProcessId, tuple[int, int]] = {}
        """Of each peer its last number, and the last one to us in this epoch."""

    def draw(self) -> tuple[str, ProcessId, object]:
        """Draw an input that makes sense."""
        random = self.random
        peer = random.choice((ONE, TWO, THREE))
        last, predecessor = self.heard.get(peer, (0, 0))
        what = random.choice(["send"] * 4 + ["message"] * 4 + ["permit", "ack"] * 3)
        if random.random() < 0.06:
            what = random.choice(["abandon", "renew", "waive"])
        if what == "send":
            targets = random.sample((ZERO, ONE, TWO, THREE), random.randint(1, 3))
            return "send", peer, targets
        if what == "message":
            number = last + random.randint(1, 3)
            self.heard[peer] = (number, number)
            permitted = random.random() < 0.3
            return "receive", peer, Message(number, predecessor, permitted, b"x")
        if what == "permit" and last > 0:
            return "receive", peer, Permit(random.randint(1, last))
        if what == "ack" and self.outstanding.get(peer):
            number = random.choice(self.outstanding[peer])
            kept = [each for each in self.outstanding[peer] if each > number]
            self.outstanding[peer] = kept
            return "receive", peer, Ack(number, number)
        if what == "abandon":
            self.outstanding[peer] = []
        elif what == "renew":
            self.heard[peer] = (last, 0)
        elif what == "waive":
            self.heard[peer] = (0, 0)
        else:
            return "nothing", peer, None
        return what, peer, None

    def step(self, others: list[HybridBasic]) -> None:
        """Give the process an input, and the others the same; compare what they do."""
        what, peer, given = self.draw()
        processes: list[Journaled | HybridBasic] = [self.process, *others]
        for process in processes:
            if what == "send":
                assert isinstance(given, list)
                process.send(given, b"payload", 0.0)
            elif what == "receive":
                assert isinstance(given, Message | Ack | Permit)
                process.receive(peer, given, 0.0)
            elif what != "nothing":
                getattr(process, what)(peer, 0.0)
        released = messages_of(self.process.inner)
        delivered = [(d.source, d.number) for d in self.process.messages_to_deliver()]
        for target, number, *_ in released:
            self.outstanding.setdefault(ProcessId(target), []).append(number)
        for other in others:
            assert messages_of(other) == released
            found = [(d.source, d.number) for d in other.messages_to_deliver()]
            assert found == delivered
            for peer in (ONE, TWO, THREE):
                assert other.backlog(peer) == self.process.inner.backlog(peer)


@both
def test_restored_process_does_what_the_one_does_that_never_stopped(
    kind: type[HybridBasic],
) -> None:
    for seed in range(RUNS):
        random = Random(seed)
        alone = Alone(kind, random)
        others: list[HybridBasic] = []
        for _ in range(60):
            if random.random() < 0.05:
                alive = alone.process.inner
                others.append(alone.process.restart(0.0))
                alone.process.inner = alive
                again = messages_of(others[-1])
                expected = [
                    (peer, number)
                    for peer, numbers in alone.outstanding.items()
                    for number in numbers
                ]
                assert [(each[0], each[1]) for each in again] == sorted(expected), seed
                assert others[-1].messages_to_deliver() == []
            alone.step(others)


@both
def test_restored_process_is_at_rest_where_the_other_was(kind: type[HybridBasic]) -> None:
    process = kind(ZERO)
    process.restore(7, [(ONE, 5, 3, 3), (TWO, 7, 0, 0)], [], [], 0.0)
    assert process.frames_to_transmit() == []
    assert process.next_timer() is None
    assert process.send([ONE], b"", 0.0) == 8
    assert messages_of(process) == [(ONE, 8, 5, True, b"")]


@both
def test_restored_process_asks_for_the_permits_that_are_missing(
    kind: type[HybridBasic],
) -> None:
    process = kind(ZERO)
    process.restore(0, [(ONE, 0, 4, 2)], [(ONE, 3), (ONE, 4)], [], 10.0)
    assert process.next_timer() == 11.0
    process.handle_timer(11.0)
    (transmit,) = process.frames_to_transmit()
    assert isinstance(transmit.frame, Request)
    assert (transmit.target, transmit.frame.number) == (ONE, 3)


@both
def test_missing_permit_of_a_peer_that_began_anew_is_restored(
    kind: type[HybridBasic],
) -> None:
    process = kind(ZERO)
    pairs = [(ONE, 0, 0, 0), (TWO, 1, 0, 0)]
    process.restore(1, pairs, [(ONE, 4)], [(TWO, 1, 0, 1, b"waits")], 0.0)
    assert messages_of(process) == []
    process.receive(ONE, Permit(4), 0.0)
    assert messages_of(process) == [(TWO, 1, 0, True, b"waits")]


@both
def test_restored_process_grants_what_it_owes_to_one_it_has_abandoned(
    kind: type[HybridBasic],
) -> None:
    process = kind(ZERO)
    process.restore(9, [(ONE, 0, 0, 0)], [], [], 0.0)
    process.receive(ONE, Request(4), 0.0)
    (transmit,) = process.frames_to_transmit()
    assert isinstance(transmit.frame, Permit)
    assert transmit.frame.number == 9


# Clusters whose processes are killed at random moments.


def run(kind: type[HybridBasic], journal: type[Journal], seed: int) -> list[Violation]:
    """Play a random schedule with restarts, and return what the oracle finds."""
    random = Random(seed)
    processes = random.randint(2, 4)
    cluster = Cluster(
        "hybrid", processes, make=lambda place: Journaled(kind, place, journal())
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
            play(cluster, [step])
    if not broken:
        cluster.settle(random)
    for _ in range(20 * broken):  # A broken one may never come to rest.
        while cluster.in_flight:
            with refusals(broken):
                cluster.arrive(random.randrange(len(cluster.in_flight)))
        cluster.pass_time(100.0)
    return list(cluster.verdict().violations)


def restart(cluster: Cluster, place: int, random: Random) -> None:
    """Kill a process and start it again; what is in flight may be lost by that."""
    process = cluster.processes[place]
    assert isinstance(process, Journaled)
    if random.random() < 0.5:
        for index in range(len(cluster.in_flight) - 1, -1, -1):
            packet = cluster.in_flight[index]
            if place in (packet.source, packet.target):
                cluster.lose(index)
    process.restart(cluster.now)
    cluster.replace(place, process)


@contextmanager
def refusals(allowed: bool) -> Iterator[None]:
    try:
        yield
    except (LocalError, PeerError):
        if not allowed:
            raise


@both
def test_nothing_is_lost_or_repeated_or_out_of_order_across_restarts(
    kind: type[HybridBasic],
) -> None:
    for seed in range(RUNS):
        assert run(kind, Journal, seed) == [], seed


@both
@pytest.mark.parametrize("journal", BROKEN)
def test_a_journal_that_forgets_is_found_out(
    kind: type[HybridBasic], journal: type[Journal]
) -> None:
    assert any(run(kind, journal, seed) for seed in range(RUNS))
