"""Cykas: the paper's own runs, its mistakes, random runs, and what it refuses.

``tests.core.cykas_variants`` has the listings line by line, and what breaks them. The
errata that these tests show, as the paper numbers its algorithms:

* Algorithm 4, line 8 stands inside the loop over EAGER_SENT. With that map empty an ack
  releases nothing; with two entries in it, causal order breaks.
* §2.1 says that whatever is received is acked. A YCT must not be: its ack would pass for
  that of the message in transit. (Algorithm 5 has no such ack.)
* Lemma 3.5 shows that every YCT comes, and concludes that MODE becomes 0. It need not.
"""

from collections.abc import Callable, Iterator
from functools import partial
from math import inf, nan
from random import Random
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.check.snapshot import snapshot
from antecede.core.codec import NUMBER_MAX, Frame, decode, encode
from antecede.core.link import Linked, Segment
from antecede.core.process import Process, ProcessId, Transmit
from antecede.core.protocols.baseline import Plain, PlainMessage
from antecede.core.protocols.cykas import (
    Cykas,
    CykasAck,
    CykasMessage,
    YouCanTell,
    read_cykas,
)
from antecede.core.protocols.hybrid.frames import Ack, Message, Permit
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import LocalError, PeerError
from antecede.testing import Cluster, Step, play, random_schedule
from antecede.testing.strategies import schedules
from antecede.verify import Property
from tests.core.cykas_variants import Change, Listing

POLICY = RetransmissionPolicy(initial_s=1.0, minimum_s=0.5, maximum_s=8.0)
ALICE, BOB, CAROL = range(3)
MESSAGES = (CykasMessage, PlainMessage, Message)

Make = Callable[[ProcessId], Process]


def listing(change: Change | None = None) -> Make:
    """Make processes of the listings."""
    return lambda place: Listing(place, change)


def linked(id: ProcessId, *, fifo: bool = False) -> Process:
    """Make a process on links, by default as unordered as the network."""
    return Linked(Cykas(id), fifo=fifo, policy=POLICY)


def cluster_of(make: Make, processes: int) -> Cluster:
    return Cluster("cykas", processes, make=make)


def find(cluster: Cluster, kind: type[Frame] | tuple[type[Frame], ...], hop: str) -> int:
    """Find the oldest frame of that kind on that hop, written as ``"0 to 1"``."""
    for index, packet in enumerate(cluster.in_flight):
        if f"{packet.source} to {packet.target}" == hop and isinstance(packet.frame, kind):
            return index
    return -1


def arrive(
    cluster: Cluster, kind: type[Frame] | tuple[type[Frame], ...], hop: str
) -> Frame:
    """Let the oldest frame of that kind on that hop arrive."""
    index = find(cluster, kind, hop)
    assert index >= 0, f"no {kind} from {hop} in {cluster.in_flight}"
    frame = cluster.in_flight[index].frame
    cluster.arrive(index)
    return frame


def hop(source: int, target: int) -> str:
    return f"{source} to {target}"


# The paper's own runs.


def play_figure_1(cluster: Cluster) -> None:
    """Alice writes to Carol, then to Bob; Bob, having read that, writes to Carol. The
    first message is slow: whatever else can arrive arrives before it."""
    cluster.send(ALICE, [CAROL], b"m1")
    cluster.send(ALICE, [BOB], b"m2")
    if find(cluster, MESSAGES, hop(ALICE, BOB)) >= 0:
        arrive(cluster, MESSAGES, hop(ALICE, BOB))
    cluster.send(BOB, [CAROL], b"m3")
    if find(cluster, MESSAGES, hop(BOB, CAROL)) >= 0:
        arrive(cluster, MESSAGES, hop(BOB, CAROL))
    cluster.settle()


def test_figure_1_the_three_processes_that_open_the_paper() -> None:
    cluster = cluster_of(Cykas, 3)
    play_figure_1(cluster)
    assert cluster.verdict().held
    assert cluster.delivered(CAROL) == [(ALICE, 1), (BOB, 1)]


