"""Fixed programs have the same dependencies on every network; replays of runs."""

import json
from itertools import pairwise
from math import inf, nan
from pathlib import Path

import pytest

from antecede.errors import ConfigError
from antecede.sim.delay import Delay, Everywhere, Geographic
from antecede.sim.distribution import Constant, Exponential
from antecede.sim.distribution import Uniform as Between
from antecede.sim.network import Network
from antecede.sim.runner import run
from antecede.sim.workloads.program import Program, ProgramSend, load_program, replay
from antecede.sim.workloads.services import Conversation
from antecede.sim.workloads.synthetic import Pace
from antecede.sim.workloads.workload import Workload
from antecede.trace.event import Event, Kind
from antecede.trace.recorders import EventCounter, MemoryRecorder
from antecede.verify.oracle import MessageId, verify_events

PROTOCOLS = ("hybrid", "hybrid-basic")
NETWORKS = {
    "constant": Network(delay=Everywhere(Constant(0.05))),
    "wild": Network(delay=Everywhere(Exponential(0.2)), loss=0.2, duplicate=0.2),
    "geographic": Network(delay=Geographic(0.5), bandwidth=2000),
}

DIAMOND = (
    ProgramSend(process=0, targets=(1,)),
    ProgramSend(process=0, targets=(2, 3)),
    ProgramSend(process=1, targets=(3,), after=((0, 1),)),
    ProgramSend(process=2, targets=(3,), after=((0, 2),)),
    ProgramSend(process=3, targets=(0,), after=((1, 1), (2, 1))),
    ProgramSend(process=3, targets=(0,)),
    ProgramSend(process=0, targets=(3,), after=((3, 2),)),
    ProgramSend(process=3, targets=(1,), after=((0, 2), (0, 3))),
)
"""Process 3 replies to process 0 after messages on two paths from it."""


def record(
    workload: Workload, network: Network, protocol: str = "hybrid", seed: int = 0
) -> list[Event]:
    recorder = MemoryRecorder()
    summary = run(protocol, workload, network, EventCounter(recorder), seed=seed)
    assert summary.complete
    assert verify_events(recorder.events).held
    return recorder.events


def sends_of(events: list[Event]) -> dict[MessageId, Event]:
    return {
        MessageId(event.process, event.number or 0): event
        for event in events
        if event.kind is Kind.SEND
    }


def direct_past(events: list[Event]) -> dict[MessageId, frozenset[MessageId]]:
    """Return the sends and deliveries at the sender before each message.

    The transitive closure of this is happened-before, as the oracle defines it.
    """
    past: dict[int, set[MessageId]] = {}
    result: dict[MessageId, frozenset[MessageId]] = {}
    for event in events:
        if event.kind in (Kind.SEND, Kind.DELIVER):
            message = MessageId(event.source or 0, event.number or 0)
            own = past.setdefault(event.process, set())
            if event.kind is Kind.SEND:
                result[message] = frozenset(own)
            own.add(message)
    return result


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("network", NETWORKS)
def test_a_send_waits_for_all_that_it_depends_on(network: str, protocol: str) -> None:
    events = record(Program(4, DIAMOND), NETWORKS[network], protocol, seed=4)
    past = direct_past(events)
    assert len(past) == len(DIAMOND)
    counts: dict[int, int] = {}
    for send in DIAMOND:
        number = counts[send.process] = counts.get(send.process, 0) + 1
        message = MessageId(send.process, number)
        assert sends_of(events)[message].targets == send.targets
        needed = {MessageId(*other) for other in send.after}
        assert past[message] >= needed | {
            MessageId(send.process, earlier) for earlier in range(1, number)
        }


def test_waits_start_at_the_last_send_or_the_awaited_delivery() -> None:
    sends = [
        ProgramSend(process=0, targets=(1,), wait_s=0.5),
        ProgramSend(process=0, targets=(1,), wait_s=0.25),
        ProgramSend(process=1, targets=(0,), after=((0, 1),), wait_s=0.25),
        ProgramSend(process=1, targets=(0,), after=((0, 2),), wait_s=0.0625),
        ProgramSend(process=1, targets=(0,), wait_s=2.0),
    ]
    network = Network(delay=Everywhere(Constant(0.125)))
    events = record(Program(2, sends), network)
    times = {str(message): event.time for message, event in sends_of(events).items()}
    # The second of process 0 is delivered at 0.875, when 1 makes its first send.
    assert times == {
        "0:1": 0.5,
        "0:2": 0.75,
        "1:1": 0.5 + 0.125 + 0.25,
        "1:2": 0.875 + 0.0625,
        "1:3": 0.9375 + 2.0,
    }


