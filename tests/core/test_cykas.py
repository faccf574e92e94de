"""``cykas``: the runs and the errors of the paper, random runs, and invalid input.

``tests.core.cykas_variants`` has the listings line by line, and broken variants. The
errata that these tests show, with the paper's numbers of algorithms:

* In Algorithm 4, line 8 is inside the loop over EAGER_SENT. If that map is empty, an ack
  releases nothing; with two entries in it, causal order breaks.
* §2.1 says that every received frame is acked. A YCT must not be acked: its ack would
  count as that of the message in flight. (Algorithm 5 has no such ack.)
* Lemma 3.5 shows that every YCT arrives, and concludes that MODE becomes 0. It need not.
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
from antecede.core.link import ReliableLink
from antecede.core.link_frames import Segment
from antecede.core.process import Process, ProcessId, Transmit
from antecede.core.protocols.baseline import Baseline, BaselineMessage
from antecede.core.protocols.cykas import (
    Cykas,
    CykasAck,
    CykasMessage,
    YouCanTell,
    read_cykas,
)
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import LocalError, PeerError
from antecede.testing import Cluster, Step, random_schedule, run_schedule
from antecede.testing.strategies import schedules
from antecede.verify import Property
from tests.core.cykas_variants import Change, Listing

POLICY = RetransmissionPolicy(initial_s=1.0, minimum_s=0.5, maximum_s=8.0)
ALICE, BOB, CAROL = range(3)
MESSAGES = (CykasMessage, BaselineMessage, MessageFrame)

Make = Callable[[ProcessId], Process]


def listing(change: Change | None = None) -> Make:
    """Make processes of the listings."""
    return lambda index: Listing(index, change)


def linked(id: ProcessId, *, fifo: bool = False) -> Process:
    """Make a process on reliable links, which keep no order by default."""
    return ReliableLink(Cykas(id), fifo=fifo, policy=POLICY)


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


# The paper's runs.


def run_figure_1(cluster: Cluster) -> None:
    """Alice writes to Carol, then to Bob, who then writes to Carol. The first message
    arrives last, if possible."""
    cluster.send(ALICE, [CAROL], b"m1")
    cluster.send(ALICE, [BOB], b"m2")
    if find(cluster, MESSAGES, hop(ALICE, BOB)) >= 0:
        arrive(cluster, MESSAGES, hop(ALICE, BOB))
    cluster.send(BOB, [CAROL], b"m3")
    if find(cluster, MESSAGES, hop(BOB, CAROL)) >= 0:
        arrive(cluster, MESSAGES, hop(BOB, CAROL))
    cluster.run_until_idle()


def test_figure_1_is_delivered_in_causal_order() -> None:
    cluster = cluster_of(Cykas, 3)
    run_figure_1(cluster)
    assert cluster.verdict().held
    assert cluster.delivered(CAROL) == [(ALICE, 1), (BOB, 1)]


@pytest.mark.parametrize("make", [Baseline, listing(Change.NO_SECRET_MODE)])
def test_figure_1_without_secrets_carol_reads_the_answer_first(make: Make) -> None:
    """Figure 1, left, and Figure 2, center: eager sends alone are not enough."""
    cluster = cluster_of(make, 3)
    run_figure_1(cluster)
    assert cluster.delivered(CAROL) == [(BOB, 1), (ALICE, 1)]
    assert cluster.verdict().violated() == {Property.CAUSAL}


def test_figure_2_bob_delivers_early_and_releases_late() -> None:
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
    assert bob.queued == 1
    arrive(cluster, CykasAck, hop(BOB, ALICE))
    assert find(cluster, YouCanTell, hop(ALICE, BOB)) == -1  # Carol's ack is missing.
    m1 = arrive(cluster, CykasMessage, hop(ALICE, CAROL))
    assert isinstance(m1, CykasMessage)
    assert not m1.eager
    assert bob.queued == 1
    arrive(cluster, CykasAck, hop(CAROL, ALICE))
    assert bob.queued == 1
    arrive(cluster, YouCanTell, hop(ALICE, BOB))
    assert (bob.secrets, bob.queued) == (0, 0)
    m3 = arrive(cluster, CykasMessage, hop(BOB, CAROL))
    assert isinstance(m3, CykasMessage)
    assert not m3.eager
    cluster.run_until_idle()
    assert cluster.verdict().held


def test_figure_2_the_yct_also_waits_for_the_ack_of_bob() -> None:
    cluster = cluster_of(Cykas, 3)
    cluster.send(ALICE, [CAROL])
    cluster.send(ALICE, [BOB])
    arrive(cluster, CykasMessage, hop(ALICE, CAROL))
    arrive(cluster, CykasAck, hop(CAROL, ALICE))
    assert find(cluster, YouCanTell, hop(ALICE, BOB)) == -1
    arrive(cluster, CykasMessage, hop(ALICE, BOB))
    arrive(cluster, CykasAck, hop(BOB, ALICE))
    assert find(cluster, YouCanTell, hop(ALICE, BOB)) >= 0


def test_section_2_2_1_bit_vector_of_an_eager_message() -> None:
    """The listing's EAGER_SENT is as the paper prints it: {Bob: <[001]>}."""
    cluster = cluster_of(listing(), 3)
    cluster.send(ALICE, [CAROL])
    cluster.send(ALICE, [BOB])
    alice = cast("Listing", cluster.processes[ALICE])
    assert alice.eager_sent == {BOB: [{CAROL}]}