@pytest.mark.parametrize("make", [Plain, listing(Change.NO_SECRET_MODE)])
def test_figure_1_without_secrets_carol_reads_the_answer_first(make: Make) -> None:
    """Figure 1, left, and Figure 2, center: sending eagerly is not enough."""
    cluster = cluster_of(make, 3)
    play_figure_1(cluster)
    assert cluster.delivered(CAROL) == [(BOB, 1), (ALICE, 1)]
    assert cluster.verdict().broken() == {Property.CAUSAL}


def test_figure_2_bob_starts_early_and_tells_late() -> None:
    """Figure 2, right: m2 does not wait for the ack of m1, m3 waits for Alice's YCT."""
    cluster = cluster_of(Cykas, 3)
    bob = cast("Cykas", cluster.processes[BOB])
    cluster.send(ALICE, [CAROL], b"m1")
    cluster.send(ALICE, [BOB], b"m2")
    m2 = arrive(cluster, CykasMessage, hop(ALICE, BOB))
    assert isinstance(m2, CykasMessage)
    assert m2.eager
    assert cluster.delivered(BOB) == [(ALICE, 2)]  # The long-running job starts here.
    assert bob.secrets == 1
    cluster.send(BOB, [CAROL], b"m3")
    assert bob.buffered == 1
    arrive(cluster, CykasAck, hop(BOB, ALICE))
    assert find(cluster, YouCanTell, hop(ALICE, BOB)) == -1  # Carol's ack is missing.
    m1 = arrive(cluster, CykasMessage, hop(ALICE, CAROL))
    assert isinstance(m1, CykasMessage)
    assert not m1.eager
    assert bob.buffered == 1
    arrive(cluster, CykasAck, hop(CAROL, ALICE))
    assert bob.buffered == 1
    arrive(cluster, YouCanTell, hop(ALICE, BOB))
    assert (bob.secrets, bob.buffered) == (0, 0)
    m3 = arrive(cluster, CykasMessage, hop(BOB, CAROL))
    assert isinstance(m3, CykasMessage)
    assert not m3.eager
    cluster.settle()
    assert cluster.verdict().held


def test_figure_2_the_yct_waits_for_bobs_own_ack_too() -> None:
    cluster = cluster_of(Cykas, 3)
    cluster.send(ALICE, [CAROL])
    cluster.send(ALICE, [BOB])
    arrive(cluster, CykasMessage, hop(ALICE, CAROL))
    arrive(cluster, CykasAck, hop(CAROL, ALICE))
    assert find(cluster, YouCanTell, hop(ALICE, BOB)) == -1
    arrive(cluster, CykasMessage, hop(ALICE, BOB))
    arrive(cluster, CykasAck, hop(BOB, ALICE))
    assert find(cluster, YouCanTell, hop(ALICE, BOB)) >= 0


def test_section_2_2_1_what_alice_notes_of_her_eager_message() -> None:
    """The listing's EAGER_SENT is as the paper prints it: {Bob: <[001]>}."""
    cluster = cluster_of(listing(), 3)
    cluster.send(ALICE, [CAROL])
    cluster.send(ALICE, [BOB])
    alice = cast("Listing", cluster.processes[ALICE])
    assert alice.eager_sent == {BOB: [{CAROL}]}


def play_figure_3(cluster: Cluster) -> None:
    cluster.send(BOB, [ALICE], b"ns1")
    cluster.send(BOB, [CAROL], b"es1")
    arrive(cluster, CykasMessage, hop(BOB, CAROL))
    cluster.send(ALICE, [BOB], b"ns2")
    cluster.send(ALICE, [CAROL], b"es2")
    arrive(cluster, CykasMessage, hop(ALICE, CAROL))
    cluster.send(CAROL, [ALICE], b"ns3")
    if find(cluster, CykasMessage, hop(CAROL, ALICE)) >= 0:
        arrive(cluster, CykasMessage, hop(CAROL, ALICE))
    cluster.settle()


