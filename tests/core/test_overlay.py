"""Fixed overlays, and broadcasts on an overlay that Spray maintains."""

from math import log
from random import Random

import pytest

from antecede.check.snapshot import snapshot
from antecede.core import decode, encode
from antecede.core.codec import Frame, Reader
from antecede.core.config import ProcessConfig
from antecede.core.link import ReliableLink
from antecede.core.overlay.graphs import (
    check_links,
    full,
    is_connected,
    random_graph,
    reversed_links,
    ring,
)
from antecede.core.overlay.spray import Spray
from antecede.core.overlay.spray_frames import Offer, Subscribe
from antecede.core.overlay.spray_overlay import (
    LinkNotice,
    SprayOverlay,
    UnlinkNotice,
    initial_links,
    read_overlay_frame,
    with_spray,
)
from antecede.core.process import ProcessBase, ProcessId
from antecede.core.protocols.flood import Flood, RelayedMessage
from antecede.core.protocols.hybrid.frames import Permit
from antecede.core.protocols.pc_broadcast.frames import (
    Ping,
    Pong,
    Summary,
    read_pc_broadcast,
)
from antecede.core.protocols.pc_broadcast.pc_broadcast import PcBroadcast
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import ConfigError, LocalError, PeerError
from antecede.testing import Cluster
from antecede.trace import Kind
from antecede.verify import Property
from tests.core.overlay_runs import explain, ids
from tests.core.swarm import Swarm

FOREVER = float("inf")


# Fixed overlays.


def test_rings_and_full_graphs() -> None:
    assert ring(1) == [[]]
    assert ring(2) == [[1], [0]]
    assert ring(4) == [[1, 3], [2, 0], [3, 1], [0, 2]]
    assert ring(3, both_ways=False) == [[1], [2], [0]]
    assert full(3) == [[1, 2], [0, 2], [0, 1]]
    for links in (ring(7), full(5), ring(6, both_ways=False)):
        check_links(links, len(links))


def test_random_graphs_have_their_degree_and_are_connected() -> None:
    for seed in range(40):
        processes = 2 + seed
        degree = min(processes - 1, 1 + round(log(processes)))
        links = random_graph(processes, degree, seed)
        check_links(links, processes)
        assert all(len(peers) == degree for peers in links)
        assert links == random_graph(processes, degree, seed)
    assert random_graph(30, 3, 1) != random_graph(30, 3, 2)
    assert random_graph(1, 0, 0) == [[]]


def test_random_graphs_both_ways() -> None:
    links = random_graph(40, 3, 5, both_ways=True)
    check_links(links, 40)
    assert [sorted(peers) for peers in links] == [
        sorted(peers) for peers in reversed_links(links)
    ]


def test_each_process_is_an_equally_likely_peer() -> None:
    counts = [0] * 20
    for seed in range(200):
        for peers in random_graph(20, 4, seed):
            for peer in peers:
                counts[peer] += 1
    assert sum(counts) == 200 * 20 * 4
    assert max(counts) - min(counts) < 250  # 800 each, with a deviation of 28.


def test_is_connected_requires_paths_in_both_directions() -> None:
    assert is_connected([])
    assert is_connected([[]])
    assert not is_connected([[], []])
    assert not is_connected([[1], []])
    assert not is_connected([[], [0]])
    assert is_connected([[1], [2], [0]])
    assert not is_connected([[1], [0], [3], [2]])


@pytest.mark.parametrize(
    ("links", "processes"),
    [
        ([[1], [0]], 3),
        ([[0], [0]], 2),
        ([[2], [0]], 2),
        ([[-1], [0]], 2),
        ([[1, 1], [0]], 2),
        ([[1], []], 2),
        ([], 0),
    ],
)
def test_bad_overlays_are_refused(links: list[list[int]], processes: int) -> None:
    with pytest.raises(ConfigError):
        check_links(links, processes)


def test_impossible_overlays_are_refused() -> None:
    with pytest.raises(ConfigError):
        ring(0)
    with pytest.raises(ConfigError):
        full(-1)
    with pytest.raises(ConfigError):
        random_graph(3, 3, 0)
    with pytest.raises(ConfigError):
        random_graph(50, 0, 0)


# Overlays with Spray.


def founders(
    name: str, processes: int, seed: int, *, period_s: float = 20.0, until_s: float = 200.0
) -> list[SprayOverlay]:
    """Return processes with random views at the start."""
    views = random_graph(processes, 3, seed)
    back = reversed_links(views)
    members = []
    for index in range(processes):
        own = ProcessId(index)
        inner: ProcessBase = Flood(own) if name == "flood" else PcBroadcast(own)
        spray = Spray(own, seed, ids(views[index]), period_s=period_s, until_s=until_s)
        members.append(SprayOverlay(inner, spray, incoming=ids(back[index])))
    return members


