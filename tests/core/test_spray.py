"""Spray: views of about ln(n), a connected overlay, exchanges that preserve arcs."""

from itertools import pairwise
from math import log
from random import Random

import pytest

from antecede.check.snapshot import snapshot
from antecede.core import decode, encode
from antecede.core.codec import Frame
from antecede.core.overlay.graphs import is_connected, reversed_links
from antecede.core.overlay.spray import Spray
from antecede.core.overlay.spray_frames import Answer, Forward, Offer, Subscribe, read_spray
from antecede.core.process import ProcessId
from antecede.core.protocols.hybrid.frames import Permit
from antecede.errors import ConfigError, LocalError, PeerError
from tests.core.overlay_runs import ids
from tests.core.swarm import Swarm

PERIOD_S = 60.0
FOREVER = float("inf")


def grown(
    processes: int, seed: int, *, gap_s: float = 2.0, until_s: float, star: bool = False
) -> Swarm:
    """Join processes one by one, each through a random member."""
    swarm = Swarm(seed)
    random = Random(seed)
    for index in range(processes):
        spray = Spray(
            ProcessId(index), seed, period_s=PERIOD_S, start_s=swarm.now, until_s=until_s
        )
        swarm.add(spray)
        if index > 0:
            contact = ProcessId(0 if star else random.randrange(index))
            swarm.do(index, lambda s=spray, c=contact: s.join(c, swarm.now))  # type: ignore[misc]
        swarm.run(swarm.now + gap_s)
    return swarm


@pytest.mark.long
@pytest.mark.parametrize("processes", [20, 150])
def test_the_size_of_views_is_about_the_logarithm(processes: int) -> None:
    """Up to a constant, which depends on the order of joins."""
    means = []
    for seed in range(5):
        swarm = grown(processes, seed, gap_s=4.0, until_s=1200.0)
        swarm.run(FOREVER)
        sizes = [len(view) for view in swarm.views()]
        means.append(sum(sizes) / processes)
        assert abs(means[-1] - log(processes)) < 2.0, f"seed {seed}: {means[-1]}"
        assert max(sizes) - min(sizes) <= 3, f"seed {seed}: exchanges level the sizes"
    assert abs(sum(means) / 5 - log(processes)) < 1.0


def test_exchanges_preserve_the_number_of_arcs() -> None:
    fixed = Swarm(1, (0.1, 9.0))  # Many concurrent exchanges.
    random = Random(1)
    for index in range(40):
        peers = ids(random.choice([p for p in range(40) if p != index]) for _ in range(6))
        fixed.add(Spray(ProcessId(index), 1, peers, period_s=10.0, until_s=500.0))
    before = fixed.views()
    fixed.run(FOREVER)
    after = fixed.views()
    assert sum(len(view) for view in after) == 40 * 6
    assert sum(sorted(a) == sorted(b) for a, b in zip(before, after, strict=True)) < 4
    assert all(index not in view for index, view in enumerate(after))


@pytest.mark.long
def test_the_overlay_stays_connected_and_balanced() -> None:
    """All processes join through the same contact; exchanges balance the views."""
    swarm = grown(120, 3, gap_s=20.0, until_s=6000.0, star=True)
    for _ in range(10):
        swarm.run(swarm.now + PERIOD_S)
        both_ways = [
            [*out, *back]
            for out, back in zip(swarm.views(), reversed_links(swarm.views()), strict=True)
        ]
        assert is_connected(both_ways)
    swarm.run(FOREVER)
    degrees = [len(sources) for sources in reversed_links(swarm.views())]
    mean = sum(degrees) / 120
    variance = sum((degree - mean) ** 2 for degree in degrees) / 120
    assert variance < mean  # In a random graph they are equal.
    assert max(degrees) < 4 * mean


def test_without_exchanges_a_single_contact_is_a_hub() -> None:
    swarm = grown(60, 3, gap_s=5.0, until_s=0.0, star=True)
    degrees = [len(sources) for sources in reversed_links(swarm.views())]
    assert max(degrees) == 59


def test_the_views_depend_on_the_seed() -> None:
    views = []
    for seed in (4, 4, 5):
        swarm = Swarm(0)
        for index in range(30):
            peers = ids((index + step) % 30 for step in (1, 2, 3))
            swarm.add(Spray(ProcessId(index), seed, peers, period_s=5.0, until_s=100.0))
        swarm.run(FOREVER)
        views.append(swarm.views())
    assert views[0] == views[1]
    assert views[0] != views[2]


@pytest.mark.long
def test_crashed_processes_leave_all_views_and_the_rest_stays_connected() -> None:
    swarm = grown(100, 7, until_s=6000.0)
    swarm.run(1000.0)
    arcs = sum(len(swarm.views()[index]) for index in swarm.alive())
    swarm.crashed.update(Random(7).sample(range(100), 30))
    left = arcs - sum(len(swarm.views()[index]) for index in swarm.crashed)
    swarm.run(FOREVER)
    alive = swarm.alive()
    views = swarm.views()
    stale = [peer for index in alive for peer in views[index] if peer in swarm.crashed]
    assert not stale
    index_of = {member: index for index, member in enumerate(alive)}
    out = [[index_of[peer] for peer in views[index]] for index in alive]
    back = reversed_links(out)
    assert is_connected([[*a, *b] for a, b in zip(out, back, strict=True)])
    assert 0.75 * left < sum(map(len, out)) < left


