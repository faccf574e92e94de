"""Workloads send the same messages under every protocol."""

from collections import Counter, deque
from collections.abc import Callable
from math import nan, sqrt

import pytest

from antecede.errors import ConfigError
from antecede.sim.delay import Everywhere
from antecede.sim.distribution import Constant, Exponential
from antecede.sim.distribution import Uniform as Between
from antecede.sim.network import Network
from antecede.sim.runner import run
from antecede.sim.workloads.services import (
    Conversation,
    Microservices,
    Pipeline,
    RequestReply,
)
from antecede.sim.workloads.synthetic import Broadcast, Groups, Hotspot, Pace, Uniform
from antecede.sim.workloads.workload import PlannedSend, Workload
from antecede.trace.event import Event, Kind
from antecede.trace.recorders import EventCounter, MemoryRecorder
from antecede.verify.oracle import verify_events

PROTOCOLS = ("hybrid", "hybrid-basic")
PACE = Pace(gap=Exponential(0.05), payload_bytes=Between(0, 100), seed=5)

MAKERS: dict[str, Callable[[Pace], Workload]] = {
    "uniform": lambda pace: Uniform(7, 20, pace),
    "multicast": lambda pace: Uniform(7, 20, pace, fan_out=3),
    "peers": lambda pace: Uniform(7, 20, pace, fan_out=2, peers=3),
    "hotspot": lambda pace: Hotspot(7, 20, pace, hot=0.3, share=0.7),
    "groups": lambda pace: Groups(7, 20, pace, group=3),
    "broadcast": lambda pace: Broadcast(7, 10, pace),
    "pipeline": lambda pace: Pipeline(7, 20, pace),
    "request-reply": lambda pace: RequestReply(7, 20, pace, servers=0.3),
    "conversation": lambda pace: Conversation(7, 20, pace, reply_share=0.7, depth=5),
    "microservices": lambda pace: Microservices(7, 5, pace, layers=3, fan_out=2),
}
"""A workload serves one run, so each has a factory."""

Sent = tuple[int, PlannedSend]


def run_workload(workload: Workload, *, newest_first: bool = False) -> list[Sent]:
    """Run a workload without delays; pending sends are taken in either order."""
    sends: list[Sent] = []
    pending = deque(
        (process, planned)
        for process in range(workload.processes)
        for planned in workload.start(process)
    )
    while pending:
        process, planned = pending.pop() if newest_first else pending.popleft()
        sends.append((process, planned))
        pending.extend((process, more) for more in workload.sent(process, planned))
        for target in planned.targets:
            answers = workload.delivered(target, process, planned.id)
            pending.extend((target, answer) for answer in answers)
    return sends


def record(workload: Workload, protocol: str = "hybrid") -> list[Event]:
    recorder = MemoryRecorder()
    network = Network(delay=Everywhere(Exponential(0.05)), loss=0.05)
    summary = run(protocol, workload, network, EventCounter(recorder), seed=9)
    assert summary.complete
    return recorder.events


def plans(sends: list[Sent]) -> list[tuple[int, int, tuple[int, ...], int, float]]:
    return sorted(
        (process, planned.id, tuple(planned.targets), planned.payload_bytes, planned.wait_s)
        for process, planned in sends
    )


@pytest.mark.parametrize("name", MAKERS)
def test_ids_are_unique_at_their_source_and_no_process_sends_to_itself(name: str) -> None:
    sends = run_workload(MAKERS[name](PACE))
    assert sends
    ids = [(process, planned.id) for process, planned in sends]
    assert len(set(ids)) == len(ids)
    assert min(planned.id for _, planned in sends) >= 1
    fan_out_max = MAKERS[name](PACE).fan_out_max
    for process, planned in sends:
        assert process not in planned.targets
        assert len(set(planned.targets)) == len(planned.targets) <= fan_out_max
        assert all(0 <= target < 7 for target in planned.targets)
        assert 0 <= planned.payload_bytes < 100
        assert 0 <= planned.wait_s < 50 * 0.05


@pytest.mark.parametrize("name", MAKERS)
def test_the_work_does_not_depend_on_the_order_of_deliveries(name: str) -> None:
    assert plans(run_workload(MAKERS[name](PACE))) == plans(
        run_workload(MAKERS[name](PACE), newest_first=True)
    )


def others(process: int) -> tuple[int, ...]:
    """Return the targets of a broadcast, under a protocol without broadcast."""
    return tuple(other for other in range(7) if other != process)


