"""``pc-broadcast``: causal on changing overlays, with bounded buffers."""

from collections.abc import Callable
from random import Random

import pytest

from antecede.check.snapshot import snapshot
from antecede.core import decode, encode
from antecede.core.codec import Frame
from antecede.core.link import ReliableLink
from antecede.core.process import Process, ProcessId
from antecede.core.protocols.flood import RelayedMessage
from antecede.core.protocols.hybrid.frames import Permit
from antecede.core.protocols.pc_broadcast.frames import (
    Newcomer,
    Ping,
    Pong,
    Summary,
    Welcome,
    read_pc_broadcast,
)
from antecede.core.protocols.pc_broadcast.pc_broadcast import PcBroadcast
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import ConfigError, LocalError, PeerError
from antecede.testing import Cluster
from antecede.trace import Event, Kind
from antecede.verify import Property, verify_events
from tests.core.naive_pc_broadcast import Fault, NaivePcBroadcast
from tests.core.overlay_runs import (
    Links,
    arrive,
    arrive_random,
    churn,
    explain,
    ids,
    in_flight,
    messages_to,
    random_links,
    ring,
    run_until_idle_fifo,
    verify_with,
)

POLICY = RetransmissionPolicy(initial_s=1.0, minimum_s=0.5, maximum_s=8.0)
A, B, C, D = range(4)
FIGURE: list[list[int]] = [[B], [D], [A], [C]]
"""The overlay of Figures 3 to 6: a ring through A, B, D and C."""


def cluster_of(
    links: Links,
    *,
    newcomers: int = 0,
    linked: bool = False,
    buffer_max: int = 1000,
    retries_max: int = 5,
) -> Cluster:
    def make(id: ProcessId) -> Process:
        new = id >= len(links)
        process = PcBroadcast(
            id,
            () if new else ids(links[id]),
            newcomer=new,
            buffer_max=buffer_max,
            retries_max=retries_max,
            timeout_s=4.0,
        )
        return ReliableLink(process, True, POLICY) if linked else process

    return Cluster("pc-broadcast", len(links) + newcomers, make=make)


def process_of(cluster: Cluster, index: int) -> PcBroadcast:
    process = cluster.processes[index]
    if isinstance(process, ReliableLink):
        inner = process.inner
        assert isinstance(inner, PcBroadcast)
        return inner
    assert isinstance(process, PcBroadcast)
    return process


# The figures.


def test_figures_3_and_4_a_new_link_is_unsafe_until_its_pong() -> None:
    cluster = cluster_of(FIGURE)
    cluster.broadcast(A, b"a")
    cluster.connect(A, D)
    cluster.broadcast(A, b"a'")
    assert in_flight(cluster, RelayedMessage, A, D) == 0
    assert process_of(cluster, A).buffered_for(ProcessId(D)) == 1
    for kind in (RelayedMessage, Ping, RelayedMessage):
        arrive(cluster, kind, A, B)
    arrive(cluster, RelayedMessage, B, D)  # a
    arrive(cluster, Ping, B, D)
    arrive(cluster, Pong, D, A)
    assert in_flight(cluster, RelayedMessage, A, D) == 1  # a', from the buffer
    arrive(cluster, RelayedMessage, A, D)
    assert cluster.delivered(D) == [(A, 1), (A, 2)]
    assert process_of(cluster, A).links == [B, D]
    assert process_of(cluster, A).buffered == 0
    run_until_idle_fifo(cluster)
    assert cluster.verdict().held


def test_figure_5a_slow_links_make_a_buffer_grow_up_to_its_bound() -> None:
    cluster = cluster_of(FIGURE, buffer_max=3, retries_max=2)
    cluster.broadcast(A)
    cluster.connect(A, D)
    sizes = []
    for _ in range(15):
        cluster.broadcast(A)
        process = process_of(cluster, A)
        sizes.append(process.buffered if process.unsafe_links else -1)
    assert sizes == [1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, -1, -1, -1, -1]
    assert process_of(cluster, A).links_given_up() == [D]
    assert process_of(cluster, A).links_given_up() == []
    run_until_idle_fifo(cluster)
    assert process_of(cluster, A).links == [B]  # All three pongs came too late.
    assert cluster.verdict().held


def test_figure_5b_the_link_to_a_crashed_peer_is_given_up() -> None:
    """Each timeout is twice the previous one."""
    cluster = cluster_of(FIGURE, retries_max=3)
    cluster.broadcast(A)
    cluster.connect(A, D)
    due = []
    for _ in range(4):
        timer = process_of(cluster, A).next_timer()
        assert timer is not None
        due.append(timer)
        cluster.pass_time(timer - cluster.now)
    assert due == [4.0, 12.0, 28.0, 60.0]
    assert process_of(cluster, A).unsafe_links == []
    assert process_of(cluster, A).next_timer() is None
    assert process_of(cluster, A).links_given_up() == [D]
    assert in_flight(cluster, Ping, A, B) == 4


