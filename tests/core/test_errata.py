"""Each erratum of docs/explanation/errata.md: the listing, the repair, and antecede.

A schedule runs on the listing with all earlier errata repaired, on the listing with this
one repaired, too, and on antecede.
"""

from collections import Counter, defaultdict
from random import Random

import pytest

from antecede.core.protocols.hybrid.frames import MessageFrame
from antecede.errors import LocalError
from antecede.verify import Property
from tests.listings import AntecedeRun, Network, Packet, Per, Run, run_steps
from tests.listings.almeida import (
    Algorithm1,
    Algorithm2,
    Algorithm3,
    Repair,
    before,
)

Listed = type[Algorithm1]
LIVENESS = frozenset({Property.LIVENESS})
BOTH = pytest.mark.parametrize(
    ("listed", "name"), [(Algorithm1, "hybrid-basic"), (Algorithm2, "hybrid")]
)


def network(listed: Listed, repairs: frozenset[Repair], processes: int = 3) -> Network:
    return Network([listed(i, repairs) for i in range(processes)])


def printed(listed: Listed, repair: Repair) -> Network:
    return network(listed, before(repair))


def repaired(listed: Listed, repair: Repair) -> Network:
    return network(listed, before(repair) | {repair})


def repaired_and_ours(listed: Listed, repair: Repair, *names: str) -> list[Run]:
    return [repaired(listed, repair), *[AntecedeRun(name) for name in names]]


@BOTH
def test_first_message_counts_as_a_duplicate_if_numbers_start_at_0(
    listed: Listed, name: str
) -> None:
    schedule = "send 0 1, send 0 1, idle, tick, idle"
    # Without the repair of erratum 2 the run would fail at the supposed duplicate.
    zero = network(listed, frozenset({Repair.ACK_THE_DUPLICATE}))
    run_steps(zero, schedule)
    assert zero.delivered(1) == [(0, 2)]
    assert zero.verdict().violated() == LIVENESS
    one = network(listed, frozenset({Repair.ACK_THE_DUPLICATE, Repair.NUMBER_FROM_ONE}))
    for run in (one, AntecedeRun(name)):
        run_steps(run, schedule)
        assert run.delivered(1) == [(0, 1), (0, 2)]


@BOTH
def test_two_messages_have_the_same_predecessor_if_numbers_start_at_0(
    listed: Listed, name: str
) -> None:
    zero, one = network(listed, frozenset()), repaired(listed, Repair.NUMBER_FROM_ONE)
    ours = AntecedeRun(name)
    for run in (zero, one, ours):
        run_steps(run, "send 0 1, send 0 1")
    assert [packet.pid for packet in zero.in_flight] == [0, 0]
    assert [packet.pid for packet in one.in_flight] == [0, 1]
    frames = [packet.frame for packet in ours.cluster.in_flight]
    assert [f.predecessor for f in frames if isinstance(f, MessageFrame)] == [0, 1]


@BOTH
def test_ack_of_a_duplicate_names_an_unbound_variable(listed: Listed, name: str) -> None:
    schedule = "send 0 1, duplicate MSG 0 1, idle"
    with pytest.raises(NameError, match="'b'"):
        run_steps(printed(listed, Repair.ACK_THE_DUPLICATE), schedule)
    for run in repaired_and_ours(listed, Repair.ACK_THE_DUPLICATE, name):
        run_steps(run, schedule)
        assert run.delivered(1) == [(0, 1)]
        assert run.verdict().held


@BOTH
def test_permit_that_overtakes_its_message_is_forgotten(listed: Listed, name: str) -> None:
    schedule = "send 0 2, send 0 1, MSG 0 2, ACK 2 0, PERMIT 0 1, MSG 0 1, send 1 2, idle"
    # All repairs of 1 to 7 except this one: erratum 7 hides it, and 4 prevents recovery.
    forgetful = network(
        listed, before(Repair.SEPARATE_REQUEST) - {Repair.REMEMBER_EARLY_PERMITS}
    )
    run_steps(forgetful, schedule)
    assert forgetful.delivered(2) == [(0, 1)]
    assert forgetful.verdict().violated() == LIVENESS
    run_steps(forgetful, "tick, idle")
    assert forgetful.delivered(2) == [(0, 1), (1, 1)]
    for run in repaired_and_ours(listed, Repair.REMEMBER_EARLY_PERMITS, name):
        run_steps(run, schedule)
        assert run.delivered(2) == [(0, 1), (1, 1)]