def test_figure_3_a_secret_is_kept_from_its_source_too() -> None:
    cluster = cluster_of(Cykas, 3)
    play_figure_3(cluster)
    assert cluster.delivered(ALICE) == [(BOB, 1), (CAROL, 1)]
    assert cluster.verdict().held


@pytest.mark.parametrize("change", [Change.ANSWER_THE_LATEST, Change.NO_SECRET_MODE])
def test_figure_3_answering_the_latest_secret_breaks_causal_order(change: Change) -> None:
    cluster = cluster_of(listing(change), 3)
    play_figure_3(cluster)
    assert cluster.delivered(ALICE) == [(CAROL, 1), (BOB, 1)]
    (violation,) = cluster.verdict().violations
    assert str(violation).endswith("1:1 -> 1:2 -> 2:1")


# The paper's mistakes.


def test_algorithm_4_as_printed_is_stuck_after_an_ack_without_eager_messages() -> None:
    for make, held in (
        (listing(Change.RELEASE_INSIDE_THE_LOOP), False),
        (listing(), True),
        (Cykas, True),
    ):
        cluster = cluster_of(make, 2)
        cluster.send(0, [1])
        cluster.send(0, [1])
        cluster.settle()
        assert (cluster.delivered(1) == [(0, 1), (0, 2)]) is held
        assert cluster.verdict().broken() == (set() if held else {Property.LIVE})


def play_cleared_bit(cluster: Cluster) -> None:
    """Process 0 has once been eager to 1, then to 2. The ack of 1 lets it release one more
    message to each, and 2, having read its own, writes to 1."""
    cluster.send(0, [2])
    cluster.send(0, [1])  # Eager: the first entry of EAGER_SENT.
    arrive(cluster, CykasMessage, "0 to 2")
    arrive(cluster, CykasAck, "2 to 0")
    cluster.send(0, [2])  # Eager: the second entry.
    arrive(cluster, CykasMessage, "0 to 2")
    arrive(cluster, CykasAck, "2 to 0")
    cluster.send(0, [1], b"slow")
    cluster.send(0, [2], b"eager")
    arrive(cluster, CykasMessage, "0 to 1")
    arrive(cluster, CykasAck, "1 to 0")  # Releases both; the eager one waits for 1.
    arrive(cluster, CykasMessage, "0 to 2")
    arrive(cluster, CykasAck, "2 to 0")
    while find(cluster, YouCanTell, "0 to 2") >= 0:
        arrive(cluster, YouCanTell, "0 to 2")
    cluster.send(2, [1], b"fast")
    if find(cluster, CykasMessage, "2 to 1") >= 0:
        arrive(cluster, CykasMessage, "2 to 1")
    cluster.settle()


def test_algorithm_4_as_printed_forgets_an_ack_it_waits_for() -> None:
    """What line 8 releases in one turn of the loop, line 5 clears in the next."""
    cluster = cluster_of(listing(Change.RELEASE_INSIDE_THE_LOOP), 3)
    play_cleared_bit(cluster)
    assert cluster.delivered(1) == [(0, 2), (2, 1), (0, 4)]
    assert cluster.verdict().broken() == {Property.CAUSAL}
    for make in (listing(), Cykas):
        cluster = cluster_of(make, 3)
        play_cleared_bit(cluster)
        assert cluster.delivered(1) == [(0, 2), (0, 4), (2, 1)]
        assert cluster.verdict().held


def play_acked_yct(cluster: Cluster) -> None:
    cluster.send(0, [2])
    cluster.send(0, [1])
    for target in (2, 1):
        arrive(cluster, CykasMessage, hop(0, target))
        arrive(cluster, CykasAck, hop(target, 0))
    cluster.send(0, [1], b"slow")
    cluster.send(0, [1], b"fast")
    arrive(cluster, YouCanTell, "0 to 1")
    if find(cluster, CykasAck, "1 to 0") >= 0:
        arrive(cluster, CykasAck, "1 to 0")
    newest = max(i for i, p in enumerate(cluster.in_flight) if p.target == 1)
    cluster.arrive(newest)
    cluster.settle()