def run_figure_3(cluster: Cluster) -> None:
    cluster.send(BOB, [ALICE], b"ns1")
    cluster.send(BOB, [CAROL], b"es1")
    arrive(cluster, CykasMessage, hop(BOB, CAROL))
    cluster.send(ALICE, [BOB], b"ns2")
    cluster.send(ALICE, [CAROL], b"es2")
    arrive(cluster, CykasMessage, hop(ALICE, CAROL))
    cluster.send(CAROL, [ALICE], b"ns3")
    if find(cluster, CykasMessage, hop(CAROL, ALICE)) >= 0:
        arrive(cluster, CykasMessage, hop(CAROL, ALICE))
    cluster.run_until_idle()


def test_figure_3_a_secret_is_kept_from_its_source_too() -> None:
    cluster = cluster_of(Cykas, 3)
    run_figure_3(cluster)
    assert cluster.delivered(ALICE) == [(BOB, 1), (CAROL, 1)]
    assert cluster.verdict().held


@pytest.mark.parametrize("change", [Change.ANSWER_THE_LATEST, Change.NO_SECRET_MODE])
def test_figure_3_answering_the_latest_secret_breaks_causal_order(change: Change) -> None:
    cluster = cluster_of(listing(change), 3)
    run_figure_3(cluster)
    assert cluster.delivered(ALICE) == [(CAROL, 1), (BOB, 1)]
    (violation,) = cluster.verdict().violations
    assert str(violation).endswith("1:1 -> 1:2 -> 2:1")


# The errors of the paper.


def test_algorithm_4_as_printed_is_stuck_after_an_ack_without_eager_messages() -> None:
    for make, held in (
        (listing(Change.RELEASE_INSIDE_THE_LOOP), False),
        (listing(), True),
        (Cykas, True),
    ):
        cluster = cluster_of(make, 2)
        cluster.send(0, [1])
        cluster.send(0, [1])
        cluster.run_until_idle()
        assert (cluster.delivered(1) == [(0, 1), (0, 2)]) is held
        assert cluster.verdict().violated() == (set() if held else {Property.LIVENESS})


def run_cleared_bit(cluster: Cluster) -> None:
    """Process 0 has sent an eager message to 1, then to 2. The ack of 1 releases another
    message to each, and 2 writes to 1 after it has delivered its own."""
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
    cluster.run_until_idle()