def newcomer(index: int, seed: int, now: float, until_s: float) -> SprayOverlay:
    own = ProcessId(index)
    spray = Spray(own, seed, period_s=20.0, start_s=now, until_s=until_s)
    return SprayOverlay(PcBroadcast(own, newcomer=True), spray, start_s=now)


def pc_broadcast_of(process: ProcessBase) -> PcBroadcast:
    assert isinstance(process, SprayOverlay)
    inner = process.inner
    assert isinstance(inner, PcBroadcast)
    return inner


def run_and_broadcast(swarm: Swarm, until: float, *, every_s: float) -> None:
    while swarm.now < until:
        swarm.broadcast(swarm.random.choice(swarm.alive()))
        swarm.run(swarm.now + swarm.random.uniform(0, 2 * every_s))


@pytest.mark.long
def test_pc_broadcast_is_causal_while_the_overlay_changes() -> None:
    """Flood is not, with the same changes of the views."""
    broken: dict[str, int] = {"flood": 0, "pc-broadcast": 0}
    for name in broken:
        for seed in range(6):
            swarm = Swarm(seed, (0.05, 4.0))
            for member in founders(name, 12, seed, period_s=15.0, until_s=100.0):
                swarm.add(member)
            run_and_broadcast(swarm, 100.0, every_s=1.5)
            swarm.run(FOREVER)
            verdict = swarm.verdict(set())
            broken[name] += not verdict.held
            assert verdict.violated() <= {Property.CAUSAL, Property.FIFO}, explain(verdict)
    assert broken["pc-broadcast"] == 0
    assert broken["flood"] > 0


@pytest.mark.long
def test_pings_take_three_hops_and_few_links_are_unsafe() -> None:
    """Both sides of an exchange have links to all peers in it."""
    swarm = Swarm(3, (0.5, 1.0))
    members = founders("pc-broadcast", 40, 3, period_s=30.0, until_s=200.0)
    for member in members:
        swarm.add(member)
    for index in range(40):
        swarm.broadcast(index)
    swarm.run(30.0)
    swarm.kinds.clear()
    unsafe = []
    while swarm.now < 200.0:
        swarm.run(swarm.now + 1.0)
        unsafe.append(sum(len(pc_broadcast_of(m).unsafe_links) for m in members) / 40)
    swarm.run(FOREVER)
    assert swarm.kinds["Pong"] > 500
    assert swarm.kinds["Ping"] < 2.2 * swarm.kinds["Pong"]
    assert 0 < sum(unsafe) / len(unsafe) < 1
    for member in members:
        assert pc_broadcast_of(member).unsafe_links == []
        assert sorted(pc_broadcast_of(member).links) == sorted(member.links)
        assert pc_broadcast_of(member).links_given_up() == []


def test_links_are_bidirectional_once_idle() -> None:
    swarm = Swarm(8, (0.1, 3.0))
    members = founders("pc-broadcast", 25, 8, until_s=150.0)
    for member in members:
        swarm.add(member)
    swarm.run(FOREVER)
    links = [[int(peer) for peer in member.links] for member in members]
    assert [sorted(peers) for peers in links] == [
        sorted(set(peers)) for peers in reversed_links(links)
    ]
    views = [set(member.spray.view) for member in members]
    assert all(view <= set(peers) for view, peers in zip(views, links, strict=True))
    check_links(links, 25)


@pytest.mark.parametrize("seed", range(5))
def test_processes_may_join_a_spray_overlay(seed: int) -> None:
    swarm = Swarm(seed, (0.1, 2.0))
    for member in founders("pc-broadcast", 6, seed, until_s=200.0):
        swarm.add(member)
    joined = set()
    for index in range(6, 12):
        run_and_broadcast(swarm, swarm.now + 8.0, every_s=2.0)
        member = newcomer(index, seed, swarm.now, 200.0)
        swarm.add(member)
        contact = ProcessId(swarm.random.randrange(index))
        swarm.do(index, lambda m=member, c=contact: m.connect(c, swarm.now))  # type: ignore[misc]
        joined.add(index)
    run_and_broadcast(swarm, 150.0, every_s=3.0)
    swarm.run(FOREVER)
    for index in range(12):
        assert not pc_broadcast_of(swarm.processes[index]).newcomer
        swarm.broadcast(index)
    swarm.run(FOREVER)
    verdict = swarm.verdict(joined)
    assert verdict.held, explain(verdict)
    everyone: list[set[tuple[int, int]]] = [set() for _ in range(12)]
    for event in swarm.recorder.events:
        if event.kind is Kind.DELIVER:
            assert event.source is not None
            assert event.number is not None
            everyone[event.process].add((event.source, event.number))
    for index in range(6, 12):
        assert dict(sorted(everyone[index])) == dict(sorted(everyone[0]))