def test_section_2_1_the_ack_of_a_yct_passes_for_that_of_a_message() -> None:
    cluster = cluster_of(listing(Change.ACK_EVERYTHING), 3)
    play_acked_yct(cluster)
    assert cluster.delivered(1) == [(0, 2), (0, 4), (0, 3)]
    assert cluster.verdict().broken() == {Property.CAUSAL, Property.FIFO}
    cluster = cluster_of(Cykas, 3)
    play_acked_yct(cluster)
    assert cluster.verdict().held


# What the hybrid-buffering paper says of it.


def exchange(cluster: Cluster, one: int, other: int) -> None:
    """Let everything between the two arrive, until there is nothing more."""
    while True:
        between = [
            index
            for index, packet in enumerate(cluster.in_flight)
            if {packet.source, packet.target} == {one, other}
        ]
        if not between:
            return
        cluster.arrive(between[0])


def play_taking_turns(cluster: Cluster, turns: int) -> Iterator[int]:
    """Processes 1 and 2 write to 0 by turns, each after a message to 3 or 4, which arrives
    only when the other has written again. At the first turn 0 writes to 5."""
    for turn in range(turns):
        writer = 1 + turn % 2
        waiting = 3 - writer
        cluster.send(writer, [writer + 2])
        cluster.send(writer, [0])
        exchange(cluster, writer, 0)
        if turn == 0:
            cluster.send(0, [5])
        exchange(cluster, waiting, waiting + 2)
        exchange(cluster, waiting, 0)
        exchange(cluster, 0, 5)
        yield turn


def test_eager_messages_without_end_starve_cykas_but_not_hybrid() -> None:
    """Almeida §4.3, against Lemma 3.5: every YCT comes, and MODE is never 0."""
    turns = 200
    cluster = cluster_of(Cykas, 6)
    starved = cast("Cykas", cluster.processes[0])
    for turn in play_taking_turns(cluster, turns):
        assert starved.secrets == 1
        assert starved.buffered == 1
        # The network is not to blame: the one frame in flight was sent in this turn.
        assert len(cluster.in_flight) == 1
        assert len(cluster.delivered(0)) == turn + 1
    assert cluster.delivered(5) == []
    cluster.settle()  # The writers stop, and only then it gets through.
    assert cluster.delivered(5) == [(0, 1)]
    assert cluster.verdict().held

    cluster = Cluster("hybrid", 6)
    through = [len(cluster.delivered(5)) for _ in play_taking_turns(cluster, turns)]
    assert through == [0] + [1] * (turns - 1)
    cluster.settle()
    assert cluster.verdict().held


def test_almeida_figure_2_cykas_waits_for_a_message_that_came_after_the_send() -> None:
    """m is sent after a and b; c, which arrives later, holds it up all the same."""
    i, j, k, x, y, z = range(6)
    cluster = cluster_of(Cykas, 6)
    process = cast("Cykas", cluster.processes[i])
    cluster.send(k, [y])
    cluster.send(k, [i], b"b")
    cluster.send(j, [x])
    cluster.send(j, [i], b"a")
    exchange(cluster, k, i)
    exchange(cluster, j, i)
    cluster.send(i, [z], b"m")
    cluster.send(k, [x])
    exchange(cluster, k, y)
    cluster.send(k, [i], b"c")
    exchange(cluster, k, i)
    exchange(cluster, j, x)
    exchange(cluster, j, i)
    assert (process.secrets, process.buffered) == (1, 1)  # a and b may be told.
    exchange(cluster, k, x)
    exchange(cluster, k, i)
    assert (process.secrets, process.buffered) == (0, 0)
    cluster.settle()
    assert cluster.verdict().held


# Random runs.