def test_figure_5c_a_ping_with_a_lost_pong_is_retried() -> None:
    cluster = cluster_of(FIGURE)
    cluster.broadcast(A)
    cluster.connect(A, D)
    for kind in (RelayedMessage, Ping):
        arrive(cluster, kind, A, B)
        arrive(cluster, kind, B, D)
    places = [i for i, p in enumerate(cluster.in_flight) if isinstance(p.frame, Pong)]
    cluster.drop(places[0])
    cluster.broadcast(A)
    cluster.pass_time(4.0)
    assert process_of(cluster, A).buffered == 0
    run_until_idle_fifo(cluster)
    assert process_of(cluster, A).links == [B, D]
    assert cluster.now == 4.0
    assert cluster.verdict().held


def test_figure_6_a_pong_of_an_earlier_ping_is_ignored() -> None:
    """Erratum: in Algorithm 2 line 15, any pong makes the link to its sender safe."""
    cluster = cluster_of(FIGURE, buffer_max=2)
    cluster.broadcast(A, b"a")
    cluster.connect(A, D)
    cluster.broadcast(A, b"a'")
    cluster.broadcast(A, b"a''")
    cluster.broadcast(C, b"x")
    arrive(cluster, RelayedMessage, C, A)  # x exceeds the bound: ping 2
    assert process_of(cluster, A).buffered == 0
    for _ in range(2):  # a and ping 1 reach D, but neither a', a'' nor x does
        cluster.arrive([(p.source, p.target) for p in cluster.in_flight].index((A, B)))
    arrive(cluster, RelayedMessage, B, D)
    arrive(cluster, Ping, B, D)
    cluster.broadcast(A, b"y")
    pong = arrive(cluster, Pong, D, A)
    assert isinstance(pong, Pong)
    assert pong.number == 1
    assert process_of(cluster, A).unsafe_links == [D]
    assert in_flight(cluster, RelayedMessage, A, D) == 0
    run_until_idle_fifo(cluster)
    assert process_of(cluster, A).links == [B, D]
    assert cluster.verdict().held


# Properties.


@pytest.mark.long
@pytest.mark.parametrize("buffer_max", [0, 1, 1000])
def test_links_may_change_at_any_time(buffer_max: int) -> None:
    opened = 0
    for seed in range(250):
        random = Random(seed)
        backbone = ring(random.randint(3, 6))
        cluster = cluster_of(backbone, buffer_max=buffer_max, retries_max=3)
        churn(cluster, random, backbone=backbone, steps=200, seconds=(1.0, 4.0))
        run_until_idle_fifo(cluster, random)
        verdict = cluster.verdict()
        assert verdict.held, f"seed {seed}: {explain(verdict)}"
        assert all(process_of(cluster, i).buffered == 0 for i in range(len(backbone)))
        opened += sum(len(process_of(cluster, i).links) - 1 for i in range(len(backbone)))
    assert opened > 100  # New links become safe.


@pytest.mark.long
def test_it_is_causal_on_the_link_layer_despite_faults() -> None:
    for seed in range(80):
        random = Random(seed)
        backbone = random_links(random, random.randint(3, 5))
        cluster = cluster_of(backbone, linked=True, buffer_max=random.choice((1, 1000)))
        churn(
            cluster, random, backbone=backbone, steps=250, faults=True, seconds=(0.5, 2.0)
        )
        cluster.run_until_idle(random)
        verdict = cluster.verdict()
        assert verdict.held, f"seed {seed}: {explain(verdict)}"


@pytest.mark.long
def test_every_new_link_becomes_safe_without_a_timer() -> None:
    for seed in range(100):
        random = Random(seed)
        backbone = random_links(random, 6)
        cluster = cluster_of(backbone)
        churn(cluster, random, backbone=backbone, steps=120)
        while cluster.in_flight:
            arrive_random(cluster, random)
        assert all(not process_of(cluster, i).unsafe_links for i in range(6)), seed
        assert cluster.now == 0.0


@pytest.mark.long
def test_links_deliver_the_messages_of_each_source_in_order() -> None:
    """So the highest number per source detects duplicates."""
    for seed in range(100):
        random = Random(seed)
        backbone = ring(5)
        cluster = cluster_of(backbone)
        churn(cluster, random, backbone=backbone, steps=200)
        run_until_idle_fifo(cluster, random)
        for member in range(5):
            for source in range(5):
                numbers = [n for s, n in cluster.delivered(member) if s == source]
                assert numbers == list(range(1, len(numbers) + 1)), seed


