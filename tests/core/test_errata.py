"""Each erratum of docs/explanation/errata.md: what the listing does, the repair, and our protocols.

A schedule is played on the listing with all earlier errata mended, on the listing with
this one mended too, and on antecede.
"""

from collections import Counter, defaultdict
from random import Random

import pytest

from antecede.core.protocols.hybrid.frames import MessageFrame
from antecede.errors import LocalError
from antecede.verify import Property
from tests.listings import Network, Ours, Packet, Per, Run, play
from tests.listings.almeida import (
    Algorithm1,
    Algorithm2,
    Algorithm3,
    Mend,
    before,
)

Listed = type[Algorithm1]
LIVENESS = frozenset({Property.LIVENESS})
BOTH = pytest.mark.parametrize(
    ("listed", "name"), [(Algorithm1, "hybrid-basic"), (Algorithm2, "hybrid")]
)


def network(listed: Listed, mends: frozenset[Mend], processes: int = 3) -> Network:
    return Network([listed(i, mends) for i in range(processes)])


def printed(listed: Listed, mend: Mend) -> Network:
    return network(listed, before(mend))


def mended(listed: Listed, mend: Mend) -> Network:
    return network(listed, before(mend) | {mend})


def mended_and_ours(listed: Listed, mend: Mend, *names: str) -> list[Run]:
    return [mended(listed, mend), *[Ours(name) for name in names]]


@BOTH
def test_first_message_is_taken_for_a_duplicate_when_numbered_from_zero(
    listed: Listed, name: str
) -> None:
    schedule = "send 0 1, send 0 1, rest, tick, rest"
    # Without erratum 2 mended the run would stop at the supposed duplicate.
    zero = network(listed, frozenset({Mend.ACK_THE_DUPLICATE}))
    play(zero, schedule)
    assert zero.delivered(1) == [(0, 2)]
    assert zero.verdict().violated() == LIVENESS
    one = network(listed, frozenset({Mend.ACK_THE_DUPLICATE, Mend.NUMBER_FROM_ONE}))
    for run in (one, Ours(name)):
        play(run, schedule)
        assert run.delivered(1) == [(0, 1), (0, 2)]


@BOTH
def test_two_messages_share_a_predecessor_when_numbered_from_zero(
    listed: Listed, name: str
) -> None:
    zero, one = network(listed, frozenset()), mended(listed, Mend.NUMBER_FROM_ONE)
    ours = Ours(name)
    for run in (zero, one, ours):
        play(run, "send 0 1, send 0 1")
    assert [packet.pid for packet in zero.in_flight] == [0, 0]
    assert [packet.pid for packet in one.in_flight] == [0, 1]
    frames = [packet.frame for packet in ours.cluster.in_flight]
    assert [f.predecessor for f in frames if isinstance(f, MessageFrame)] == [0, 1]


@BOTH
def test_ack_of_a_duplicate_names_an_unbound_variable(listed: Listed, name: str) -> None:
    schedule = "send 0 1, duplicate MSG 0 1, rest"
    with pytest.raises(NameError, match="'b'"):
        play(printed(listed, Mend.ACK_THE_DUPLICATE), schedule)
    for run in mended_and_ours(listed, Mend.ACK_THE_DUPLICATE, name):
        play(run, schedule)
        assert run.delivered(1) == [(0, 1)]
        assert run.verdict().held


@BOTH
def test_permit_that_overtakes_its_message_is_forgotten(listed: Listed, name: str) -> None:
    schedule = "send 0 2, send 0 1, MSG 0 2, ACK 2 0, PERMIT 0 1, MSG 0 1, send 1 2, rest"
    # All of 1 to 7 but this one: later errata hide it (7) or stop its rescue (4).
    forgetful = network(
        listed, before(Mend.SEPARATE_REQUEST) - {Mend.REMEMBER_EARLY_PERMITS}
    )
    play(forgetful, schedule)
    assert forgetful.delivered(2) == [(0, 1)]
    assert forgetful.verdict().violated() == LIVENESS
    play(forgetful, "tick, rest")
    assert forgetful.delivered(2) == [(0, 1), (1, 1)]
    for run in mended_and_ours(listed, Mend.REMEMBER_EARLY_PERMITS, name):
        play(run, schedule)
        assert run.delivered(2) == [(0, 1), (1, 1)]


def test_flag_of_a_released_message_is_compared_with_a_permit_index() -> None:
    schedule = "send 0 2, send 0 1, MSG 0 1, send 1 0, MSG 0 2, ACK 2 0, PERMIT 0 1"
    with pytest.raises(TypeError, match="'Flag' and 'int'"):
        play(printed(Algorithm2, Mend.SEPARATE_FLAG), schedule)
    for run in mended_and_ours(Algorithm2, Mend.SEPARATE_FLAG, "hybrid"):
        play(run, schedule)
        play(run, "rest")
        assert run.verdict().held