def storm(cluster: Cluster, random: Random, steps: int) -> None:
    """Send and let arrive in any order, where some hops are much slower than others."""
    members = range(len(cluster.processes))
    share = random.choice((0.2, 0.35, 0.5))
    hops = [(source, target) for source in members for target in members]
    slow = random.sample(hops, random.randint(1, len(members)))
    for _ in range(steps):
        if random.random() < share or not cluster.in_flight:
            cluster.send(random.choice(members), [random.choice(members)])
            continue
        choices = [
            index
            for index, packet in enumerate(cluster.in_flight)
            if (packet.source, packet.target) not in slow
        ]
        if not choices or random.random() < 0.03:
            choices = list(range(len(cluster.in_flight)))
        cluster.arrive(random.choice(choices))


def broken_in_storms(
    make: Make, seeds: int, *, looked_for: frozenset[Property] = frozenset(Property)
) -> dict[Property, int]:
    """Run storms until all that is looked for has broken, and return the first seeds."""
    broken: dict[Property, int] = {}
    for seed in range(seeds):
        random = Random(seed)
        cluster = cluster_of(make, random.randint(3, 5))
        storm(cluster, random, 100)
        cluster.settle(random)
        for which in cluster.verdict().broken():
            broken.setdefault(which, seed)
        if looked_for <= broken.keys():
            break
    return broken


@pytest.mark.long
def test_random_runs_are_causal_and_live_when_frames_overtake() -> None:
    assert broken_in_storms(Cykas, 1500) == {}


def test_the_mended_listing_is_causal_and_live_too() -> None:
    assert broken_in_storms(listing(), 400) == {}


BREAKS = {
    Change.RELEASE_INSIDE_THE_LOOP: {Property.LIVE, Property.CAUSAL},
    Change.ACK_EVERYTHING: {Property.CAUSAL, Property.FIFO},
    Change.ANSWER_THE_LATEST: {Property.CAUSAL},
    Change.NO_SECRET_MODE: {Property.CAUSAL},
    Change.MODE_IS_A_FLAG: {Property.CAUSAL},
    Change.TELL_WITHOUT_OWN_ACK: {Property.CAUSAL},
    Change.TELL_AT_OWN_ACK: {Property.CAUSAL},
    Change.PIPELINE: {Property.CAUSAL, Property.FIFO},
    Change.OVERTAKE_IN_THE_BUFFER: {Property.CAUSAL},
    Change.NEVER_TELL_TWICE: {Property.LIVE},
}


@pytest.mark.parametrize("change", Change, ids=lambda change: change.name)
def test_random_runs_catch_every_wrong_variant(change: Change) -> None:
    expected = frozenset(BREAKS[change])
    broken = broken_in_storms(listing(change), 1500, looked_for=expected)
    assert expected <= broken.keys()


@given(schedule=schedules(3, faults=False), order=st.randoms(use_true_random=False))
def test_causal_and_live_on_a_bare_network_that_reorders(
    schedule: list[Step], order: Random
) -> None:
    cluster = cluster_of(Cykas, 3)
    play(cluster, schedule)
    assert cluster.verdict(complete=False).held
    cluster.settle(order)
    assert cluster.verdict().held


@pytest.mark.long
@pytest.mark.parametrize("fifo", [False, True])
def test_causal_and_live_on_links_despite_all_faults(fifo: bool) -> None:
    for seed in range(400):
        random = Random(seed)
        processes = random.randint(2, 6)
        cluster = cluster_of(partial(linked, fifo=fifo), processes)
        schedule = random_schedule(
            random,
            processes=processes,
            steps=random.choice((40, 150)),
            loss=0.2,
            duplicate=0.2,
            seconds=(0.25, 1.0, 4.0),
        )
        play(cluster, schedule)
        assert cluster.verdict(complete=False).held, f"seed {seed}"
        cluster.settle(random)
        assert cluster.verdict().held, f"seed {seed}"