def test_flag_of_a_released_message_is_compared_with_a_permit_index() -> None:
    schedule = "send 0 2, send 0 1, MSG 0 1, send 1 0, MSG 0 2, ACK 2 0, PERMIT 0 1"
    with pytest.raises(TypeError, match="'Flag' and 'int'"):
        run_steps(printed(Algorithm2, Repair.SEPARATE_FLAG), schedule)
    for run in repaired_and_ours(Algorithm2, Repair.SEPARATE_FLAG, "hybrid"):
        run_steps(run, schedule)
        run_steps(run, "idle")
        assert run.verdict().held


def test_second_message_to_the_same_process_needs_a_permit_that_is_never_sent() -> None:
    run: Run = printed(Algorithm2, Repair.ADVANCE_U2)
    run_steps(run, "send 0 1, send 0 1")
    assert run.needs_permit(0, 1) == [False, True]
    run_steps(run, "idle, send 1 2, idle")
    assert run.delivered(2) == []
    assert run.verdict().violated() == LIVENESS
    for run in repaired_and_ours(Algorithm2, Repair.ADVANCE_U2, "hybrid"):
        run_steps(run, "send 0 1, send 0 1")
        assert run.needs_permit(0, 1) == [False, False]
        run_steps(run, "idle, send 1 2, idle")
        assert run.delivered(2) == [(1, 1)]


def test_m2_points_at_a_message_that_has_left_the_buffer() -> None:
    schedule = "send 1 2, idle, send 0 2, send 0 1, idle"
    with pytest.raises(IndexError, match="1 is not in"):
        run_steps(printed(Algorithm2, Repair.CLAMP_M2), schedule)
    for run in repaired_and_ours(Algorithm2, Repair.CLAMP_M2, "hybrid"):
        run_steps(run, schedule)
        assert run.verdict().held


def test_same_permit_is_sent_twice() -> None:
    runs: list[Run] = [printed(Algorithm2, Repair.PERMIT_ONCE)]
    runs += repaired_and_ours(Algorithm2, Repair.PERMIT_ONCE, "hybrid")
    permits = []
    for run in runs:
        run_steps(run, "send 0 2, send 0 1, MSG 0 2, ACK 2 0")
        permits.append(run.count("PERMIT", 0, 1))
    assert permits == [2, 1, 1]


def test_request_for_a_lost_permit_is_ignored_while_an_earlier_ack_is_missing() -> None:
    schedule = (
        "send 0 1, send 0 2, send 0 1, MSG 0 1, drop ACK 1 0, MSG 0 1, drop ACK 1 0,"
        "MSG 0 2, ACK 2 0, drop PERMIT 0 1, send 1 2, tick"
    )
    ignoring = printed(Algorithm2, Repair.SEPARATE_REQUEST)
    run_steps(ignoring, schedule)
    run_steps(ignoring, "ACK 1 0")
    assert ignoring.count("PERMIT", 0, 1) == 0
    for run in repaired_and_ours(Algorithm2, Repair.SEPARATE_REQUEST, "hybrid"):
        run_steps(run, schedule)
        run_steps(run, "REQUEST 1 0, PERMIT 0 1")
        assert run.count("MSG", 1, 2) == 1
        run_steps(run, "idle")
        assert run.verdict().held


class Algorithm1CumulativeAcks(Algorithm1):
    """Algorithm 1 with one cumulative ack per sender as the request for all permits."""

    def ask_by_ack(self) -> None:
        for snd in sorted({per.snd for per in self.p}):
            self.send(snd, "ACK", self.ld[snd])


def test_cumulative_ack_is_no_request_for_an_earlier_permit() -> None:
    schedule = (
        "send 0 2, send 0 1, MSG 0 2, ACK 2 0, drop PERMIT 0 1, MSG 0 1, ACK 1 0,"
        "send 1 2, send 0 2, send 0 1, MSG 0 1, ACK 1 0, tick"
    )
    one_by_one = printed(Algorithm1, Repair.SEPARATE_REQUEST)
    cumulative = printed(Algorithm1CumulativeAcks, Repair.SEPARATE_REQUEST)
    for run, permits in ((one_by_one, 1), (cumulative, 0)):
        run_steps(run, schedule)
        run_steps(run, "ACK 1 0")
        assert run.count("PERMIT", 0, 1) == permits
    run_steps(cumulative, "idle, tick, idle, tick, idle")
    assert cumulative.delivered(2) == [(0, 1), (0, 3)]
    assert cumulative.verdict().violated() == LIVENESS
    for each in repaired_and_ours(
        Algorithm1CumulativeAcks, Repair.SEPARATE_REQUEST, "hybrid-basic", "hybrid"
    ):
        run_steps(each, schedule)
        run_steps(each, "REQUEST 1 0, PERMIT 0 1")
        assert each.count("MSG", 1, 2) == 1
        run_steps(each, "idle")
        assert each.verdict().held