def test_the_same_run_gives_the_same_history() -> None:
    histories = []
    for _ in range(2):
        cluster = cluster_of(ring(5), buffer_max=2)
        random = Random(11)
        churn(cluster, random, backbone=ring(5), steps=400, seconds=(1.0,))
        run_until_idle_fifo(cluster, random)
        histories.append(cluster.history)
    assert histories[0] == histories[1]


# Mutants of the listings.


def count_violating_runs(
    fault: Fault, seeds: int, make_backbone: Callable[[int], Links]
) -> int:
    """Return the number of runs that violate causal order."""
    broken = 0
    for seed in range(seeds):
        random = Random(seed)
        backbone = make_backbone(5)
        cluster = Cluster(
            "naive",
            5,
            make=lambda own, links=backbone: NaivePcBroadcast(  # type: ignore[misc]
                own, ids(links[own]), fault=fault, buffer_max=1
            ),
        )
        churn(cluster, random, backbone=backbone, steps=150)
        run_until_idle_fifo(cluster, random)
        broken += Property.CAUSAL in cluster.verdict().violated()
    return broken


@pytest.mark.long
def test_the_corrected_listings_are_causal() -> None:
    assert count_violating_runs(Fault.NONE, 150, ring) == 0


@pytest.mark.long
@pytest.mark.parametrize(
    "fault",
    [
        Fault.ANY_PONG,
        Fault.NO_PING,
        Fault.USED_WHILE_UNSAFE,
        Fault.NO_BUFFER,
        Fault.DIRECT_PING,
        Fault.PING_FIRST,
    ],
)
def test_a_mutant_violates_causal_order(fault: Fault) -> None:
    assert count_violating_runs(fault, 150, ring) > 0


def only_link_removed(make: Callable[[ProcessId], Process]) -> Cluster:
    """A has one link, to B; it is replaced by one to D while a is in flight."""
    cluster = Cluster("any", 4, make=make)
    cluster.broadcast(A, b"a")
    cluster.disconnect(A, B)
    cluster.connect(A, D)
    cluster.broadcast(A, b"a'")
    while in_flight(cluster, RelayedMessage, A, D):
        arrive(cluster, RelayedMessage, A, D)
    run_until_idle_fifo(cluster)
    return cluster


def test_the_only_link_is_not_safe_by_itself() -> None:
    """Erratum: Algorithm 2 line 7; a is in flight on a link that was removed."""
    links = [[B], [D], [A, B], [C]]
    listing = only_link_removed(
        lambda own: NaivePcBroadcast(own, ids(links[own]), fault=Fault.ONLY_LINK_IS_SAFE)
    )
    assert Property.CAUSAL in listing.verdict().violated()
    corrected = only_link_removed(lambda own: PcBroadcast(own, ids(links[own])))
    assert corrected.verdict().held
    assert process_of(corrected, A).links == [D]  # A summary made it safe.


def test_a_removed_link_carries_no_more_messages() -> None:
    """Erratum: Algorithm 2 line 20 removes the link from B only."""
    for fault, expected in ((Fault.STAYS_IN_Q, [(0, 2)]), (Fault.NONE, [])):
        naive = NaivePcBroadcast(ProcessId(0), ids([1, 2]), fault=fault)
        naive.broadcast(b"", 0.0)
        naive.frames_to_transmit()
        naive.disconnect(ProcessId(1), 0.0)
        naive.broadcast(b"", 0.0)
        carried = [t.frame for t in naive.frames_to_transmit() if t.target == 1]
        assert [(f.source, f.number) for f in carried if isinstance(f, RelayedMessage)] == (
            expected
        )
    process = PcBroadcast(ProcessId(0), ids([1, 2]))
    process.broadcast(b"", 0.0)
    assert messages_to(process, 1) == [(0, 1)]
    process.disconnect(ProcessId(1), 0.0)
    process.connect(ProcessId(3), 0.0)
    process.disconnect(ProcessId(3), 0.0)
    process.receive(ProcessId(3), Pong(1), 0.0)  # too late
    process.broadcast(b"", 0.0)
    assert process.links == [2]
    assert {transmit.target for transmit in process.frames_to_transmit()} == {2}
    assert process.next_timer() is None


def test_a_link_that_is_added_again_is_a_new_one() -> None:
    """Its pong must answer its own ping, not an earlier one."""
    process = PcBroadcast(ProcessId(0), ids([1]))
    process.broadcast(b"", 0.0)
    process.connect(ProcessId(2), 0.0)
    process.disconnect(ProcessId(2), 0.0)
    process.broadcast(b"", 0.0)
    process.connect(ProcessId(2), 0.0)
    process.receive(ProcessId(2), Pong(1), 0.0)
    assert process.unsafe_links == [2]
    process.receive(ProcessId(2), Pong(2), 0.0)
    assert process.links == [1, 2]