class Lockstep:
    """A process of the package and one of the listing, which must do the same."""

    def __init__(self, id: ProcessId) -> None:
        self.id = id
        self.cykas = Cykas(id)
        self.listing = Listing(id)

    def frames_to_transmit(self) -> list[Transmit]:
        mine = self.cykas.frames_to_transmit()
        theirs = self.listing.frames_to_transmit()
        assert per_target(mine) == per_target(theirs)
        assert self.cykas.secrets == self.listing.mode
        assert self.cykas.buffered == len(self.listing.ob)
        return mine


def per_target(transmits: list[Transmit]) -> dict[ProcessId, list[bytes]]:
    """Order counts only among the frames to one target."""
    frames: dict[ProcessId, list[bytes]] = {}
    for transmit in transmits:
        frames.setdefault(transmit.target, []).append(encode([transmit.frame]))
    return frames


@pytest.mark.long
def test_every_step_transmits_exactly_what_the_mended_listing_does() -> None:
    """The window in place of the bit vectors changes nothing that can be seen."""
    for seed in range(400):
        random = Random(seed)
        pairs = [Lockstep(ProcessId(place)) for place in range(random.randint(3, 6))]
        in_flight: list[tuple[ProcessId, Transmit]] = []
        share = random.choice((0.2, 0.4))
        for turn in range(300):
            if turn < 150 and (random.random() < share or not in_flight):
                pair = random.choice(pairs)
                target = random.choice(pairs).id
                for process in (pair.cykas, pair.listing):
                    process.send([target], b"x", 0.0)
            elif in_flight:
                source, out = in_flight.pop(random.randrange(len(in_flight)))
                pair = pairs[out.target]
                for process in (pair.cykas, pair.listing):
                    process.receive(source, out.frame, 0.0)
            mine, theirs = (
                [str(delivery) for delivery in process.messages_to_deliver()]
                for process in (pair.cykas, pair.listing)
            )
            assert mine == theirs
            in_flight += [(pair.id, out) for out in pair.frames_to_transmit()]


def test_at_most_one_message_or_its_ack_is_in_flight_between_a_pair() -> None:
    for seed in range(100):
        random = Random(seed)
        cluster = cluster_of(Cykas, 4)
        for _ in range(40):
            storm(cluster, random, 3)
            hops = [
                (p.source, p.target)
                if isinstance(p.frame, CykasMessage)
                else (p.target, p.source)
                for p in cluster.in_flight
                if not isinstance(p.frame, YouCanTell)
            ]
            assert len(hops) == len(set(hops))


def test_at_rest_nothing_is_buffered() -> None:
    for seed in range(50):
        random = Random(seed)
        cluster = cluster_of(Cykas, 4)
        storm(cluster, random, 100)
        cluster.send(0, [1])
        assert "'_Sent'" in str([snapshot(process) for process in cluster.processes])
        cluster.settle(random)
        state = str([snapshot(process) for process in cluster.processes])
        assert "'_Sent'" not in state
        assert all(cast("Cykas", process).secrets == 0 for process in cluster.processes)


def test_the_same_schedule_gives_the_same_history() -> None:
    histories = []
    for _ in range(2):
        random = Random(7)
        cluster = cluster_of(linked, 5)
        play(
            cluster,
            random_schedule(random, processes=5, steps=300, loss=0.1, seconds=(1.0,)),
        )
        cluster.settle()
        histories.append(cluster.history)
    assert histories[0] == histories[1]


# Sending.


def test_a_message_to_oneself_is_delivered_at_once_even_in_secret_mode() -> None:
    process = busy_process()
    assert process.secrets == 1
    assert process.send([ProcessId(0), ProcessId(0)], b"self", 1.0) == 5
    (delivery,) = process.messages_to_deliver()
    assert (delivery.source, delivery.number, delivery.payload) == (0, 5, b"self")
    assert process.frames_to_transmit() == []