class Algorithm3Lowest(Algorithm3):
    """Algorithm 3, read so that ``pid`` is the lowest of the receivers' predecessors."""

    pick_pid = "lowest"


@pytest.mark.parametrize(
    ("listed", "at_1", "at_2"),
    [(Algorithm3, [(0, 1), (0, 2)], []), (Algorithm3Lowest, [(0, 1)], [(0, 2)])],
)
def test_one_predecessor_for_all_receivers_blocks_one_of_them(
    listed: Listed, at_1: list[tuple[int, int]], at_2: list[tuple[int, int]]
) -> None:
    schedule = "send 0 1, send 0 1 2, idle, tick, idle, tick"
    run: Run = printed(listed, Repair.PREDECESSOR_PER_RECEIVER)
    run_steps(run, schedule)
    assert (run.delivered(1), run.delivered(2)) == (at_1, at_2)
    assert run.verdict().violated() == LIVENESS
    for run in repaired_and_ours(
        listed, Repair.PREDECESSOR_PER_RECEIVER, "hybrid-basic", "hybrid"
    ):
        run_steps(run, schedule)
        assert (run.delivered(1), run.delivered(2)) == ([(0, 1), (0, 2)], [(0, 2)])


def test_lowest_predecessor_for_all_receivers_loses_an_overtaken_message() -> None:
    schedule = "send 0 1, drop MSG 0 1, send 0 1 2, MSG 0 1"
    run: Run = printed(Algorithm3Lowest, Repair.PREDECESSOR_PER_RECEIVER)
    run_steps(run, schedule)
    assert run.delivered(1) == [(0, 2)]
    run_steps(run, "idle, tick, idle, tick, idle")
    assert run.delivered(1) == [(0, 2)]
    assert run.verdict().violated() == LIVENESS
    for run in repaired_and_ours(
        Algorithm3Lowest, Repair.PREDECESSOR_PER_RECEIVER, "hybrid-basic", "hybrid"
    ):
        run_steps(run, schedule)
        assert run.delivered(1) == []
        run_steps(run, "idle, tick, idle")
        assert run.delivered(1) == [(0, 1), (0, 2)]


def test_permit_waits_for_the_ack_of_its_own_receiver() -> None:
    schedule = "send 0 1 2, MSG 0 1, send 1 2, MSG 0 2, ACK 2 0"
    late = printed(Algorithm3, Repair.PERMIT_THE_LAST_UNACKED)
    run_steps(late, schedule)
    assert late.count("PERMIT", 0, 1) == 0
    run_steps(late, "ACK 1 0")
    assert late.count("PERMIT", 0, 1) == 1
    for run in repaired_and_ours(
        Algorithm3, Repair.PERMIT_THE_LAST_UNACKED, "hybrid-basic", "hybrid"
    ):
        run_steps(run, schedule)
        run_steps(run, "PERMIT 0 1, MSG 1 2")
        assert run.delivered(2) == [(0, 1), (1, 1)]


@BOTH
def test_retransmission_still_needs_a_permit_although_it_is_covered(
    listed: Listed, name: str
) -> None:
    schedule = "send 0 2, send 0 1, drop MSG 0 1, MSG 0 2, ACK 2 0, drop PERMIT 0 1, tick"
    stale = printed(listed, Repair.FRESH_FLAG)
    run_steps(stale, schedule)
    assert stale.needs_permit(0, 1) == [True]
    run_steps(stale, "MSG 0 1, send 1 2")
    assert stale.count("MSG", 1, 2) == 0
    for run in repaired_and_ours(listed, Repair.FRESH_FLAG, name):
        run_steps(run, schedule)
        assert run.needs_permit(0, 1) == [False]
        run_steps(run, "MSG 0 1, send 1 2, MSG 1 2")
        assert run.delivered(2) == [(0, 1), (1, 1)]


def test_every_permit_scans_the_whole_buffer_if_m2_does_not_move() -> None:
    unacked, permits = 50, 20
    round_of_0 = "send 0 3, send 0 1, MSG 0 1, MSG 0 3, ACK 3 0, PERMIT 0 1, ACK 1 0"
    schedule = ", ".join(["send 1 2"] * unacked + [round_of_0] * permits)
    visits: list[int] = []
    for repairs in (before(Repair.MOVE_M2_WHEN_EMPTY), frozenset(Repair)):
        processes = [Algorithm2(i, repairs) for i in range(4)]
        run_steps(Network(processes), schedule)
        visits.append(processes[1].visits)
    # Every message is visited once when it is sent.
    assert visits == [unacked + unacked * permits, unacked + unacked]
    ours = AntecedeRun("hybrid", 4)
    run_steps(ours, schedule)
    run_steps(ours, "idle")
    assert ours.verdict().held