def test_the_links_of_a_process_without_deliveries_are_safe() -> None:
    process = PcBroadcast(ProcessId(0))
    process.connect(ProcessId(1), 0.0)
    process.connect(ProcessId(2), 0.0)
    assert process.links == [1, 2]
    process.broadcast(b"", 0.0)
    process.connect(ProcessId(3), 0.0)
    assert (process.links, process.unsafe_links) == ([1, 2], [3])


# Mediators.


def test_a_ping_through_a_mediator_takes_three_hops() -> None:
    """A has a link to B and B to D: ping, ping and pong."""
    cluster = cluster_of([[B, C], [D, C], [A], [C]])
    cluster.broadcast(A)
    run_until_idle_fifo(cluster)
    start = len(cluster.history)
    process_of(cluster, A).connect_through(ProcessId(D), ProcessId(B), cluster.now)
    for transmit in process_of(cluster, A).frames_to_transmit():
        process_of(cluster, B).receive(ProcessId(A), transmit.frame, cluster.now)
        assert transmit.target == B
    (ping,) = process_of(cluster, B).frames_to_transmit()
    assert ping.target == D
    process_of(cluster, D).receive(ProcessId(B), ping.frame, cluster.now)
    (pong,) = process_of(cluster, D).frames_to_transmit()
    process_of(cluster, A).receive(ProcessId(D), pong.frame, cluster.now)
    assert process_of(cluster, A).links == [B, C, D]
    assert len(cluster.history) == start


def test_a_mediator_that_has_lost_its_link_costs_a_time_out() -> None:
    cluster = cluster_of([[B, C], [D, C], [A, D], [C]])
    cluster.broadcast(A)
    cluster.disconnect(B, D)
    process_of(cluster, A).connect_through(ProcessId(D), ProcessId(B), cluster.now)
    cluster.connect(A, D)  # only drains
    assert in_flight(cluster, Ping, A, B) == 1
    assert in_flight(cluster, Ping, A, C) == 0
    run_until_idle_fifo(cluster)
    assert cluster.now == 4.0
    assert process_of(cluster, A).links == [B, C, D]
    assert cluster.verdict().held


def test_a_mediated_ping_is_queued_until_its_links_are_safe() -> None:
    """Both the link to the mediator and the mediator's own are in their ping phases."""
    cluster = cluster_of([[C], [C], [A, B, D], [C]])
    for member in range(4):
        cluster.broadcast(member)
    run_until_idle_fifo(cluster)
    cluster.connect(A, B)
    cluster.connect(B, D)
    process_of(cluster, A).connect_through(ProcessId(D), ProcessId(B), cluster.now)
    cluster.broadcast(A)
    assert process_of(cluster, A).unsafe_links == [B, D]
    run_until_idle_fifo(cluster)
    assert cluster.now == 0.0
    assert process_of(cluster, A).links == [C, B, D]
    assert process_of(cluster, B).links == [C, D]
    assert cluster.verdict().held


def test_a_flooded_ping_is_forwarded_once() -> None:
    process = PcBroadcast(ProcessId(0), ids([1, 2, 3]))
    one, far = ProcessId(1), ProcessId(9)

    def passed_on(number: int) -> int:
        process.receive(one, Ping(far, ProcessId(8), number, False), 0.0)
        return len(process.frames_to_transmit())

    assert [passed_on(number) for number in (3, 3, 1, 2, 1, 3)] == [2, 0, 2, 2, 0, 0]
    assert [passed_on(number) for number in (66, 2, 3, 4, 4)] == [2, 0, 0, 2, 0]
    assert [passed_on(number) for number in (1000, 900, 999, 1000)] == [2, 0, 2, 0]
    process.receive(one, Ping(far, ProcessId(3), 1001, False), 0.0)
    assert repr(process.frames_to_transmit()) == (
        "[Transmit(3, Ping(mediated=False, number=1001, source=9, target=3))]"
    )


# Joining, leaving, crashing.


def join(cluster: Cluster, newcomer: int, contact: int) -> None:
    cluster.connect(newcomer, contact)
    cluster.connect(contact, newcomer)


def test_a_newcomer_delivers_the_messages_after_its_history() -> None:
    cluster = cluster_of(ring(3), newcomers=1)
    for member in range(3):
        cluster.broadcast(member)
    run_until_idle_fifo(cluster)
    join(cluster, 3, 0)
    cluster.broadcast(3, b"early")
    run_until_idle_fifo(cluster)
    cluster.broadcast(1)
    run_until_idle_fifo(cluster)
    assert cluster.delivered(3) == [(3, 1), (1, 2)]
    for member in range(3):
        assert cluster.delivered(member)[-2:] == [(3, 1), (1, 2)]
    assert not process_of(cluster, 3).newcomer
    assert process_of(cluster, 3).buffered == 0
    verdict = verify_with(cluster, Kind.JOIN, [3])
    assert verdict.held