def test_a_target_named_twice_gets_one_copy() -> None:
    process = Cykas(ProcessId(0))
    process.send([ProcessId(1), ProcessId(1)], b"x", 0.0)
    (transmit,) = process.frames_to_transmit()
    assert (transmit.target, transmit.repeat) == (1, False)


def test_a_payload_is_not_kept_once_it_is_released() -> None:
    process = Cykas(ProcessId(0))
    process.send([ProcessId(1)], b"gone", 0.0)
    process.send([ProcessId(1)], b"kept", 0.0)
    process.frames_to_transmit()
    state = str(snapshot(process))
    assert "gone" not in state
    assert "kept" in state


def test_the_metadata_of_a_message_does_not_grow_with_the_processes() -> None:
    sizes = []
    for processes in (3, 300):
        cluster = cluster_of(Cykas, processes)
        for target in range(1, processes):
            cluster.send(0, [target], b"payload")
        cluster.send(0, [1])
        cluster.send(1, [2])
        sizes.append(
            [
                packet.frame.metadata_size()
                for packet in cluster.in_flight
                if packet.frame.message_number() < 256
            ]
        )
    assert {size for run in sizes for size in run} == {3}
    assert CykasAck().size() == YouCanTell().size() == 1


# Bad input.


def busy_process() -> Cykas:
    """Process 0: 1:4 is a secret; 0:1 and 0:2 are in transit to 1 and 2; 0:3 and 0:4
    wait."""
    process = Cykas(ProcessId(0))
    process.send([ProcessId(1)], b"", 0.0)
    process.send([ProcessId(2)], b"", 0.0)
    process.receive(ProcessId(1), CykasMessage(4, True, b""), 0.1)
    process.send([ProcessId(2)], b"", 0.2)
    process.send([ProcessId(3)], b"", 0.2)
    process.frames_to_transmit()
    process.messages_to_deliver()
    return process


@pytest.mark.parametrize(
    ("targets", "payload", "now", "words"),
    [
        ([], b"", 1.0, "at least one target"),
        ([-1], b"", 1.0, "process id"),
        ([1, "2"], b"", 1.0, "process id"),
        ([1, 2], b"", 1.0, "unicast only"),
        ([0, 1], b"", 1.0, "unicast only"),
        ([1, 1, 0], b"", 1.0, "unicast only"),
        ("1", b"", 1.0, "collection of process ids"),
        ([1], "text", 1.0, "must be bytes"),
        ([0], None, 1.0, "must be bytes"),
        ([1], b"", nan, "finite"),
        ([1], b"", inf, "finite"),
    ],
)
def test_a_bad_send_is_the_callers_fault_and_changes_nothing(
    targets: object, payload: object, now: float, words: str
) -> None:
    process = busy_process()
    before = snapshot(process)
    with pytest.raises(LocalError, match=words):
        process.send(cast("list[ProcessId]", targets), payload, now)
    assert snapshot(process) == before


@pytest.mark.parametrize(
    ("source", "frame", "words"),
    [
        (1, CykasMessage(0, False, b""), "cannot be"),
        (7, CykasMessage(0, True, b""), "cannot be"),
        (1, CykasMessage(4, True, b""), "after 4"),
        (1, CykasMessage(3, False, b""), "after 4"),
        (3, CykasAck(), "nothing is in transit"),  # 0:4 has not been released.
        (7, CykasAck(), "nothing is in transit"),
        (2, YouCanTell(), "no secret"),
        (7, YouCanTell(), "no secret"),
        (1, PlainMessage(5, b""), "no frame of this protocol"),
        (1, Ack(1, 1), "no frame of this protocol"),
        (1, Permit(1), "no frame of this protocol"),
        (1, Segment(1, 0, CykasAck()), "no frame of this protocol"),
    ],
)
def test_a_bad_frame_is_the_peers_fault_and_changes_nothing(
    source: int, frame: Frame, words: str
) -> None:
    process = busy_process()
    before = snapshot(process)
    with pytest.raises(PeerError, match=words):
        process.receive(ProcessId(source), frame, 1.0)
    assert snapshot(process) == before