def test_multicast_without_receivers_blocks_every_later_permit() -> None:
    later = "send 0 2, send 0 1, idle, send 1 2, idle, tick, idle, tick, idle"
    run: Run = printed(Algorithm3, Repair.REFUSE_EMPTY_TARGETS)
    run_steps(run, "send 0")
    run_steps(run, later)
    assert run.delivered(2) == [(0, 2)]
    assert run.verdict().violated() == LIVENESS
    for run in repaired_and_ours(
        Algorithm3, Repair.REFUSE_EMPTY_TARGETS, "hybrid-basic", "hybrid"
    ):
        with pytest.raises(LocalError):
            run_steps(run, "send 0")
        run_steps(run, later)
        assert run.delivered(2) == [(0, 1), (1, 1)]


class PlainSps:
    """SPS by its definition (§4.2, §5.6), for a network without loss or duplicates."""

    def __init__(self, i: int) -> None:
        self.i = i
        self.sent: dict[int, tuple[int, int, frozenset[Per]]] = {}
        """By number: the receiver, the predecessor, and the permits missing at the send."""
        self.last: defaultdict[int, int] = defaultdict(int)
        self.acked: set[int] = set()
        self.released: dict[int, bool] = {}
        """By number: whether its permit must still be sent."""
        self.missing: set[Per] = set()
        self.outbox: list[Packet] = []

    def causal_send(self, j: int) -> None:
        number = len(self.sent) + 1
        self.sent[number] = (j, self.last[j], frozenset(self.missing))
        self.last[j] = number
        self.step()

    def step(self) -> None:
        """Release messages and send permits where possible, in order."""
        for number, (j, pid, permits) in self.sent.items():
            others = (k for k, (to, _, _) in self.sent.items() if k < number and to != j)
            needs = any(k not in self.acked for k in others)
            if number not in self.released:
                if not any(per.snd != j for per in permits & self.missing):
                    self.released[number] = needs
                    self.outbox.append(Packet("MSG", self.i, j, number, pid, needs))
            elif self.released[number] and not needs:
                self.released[number] = False
                self.outbox.append(Packet("PERMIT", self.i, j, number))


def lockstep(seed: int, repairs: frozenset[Repair]) -> int:
    """Compare Algorithm 2 with the plain rule; return the number of repeated permits."""
    random = Random(seed)
    listed = [Algorithm2(i, repairs) for i in range(random.randint(2, 6))]
    plain = [PlainSps(i) for i in range(len(listed))]
    sends, repeats = 40, 0
    in_flight: list[Packet] = []
    while sends or in_flight:
        if sends and (not in_flight or random.random() < 0.3):
            sends -= 1
            i, j = random.sample(range(len(listed)), 2)
            listed[i].causal_send(frozenset({j}))
            plain[i].causal_send(j)
        else:
            packet = in_flight.pop(random.randrange(len(in_flight)))
            i, j, number = packet.target, packet.source, packet.number
            if packet.kind == "MSG":
                listed[i].receive_msg(j, packet)
            elif packet.kind == "ACK":
                listed[i].receive_ack(j, number)
                plain[i].acked.add(number)
            else:
                listed[i].receive_permit(j, number)
            plain[i].missing = set(listed[i].p)
            plain[i].step()
        printed = Counter(each for each in listed[i].outbox if each.kind != "ACK")
        assert set(printed) == set(plain[i].outbox), f"seed {seed}"
        assert min(listed[i].m1, listed[i].u2) >= listed[i].u.first, f"seed {seed}"
        repeats += printed.total() - len(plain[i].outbox)
        in_flight += dict.fromkeys(listed[i].outbox)
        listed[i].outbox.clear()
        plain[i].outbox.clear()
    return repeats


def test_repaired_algorithm_2_sends_the_same_packets_as_the_plain_rule() -> None:
    repeating, repaired_set = before(Repair.PERMIT_ONCE), before(Repair.SEPARATE_REQUEST)
    assert sum(lockstep(seed, repeating) for seed in range(50)) > 0
    assert sum(lockstep(seed, repaired_set) for seed in range(50)) == 0