def test_a_send_can_wait_for_a_message_to_the_sender_itself() -> None:
    sends = [
        ProgramSend(process=0, targets=(0, 1)),
        ProgramSend(process=0, targets=(1,), after=((0, 1),), wait_s=0.5),
    ]
    events = record(Program(2, sends), NETWORKS["constant"])
    assert [event.time for event in sends_of(events).values()] == [0.0, 0.5]


def test_payloads_have_the_sizes_of_the_program() -> None:
    sends = [ProgramSend(process=0, targets=(1,), payload_bytes=n) for n in (0, 7, 300)]
    events = record(Program(2, sends), NETWORKS["constant"])
    sizes = [event.payload_bytes for event in events if event.kind is Kind.RELEASE]
    assert sizes == [0, 7, 300]


BROADCASTS = (
    ProgramSend(process=0, targets=None, wait_s=0.5),
    ProgramSend(process=1, targets=None, after=((0, 1),), wait_s=0.25),
    ProgramSend(process=2, targets=None, after=((0, 1), (1, 1)), payload_bytes=7),
)


@pytest.mark.parametrize("protocol", ["vector", "newtop", "tree", "hybrid", "matrix"])
@pytest.mark.parametrize("network", NETWORKS)
def test_a_program_may_be_of_broadcasts(network: str, protocol: str) -> None:
    """Also for protocols without broadcast; and its replay is the same run."""
    program = Program(3, BROADCASTS)
    assert program.broadcast
    events = record(program, NETWORKS[network], protocol)
    deliveries = [e for e in events if e.kind is Kind.DELIVER and e.process != e.source]
    assert len(deliveries) == 6
    past = direct_past(events)
    assert past[MessageId(1, 1)] == {MessageId(0, 1)}
    assert past[MessageId(2, 1)] == {MessageId(0, 1), MessageId(1, 1)}
    again = record(replay(events, 3), NETWORKS[network], protocol)
    assert again == events