def test_algorithm_4_as_printed_drops_an_ack_it_waits_for() -> None:
    """Line 5 clears the bit of a message that line 8 released in an earlier iteration."""
    cluster = cluster_of(listing(Change.RELEASE_INSIDE_THE_LOOP), 3)
    run_cleared_bit(cluster)
    assert cluster.delivered(1) == [(0, 2), (2, 1), (0, 4)]
    assert cluster.verdict().violated() == {Property.CAUSAL}
    for make in (listing(), Cykas):
        cluster = cluster_of(make, 3)
        run_cleared_bit(cluster)
        assert cluster.delivered(1) == [(0, 2), (0, 4), (2, 1)]
        assert cluster.verdict().held


def run_acked_yct(cluster: Cluster) -> None:
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
    cluster.run_until_idle()


def test_section_2_1_the_ack_of_a_yct_counts_as_that_of_a_message() -> None:
    cluster = cluster_of(listing(Change.ACK_EVERYTHING), 3)
    run_acked_yct(cluster)
    assert cluster.delivered(1) == [(0, 2), (0, 4), (0, 3)]
    assert cluster.verdict().violated() == {Property.CAUSAL, Property.FIFO}
    cluster = cluster_of(Cykas, 3)
    run_acked_yct(cluster)
    assert cluster.verdict().held


# Claims of the hybrid-buffering paper.


def exchange(cluster: Cluster, one: int, other: int) -> None:
    """Let all packets between two processes arrive, until none is in flight."""
    while True:
        between = [
            index
            for index, packet in enumerate(cluster.in_flight)
            if {packet.source, packet.target} == {one, other}
        ]
        if not between:
            return
        cluster.arrive(between[0])


def run_taking_turns(cluster: Cluster, turns: int) -> Iterator[int]:
    """Processes 1 and 2 take turns to write to 0, each after a message to 3 or 4 that
    arrives only after the other's next message to 0. In the first turn, 0 writes to 5."""
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
    """Almeida §4.3, against Lemma 3.5: every YCT arrives, and MODE is never 0."""
    turns = 200
    cluster = cluster_of(Cykas, 6)
    starved = cast("Cykas", cluster.processes[0])
    for turn in run_taking_turns(cluster, turns):
        assert starved.secrets == 1
        assert starved.queued == 1
        # The only frame in flight was transmitted in this turn.
        assert len(cluster.in_flight) == 1
        assert len(cluster.delivered(0)) == turn + 1
    assert cluster.delivered(5) == []
    cluster.run_until_idle()  # The message is delivered only after the writers stop.
    assert cluster.delivered(5) == [(0, 1)]
    assert cluster.verdict().held

    cluster = Cluster("hybrid", 6)
    delivered = [len(cluster.delivered(5)) for _ in run_taking_turns(cluster, turns)]
    assert delivered == [0] + [1] * (turns - 1)
    cluster.run_until_idle()
    assert cluster.verdict().held


def test_almeida_figure_2_cykas_waits_for_a_message_that_came_after_the_send() -> None:
    """m is sent after a and b; c, which arrives later, blocks it as well."""
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
    assert (process.secrets, process.queued) == (1, 1)  # a and b are no longer secret.
    exchange(cluster, k, x)
    exchange(cluster, k, i)
    assert (process.secrets, process.queued) == (0, 0)
    cluster.run_until_idle()
    assert cluster.verdict().held


# Random runs.


def run_randomly(cluster: Cluster, random: Random, steps: int) -> None:
    """Send messages and let packets arrive in any order; some hops are very slow."""
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


def find_violations(
    make: Make, seeds: int, *, expected: frozenset[Property] = frozenset(Property)
) -> dict[Property, int]:
    """Return the first seed that violates each property; stop when all expected are."""
    violated: dict[Property, int] = {}
    for seed in range(seeds):
        random = Random(seed)
        cluster = cluster_of(make, random.randint(3, 5))
        run_randomly(cluster, random, 100)
        cluster.run_until_idle(random)
        for each in cluster.verdict().violated():
            violated.setdefault(each, seed)
        if expected <= violated.keys():
            break
    return violated


@pytest.mark.long
def test_random_runs_are_causal_and_live_when_frames_overtake() -> None:
    assert find_violations(Cykas, 1500) == {}


@pytest.mark.long
def test_corrected_listing_is_causal_and_live() -> None:
    assert find_violations(listing(), 400) == {}