@pytest.mark.long
def test_processes_may_crash_in_a_spray_overlay() -> None:
    for seed in range(4):
        swarm = Swarm(seed, (0.1, 2.0))
        members = founders("pc-broadcast", 14, seed, until_s=400.0)
        for member in members:
            swarm.add(member)
        run_and_broadcast(swarm, 60.0, every_s=3.0)
        swarm.crashed.update(swarm.random.sample(range(14), 3))
        run_and_broadcast(swarm, 120.0, every_s=3.0)
        swarm.run(FOREVER)
        verdict = swarm.verdict(set())
        lost = [v for v in verdict.violations if v.message.source not in swarm.crashed]
        assert not lost, f"seed {seed}: {explain(verdict)}"
        assert verdict.violated() <= {Property.LIVENESS}
        for index in swarm.alive():
            assert swarm.crashed.isdisjoint(members[index].spray.view)


@pytest.mark.long
def test_a_spray_overlay_works_with_loss_duplication_and_reordering() -> None:
    for seed in range(8):
        random = Random(seed)
        policy = RetransmissionPolicy(initial_s=1.0, minimum_s=0.5, maximum_s=8.0)
        members = founders("pc-broadcast", 6, seed, period_s=5.0, until_s=60.0)
        linked = [ReliableLink(member, True, policy) for member in members]
        cluster = Cluster("sampled", 6, make=linked.__getitem__)
        while cluster.now < 60.0:
            draw = random.random()
            if draw < 0.06:
                cluster.broadcast(random.randrange(6))
            elif draw < 0.25 or not cluster.in_flight:
                cluster.pass_time(0.25)
            else:
                index = random.randrange(len(cluster.in_flight))
                act = (cluster.arrive,) * 6 + (cluster.drop, cluster.duplicate)
                random.choice(act)(index)
        cluster.run_until_idle(random)
        verdict = cluster.verdict()
        assert verdict.held, f"seed {seed}: {explain(verdict)}"


def pair() -> tuple[SprayOverlay, SprayOverlay]:
    """Return processes 0 and 1; 0 has 1 in its view."""
    members = []
    for index in range(2):
        own = ProcessId(index)
        view = ids([1]) if index == 0 else []
        spray = Spray(own, 0, view, until_s=0.0)
        back = ids([0]) if index == 1 else []
        members.append(SprayOverlay(PcBroadcast(own), spray, incoming=back, linger_s=3.0))
    return members[0], members[1]


def test_a_link_lingers_after_its_peer_has_left_the_view() -> None:
    zero, _ = pair()
    zero.broadcast(b"", 0.0)
    zero.frames_to_transmit()
    zero.disconnect(ProcessId(1), 1.0)
    assert zero.links == [1]
    assert zero.next_timer() == 4.0
    zero.broadcast(b"", 2.0)
    assert [transmit.target for transmit in zero.frames_to_transmit()] == [1]
    zero.handle_timer(3.9)
    assert zero.links == [1]
    zero.handle_timer(4.0)
    assert zero.links == []
    assert repr(zero.frames_to_transmit()) == "[Transmit(1, UnlinkNotice())]"
    assert zero.next_timer() is None
    zero.broadcast(b"", 5.0)
    assert zero.frames_to_transmit() == []


def test_a_peer_that_returns_while_lingering_keeps_its_link() -> None:
    zero, _ = pair()
    zero.broadcast(b"", 0.0)
    zero.disconnect(ProcessId(1), 1.0)
    zero.connect(ProcessId(1), 2.0)
    zero.frames_to_transmit()
    assert zero.next_timer() is None
    assert pc_broadcast_of(zero).links == [1]


def test_a_peer_in_a_view_has_a_link_back() -> None:
    zero, one = pair()
    assert one.links == [0]
    one.broadcast(b"", 0.0)
    assert [transmit.target for transmit in one.frames_to_transmit()] == [0]
    zero.receive(ProcessId(2), LinkNotice(1), 0.0)
    assert pc_broadcast_of(zero).links == [1, 2]  # It has delivered nothing yet.
    one.receive(ProcessId(3), LinkNotice(0), 0.0)
    (ping,) = one.frames_to_transmit()
    assert (ping.target, repr(ping.frame)) == (
        0,
        "Ping(mediated=True, number=1, source=1, target=3)",
    )
    one.receive(ProcessId(3), LinkNotice(-1), 0.0)  # a duplicate
    assert one.frames_to_transmit() == []
    one.receive(ProcessId(3), UnlinkNotice(), 0.0)
    one.receive(ProcessId(3), UnlinkNotice(), 0.0)
    assert one.links == [0]
    assert pc_broadcast_of(one).unsafe_links == []