@pytest.mark.parametrize(
    ("sends", "message"),
    [
        ((*BROADCASTS, ProgramSend(process=0, targets=(1,))), "only broadcasts, or none"),
        (
            (*BROADCASTS, ProgramSend(process=1, targets=None, after=((1, 1),))),
            "never sent to it",  # A broadcast is not for its sender.
        ),
        ((ProgramSend(process=3, targets=None),), "not below 3"),
    ],
)
def test_an_invalid_program_of_broadcasts_is_refused(
    sends: tuple[ProgramSend, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Program(3, sends)


def test_a_program_of_broadcasts_is_refused_by_a_protocol_that_has_none() -> None:
    recorder = MemoryRecorder()
    with pytest.raises(ConfigError, match="buffer has no broadcast"):
        run("buffer", Program(3, BROADCASTS), NETWORKS["constant"], EventCounter(recorder))
    assert recorder.events == []
    assert not Program(4, DIAMOND).broadcast
    assert not Program(2, []).broadcast


def test_a_broadcast_in_a_file_has_no_targets(tmp_path: Path) -> None:
    path = tmp_path / "program.json"
    path.write_text('{"processes": 3, "sends": [{"process": 1, "targets": null}]}')
    program = load_program(path)
    assert program.broadcast
    events = record(program, NETWORKS["constant"], "vector")
    assert [event.process for event in events if event.kind is Kind.DELIVER] == [1, 0, 2]


def test_the_largest_fan_out_is_that_of_the_widest_send() -> None:
    assert Program(4, DIAMOND).fan_out_max == 2
    assert Program(2, []).fan_out_max == 1


@pytest.mark.parametrize(
    ("sends", "message"),
    [
        ([ProgramSend(process=2, targets=(0,))], "not below 2"),
        ([ProgramSend(process=-1, targets=(0,))], "not below 2"),
        ([ProgramSend(process=0, targets=(2,))], "not below 2"),
        ([ProgramSend(process=0, targets=(1, -1))], "not below 2"),
        ([ProgramSend(process=0, targets=())], "at least one target"),
        ([ProgramSend(process=0, targets=(1,), after=((1, 1),))], "message 1 of 1"),
        ([ProgramSend(process=0, targets=(1,), after=((5, 1),))], "message 1 of 5"),
        (
            [  # It is sent, but to another.
                ProgramSend(process=1, targets=(1,)),
                ProgramSend(process=0, targets=(1,), after=((1, 1),)),
            ],
            "0 waits for message 1 of 1",
        ),
        (
            [  # There is a first message, but no second, nor one before the first.
                ProgramSend(process=1, targets=(0,)),
                ProgramSend(process=0, targets=(1,), after=((1, 2),)),
            ],
            "0 waits for message 2 of 1",
        ),
        (
            [
                ProgramSend(process=1, targets=(0,)),
                ProgramSend(process=0, targets=(1,), after=((1, 0),)),
            ],
            "0 waits for message 0 of 1",
        ),
    ],
)
def test_an_invalid_program_is_refused(sends: list[ProgramSend], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Program(2, sends)


@pytest.mark.parametrize(
    "sends",
    [
        [ProgramSend(process=0, targets=(0, 1), after=((0, 1),))],
        [
            ProgramSend(process=0, targets=(1,), after=((1, 1),)),
            ProgramSend(process=1, targets=(0,), after=((0, 1),)),
        ],
        [  # A process makes its sends in order, so the second is never made.
            ProgramSend(process=0, targets=(1,), after=((1, 1),)),
            ProgramSend(process=0, targets=(1,)),
            ProgramSend(process=1, targets=(0,), after=((0, 2),)),
        ],
    ],
)
def test_waiting_in_a_cycle_is_refused(sends: list[ProgramSend]) -> None:
    with pytest.raises(ConfigError):
        Program(2, sends)


@pytest.mark.parametrize("wait_s", [-1.0, nan, inf])
def test_an_invalid_wait_is_refused(wait_s: float) -> None:
    with pytest.raises(ConfigError):
        Program(2, [ProgramSend(process=0, targets=(1,), wait_s=wait_s)])


@pytest.mark.parametrize("size", [-1, 1 << 31, 1 << 70])
def test_an_invalid_size_is_refused(size: int) -> None:
    with pytest.raises(ConfigError, match="payload"):
        Program(2, [ProgramSend(process=0, targets=(1,), payload_bytes=size)])


def test_a_target_named_twice_is_refused() -> None:
    """It would count as two copies, of which one is released."""
    with pytest.raises(ConfigError, match="each only once"):
        Program(2, [ProgramSend(process=0, targets=(1, 1))])


def test_a_program_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "program.json"
    sends = [
        {"process": 0, "targets": [1, 2], "bytes": 5, "wait": 0.5},
        {"process": 2, "targets": [0], "after": [[0, 1]], "wait": 0.25},
    ]
    path.write_text(json.dumps({"processes": 3, "sends": sends}))
    program = load_program(path)
    assert program.processes == 3
    events = record(program, Network(delay=Everywhere(Constant(0.125))))
    found = [(e.process, e.targets, e.time) for e in sends_of(events).values()]
    assert found == [(0, (1, 2), 0.5), (2, (0,), 0.5 + 0.125 + 0.25)]
    assert {e.payload_bytes for e in events if e.kind is Kind.RELEASE} == {5, 0}


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", "3", '"x"', "{", "null", "\x00"),
        '{"processes": 2}',
        '{"sends": []}',
        '{"processes": "many", "sends": []}',
        '{"processes": null, "sends": []}',
        '{"processes": 1, "sends": []}',
        '{"processes": -2, "sends": []}',
        '{"processes": 2, "sends": 5}',
        '{"processes": 2, "sends": [5]}',
        '{"processes": 2, "sends": [{}]}',
        '{"processes": 2, "sends": [{"process": 0}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": 1}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": []}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": ["x"]}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": [2]}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": [1], "after": [1]}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": [1], "after": [[1]]}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": [1], "after": [[1, 1]]}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": [1], "wait": "long"}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": [1], "bytes": "many"}]}',
        # Integers are neither truncated nor parsed from strings.
        '{"processes": 2.9, "sends": []}',
        '{"processes": 2.0, "sends": []}',
        '{"processes": "2", "sends": []}',
        '{"processes": 2, "sends": [{"process": 0.9, "targets": [1]}]}',
        '{"processes": 2, "sends": [{"process": false, "targets": [1]}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": [1.5]}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": [true]}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": "1"}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": {"1": 2}}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": [1], "after": [[0, 0.5]]}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": [1], "after": ["01"]}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": [1], "bytes": 1.5}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": [1], "bytes": true}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": [1], "bytes": "7"}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": [1], "wait": "0.5"}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": [1], "wait": true}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": [1], "wait": null}]}',
        pytest.param("[" * 100_000, id="deep"),
        # Numbers out of range.
        '{"processes": Infinity, "sends": []}',
        '{"processes": 2, "sends": [{"process": 1e999, "targets": [1]}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": [1], "wait": -1}]}',
        '{"processes": 2, "sends": [{"process": 0, "targets": [1], "bytes": -1}]}',
    ],
)
def test_an_invalid_file_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "program.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as refusal:
        load_program(path)
    assert "\n" not in str(refusal.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.json", tmp_path):
        with pytest.raises(ConfigError, match=str(path)):
            load_program(path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe{")
    with pytest.raises(ConfigError, match="binary"):
        load_program(tmp_path / "binary")


def recorded(protocol: str = "hybrid") -> list[Event]:
    workload = Conversation(6, 10, Pace(gap=Exponential(0.1)), reply_share=0.6)
    return record(workload, NETWORKS["wild"], protocol, seed=2)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("network", NETWORKS)
def test_a_replay_has_the_same_sends_and_keeps_every_dependency(
    network: str, protocol: str
) -> None:
    original = recorded()
    again = record(replay(original, 6), NETWORKS[network], protocol, seed=7)
    wanted, found = direct_past(original), direct_past(again)
    assert wanted.keys() == found.keys()
    # A faster network may deliver more before a send, never less.
    assert all(found[message] >= wanted[message] for message in wanted)
    first, second = sends_of(original), sends_of(again)
    assert all(first[m].targets == second[m].targets for m in first)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("network", NETWORKS)
def test_a_replay_of_a_sequential_run_has_the_very_same_happened_before(
    network: str, protocol: str
) -> None:
    """A token circulates, so no delivery can move to an earlier time."""
    ring = [
        ProgramSend(process=n % 4, targets=((n + 1) % 4,), wait_s=0.1)
        if n == 0
        else ProgramSend(
            process=n % 4, targets=((n + 1) % 4,), after=(((n - 1) % 4, (n + 3) // 4),)
        )
        for n in range(20)
    ]
    original = record(Program(4, ring), NETWORKS["wild"], seed=1)
    again = record(replay(original, 4), NETWORKS[network], protocol, seed=7)
    assert direct_past(again) == direct_past(original)
    past = direct_past(original)
    sizes = [len(past[MessageId(n % 4, n // 4 + 1)]) for n in range(20)]
    # Its sender has sent and delivered once per round.
    assert sizes == [n // 4 + (n + 3) // 4 for n in range(20)]


def test_a_replay_has_the_pauses_of_the_run() -> None:
    """On the same network the sends have the same times."""
    sends = [
        ProgramSend(process=0, targets=(1,), wait_s=0.25),
        ProgramSend(process=1, targets=(2,), after=((0, 1),), wait_s=0.5),
        ProgramSend(process=0, targets=(2,), wait_s=1.0),
        ProgramSend(process=2, targets=(0,), after=((1, 1), (0, 2)), wait_s=0.125),
    ]
    delay: Delay = Everywhere(Constant(0.5))
    original = record(Program(3, sends), Network(delay=delay))
    again = record(replay(original, 3), Network(delay=delay))
    assert again == original
    assert len({event.time for event in sends_of(original).values()}) == 3


def test_a_replay_has_payloads_as_large_as_the_run_had() -> None:
    workload = Conversation(4, 5, Pace(payload_bytes=Between(1, 1000)))
    original = record(workload, NETWORKS["constant"])
    again = record(replay(original, 4), NETWORKS["constant"])
    sizes = [
        {(e.source, e.number): e.payload_bytes for e in events if e.kind is Kind.RELEASE}
        for events in (original, again)
    ]
    assert sizes[0] == sizes[1]


def test_a_delivery_before_its_send_is_no_run_to_replay() -> None:
    send = Event(process=0, kind=Kind.SEND, source=0, number=1, targets=(1,))
    deliver = Event(process=1, kind=Kind.DELIVER, source=0, number=1, target=1)
    for before, after in pairwise([deliver, send, deliver]):
        if before is send:
            assert replay([before, after], 2).processes == 2
        else:
            with pytest.raises(ConfigError, match="0:1 is delivered before it is sent"):
                replay([before, after], 2)