def test_a_newcomer_drops_messages_of_its_history() -> None:
    """It adopts the history of 0 with m, so m from a slow neighbour is a duplicate."""
    cluster = cluster_of([[1, 2], [2, 0], [0, 1]], newcomers=1)
    cluster.broadcast(1, b"m")
    arrive(cluster, RelayedMessage, 1, 0)
    cluster.connect(2, 3)  # 2 has delivered nothing: its link is safe.
    cluster.connect(3, 0)
    arrive(cluster, Newcomer, 3, 0)
    cluster.connect(0, 3)
    arrive(cluster, Summary, 0, 3)
    arrive(cluster, Pong, 3, 0)
    cluster.broadcast(0, b"m2")
    arrive(cluster, Welcome, 0, 3)
    arrive(cluster, RelayedMessage, 0, 3)
    assert cluster.delivered(3) == [(0, 1)]
    arrive(cluster, RelayedMessage, 1, 2)  # m
    arrive(cluster, RelayedMessage, 2, 3)
    assert cluster.delivered(3) == [(0, 1)]
    run_until_idle_fifo(cluster)
    assert verify_with(cluster, Kind.JOIN, [3]).held


@pytest.mark.parametrize("linked", [False, True])
def test_newcomers_at_random_times(linked: bool) -> None:
    for seed in range(30 if linked else 120):
        random = Random(seed)
        founders = random.randint(2, 4)
        new = random.randint(1, 3)
        members = founders + new
        links = ring(founders, both_ways=True)
        cluster = cluster_of(
            links, newcomers=new, linked=linked, buffer_max=4, retries_max=1000
        )
        backbone = [*links, *([] for _ in range(new))]
        for newcomer in range(founders, members):
            steps = random.randrange(80)
            churn(cluster, random, backbone=all_but(backbone), steps=steps, faults=linked)
            contact = random.randrange(newcomer)
            join(cluster, newcomer, contact)
            if random.random() < 0.5:  # a second contact
                join(cluster, newcomer, random.randrange(newcomer))
        churn(
            cluster, random, backbone=all_but(backbone), steps=100, faults=linked,
            seconds=(1.0, 4.0),
        )  # fmt: skip
        run_until_idle(cluster, random, linked)
        for member in range(members):
            cluster.broadcast(member)
        run_until_idle(cluster, random, linked)
        verdict = verify_with(cluster, Kind.JOIN, range(founders, members))
        assert verdict.held, f"seed {seed}: {explain(verdict)}"
        for member in range(members):
            last = dict(cluster.delivered(member))
            assert last == dict(cluster.delivered(0)), f"seed {seed}, process {member}"


class RandomRun:
    """A random run with changing links, mediators, newcomers and time."""

    def __init__(self, seed: int, retries_max: int) -> None:
        self.random = Random(seed)
        self.founders = self.random.randint(2, 4)
        self.members = self.founders + self.random.randint(0, 3)
        links = ring(self.founders, both_ways=self.random.random() < 0.5)
        self.cluster = cluster_of(
            links,
            newcomers=self.members - self.founders,
            buffer_max=self.random.choice((1, 4, 1000)),
            retries_max=retries_max,
        )
        self.present = self.founders
        self.linked = [set(peers) for peers in links]
        self.linked += [set() for _ in range(self.members - self.founders)]
        self.kept = [set(peers) for peers in self.linked]  # never removed

    def connect(self, source: int, target: int) -> None:
        self.linked[source].add(target)
        mediator = self.random.randrange(self.present)
        if mediator not in (source, target) and self.random.random() < 0.5:
            process_of(self.cluster, source).connect_through(
                ProcessId(target), ProcessId(mediator), self.cluster.now
            )
        self.cluster.connect(source, target)  # Only drains if there is a link.

    def is_removable(self, source: int, target: int) -> bool:
        """Return whether permanent safe links lead from ``source`` via 0 to ``target``."""
        return 0 in self.reached_from(source) and target in self.reached_from(0)

    def reached_from(self, start: int) -> list[int]:
        reached = [start]
        for source in reached:
            safe = set(process_of(self.cluster, source).links) & self.kept[source]
            reached += sorted(safe - set(reached))
        return reached

    def add_newcomer(self) -> None:
        newcomer = self.present
        contact = self.random.randrange(self.present)
        self.present += 1
        pairs = [(newcomer, contact), (contact, newcomer)]
        self.random.shuffle(pairs)
        for source, target in pairs:
            self.kept[source].add(target)
            self.connect(source, target)

    def step(self) -> None:
        random = self.random
        draw = random.random()
        source = random.randrange(self.present)
        target = random.randrange(self.present)
        if draw < 0.15:
            self.cluster.broadcast(source)
        elif draw < 0.27 and source != target:
            if target not in self.linked[source]:
                self.connect(source, target)
            elif target not in self.kept[source] and self.is_removable(source, target):
                self.linked[source].discard(target)
                self.cluster.disconnect(source, target)
        elif draw < 0.3 and self.present < self.members:
            self.add_newcomer()
        elif draw < 0.33:
            self.cluster.pass_time(random.choice((1.0, 4.0)))
        else:
            arrive_random(self.cluster, random)