VIOLATED = {
    Change.RELEASE_INSIDE_THE_LOOP: {Property.LIVENESS, Property.CAUSAL},
    Change.ACK_EVERYTHING: {Property.CAUSAL, Property.FIFO},
    Change.ANSWER_THE_LATEST: {Property.CAUSAL},
    Change.NO_SECRET_MODE: {Property.CAUSAL},
    Change.MODE_IS_A_FLAG: {Property.CAUSAL},
    Change.TELL_WITHOUT_OWN_ACK: {Property.CAUSAL},
    Change.TELL_AT_OWN_ACK: {Property.CAUSAL},
    Change.PIPELINE: {Property.CAUSAL, Property.FIFO},
    Change.OVERTAKE_IN_THE_BUFFER: {Property.CAUSAL},
    Change.NEVER_TELL_TWICE: {Property.LIVENESS},
}


@pytest.mark.long
@pytest.mark.parametrize("change", Change, ids=lambda change: change.name)
def test_random_runs_catch_every_wrong_variant(change: Change) -> None:
    expected = frozenset(VIOLATED[change])
    violated = find_violations(listing(change), 1500, expected=expected)
    assert expected <= violated.keys()


@pytest.mark.long
@given(schedule=schedules(3, faults=False), order=st.randoms(use_true_random=False))
def test_causal_and_live_on_a_bare_network_that_reorders(
    schedule: list[Step], order: Random
) -> None:
    cluster = cluster_of(Cykas, 3)
    run_schedule(cluster, schedule)
    assert cluster.verdict(complete=False).held
    cluster.run_until_idle(order)
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
        run_schedule(cluster, schedule)
        assert cluster.verdict(complete=False).held, f"seed {seed}"
        cluster.run_until_idle(random)
        assert cluster.verdict().held, f"seed {seed}"


class Lockstep:
    """A process of the package and one of the listing, whose outputs must be equal."""

    def __init__(self, id: ProcessId) -> None:
        self.id = id
        self.cykas = Cykas(id)
        self.listing = Listing(id)

    def frames_to_transmit(self) -> list[Transmit]:
        ours = self.cykas.frames_to_transmit()
        expected = self.listing.frames_to_transmit()
        assert per_target(ours) == per_target(expected)
        assert self.cykas.secrets == self.listing.mode
        assert self.cykas.queued == len(self.listing.ob)
        return ours


def per_target(transmits: list[Transmit]) -> dict[ProcessId, list[bytes]]:
    """Group the encoded frames by target; only their order per target matters."""
    frames: dict[ProcessId, list[bytes]] = {}
    for transmit in transmits:
        frames.setdefault(transmit.target, []).append(encode([transmit.frame]))
    return frames


@pytest.mark.long
def test_every_step_has_the_same_outputs_as_the_corrected_listing() -> None:
    """The window in place of the bit vectors does not change the outputs."""
    for seed in range(400):
        random = Random(seed)
        pairs = [Lockstep(ProcessId(index)) for index in range(random.randint(3, 6))]
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
            ours, expected = (
                [str(delivery) for delivery in process.messages_to_deliver()]
                for process in (pair.cykas, pair.listing)
            )
            assert ours == expected
            in_flight += [(pair.id, out) for out in pair.frames_to_transmit()]


def test_at_most_one_message_or_its_ack_is_in_flight_between_a_pair() -> None:
    for seed in range(100):
        random = Random(seed)
        cluster = cluster_of(Cykas, 4)
        for _ in range(40):
            run_randomly(cluster, random, 3)
            hops = [
                (p.source, p.target)
                if isinstance(p.frame, CykasMessage)
                else (p.target, p.source)
                for p in cluster.in_flight
                if not isinstance(p.frame, YouCanTell)
            ]
            assert len(hops) == len(set(hops))


def test_idle_process_keeps_no_message() -> None:
    for seed in range(50):
        random = Random(seed)
        cluster = cluster_of(Cykas, 4)
        run_randomly(cluster, random, 100)
        cluster.send(0, [1])
        assert "'_Sent'" in str([snapshot(process) for process in cluster.processes])
        cluster.run_until_idle(random)
        state = str([snapshot(process) for process in cluster.processes])
        assert "'_Sent'" not in state
        assert all(cast("Cykas", process).secrets == 0 for process in cluster.processes)