def test_the_peer_of_a_link_that_is_given_up_leaves_the_view() -> None:
    spray = Spray(ProcessId(0), 0, ids([1]), until_s=0.0)
    process = SprayOverlay(PcBroadcast(ProcessId(0), retries_max=0, timeout_s=1.0), spray)
    process.broadcast(b"", 0.0)
    process.connect(ProcessId(2), 0.0)
    assert process.spray.view == [1, 2]
    process.handle_timer(1.0)
    assert set(process.spray.view) == {1}
    assert isinstance(process.inner, PcBroadcast)
    assert process.inner.links == [1]


def read(reader: Reader) -> Frame:
    return read_overlay_frame(reader, read_pc_broadcast)


@pytest.mark.parametrize(
    "frame",
    [
        LinkNotice(-1),
        LinkNotice(300),
        UnlinkNotice(),
        Offer(3, ids([1, 2])),
        Subscribe(),
        RelayedMessage(ProcessId(3), 9, b"abc"),
        Ping(ProcessId(1), ProcessId(2), 3, False),
        Pong(7),
        Summary(1, {ProcessId(1): 2}),
    ],
    ids=repr,
)
def test_decoding_inverts_encoding(frame: Frame) -> None:
    encoded = encode([frame])
    assert len(encoded) == 1 + frame.size()
    (decoded,) = decode(encoded, read)
    assert repr(decoded) == repr(frame)
    assert encode([decoded]) == encoded
    assert decoded.kind() == encoded[1] >> 4
    for cut in range(2, len(encoded)):
        with pytest.raises(PeerError):
            decode(encoded[:cut], read)


@pytest.mark.parametrize("data", [b"\xc1\x00", b"\xd2", b"\xe0", b"\x00"])
def test_invalid_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(PeerError):
        decode(b"\x01" + data, read)
    with pytest.raises(PeerError):
        read(Reader(b"", 0))


def test_misuse_is_refused() -> None:
    zero, _ = pair()
    before = snapshot(zero)
    for frame in (Permit(1), LinkNotice(-2), LinkNotice(1), Offer(0, []), Pong(5)):
        with pytest.raises(PeerError):
            zero.receive(ProcessId(1), frame, 0.0)
    for misuse in (
        lambda: zero.receive(ProcessId(0), Pong(1), 0.0),
        lambda: zero.send(ids([1]), b"", 0.0),
        lambda: zero.broadcast("text", 0.0),
        lambda: zero.connect(ProcessId(0), 0.0),
        lambda: zero.disconnect(ProcessId(0), 0.0),
        lambda: zero.handle_timer(FOREVER),
    ):
        with pytest.raises(LocalError):
            misuse()
    assert snapshot(zero) == before
    with pytest.raises(ConfigError):
        SprayOverlay(Flood(ProcessId(1)), Spray(ProcessId(2), 0))
    with pytest.raises(ConfigError):
        SprayOverlay(Flood(ProcessId(1)), Spray(ProcessId(1), 0), linger_s=FOREVER)


# Configuration.


def make_flood(config: ProcessConfig, id: int) -> Flood:
    return Flood(ProcessId(id), initial_links(ProcessId(id), config))


def targets_of(process: ProcessBase) -> set[int]:
    """Return the targets of a broadcast."""
    process.broadcast(b"hello", 0.0)
    frames = process.frames_to_transmit()
    return {each.target for each in frames if isinstance(each.frame, RelayedMessage)}


def test_without_exchanges_the_configured_links_stay() -> None:
    config = ProcessConfig(
        processes=3, links=((1, 2), (0,), (0,)), newcomers=frozenset({2})
    )
    assert initial_links(ProcessId(0), config) == [1]
    assert initial_links(ProcessId(2), config) == []
    process = make_flood(config, 0)
    assert with_spray(process, config) is process


def test_with_exchanges_spray_adds_bidirectional_links() -> None:
    config = ProcessConfig(processes=4, links=((1,), (2,), (0,), (0,)), exchange_s=1.0)
    processes = [with_spray(make_flood(config, i), config) for i in range(4)]
    assert initial_links(ProcessId(0), config) == []
    for process in processes:
        assert isinstance(process, SprayOverlay)
    # 0 transmits on its own link and to the processes that have a link to it.
    assert targets_of(processes[0]) == {1, 2, 3}
    assert targets_of(processes[1]) == {0, 2}
    assert targets_of(processes[3]) == {0}


def test_with_exchanges_a_newcomer_starts_without_links() -> None:
    config = ProcessConfig(
        processes=3, links=((1,), (0,), (0,)), exchange_s=1.0, newcomers=frozenset({2})
    )
    assert targets_of(with_spray(make_flood(config, 2), config)) == set()