@pytest.mark.long
@pytest.mark.parametrize("retries_max", [1, 10_000])
def test_random_runs_with_all_features(retries_max: int) -> None:
    """A link given up too early may disconnect a process, but order always holds."""
    for seed in range(400):
        turmoil = RandomRun(seed, retries_max)
        cluster = turmoil.cluster
        for _ in range(turmoil.random.choice((60, 250))):
            turmoil.step()
        run_until_idle_fifo(cluster, turmoil.random)
        given_up = [
            peer
            for index in range(turmoil.members)
            for peer in process_of(cluster, index).links_given_up()
        ]
        verdict = verify_with(cluster, Kind.JOIN, range(turmoil.founders, turmoil.members))
        allowed = {Property.LIVENESS} if given_up else set()
        assert verdict.violated() <= allowed, f"seed {seed}: {explain(verdict)}"
        assert retries_max == 1 or not given_up


def test_a_process_misses_messages_after_its_last_safe_link_is_removed() -> None:
    """The safe links must stay connected. No ping reaches D, and it misses b."""
    cluster = cluster_of([[B, C, D], [A], [A], [A]], retries_max=2)
    cluster.broadcast(A, b"a")
    run_until_idle_fifo(cluster)
    cluster.connect(B, D)
    cluster.disconnect(A, D)  # The ping of B is in flight to A.
    cluster.broadcast(B, b"b")
    run_until_idle_fifo(cluster)
    assert process_of(cluster, B).links_given_up() == [D]
    verdict = cluster.verdict()
    assert verdict.violated() == {Property.LIVENESS}
    assert {violation.process for violation in verdict.violations} == {D}


def run_until_idle(cluster: Cluster, random: Random, linked: bool) -> None:
    if linked:
        cluster.run_until_idle(random)
    else:
        run_until_idle_fifo(cluster, random)


def all_but(backbone: Links) -> Links:
    """Return all links, so that churn does not change any."""
    everyone = range(len(backbone))
    return [[peer for peer in everyone if peer != member] for member in everyone]


def test_a_contact_that_crashes_is_replaced() -> None:
    """The newcomer has adopted the history of 0, whose link to it never became safe."""
    cluster = cluster_of(ring(3, both_ways=True), newcomers=1)
    cluster.broadcast(1, b"m")
    run_until_idle_fifo(cluster)
    join(cluster, 3, 0)
    arrive(cluster, Newcomer, 3, 0)
    cluster.broadcast(3, b"mine")
    while in_flight(cluster, Summary, 0, 3):
        cluster.arrive([(p.source, p.target) for p in cluster.in_flight].index((0, 3)))
    cluster.in_flight[:] = [p for p in cluster.in_flight if 0 not in (p.source, p.target)]
    cluster.broadcast(2, b"missed by the newcomer")
    join(cluster, 3, 1)
    for member in (1, 2):
        cluster.disconnect(member, 0)
    cluster.disconnect(3, 0)
    run_until_idle_fifo(cluster, crashed=[0])
    cluster.broadcast(2, b"not missed")
    run_until_idle_fifo(cluster, crashed=[0])
    assert cluster.delivered(3)[-1] == (2, 2)
    assert (3, 1) in cluster.delivered(1)
    assert (3, 1) in cluster.delivered(2)
    changes = [Event(process=3, kind=Kind.JOIN), Event(process=0, kind=Kind.CRASH)]
    verdict = verify_events(changes + cluster.history, processes=4)
    assert verdict.held, explain(verdict)


@pytest.mark.long
def test_no_message_is_lost_when_a_process_leaves() -> None:
    for seed in range(150):
        random = Random(seed)
        links = ring(5, both_ways=True)
        cluster = cluster_of(links)
        churn(cluster, random, backbone=links, steps=80)
        leaver = random.randrange(5)
        for member in range(5):  # Make before break: its neighbours get links first.
            if member != leaver:
                for peer in {0, 1, 2, 3, 4} - {member, leaver}:
                    cluster.connect(member, peer)
        run_until_idle_fifo(cluster, random)
        for member in range(5):
            if member != leaver:
                cluster.disconnect(member, leaver)
                cluster.disconnect(leaver, member)
        rest = [m for m in range(5) if m != leaver]
        for _ in range(40):
            if random.random() < 0.3:
                cluster.broadcast(random.choice(rest))
            arrive_random(cluster, random)
        run_until_idle_fifo(cluster, random)
        verdict = verify_with(cluster, Kind.LEAVE, [leaver])
        assert verdict.held, f"seed {seed}: {explain(verdict)}"