@pytest.mark.parametrize("name", MAKERS)
def test_every_protocol_gets_the_same_work(name: str) -> None:
    wanted = Counter(
        (process, tuple(planned.targets) or others(process), planned.payload_bytes)
        for process, planned in run_workload(MAKERS[name](PACE))
    )
    for protocol in PROTOCOLS:
        events = record(MAKERS[name](PACE), protocol)
        assert verify_events(events).held
        sizes = {
            (e.source, e.number): e.payload_bytes for e in events if e.kind is Kind.RELEASE
        }
        sent = Counter(
            (e.process, e.targets, sizes[e.source, e.number])
            for e in events
            if e.kind is Kind.SEND
        )
        assert sent == wanted


@pytest.mark.parametrize("name", MAKERS)
def test_another_seed_makes_other_work(name: str) -> None:
    paces = [Pace(gap=Exponential(1), seed=seed) for seed in (1, 1, 2)]
    works = [plans(run_workload(MAKERS[name](pace))) for pace in paces]
    assert works[0] == works[1] != works[2]


@pytest.mark.parametrize("name", ["uniform", "multicast", "peers", "hotspot", "groups"])
def test_every_process_sends_the_given_number_of_messages(name: str) -> None:
    counts = Counter(process for process, _ in run_workload(MAKERS[name](PACE)))
    assert counts == dict.fromkeys(range(7), 20)


def test_sends_have_the_given_gaps() -> None:
    events = record(Uniform(3, 8, Pace(gap=Constant(0.25))))
    for process in range(3):
        times = [e.time for e in events if e.kind is Kind.SEND and e.process == process]
        assert times == [0.25 * n for n in range(1, 9)]


@pytest.mark.long
def test_random_gaps_and_sizes_have_the_means_of_their_distributions() -> None:
    pace = Pace(gap=Exponential(2.0), payload_bytes=Between(100, 200))
    sends = [planned for _, planned in run_workload(Uniform(10, 500, pace))]
    gap = sum(planned.wait_s for planned in sends) / 5000
    size = sum(planned.payload_bytes for planned in sends) / 5000
    assert abs(gap - 2.0) < 5 * 2.0 / sqrt(5000)
    # Sizes are integers from 100 to 199, all equally likely.
    assert abs(size - 149.5) < 5 * 100 / sqrt(12 * 5000)
    assert {planned.payload_bytes for planned in sends} == set(range(100, 200))


def test_uniform_targets_are_all_equally_likely() -> None:
    counts: Counter[tuple[int, int]] = Counter()
    for process, planned in run_workload(Uniform(6, 1000, PACE, fan_out=2)):
        counts.update((process, target) for target in planned.targets)
    assert len(counts) == 30
    # Each of the five others is one of the two targets with a probability of 2/5.
    assert all(abs(n - 400) < 5 * sqrt(1000 * 0.4 * 0.6) for n in counts.values())


@pytest.mark.parametrize("peers", [1, 3, 19])
def test_a_process_with_peers_sends_to_exactly_those(peers: int) -> None:
    targets_of: dict[int, set[int]] = {process: set() for process in range(20)}
    for process, planned in run_workload(Uniform(20, 200, PACE, peers=peers)):
        targets_of[process].update(planned.targets)
    assert {len(others) for others in targets_of.values()} == {peers}
    neighbours = [{(p + 1 + n) % 20 for n in range(peers)} for p in range(20)]
    if peers < 19:  # The peers start at a random offset.
        assert [targets_of[p] for p in range(20)] != neighbours


@pytest.mark.long
@pytest.mark.parametrize(("hot", "share"), [(0.1, 0.8), (0.5, 0.5), (0.04, 0.9), (0, 0.5)])
def test_hotspots_get_their_share(hot: float, share: float) -> None:
    """A single hotspot (0.04 of 25) sends to the others only."""
    spots = round(hot * 25)
    expected = 0.0
    for process in range(25):
        others = spots - (process < spots)
        aimed = share if others else 0.0
        expected += 400 * aimed
    sends = run_workload(Hotspot(25, 400, PACE, hot=hot, share=share))
    hits = sum(planned.targets[0] < spots for _, planned in sends)
    assert abs(hits - expected) <= 5 * sqrt(25 * 400 / 4)
    if spots == 1:
        assert len({planned.targets[0] for process, planned in sends if not process}) == 24


@pytest.mark.parametrize(
    ("processes", "group", "sizes"),
    [(8, 4, [4, 4]), (11, 4, [4, 7]), (7, 2, [2, 2, 3]), (5, 5, [5]), (5, 4, [5])],
)
def test_groups_partition_the_processes(
    processes: int, group: int, sizes: list[int]
) -> None:
    workload = Groups(processes, 2, PACE, group=group)
    groups = {
        frozenset([process, *planned.targets])
        for process, planned in run_workload(workload)
    }
    assert sorted(len(members) for members in groups) == sizes
    assert frozenset().union(*groups) == frozenset(range(processes))