def test_second_message_to_the_same_process_is_flagged_for_a_permit_nobody_sends() -> None:
    run: Run = printed(Algorithm2, Mend.ADVANCE_U2)
    play(run, "send 0 1, send 0 1")
    assert run.needs_permit(0, 1) == [False, True]
    play(run, "rest, send 1 2, rest")
    assert run.delivered(2) == []
    assert run.verdict().violated() == LIVENESS
    for run in mended_and_ours(Algorithm2, Mend.ADVANCE_U2, "hybrid"):
        play(run, "send 0 1, send 0 1")
        assert run.needs_permit(0, 1) == [False, False]
        play(run, "rest, send 1 2, rest")
        assert run.delivered(2) == [(1, 1)]


def test_m2_points_at_a_message_that_has_left_the_buffer() -> None:
    schedule = "send 1 2, rest, send 0 2, send 0 1, rest"
    with pytest.raises(IndexError, match="1 is not in"):
        play(printed(Algorithm2, Mend.CLAMP_M2), schedule)
    for run in mended_and_ours(Algorithm2, Mend.CLAMP_M2, "hybrid"):
        play(run, schedule)
        assert run.verdict().held


def test_same_permit_is_sent_twice() -> None:
    runs: list[Run] = [printed(Algorithm2, Mend.PERMIT_ONCE)]
    runs += mended_and_ours(Algorithm2, Mend.PERMIT_ONCE, "hybrid")
    permits = []
    for run in runs:
        play(run, "send 0 2, send 0 1, MSG 0 2, ACK 2 0")
        permits.append(run.count("PERMIT", 0, 1))
    assert permits == [2, 1, 1]


def test_lost_permit_is_asked_for_in_vain_while_an_earlier_ack_is_missing() -> None:
    schedule = (
        "send 0 1, send 0 2, send 0 1, MSG 0 1, lose ACK 1 0, MSG 0 1, lose ACK 1 0,"
        "MSG 0 2, ACK 2 0, lose PERMIT 0 1, send 1 2, tick"
    )
    vain = printed(Algorithm2, Mend.SEPARATE_REQUEST)
    play(vain, schedule)
    play(vain, "ACK 1 0")
    assert vain.count("PERMIT", 0, 1) == 0
    for run in mended_and_ours(Algorithm2, Mend.SEPARATE_REQUEST, "hybrid"):
        play(run, schedule)
        play(run, "REQUEST 1 0, PERMIT 0 1")
        assert run.count("MSG", 1, 2) == 1
        play(run, "rest")
        assert run.verdict().held


class Algorithm1CumulativeAcks(Algorithm1):
    """Algorithm 1 with a tempting saving: one ack per sender stands for all it owes."""

    def ask_by_ack(self) -> None:
        for snd in sorted({per.snd for per in self.p}):
            self.send(snd, "ACK", self.ld[snd])


def test_cumulative_ack_is_no_request_for_an_earlier_permit() -> None:
    schedule = (
        "send 0 2, send 0 1, MSG 0 2, ACK 2 0, lose PERMIT 0 1, MSG 0 1, ACK 1 0,"
        "send 1 2, send 0 2, send 0 1, MSG 0 1, ACK 1 0, tick"
    )
    one_by_one = printed(Algorithm1, Mend.SEPARATE_REQUEST)
    cumulative = printed(Algorithm1CumulativeAcks, Mend.SEPARATE_REQUEST)
    for run, permits in ((one_by_one, 1), (cumulative, 0)):
        play(run, schedule)
        play(run, "ACK 1 0")
        assert run.count("PERMIT", 0, 1) == permits
    play(cumulative, "rest, tick, rest, tick, rest")
    assert cumulative.delivered(2) == [(0, 1), (0, 3)]
    assert cumulative.verdict().violated() == LIVENESS
    for each in mended_and_ours(
        Algorithm1CumulativeAcks, Mend.SEPARATE_REQUEST, "hybrid-basic", "hybrid"
    ):
        play(each, schedule)
        play(each, "REQUEST 1 0, PERMIT 0 1")
        assert each.count("MSG", 1, 2) == 1
        play(each, "rest")
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
    schedule = "send 0 1, send 0 1 2, rest, tick, rest, tick"
    run: Run = printed(listed, Mend.PREDECESSOR_PER_RECEIVER)
    play(run, schedule)
    assert (run.delivered(1), run.delivered(2)) == (at_1, at_2)
    assert run.verdict().violated() == LIVENESS
    for run in mended_and_ours(
        listed, Mend.PREDECESSOR_PER_RECEIVER, "hybrid-basic", "hybrid"
    ):
        play(run, schedule)
        assert (run.delivered(1), run.delivered(2)) == ([(0, 1), (0, 2)], [(0, 2)])


def test_lowest_predecessor_for_all_receivers_lets_a_message_overtake_for_good() -> None:
    schedule = "send 0 1, lose MSG 0 1, send 0 1 2, MSG 0 1"
    run: Run = printed(Algorithm3Lowest, Mend.PREDECESSOR_PER_RECEIVER)
    play(run, schedule)
    assert run.delivered(1) == [(0, 2)]
    play(run, "rest, tick, rest, tick, rest")
    assert run.delivered(1) == [(0, 2)]
    assert run.verdict().violated() == LIVENESS
    for run in mended_and_ours(
        Algorithm3Lowest, Mend.PREDECESSOR_PER_RECEIVER, "hybrid-basic", "hybrid"
    ):
        play(run, schedule)
        assert run.delivered(1) == []
        play(run, "rest, tick, rest")
        assert run.delivered(1) == [(0, 1), (0, 2)]