@pytest.mark.long
def test_a_crash_in_the_ping_phase_does_not_block_others() -> None:
    for seed in range(150):
        random = Random(seed)
        links = ring(5, both_ways=True)
        cluster = cluster_of(links, retries_max=2)
        churn(cluster, random, backbone=links, steps=60)
        crashed = random.randrange(5)
        for member in range(5):
            for peer in range(5):
                if peer != member:
                    cluster.connect(member, peer)
        for _ in range(random.randrange(10)):
            arrive_random(cluster, random)
        gone = {crashed}
        for _ in range(60):
            cluster.in_flight[:] = [
                p for p in cluster.in_flight if gone.isdisjoint((p.source, p.target))
            ]
            if random.random() < 0.2:
                cluster.broadcast(random.choice([m for m in range(5) if m not in gone]))
            arrive_random(cluster, random)
        run_until_idle_fifo(cluster, random, crashed=gone)
        verdict = verify_with(cluster, Kind.CRASH, [crashed])
        # Messages that only the crashed process had are lost. It is on a ring with links in
        # both directions, so the messages of the others take the other way.
        others = [v for v in verdict.violations if v.message.source != crashed]
        assert not others, f"seed {seed}: {explain(verdict)}"
        assert verdict.violated() <= {Property.LIVENESS}
        for member in range(5):
            if member != crashed:
                assert process_of(cluster, member).unsafe_links == []


def test_a_summary_is_answered_once_all_its_messages_are_received() -> None:
    process = PcBroadcast(ProcessId(0), ids([1]))
    one, two = ProcessId(1), ProcessId(2)
    process.receive(two, Summary(5, {one: 2, ProcessId(3): 1}), 0.0)
    process.receive(one, RelayedMessage(one, 1, b""), 0.0)
    process.receive(one, RelayedMessage(one, 2, b""), 0.0)
    assert [t for t in process.frames_to_transmit() if isinstance(t.frame, Pong)] == []
    process.receive(one, RelayedMessage(ProcessId(3), 1, b""), 0.0)
    pongs = [t for t in process.frames_to_transmit() if isinstance(t.frame, Pong)]
    assert repr(pongs) == "[Transmit(2, Pong(number=5))]"
    process.receive(two, Summary(6, {one: 1}), 0.0)
    assert repr(process.frames_to_transmit()) == "[Transmit(2, Pong(number=6))]"


def test_a_buffer_is_kept_without_safe_links() -> None:
    """A has no safe link for a while: its buffer stays, and no summary includes it."""
    cluster = cluster_of([[B], [D], [A, B], [C]], buffer_max=2)
    cluster.broadcast(A)
    cluster.disconnect(A, B)
    cluster.connect(A, D)
    for _ in range(5):
        cluster.broadcast(A)
    cluster.pass_time(4.0)
    assert process_of(cluster, A).buffered_for(ProcessId(D)) == 5
    summaries = [p.frame for p in cluster.in_flight if isinstance(p.frame, Summary)]
    assert [repr(s) for s in summaries] == [
        "Summary(delivered={0: 1}, number=1)",
        "Summary(delivered={0: 1}, number=2)",
    ]
    run_until_idle_fifo(cluster)
    assert process_of(cluster, A).links == [D]
    assert process_of(cluster, A).buffered == 0
    assert cluster.verdict().held


def test_a_summary_excludes_the_buffer() -> None:
    """The first message of a source is in the buffer: the summary lacks the source."""
    cluster = cluster_of([[B], [A, C], [A, B]])
    cluster.broadcast(B)
    arrive(cluster, RelayedMessage, B, A)
    cluster.disconnect(A, B)
    cluster.connect(A, C)
    cluster.broadcast(A)
    cluster.pass_time(4.0)
    summaries = [
        p.frame for p in cluster.in_flight if p.source == A and isinstance(p.frame, Summary)
    ]
    assert [repr(s) for s in summaries] == [
        "Summary(delivered={1: 1}, number=1)",
        "Summary(delivered={1: 1}, number=2)",
    ]
    run_until_idle_fifo(cluster)
    assert cluster.verdict().held


def test_a_newcomer_may_have_a_link_to_another_newcomer_only() -> None:
    """3 has a link to 2 only, which is a newcomer until 0 has a message."""
    for early in (False, True):
        cluster = cluster_of(ring(2), newcomers=2)
        cluster.connect(0, 2)  # 0 has delivered nothing: safe, but 2 does not know.
        join(cluster, 3, 2)
        arrive(cluster, Newcomer, 3, 2)
        if early:
            cluster.broadcast(2)
        cluster.broadcast(3)
        assert process_of(cluster, 2).links == []
        cluster.broadcast(0)
        arrive(cluster, RelayedMessage, 0, 2)
        assert process_of(cluster, 2).links == [3]
        run_until_idle_fifo(cluster)
        assert not process_of(cluster, 3).newcomer
        assert process_of(cluster, 3).links == [2]
        assert cluster.delivered(3)[-1] == (0, 1)
        assert verify_with(cluster, Kind.JOIN, [2, 3]).violated() <= {Property.LIVENESS}