@pytest.mark.parametrize(("processes", "group"), [(8, 4), (4, 2), (12, 4)])
def test_the_largest_fan_out_of_groups_is_one_less_than_the_largest_group(
    processes: int, group: int
) -> None:
    assert Groups(processes, 1, PACE, group=group).fan_out_max == group - 1


def test_a_broadcast_has_no_targets_and_multicast_names_all_others() -> None:
    assert Broadcast(5, 3, PACE).broadcast
    assert all(not planned.targets for _, planned in run_workload(Broadcast(5, 3, PACE)))
    sends = [e for e in record(Broadcast(5, 3, PACE)) if e.kind is Kind.SEND]
    assert len(sends) == 15
    for event in sends:
        assert sorted([event.process, *(event.targets or ())]) == [0, 1, 2, 3, 4]


def test_a_pipeline_forwards_every_message_from_process_to_process() -> None:
    events = record(Pipeline(5, 12, Pace(gap=Exponential(0.02))))
    sends = [event for event in events if event.kind is Kind.SEND]
    assert Counter((event.process, event.targets) for event in sends) == {
        (process, (process + 1,)): 12 for process in range(4)
    }
    for process in range(1, 4):
        own = [event for event in events if event.process == process]
        delivered = [event.time for event in own if event.kind is Kind.DELIVER]
        assert [event.time for event in own if event.kind is Kind.SEND] == delivered
    assert [e.number for e in events if e.process == 4 and e.kind is Kind.DELIVER] == (
        list(range(1, 13))
    )


def test_each_request_is_answered_once_by_its_server_to_its_client() -> None:
    events = record(
        RequestReply(10, 30, PACE, servers=0.25)
    )  # Processes 0 and 1 are servers.
    open_requests: Counter[tuple[int, int]] = Counter()
    requests: Counter[int] = Counter()
    for event in events:
        if event.kind is Kind.SEND and event.process >= 2:
            assert event.targets in ((0,), (1,))
            requests[event.process] += 1
        elif event.kind is Kind.DELIVER and event.process < 2:
            assert event.source is not None
            open_requests[event.process, event.source] += 1
        elif event.kind is Kind.SEND:
            assert event.targets is not None
            open_requests[event.process, event.targets[0]] -= 1
            assert open_requests[event.process, event.targets[0]] >= 0
    assert requests == dict.fromkeys(range(2, 10), 30)
    assert not any(open_requests.values())


@pytest.mark.parametrize(("servers", "count"), [(0.0, 1), (0.2, 2), (0.9, 9)])
def test_the_first_processes_are_servers_and_there_is_at_least_one(
    servers: float, count: int
) -> None:
    sends = run_workload(RequestReply(10, 50, PACE, servers=servers))
    clients = {process for process, planned in sends if planned.id % 2}
    assert clients == set(range(count, 10))
    assert {planned.targets[0] for _, planned in sends} == set(range(10))


@pytest.mark.parametrize(("share", "depth", "count"), [(1, 4, 5), (1, 0, 1), (0, 9, 1)])
def test_a_conversation_continues_to_its_depth(
    share: float, depth: int, count: int
) -> None:
    sends = run_workload(Conversation(6, 10, PACE, reply_share=share, depth=depth))
    assert len(sends) == 6 * 10 * count