def test_view_changes_add_up_to_the_view() -> None:
    swarm = Swarm(2, (0.1, 5.0))
    known: dict[int, set[int]] = {}
    sprays = []
    for index in range(20):
        peers = ids((index + step) % 20 for step in (1, 2, 3, 4, 4))
        sprays.append(Spray(ProcessId(index), 2, peers, period_s=10.0, until_s=300.0))
        swarm.add(sprays[-1])
        known[index] = set()
    mediated = 0
    while swarm.now < 400.0:
        swarm.run(swarm.now + 3.0)
        for index, spray in enumerate(sprays):
            for change in spray.view_changes():
                assert (change.peer in known[index]) != change.added
                (known[index].add if change.added else known[index].discard)(change.peer)
                mediated += change.mediator >= 0
                assert change.mediator not in (index, change.peer)
            assert known[index] == set(spray.view)
    assert mediated > 100


def exchange_of(view: list[int], other: list[int]) -> tuple[Spray, Spray, Offer, Answer]:
    """Run an exchange of 0, with ``view``, and its oldest peer, with ``other``."""
    one = Spray(ProcessId(0), 9, ids(view), period_s=1.0)
    one.handle_timer(1.0)
    (transmit,) = one.frames_to_transmit()
    offer = transmit.frame
    assert isinstance(offer, Offer)
    two = Spray(transmit.target, 9, ids(p for p in other if p != transmit.target))
    two.receive(ProcessId(0), offer, 1.0)
    (back,) = two.frames_to_transmit()
    answer = back.frame
    assert isinstance(answer, Answer)
    assert back.target == 0
    return one, two, offer, answer


def test_an_exchange_swaps_halves_and_each_side_includes_itself() -> None:
    one, two, offer, answer = exchange_of([1, 1, 1, 1, 1], [0, 0, 0, 0])
    assert offer.peers == [0, 0, 0]  # three of five, with 0 in place of the partner
    assert answer.peers == [1, 1]
    assert one.view == [1] * 5  # in use until the answer arrives
    assert two.view == [0] * 5
    one.receive(ProcessId(1), answer, 2.0)
    assert one.view == [1] * 4
    one.receive(ProcessId(1), answer, 2.0)  # a duplicate
    assert one.view == [1] * 4


def test_offered_arcs_are_not_offered_again() -> None:
    for seed in range(50):
        one = Spray(ProcessId(0), seed, ids([1, 2, 3, 4, 5]), period_s=1.0)
        one.handle_timer(1.0)
        (transmit,) = one.frames_to_transmit()
        offer = transmit.frame
        assert isinstance(offer, Offer)
        assert len(offer.peers) == 3
        assert offer.peers.count(ProcessId(0)) == 1
        offered = {*offer.peers, transmit.target} - {0}
        one.receive(ProcessId(9), Offer(1, ids([9])), 1.5)
        (back,) = one.frames_to_transmit()
        answer = back.frame
        assert isinstance(answer, Answer)
        assert len(answer.peers) == 2  # all arcs that are not offered
        assert offered.isdisjoint(answer.peers)
        assert sorted(one.view) == sorted([*offered, 9])


def test_the_oldest_arc_is_the_next_partner() -> None:
    """So each peer of a view becomes a partner, and crashed ones are detected."""
    one = Spray(ProcessId(0), 3, ids([1, 2, 3]), period_s=1.0)
    met = []
    for turn in range(1, 10):
        one.handle_timer(float(turn))
        for transmit in one.frames_to_transmit():
            offer = transmit.frame
            assert isinstance(offer, Offer)
            met.append(int(transmit.target))
            given = ids(
                p if p else transmit.target for p in offer.peers
            )  # return the same arcs
            one.receive(transmit.target, Answer(offer.number, given), turn + 0.1)
    assert set(met[:3]) | set(met[3:6]) == {1, 2, 3}
    assert all(a != b for a, b in pairwise(met))


def test_a_partner_that_does_not_answer_is_down() -> None:
    one = Spray(ProcessId(0), 3, ids([1, 2, 2, 2, 2, 3]), period_s=50.0, timeout_s=5.0)
    one.view_changes()
    due = one.next_timer()
    assert due is not None
    assert due <= 50.0
    one.handle_timer(due)
    (transmit,) = one.frames_to_transmit()
    timeout = one.next_timer()
    assert timeout == due + 5.0
    one.handle_timer(timeout)
    assert transmit.target not in one.view
    assert [change.peer for change in one.view_changes()] == [transmit.target]
    assert len(one.view) in (5, 6)
    assert one.next_timer() == due + 50.0
    one.handle_timer(due + 49.0)  # an early call is harmless
    assert one.frames_to_transmit() == []