# Frames and invalid input.


@pytest.mark.parametrize(
    "frame",
    [
        RelayedMessage(ProcessId(300), 70_000, b"abc"),
        Ping(ProcessId(0), ProcessId(200), 1, False),
        Ping(ProcessId(70_000), ProcessId(1), 300, True),
        Pong(1),
        Pong(2**33),
        Newcomer(),
        Welcome(),
        Summary(1, {}),
        Summary(300, {ProcessId(0): 1, ProcessId(500): 70_000}),
    ],
    ids=repr,
)
def test_decoding_inverts_encoding(frame: Frame) -> None:
    encoded = encode([frame])
    assert len(encoded) == 1 + frame.size()
    (read,) = decode(encoded, read_pc_broadcast)
    assert repr(read) == repr(frame)
    assert encode([read]) == encoded
    assert read.kind() == encoded[1] >> 4
    for cut in range(2, len(encoded)):
        with pytest.raises(PeerError):
            decode(encoded[:cut], read_pc_broadcast)


@pytest.mark.parametrize(
    "data", [b"\x31\x01", b"\x41", b"\x42", b"\x51\x01\x00", b"\x61", b"\x70"]
)
def test_invalid_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(PeerError):
        decode(b"\x01" + data, read_pc_broadcast)


@pytest.mark.parametrize(
    "frame",
    [
        Permit(1),
        RelayedMessage(ProcessId(1), 0, b""),
        RelayedMessage(ProcessId(-1), 1, b""),
        RelayedMessage(ProcessId(0), 2, b""),
        Ping(ProcessId(1), ProcessId(2), 0, False),
        Ping(ProcessId(2), ProcessId(2), 1, False),
        Ping(ProcessId(0), ProcessId(2), 2, False),
        Ping(ProcessId(-1), ProcessId(2), 2, False),
        Pong(0),
        Pong(2),
        Summary(0, {}),
        Summary(1, {ProcessId(1): 0}),
        Summary(1, {ProcessId(0): 2}),
    ],
    ids=repr,
)
def test_invalid_frames_are_refused(frame: Frame) -> None:
    process = PcBroadcast(ProcessId(0), ids([1]))
    process.broadcast(b"", 0.0)
    process.connect(ProcessId(2), 0.0)
    before = snapshot(process)
    with pytest.raises(PeerError):
        process.receive(ProcessId(1), frame, 0.0)
    assert snapshot(process) == before


def test_a_newcomer_among_processes_without_a_history() -> None:
    """The link to it is safe at once, and its first message implies so."""
    for quiet in (False, True):
        cluster = cluster_of(ring(2), newcomers=1)
        cluster.connect(0, 2)
        cluster.connect(2, 1)
        cluster.connect(2, 0)
        cluster.broadcast(2, b"early")
        if not quiet:
            cluster.broadcast(0)
            arrive(cluster, RelayedMessage, 0, 2)
            assert not process_of(cluster, 2).newcomer
        run_until_idle_fifo(cluster)
        assert set(process_of(cluster, 2).links) == {0, 1}
        assert verify_with(cluster, Kind.JOIN, [2]).held
        assert all((2, 1) in cluster.delivered(member) for member in range(3))


def test_misuse_is_refused() -> None:
    process = PcBroadcast(ProcessId(0), ids([1]))
    before = snapshot(process)
    for misuse in (
        lambda: process.broadcast("text", 0.0),
        lambda: process.broadcast(b"", float("nan")),
        lambda: process.send(ids([1]), b"", 0.0),
        lambda: process.connect(ProcessId(0), 0.0),
        lambda: process.connect_through(ProcessId(2), ProcessId(0), 0.0),
        lambda: process.connect_through(ProcessId(2), ProcessId(2), 0.0),
        lambda: process.disconnect(ProcessId(-1), 0.0),
        lambda: process.receive(ProcessId(0), Pong(1), 0.0),
        lambda: process.handle_timer(float("inf")),
    ):
        with pytest.raises(LocalError):
            misuse()
    assert snapshot(process) == before
    links = ids([1])
    with pytest.raises(ConfigError):
        PcBroadcast(ProcessId(0), buffer_max=-1)
    with pytest.raises(ConfigError):
        PcBroadcast(ProcessId(0), retries_max=-1)
    with pytest.raises(ConfigError):
        PcBroadcast(ProcessId(0), timeout_s=0.0)
    with pytest.raises(ConfigError):
        PcBroadcast(ProcessId(0), links, newcomer=True)