def test_a_second_ack_or_yct_is_refused() -> None:
    process = busy_process()
    process.receive(ProcessId(2), CykasAck(), 1.0)
    process.receive(ProcessId(1), YouCanTell(), 1.0)
    process.receive(ProcessId(2), CykasAck(), 1.0)  # Of 0:3, which has been released.
    before = snapshot(process)
    with pytest.raises(PeerError, match="nothing is in transit"):
        process.receive(ProcessId(2), CykasAck(), 1.0)
    with pytest.raises(PeerError, match="no secret"):
        process.receive(ProcessId(1), YouCanTell(), 1.0)
    assert snapshot(process) == before


def test_other_misuse_is_the_drivers_fault_and_changes_nothing() -> None:
    process = busy_process()
    before = snapshot(process)
    with pytest.raises(LocalError, match="to itself"):
        process.receive(ProcessId(0), CykasAck(), 1.0)
    with pytest.raises(LocalError, match="finite"):
        process.receive(ProcessId(1), CykasAck(), nan)
    with pytest.raises(LocalError, match="no broadcast"):
        process.broadcast(b"", 1.0)
    with pytest.raises(LocalError, match="no overlay"):
        process.connect(ProcessId(1), 1.0)
    with pytest.raises(LocalError, match="finite"):
        process.handle_timer(nan)
    assert process.next_timer() is None
    assert snapshot(process) == before


# Frames.

KNOWN_BYTES: list[tuple[Frame, str]] = [
    (CykasMessage(1, False, b"hi"), "10 01 02 68 69"),
    (CykasMessage(255, True, b""), "11 ff 00"),
    (CykasMessage(256, True, b"x" * 128), "13 01 00 80 01" + " 78" * 128),
    (CykasMessage(NUMBER_MAX, False, b""), "1e 7f ff ff ff ff ff ff ff 00"),
    (CykasAck(), "20"),
    (YouCanTell(), "30"),
]


@pytest.mark.parametrize(("frame", "hexadecimal"), KNOWN_BYTES)
def test_frames_have_the_bytes_that_the_module_promises(
    frame: Frame, hexadecimal: str
) -> None:
    datagram = encode([frame])
    assert datagram[1:] == bytes.fromhex(hexadecimal)
    assert len(datagram) == 1 + frame.size()
    assert datagram[1] >> 4 == frame.kind()


@given(
    number=st.integers(1, NUMBER_MAX) | st.sampled_from((255, 256, 65_535, 65_536)),
    eager=st.booleans(),
    payload=st.binary(max_size=300),
)
def test_frames_survive_the_wire(number: int, eager: bool, payload: bytes) -> None:
    frames = [YouCanTell(), CykasMessage(number, eager, payload), CykasAck()]
    assert frames[1].message_number() == number
    assert frames[1].payload_size() == len(payload)
    assert len(encode([frames[1]])) == 1 + frames[1].size()
    decoded = decode(encode(frames), read_cykas)
    assert encode(decoded) == encode(frames)
    assert list(map(str, decoded)) == list(map(str, frames))


@pytest.mark.parametrize(
    "hexadecimal",
    [
        "",
        "02 20",
        "01 00",
        "01 10",
        "01 10 01",
        "01 10 01 02 68",
        "01 1e ff ff ff ff ff ff ff ff 00",
        "01 21",
        "01 31",
        "01 40",
    ],
)
def test_what_is_no_frame_is_refused(hexadecimal: str) -> None:
    with pytest.raises(PeerError):
        decode(bytes.fromhex(hexadecimal), read_cykas)


def test_frames_are_shown_by_their_fields() -> None:
    assert str(CykasMessage(3, True, b"hi")) == "CykasMessage(3 eager, 2 B)"
    assert str(CykasMessage(3, False, b"")) == "CykasMessage(3, 0 B)"
    assert (str(CykasAck()), str(YouCanTell())) == ("CykasAck()", "YouCanTell()")
