"""Joins, leaves and changes of links, and their events in the trace.

The processes here are those of ``flood``, which uses every link as it comes, so that its
frames show which links there are; mostly without the link layer, on a FIFO network.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf
from random import Random

import pytest

from antecede.core import ProcessConfig, ProcessId
from antecede.core.link import ReliableLink
from antecede.core.process import ProcessBase
from antecede.core.protocols.flood import Flood
from antecede.core.protocols.pc_broadcast.pc_broadcast import PcBroadcast
from antecede.sim import (
    Churn,
    Join,
    Leave,
    LinkChange,
    Network,
    Pause,
    RunSummary,
    Scenario,
    run,
    simulate,
)
from antecede.sim.delay import Everywhere, Matrix
from antecede.sim.distribution import Constant, Exponential
from antecede.sim.simulator import Simulator
from antecede.sim.workloads.program import Program, ProgramSend
from antecede.sim.workloads.synthetic import Broadcast, Pace
from antecede.sim.workloads.workload import Workload
from antecede.trace.event import Event, Kind
from antecede.trace.recorders import EventCounter, MemoryRecorder
from antecede.verify.oracle import Property, verify_events

QUIET = Network(delay=Everywhere(Constant(0.0625)), fifo=True)
ON_THE_WIRE = (Kind.RELEASE, Kind.TRANSMIT, Kind.CONTROL)
Links = Sequence[Sequence[int]]


def script(*times_: Sequence[float]) -> Workload:
    """Let each process broadcast at these seconds, counted from when it is there."""
    return Program(
        len(times_),
        [
            ProgramSend(process=process, targets=None, wait_s=at_s - before)
            for process, own in enumerate(times_)
            for before, at_s in pairwise([0.0, *own])
        ],
    )


def ring(processes: int, absent: Sequence[int] = ()) -> list[list[int]]:
    """Return links to the next and the previous process, without absent processes."""
    present = [process for process in range(processes) if process not in absent]
    links: list[list[int]] = [[] for _ in range(processes)]
    for one, other in pairwise([*present, present[0]]):
        links[one].append(other)
        links[other].append(one)
    return links


def ids(numbers: Sequence[int]) -> list[ProcessId]:
    return [ProcessId(number) for number in numbers]


def flood(links: Links) -> list[ProcessBase]:
    return [Flood(ProcessId(i), ids(own)) for i, own in enumerate(links)]


def run_processes(
    members: list[ProcessBase],
    workload: Workload,
    churn: Churn,
    network: Network = QUIET,
    *,
    seed: int = 0,
    until_s: float = inf,
) -> tuple[Simulator, list[Event]]:
    recorder = MemoryRecorder()
    simulator = Simulator(
        members,
        network,
        workload,
        EventCounter(recorder),
        seed,
        churn,
        relays=True,
        broadcasts=True,
    )
    assert not simulator.run(until_s)
    return simulator, recorder.events


def times(events: list[Event], kind: Kind, process: int) -> list[float]:
    return [e.time for e in events if e.kind is kind and e.process == process]


def frames(events: list[Event], source: int, target: int) -> list[float]:
    """Return when a process transmitted something to another."""
    return [
        event.time
        for event in events
        if event.kind in ON_THE_WIRE and (event.process, event.target) == (source, target)
    ]


def chatter(processes: int, seed: int = 0) -> Workload:
    """Let every process broadcast every eighth of a second, twenty times."""
    return Broadcast(processes, 20, Pace(gap=Constant(0.125), seed=seed))


# Joining.

JOINED = Churn(joins=(Join(process=3, at_s=0.84375, contacts=(0, 1)),))


def test_a_process_takes_part_from_its_join_on() -> None:
    members = flood(ring(4, absent=[3]))
    _, events = run_processes(members, chatter(4), JOINED)
    own = [event for event in events if event.process == 3]
    assert (own[0].kind, own[0].time) == (Kind.JOIN, 0.84375)
    assert [e.kind for e in events].count(Kind.JOIN) == 1
    assert not any(event.target == 3 and event.time < 0.84375 for event in events)
    # It starts to send when it joins, and receives the frames transmitted afterwards.
    assert times(events, Kind.SEND, 3) == [0.84375 + 0.125 * n for n in range(1, 21)]
    assert min(times(events, Kind.ARRIVE, 3)) == 0.875 + 0.0625  # Sent at 0.875.


def test_a_process_that_joins_gets_links_to_and_from_its_contacts() -> None:
    members = flood(ring(4, absent=[3]))
    _, events = run_processes(members, chatter(4), JOINED)
    assert [len(frames(events, 3, other)) > 0 for other in range(3)] == [True, True, False]
    assert [len(frames(events, other, 3)) > 0 for other in range(3)] == [True, True, False]
    # So every process delivers all its messages.
    for process in range(4):
        assert sum(e.source == 3 for e in events if e.kind is Kind.DELIVER) == 80, process


def test_a_run_with_joins_can_be_verified_as_complete_and_has_no_means() -> None:
    """Initial members must deliver everything; a process that joined missed a part."""
    members = flood(ring(4, absent=[3]))
    simulator, events = run_processes(members, chatter(4), JOINED)
    assert not simulator.unfinished
    assert not simulator.latencies.is_complete
    assert verify_events(events, processes=4).held
    lost = [e for e in events if not (e.kind is Kind.DELIVER and e.time > 2)]
    assert verify_events(lost, processes=4).violated() == {Property.LIVENESS}


def test_frames_to_a_process_that_has_not_joined_are_lost() -> None:
    """A process may have a link to it already."""
    members = flood(ring(4))
    _, events = run_processes(members, chatter(4), JOINED)
    early = [time for time in frames(events, 0, 3) if time <= 0.84375]
    drops = [e for e in events if e.kind is Kind.DROP]
    assert [e.time for e in drops if e.process == 0] == early != []
    assert {e.target for e in drops} == {3}
    assert min(times(events, Kind.ARRIVE, 3)) >= 0.84375 + 0.0625


def test_timers_and_sends_of_a_process_wait_until_it_joins() -> None:
    """A process exists before it joins, and does nothing."""
    members = flood([[1], [0], []])
    churn = Churn(joins=(Join(process=2, at_s=5.0, contacts=(0,)),))
    _, events = run_processes(members, script([0.5], [], [0.25, 0.5]), churn)
    assert [(e.kind, e.time) for e in events if e.process == 2][:2] == [
        (Kind.JOIN, 5.0),
        (Kind.SEND, 5.25),
    ]


def test_processes_join_in_sequence_each_with_the_last_as_contact() -> None:
    joins = tuple(Join(process=i, at_s=0.25 * i, contacts=(i - 1,)) for i in range(1, 6))
    workload = script(*[[2.0]] * 6)
    _, events = run_processes(flood([[]] * 6), workload, Churn(joins=joins))
    assert sum(e.kind is Kind.DELIVER for e in events) == 36
    assert verify_events(events, processes=6).held


# Leaving and crashing.


def test_a_process_that_leaves_does_nothing_more() -> None:
    churn = Churn(leaves=(Leave(process=2, at_s=1.03125),))
    simulator, events = run_processes(flood(ring(4)), chatter(4), churn)
    place = [event.kind for event in events].index(Kind.LEAVE)
    assert (events[place].process, events[place].time) == (2, 1.03125)
    assert any(event.process == 2 for event in events[:place])
    assert not any(event.process == 2 for event in events[place + 1 :])
    assert simulator.unfinished  # Its messages may be lost.
    assert verify_events(events, complete=False, processes=4).held


def test_all_processes_with_a_link_are_disconnected_from_a_process_that_leaves() -> None:
    churn = Churn(leaves=(Leave(process=2, at_s=1.03125),))
    _, events = run_processes(flood(ring(5)), chatter(5), churn)
    for neighbour in (1, 3):
        assert frames(events, neighbour, 2)
        assert max(frames(events, neighbour, 2)) <= 1.03125
    # The others still reach each other, around the ring.
    delivered = [e for e in events if e.kind is Kind.DELIVER and e.source == 1]
    assert sum(e.process == 3 for e in delivered) == 20


def test_no_process_is_disconnected_from_a_process_that_crashes() -> None:
    network = replace(QUIET, crashes=((2, 1.03125),))
    _, events = run_processes(flood(ring(5)), chatter(5), Churn(), network)
    place = [event.kind for event in events].index(Kind.CRASH)
    assert (events[place].process, events[place].time) == (2, 1.03125)
    assert not any(event.process == 2 for event in events[place + 1 :])
    for neighbour in (1, 3):
        assert max(frames(events, neighbour, 2)) > 2
    dropped = [e.time for e in events if e.kind is Kind.DROP]
    assert dropped
    assert min(dropped) > 1.03125


def test_frames_in_flight_to_a_process_that_leaves_are_lost() -> None:
    churn = Churn(leaves=(Leave(process=1, at_s=0.5),))
    _, events = run_processes(
        flood([[1], [0]]), script([0.375, 0.46875, 0.5625], []), churn
    )
    assert frames(events, 0, 1) == [0.375, 0.46875]
    assert times(events, Kind.ARRIVE, 1) == times(events, Kind.DELIVER, 1) == [0.4375]


@pytest.mark.parametrize("fifo", [True, False], ids=["fifo", "unordered"])
def test_frames_to_a_process_that_left_are_not_retransmitted_for_ever(fifo: bool) -> None:
    churn = Churn(leaves=(Leave(process=1, at_s=0.5),))
    members: list[ProcessBase] = [ReliableLink(inner, fifo) for inner in flood([[1], [0]])]
    _, events = run_processes(
        members, script([0.375, 0.46875], []), churn, until_s=100_000.0
    )
    assert len(frames(events, 0, 1)) < 20


def test_a_process_may_join_and_leave() -> None:
    churn = Churn(
        joins=(Join(process=2, at_s=0.53125, contacts=(0,)),),
        leaves=(Leave(process=2, at_s=0.734375),),
    )
    _, events = run_processes(flood([[1], [0], []]), chatter(3), churn)
    own = [event for event in events if event.process == 2]
    assert (own[0].kind, own[0].time) == (Kind.JOIN, 0.53125)
    assert (own[-1].kind, own[-1].time) == (Kind.LEAVE, 0.734375)
    assert times(events, Kind.SEND, 2) == [0.65625]
    used = frames(events, 0, 2)
    assert 0.53125 < min(used) < max(used) < 0.734375


def test_a_paused_process_leaves_in_time_and_disconnects_late() -> None:
    pauses = (Pause(process=1, start_s=0.25, end_s=1.0),)
    churn = Churn(leaves=(Leave(process=2, at_s=0.5), Leave(process=3, at_s=0.6)))
    network = replace(QUIET, pauses=(*pauses, replace(pauses[0], process=3)))
    _, events = run_processes(flood(ring(4)), script([], [1.25], [], []), churn, network)
    assert times(events, Kind.LEAVE, 3) == [0.6]
    assert frames(events, 1, 2) == []
    assert len(frames(events, 1, 0)) == 1


# Links.


def test_a_link_is_used_from_connect_to_disconnect() -> None:
    churn = Churn(
        links=(
            LinkChange(source=0, target=2, at_s=0.59375, up=True),
            LinkChange(source=0, target=2, at_s=1.1875, up=False),
            LinkChange(source=1, target=0, at_s=1.1875, up=False),
        )
    )
    simulator, events = run_processes(flood([[1], [0, 2], [0]]), chatter(3), churn)
    used = frames(events, 0, 2)
    assert (min(used), max(used)) == (0.625, 1.125)
    assert max(frames(events, 1, 0)) <= 1.1875
    assert max(frames(events, 2, 0)) > 2.5  # The other direction is another link.
    assert not simulator.unfinished
    assert verify_events(events, processes=3).held


def test_a_run_in_which_a_process_is_cut_off_is_complete_without_means() -> None:
    churn = Churn(links=(LinkChange(source=0, target=1, at_s=1.0, up=False),))
    simulator, events = run_processes(flood([[1], [0]]), chatter(2), churn)
    assert not simulator.unfinished
    assert not simulator.latencies.is_complete
    assert verify_events(events, processes=2).violated() == {Property.LIVENESS}


SHORT_CUT = Churn(links=(LinkChange(source=0, target=2, at_s=1.0, up=True),))
DETOUR = Network(delay=Matrix([[0, 1, 0.125], [1, 0, 1], [0.125, 1, 0]]), fifo=True)


def test_a_new_link_lets_a_message_overtake_one_on_a_detour() -> None:
    """Figure 3 of Nédelec et al.: the first message is still on its way by process 1."""
    workload = script([0.5, 1.5], [], [])
    _, events = run_processes(flood([[1], [2], []]), workload, SHORT_CUT, DETOUR)
    assert verify_events(events, processes=3).violated() == {Property.CAUSAL, Property.FIFO}


def pc_broadcast(links: Links, newcomers: Sequence[int] = ()) -> list[ProcessBase]:
    return [
        PcBroadcast(ProcessId(i), ids(own), newcomer=i in newcomers)
        for i, own in enumerate(links)
    ]


def test_pc_broadcast_waits_until_the_new_link_is_safe() -> None:
    workload = script([0.5, 1.5, 9.0], [], [])
    _, events = run_processes(pc_broadcast([[1], [2], []]), workload, SHORT_CUT, DETOUR)
    assert verify_events(events, processes=3).held
    assert times(events, Kind.DELIVER, 2)[-1] == 9.125  # Then the link is used.


# All changes together, with the link layer, on a faulty network.

WILD = Network(delay=Everywhere(Exponential(0.1)), loss=0.1, duplicate=0.1, reorder=0.1)


def random_churn(random: Random, processes: int, *, leaves: bool) -> Churn:
    """Let the last three processes join, add links, and optionally let two leave."""
    joined = {processes - i: random.uniform(0.1, 1.5) for i in (1, 2, 3)}
    joins = [
        Join(
            process=process,
            at_s=at_s,
            contacts=tuple(random.sample(range(processes - 3), 2)),
        )
        for process, at_s in joined.items()
    ]
    left = [processes - 1, processes - 2] if leaves else []
    links = []
    for _ in range(8):
        source, target = random.sample(range(processes - 2), 2)
        earliest = max(joined.get(source, 0.0), joined.get(target, 0.0))
        at_s = earliest + random.uniform(0.1, 1.5)
        links.append(LinkChange(source=source, target=target, at_s=at_s, up=True))
    return Churn(
        joins=tuple(joins),
        leaves=tuple(Leave(process=p, at_s=joined[p] + 1.0) for p in left),
        links=tuple(links),
    )


@pytest.mark.long
@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_pc_broadcast_holds_during_churn(seed: int, leaves: bool) -> None:
    newcomers = (4, 5, 6)
    inner = pc_broadcast(ring(7, absent=newcomers), newcomers)
    members: list[ProcessBase] = [ReliableLink(process, True) for process in inner]
    churn = random_churn(Random(seed), 7, leaves=leaves)
    workload = Broadcast(7, 12, Pace(gap=Exponential(0.1), seed=seed))
    until_s = 120.0 if leaves else inf
    simulator, events = run_processes(
        members, workload, churn, WILD, seed=seed, until_s=until_s
    )
    assert simulator.unfinished == leaves
    assert verify_events(events, complete=not leaves, processes=7).held
    kinds = [event.kind for event in events]
    assert kinds.count(Kind.JOIN) == 3
    assert kinds.count(Kind.LEAVE) == 2 * leaves
    for process in newcomers:
        assert times(events, Kind.DELIVER, process)


# Through the runner.

GROWING = Churn(
    joins=(
        Join(process=4, at_s=0.5, contacts=(0, 2)),
        Join(process=5, at_s=1.0, contacts=(4,)),
    ),
    links=(LinkChange(source=3, target=4, at_s=1.5, up=True),),
)


def run_pc_broadcast(
    churn: Churn, network: Network = WILD, *, links: Links | None = None, seed: int = 0
) -> tuple[RunSummary, list[Event]]:
    recorder = MemoryRecorder()
    summary = run(
        "pc-broadcast",
        Broadcast(6, 30, Pace(gap=Exponential(0.2), seed=seed)),
        network,
        EventCounter(recorder),
        seed=seed,
        config=ProcessConfig(links=links),
        churn=churn,
    )
    return summary, recorder.events


@pytest.mark.long
@pytest.mark.parametrize("links", [None, ring(6, absent=[4, 5])])
@pytest.mark.parametrize("seed", range(3))
def test_the_runner_marks_newcomers(seed: int, links: Links | None) -> None:
    """Unmarked, they would act as initial members, and wait."""
    summary, events = run_pc_broadcast(GROWING, links=links, seed=seed)
    assert summary.complete
    assert verify_events(events, processes=6).held
    for process, at_s in ((4, 0.5), (5, 1.0)):
        assert times(events, Kind.JOIN, process) == [at_s]
        assert not any(
            process in (event.process, event.target) and event.time < at_s
            for event in events
        )
        sources = {
            e.source for e in events if (e.kind, e.process) == (Kind.DELIVER, process)
        }
        assert sources == set(range(6))
        deliverers = {
            e.process for e in events if (e.kind, e.source) == (Kind.DELIVER, process)
        }
        assert deliverers == set(range(6))
    assert summary.wire_s is None  # They missed earlier messages.


@pytest.mark.long
def test_the_same_churn_and_seed_give_the_same_history() -> None:
    assert run_pc_broadcast(GROWING, seed=1) == run_pc_broadcast(GROWING, seed=1)
    assert run_pc_broadcast(GROWING, seed=1) != run_pc_broadcast(GROWING, seed=2)


def test_a_run_ends_despite_retransmissions_to_a_process_that_left() -> None:
    """The link layer retransmits frames that were sent before the disconnect."""
    summary, events = run_pc_broadcast(Churn(leaves=(Leave(process=3, at_s=1.0),)))
    assert not summary.complete
    assert summary.wire_s is None
    assert summary.duration_s <= 121.0
    assert verify_events(events, complete=False, processes=6).held
    after = [e.time for e in events if e.target == 3 and e.time > 1.0]
    assert max(after) > 10


def test_a_disconnected_overlay_violates_liveness_and_gives_no_means() -> None:
    churn = Churn(
        links=tuple(LinkChange(source=i, target=5, at_s=0.75, up=False) for i in (0, 4)),
    )
    summary, events = run_pc_broadcast(churn, QUIET, links=ring(6))
    assert summary.complete
    assert verify_events(events, processes=6).violated() == {Property.LIVENESS}
    assert summary.sender_wait_s is summary.wire_s is summary.receiver_wait_s is None
    whole, _ = run_pc_broadcast(Churn(), QUIET, links=ring(6))
    assert whole.wire_s is not None
    assert 0.0625 <= whole.wire_s <= 3 * 0.0625  # One to three hops along the ring.


@pytest.mark.long
def test_with_spray_no_frame_concerns_a_newcomer_before_it_joins() -> None:
    """It is in no view, either."""
    for seed in range(3):
        recorder = MemoryRecorder()
        summary = run(
            "pc-broadcast",
            Broadcast(6, 30, Pace(gap=Exponential(0.1), seed=seed)),
            WILD,
            EventCounter(recorder),
            seed=seed,
            config=ProcessConfig(exchange_s=0.5, exchange_until_s=5.0),
            churn=replace(GROWING, links=()),
        )
        assert summary.complete
        assert verify_events(recorder.events, processes=6).held
        times_ = [event.time for event in recorder.events]
        assert times_ == sorted(times_)  # Overdue timers of newcomers fire at their join.
        for process, at_s in ((4, 0.5), (5, 1.0)):
            assert not any(
                process in (event.process, event.target) and event.time < at_s
                for event in recorder.events
            )


def test_a_scenario_may_have_churn() -> None:
    scenario = Scenario(
        protocol="pc-broadcast", processes=6, workload="broadcast", loss=0.1
    )
    grown = simulate(scenario, churn=GROWING)
    assert grown.summary.complete
    assert grown.verdict.held
    assert [e.process for e in grown.history if e.kind is Kind.JOIN] == [4, 5]