def test_the_share_of_replies_is_that_given() -> None:
    """Of 3000 chains, 3000 * share ** d messages have depth d."""
    sends = run_workload(Conversation(6, 500, PACE, reply_share=0.6, depth=2))
    expected = 3000 * (1 + 0.6 + 0.36)
    # Depth 1 is binomial; depth 2 follows it at 0.6 and is binomial itself.
    deviation = sqrt(3000 * (0.24 * 1.6**2 + 0.6 * 0.24))
    assert abs(len(sends) - expected) < 5 * deviation


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("processes", "layers", "fan_out", "front"), [(7, 3, 2, 3), (4, 2, 3, 2), (5, 5, 1, 1)]
)
def test_microservices_send_a_call_and_a_reply_per_service_needed(
    processes: int, layers: int, fan_out: int, front: int, protocol: str
) -> None:
    """Of 7 processes in 3 layers, 0, 3 and 6 are the front end."""
    workload = Microservices(processes, 6, PACE, layers=layers, fan_out=fan_out)
    sends = [e for e in record(workload, protocol) if e.kind is Kind.SEND]
    calls = sum(fan_out**layer for layer in range(1, layers))
    assert len(sends) == front * 6 * calls * 2
    for event in sends:
        assert event.targets is not None
        step = event.targets[0] % layers - event.process % layers
        assert step in (1, -1)


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_service_replies_once_when_all_its_callees_have(newest_first: bool) -> None:
    """Callers and callees follow from the results of the workload, not from its ids.

    A *task* is the call that a service works on, None for a request at the front.
    """
    Message = tuple[int, int]
    layers, fan_out = 4, 3
    workload = Microservices(9, 4, PACE, layers=layers, fan_out=fan_out)
    task_of: dict[Message, Message | None] = {}  # By call: the task it is made for.
    answers: dict[Message, Message] = {}  # By reply: the call it answers.
    open_calls: dict[tuple[int, Message | None], int] = {}
    replied: Counter[Message] = Counter()
    pending = deque((p, planned) for p in range(9) for planned in workload.start(p))
    while pending:
        process, planned = pending.pop() if newest_first else pending.popleft()
        message = (process, planned.id)
        target = planned.targets[0]
        pending.extend((process, more) for more in workload.sent(process, planned))
        results = workload.delivered(target, process, planned.id)
        pending.extend((target, result) for result in results)
        if message in answers:  # It is a reply, to the process that made the call.
            call = answers[message]
            assert call[0] == target
            replied[call] += 1
            task = task_of[call]
            if task is None:
                assert results == []
                continue
            open_calls[target, task] -= 1
            assert len(results) == (open_calls[target, task] == 0)
            answers.update({(target, reply.id): task for reply in results})
        else:
            task_of.setdefault(message, None)
            if target % layers == layers - 1:
                assert len(results) == 1
                answers[target, results[0].id] = message
            else:
                assert len(results) == fan_out
                open_calls[target, message] = fan_out
                task_of.update({(target, call.id): message for call in results})
    assert replied == dict.fromkeys(task_of, 1)
    assert len(task_of) == 3 * 4 * (3 + 9 + 27)


def test_the_share_of_messages_that_ask_for_a_job_is_as_asked() -> None:
    pace = Pace(gap=Exponential(0.1), service_time=Between(0.01, 0.02), service_share=0.25)
    events = record(Uniform(5, 200, pace))
    starts = {
        (e.process, e.source, e.number): e for e in events if e.kind is Kind.JOB_START
    }
    ends = [event for event in events if event.kind is Kind.JOB_END]
    assert len(starts) == len(ends)
    assert abs(len(starts) - 250) < 5 * sqrt(1000 * 0.25 * 0.75)
    lengths = [e.time - starts[e.process, e.source, e.number].time for e in ends]
    assert min(lengths) > 0.01 - 1e-9
    assert max(lengths) < 0.02 + 1e-9
    assert abs(sum(lengths) / len(lengths) - 0.015) < 5 * 0.01 / sqrt(12 * 200)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Uniform(1, 1, PACE), "at least 2 processes, got 1"),
        (lambda: Uniform(5, -1, PACE), "messages must be at least 0, got -1"),
        (lambda: Uniform(5, 1, PACE, fan_out=0), "fan_out must be from 1 to 4, got 0"),
        (lambda: Uniform(5, 1, PACE, fan_out=5), "fan_out must be from 1 to 4, got 5"),
        (lambda: Uniform(5, 1, PACE, fan_out=3, peers=2), "from 1 to 2, got 3"),
        (lambda: Uniform(5, 1, PACE, peers=5), "peers must be from 0 to 4, got 5"),
        (lambda: Uniform(5, 1, PACE, peers=-1), "peers must be from 0 to 4, got -1"),
        (lambda: Hotspot(5, 1, PACE, hot=1.1), "got 1.1, 0.8"),
        (lambda: Hotspot(5, 1, PACE, share=nan), "got 0.1, nan"),
        (lambda: Groups(5, 1, PACE, group=1), "from 2 to 5 processes, got 1"),
        (lambda: Groups(5, 1, PACE, group=6), "from 2 to 5 processes, got 6"),
        (lambda: RequestReply(5, 1, PACE, servers=1.0), "no clients"),
        (lambda: Conversation(5, 1, PACE, reply_share=1.5), "got 1.5, 4"),
        (lambda: Conversation(5, 1, PACE, depth=16), "got 0.5, 16"),
        (lambda: Conversation(5, 1, PACE, depth=-1), "got 0.5, -1"),
        (lambda: Microservices(5, 1, PACE, layers=1), "got 1, 2, 1"),
        (lambda: Microservices(5, 1, PACE, layers=6), "got 6, 2, 1"),
        (lambda: Microservices(5, 1, PACE, fan_out=0), "got 3, 0, 1"),
        (lambda: Microservices(5, -1, PACE), "got 3, 2, -1"),
        (lambda: Pace(service_share=-0.1), "from 0 to 1, got -0.1"),
        (lambda: Pace(service_share=nan), "from 0 to 1, got nan"),
    ],
)
def test_parameters_out_of_range_are_refused(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        make()