def test_the_same_schedule_gives_the_same_history() -> None:
    histories = []
    for _ in range(2):
        random = Random(7)
        cluster = cluster_of(linked, 5)
        run_schedule(
            cluster,
            random_schedule(random, processes=5, steps=300, loss=0.1, seconds=(1.0,)),
        )
        cluster.run_until_idle()
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
    assert (transmit.target, transmit.is_retransmission) == (1, False)


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
    """Process 0: 1:4 is secret; 0:1 and 0:2 are in flight; 0:3 and 0:4 are queued."""
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
    ("targets", "payload", "now", "match"),
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
def test_invalid_send_raises_local_error_and_changes_nothing(
    targets: object, payload: object, now: float, match: str
) -> None:
    process = busy_process()
    before = snapshot(process)
    with pytest.raises(LocalError, match=match):
        process.send(cast("list[ProcessId]", targets), payload, now)
    assert snapshot(process) == before


@pytest.mark.parametrize(
    ("source", "frame", "match"),
    [
        (1, CykasMessage(0, False, b""), "number must be at least 1"),
        (7, CykasMessage(0, True, b""), "number must be at least 1"),
        (1, CykasMessage(4, True, b""), "arrived after message 4"),
        (1, CykasMessage(3, False, b""), "arrived after message 4"),
        (3, CykasAck(), "no message to it is in flight"),  # 0:4 has not been released.
        (7, CykasAck(), "no message to it is in flight"),
        (2, YouCanTell(), "no message of it is secret"),
        (7, YouCanTell(), "no message of it is secret"),
        (1, BaselineMessage(5, b""), "not a frame of this protocol"),
        (1, Ack(1, 1), "not a frame of this protocol"),
        (1, Permit(1), "not a frame of this protocol"),
        (1, Segment(1, 0, CykasAck()), "not a frame of this protocol"),
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


def test_a_second_ack_or_yct_is_refused() -> None:
    process = busy_process()
    process.receive(ProcessId(2), CykasAck(), 1.0)
    process.receive(ProcessId(1), YouCanTell(), 1.0)
    process.receive(ProcessId(2), CykasAck(), 1.0)  # Of 0:3, which has been released.
    before = snapshot(process)
    with pytest.raises(PeerError, match="no message to it is in flight"):
        process.receive(ProcessId(2), CykasAck(), 1.0)
    with pytest.raises(PeerError, match="no message of it is secret"):
        process.receive(ProcessId(1), YouCanTell(), 1.0)
    assert snapshot(process) == before


def test_other_invalid_calls_raise_local_error_and_change_nothing() -> None:
    process = busy_process()
    before = snapshot(process)
    with pytest.raises(LocalError, match="source 0 is this process itself"):
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
def test_frames_have_the_documented_bytes(frame: Frame, hexadecimal: str) -> None:
    datagram = encode([frame])
    assert datagram[1:] == bytes.fromhex(hexadecimal)
    assert len(datagram) == 1 + frame.size()
    assert datagram[1] >> 4 == frame.kind()


@pytest.mark.long
@given(
    number=st.integers(1, NUMBER_MAX) | st.sampled_from((255, 256, 65_535, 65_536)),
    eager=st.booleans(),
    payload=st.binary(max_size=300),
)
def test_frames_are_decoded_as_they_were_encoded(
    number: int, eager: bool, payload: bytes
) -> None:
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
def test_invalid_bytes_are_refused(hexadecimal: str) -> None:
    with pytest.raises(PeerError):
        decode(bytes.fromhex(hexadecimal), read_cykas)


def test_repr_shows_the_fields() -> None:
    message = CykasMessage(3, True, b"hi")
    assert str(message) == "CykasMessage(eager=True, number=3, payload=2 B)"
    assert (str(CykasAck()), str(YouCanTell())) == ("CykasAck()", "YouCanTell()")