def test_permit_waits_for_the_ack_of_its_own_receiver() -> None:
    schedule = "send 0 1 2, MSG 0 1, send 1 2, MSG 0 2, ACK 2 0"
    late = printed(Algorithm3, Mend.PERMIT_THE_LAST_UNACKED)
    play(late, schedule)
    assert late.count("PERMIT", 0, 1) == 0
    play(late, "ACK 1 0")
    assert late.count("PERMIT", 0, 1) == 1
    for run in mended_and_ours(
        Algorithm3, Mend.PERMIT_THE_LAST_UNACKED, "hybrid-basic", "hybrid"
    ):
        play(run, schedule)
        play(run, "PERMIT 0 1, MSG 1 2")
        assert run.delivered(2) == [(0, 1), (1, 1)]


@BOTH
def test_repeated_message_still_asks_for_a_permit_it_no_longer_needs(
    listed: Listed, name: str
) -> None:
    schedule = "send 0 2, send 0 1, lose MSG 0 1, MSG 0 2, ACK 2 0, lose PERMIT 0 1, tick"
    stale = printed(listed, Mend.FRESH_FLAG)
    play(stale, schedule)
    assert stale.needs_permit(0, 1) == [True]
    play(stale, "MSG 0 1, send 1 2")
    assert stale.count("MSG", 1, 2) == 0
    for run in mended_and_ours(listed, Mend.FRESH_FLAG, name):
        play(run, schedule)
        assert run.needs_permit(0, 1) == [False]
        play(run, "MSG 0 1, send 1 2, MSG 1 2")
        assert run.delivered(2) == [(0, 1), (1, 1)]


def test_every_permit_walks_the_whole_buffer_again_when_m2_stays_behind() -> None:
    unacked, permits = 50, 20
    round_of_0 = "send 0 3, send 0 1, MSG 0 1, MSG 0 3, ACK 3 0, PERMIT 0 1, ACK 1 0"
    schedule = ", ".join(["send 1 2"] * unacked + [round_of_0] * permits)
    visits: list[int] = []
    for mends in (before(Mend.MOVE_M2_WHEN_EMPTY), frozenset(Mend)):
        processes = [Algorithm2(i, mends) for i in range(4)]
        play(Network(processes), schedule)
        visits.append(processes[1].visits)
    # Every message is looked at once when it is sent.
    assert visits == [unacked + unacked * permits, unacked + unacked]
    ours = Ours("hybrid", 4)  # Whose steps cannot be counted from outside.
    play(ours, schedule)
    play(ours, "rest")
    assert ours.verdict().held


def test_multicast_to_nobody_withholds_every_later_permit() -> None:
    later = "send 0 2, send 0 1, rest, send 1 2, rest, tick, rest, tick, rest"
    run: Run = printed(Algorithm3, Mend.REFUSE_NOBODY)
    play(run, "send 0")
    play(run, later)
    assert run.delivered(2) == [(0, 2)]
    assert run.verdict().violated() == LIVENESS
    for run in mended_and_ours(Algorithm3, Mend.REFUSE_NOBODY, "hybrid-basic", "hybrid"):
        with pytest.raises(LocalError):
            play(run, "send 0")
        play(run, later)
        assert run.delivered(2) == [(0, 1), (1, 1)]


class PlainSps:
    """SPS by its definition (§4.2, §5.6), for a network without loss or duplicates."""

    def __init__(self, i: int) -> None:
        self.i = i
        self.sent: dict[int, tuple[int, int, frozenset[Per]]] = {}
        """By number: the receiver, the predecessor, the permits missing at the send."""
        self.last: defaultdict[int, int] = defaultdict(int)
        self.acked: set[int] = set()
        self.released: dict[int, bool] = {}
        """By number: whether its permit is still to be sent."""
        self.missing: set[Per] = set()
        self.outbox: list[Packet] = []

    def causal_send(self, j: int) -> None:
        number = len(self.sent) + 1
        self.sent[number] = (j, self.last[j], frozenset(self.missing))
        self.last[j] = number
        self.step()

    def step(self) -> None:
        """Release and permit whatever can be, in order."""
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


def lockstep(seed: int, mends: frozenset[Mend]) -> int:
    """Compare Algorithm 2 with the plain rule; return how many permits it repeats."""
    random = Random(seed)
    listed = [Algorithm2(i, mends) for i in range(random.randint(2, 6))]
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


def test_mended_algorithm_2_sends_what_the_plain_rule_allows_and_when() -> None:
    repeating, mended = before(Mend.PERMIT_ONCE), before(Mend.SEPARATE_REQUEST)
    assert sum(lockstep(seed, repeating) for seed in range(50)) > 0
    assert sum(lockstep(seed, mended) for seed in range(50)) == 0