def test_the_view_is_empty_after_the_last_peer_is_down() -> None:
    one = Spray(ProcessId(0), 3, ids([1, 1]), period_s=1.0)
    one.peer_down(ProcessId(1), 0.0)
    one.peer_down(ProcessId(8), 0.0)
    assert one.view == []
    one.handle_timer(5.0)
    assert one.frames_to_transmit() == []
    assert one.next_timer() == 6.0


def test_a_contact_forwards_a_newcomer_to_its_view() -> None:
    contact = Spray(ProcessId(1), 0, ids([2, 3, 3]))
    newcomer = Spray(ProcessId(9), 0)
    newcomer.join(ProcessId(1), 0.0)
    assert repr(newcomer.frames_to_transmit()) == "[Transmit(1, Subscribe())]"
    assert repr(newcomer.view_changes()) == "[ViewChange(+1, mediator -1)]"
    contact.receive(ProcessId(9), Subscribe(), 0.0)
    assert repr(contact.frames_to_transmit()) == (
        "[Transmit(2, Forward(peer=9)), Transmit(3, Forward(peer=9)),"
        " Transmit(3, Forward(peer=9))]"
    )
    assert contact.view == [2, 3, 3]
    neighbour = Spray(ProcessId(3), 0)
    neighbour.receive(ProcessId(1), Forward(ProcessId(9)), 0.0)
    assert neighbour.view == [9]
    assert repr(neighbour.view_changes()) == "[ViewChange(+9, mediator 1)]"
    neighbour.peer_down(ProcessId(9), 0.0)
    assert repr(neighbour.view_changes()) == "[ViewChange(-9)]"
    newcomer.receive(ProcessId(1), Forward(ProcessId(9)), 0.0)  # itself
    assert newcomer.view == [1]
    contact.receive(ProcessId(3), Subscribe(), 0.0)  # a peer in its view
    assert repr(contact.frames_to_transmit()) == "[Transmit(2, Forward(peer=3))]"
    alone = Spray(ProcessId(5), 0)
    alone.receive(ProcessId(9), Subscribe(), 0.0)
    assert alone.view == [9]
    assert alone.frames_to_transmit() == []


def test_a_pause_of_many_periods_causes_one_exchange() -> None:
    one = Spray(ProcessId(0), 0, ids([1, 2]), period_s=1.0)
    one.handle_timer(10.0)
    assert len(one.frames_to_transmit()) == 1
    assert one.next_timer() == 11.0


@pytest.mark.parametrize(
    "frame",
    [
        Offer(1, []),
        Offer(300, ids([0, 127, 128, 70_000])),
        Answer(1, ids([5])),
        Subscribe(),
        Forward(ProcessId(0)),
        Forward(ProcessId(1000)),
    ],
    ids=repr,
)
def test_decoding_inverts_encoding(frame: Frame) -> None:
    encoded = encode([frame])
    assert len(encoded) == 1 + frame.size()
    (read,) = decode(encoded, read_spray)
    assert repr(read) == repr(frame)
    assert encode([read]) == encoded
    assert read.kind() == encoded[1] >> 4
    for cut in range(2, len(encoded)):
        with pytest.raises(PeerError):
            decode(encoded[:cut], read_spray)


@pytest.mark.parametrize("data", [b"\x81\x01\x00", b"\xa1", b"\xa2", b"\xb2\x01", b"\x10"])
def test_invalid_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(PeerError):
        decode(b"\x01" + data, read_spray)


@pytest.mark.parametrize(
    "frame",
    [
        Permit(1),
        Offer(0, []),
        Offer(1, ids([0])),
        Offer(1, ids([-1])),
        Answer(1, ids([2])),
        Forward(ProcessId(-1)),
        Forward(ProcessId(1)),
    ],
    ids=repr,
)
def test_invalid_frames_are_refused(frame: Frame) -> None:
    one = Spray(ProcessId(0), 0, ids([1]))
    before = snapshot(one)
    with pytest.raises(PeerError):
        one.receive(ProcessId(1), frame, 0.0)
    assert snapshot(one) == before


def test_misuse_is_refused() -> None:
    one = Spray(ProcessId(0), 0, ids([1]))
    before = snapshot(one)
    for misuse in (
        lambda: one.join(ProcessId(0), 0.0),
        lambda: one.join(ProcessId(1), float("nan")),
        lambda: one.peer_down(ProcessId(0), 0.0),
        lambda: one.receive(ProcessId(0), Subscribe(), 0.0),
        lambda: one.broadcast(b"", 0.0),
    ):
        with pytest.raises(LocalError):
            misuse()
    assert snapshot(one) == before
    with pytest.raises(ConfigError):
        Spray(ProcessId(0), 0, period_s=0.0)
    with pytest.raises(ConfigError):
        Spray(ProcessId(0), 0, timeout_s=FOREVER)
