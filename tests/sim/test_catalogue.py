"""Workloads by name."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from antecede.errors import ConfigError, TraceError
from antecede.sim import Scenario, run, simulate_to
from antecede.sim.network import Network
from antecede.sim.workloads.catalogue import WORKLOADS, make_workload
from antecede.sim.workloads.program import Program
from antecede.sim.workloads.services import (
    Conversation,
    Microservices,
    Pipeline,
    RequestReply,
)
from antecede.sim.workloads.synthetic import Broadcast, Groups, Hotspot, Pace, Uniform
from antecede.sim.workloads.workload import Workload
from antecede.trace.event import Kind
from antecede.trace.recorders import EventCounter, MemoryRecorder

PACE = Pace(seed=3)

EXAMPLES: dict[str, tuple[str, Callable[[], Workload]]] = {
    "uniform": ("fan_out=2,peers=3", lambda: Uniform(12, 4, PACE, fan_out=2, peers=3)),
    "hotspot": ("hot=0.25,share=0.5", lambda: Hotspot(12, 4, PACE, hot=0.25, share=0.5)),
    "groups": ("group=3", lambda: Groups(12, 4, PACE, group=3)),
    "broadcast": ("senders=3", lambda: Broadcast(12, 4, PACE, senders=3)),
    "pipeline": ("", lambda: Pipeline(12, 4, PACE)),
    "request-reply": ("servers=0.5", lambda: RequestReply(12, 4, PACE, servers=0.5)),
    "conversation": (
        "reply_share=0.9,depth=2",
        lambda: Conversation(12, 4, PACE, reply_share=0.9, depth=2),
    ),
    "microservices": (
        "fan_out=1,layers=4",
        lambda: Microservices(12, 4, PACE, layers=4, fan_out=1),
    ),
}

DEFAULTS: dict[str, Callable[[], Workload]] = {
    "uniform": lambda: Uniform(12, 4, PACE),
    "hotspot": lambda: Hotspot(12, 4, PACE),
    "groups": lambda: Groups(12, 4, PACE),
    "broadcast": lambda: Broadcast(12, 4, PACE),
    "pipeline": lambda: Pipeline(12, 4, PACE),
    "request-reply": lambda: RequestReply(12, 4, PACE),
    "conversation": lambda: Conversation(12, 4, PACE),
    "microservices": lambda: Microservices(12, 4, PACE),
}


def work(workload: Workload) -> list[tuple[int, int | None, tuple[int, ...] | None]]:
    """Return the sends of a workload on a network without faults."""
    recorder = MemoryRecorder()
    run("hybrid", workload, Network(), EventCounter(recorder))
    return [
        (event.process, event.number, event.targets)
        for event in recorder.events
        if event.kind is Kind.SEND
    ]


def test_there_is_an_example_of_every_workload_with_every_parameter() -> None:
    assert EXAMPLES.keys() == DEFAULTS.keys() == WORKLOADS.keys()
    for name, (text, _) in EXAMPLES.items():
        assert {part.partition("=")[0] for part in text.split(",") if part} == set(
            WORKLOADS[name][1]
        )


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_name_and_parameters_make_that_workload(name: str) -> None:
    text, wanted = EXAMPLES[name]
    made = make_workload(f"{name}:{text}", 12, 4, PACE)
    assert type(made) is type(wanted())
    assert work(made) == work(wanted())


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_bare_name_makes_the_workload_with_its_defaults(name: str) -> None:
    made = make_workload(name, 12, 4, PACE)
    assert type(made) is type(DEFAULTS[name]())
    assert work(made) == work(DEFAULTS[name]())


def test_the_pace_counts() -> None:
    other = make_workload("uniform", 12, 4, Pace(seed=4))
    assert work(other) != work(make_workload("uniform", 12, 4, PACE))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "unknown workload ''"),
        ("uniformly", "unknown workload 'uniformly'.*uniform, hotspot.*replay:DIRECTORY"),
        ("Uniform", "unknown workload 'Uniform'"),
        ("uniform:hot=1", "uniform has no parameter 'hot'; it has: fan_out, peers"),
        ("broadcast:group=2", "broadcast has no parameter 'group'; it has: senders"),
        ("pipeline:group=2", "pipeline has no parameter 'group'; it has: none"),
        ("uniform:fan_out", "invalid value '' for fan_out of workload uniform"),
        ("uniform:fan_out=", "invalid value '' for fan_out of workload uniform"),
        ("uniform:fan_out=two", "invalid value 'two' for fan_out of workload uniform"),
        ("uniform:fan_out=2.5", "invalid value '2.5' for fan_out of workload uniform"),
        ("uniform:fan_out=2,", "no parameter ''"),
        ("uniform:fan_out=2;peers=3", "invalid value '2;peers=3'"),
        ("uniform:2", "no parameter '2'"),
        ("uniform:fan_out=12", "fan_out must be from 1 to 11, got 12"),
        ("hotspot:hot=many", "invalid value 'many' for hot of workload hotspot"),
        ("hotspot:hot=2", "got 2.0, 0.8"),
        ("hotspot:share=nan", "got 0.1, nan"),
        ("groups:group=13", "got 13"),
        ("request-reply:servers=1", "no clients are left"),
        ("conversation:depth=99", "got 0.5, 99"),
        ("microservices:layers=0", "got 0, 2, 4"),
        ("program:/nowhere/program.json", "/nowhere/program.json is not a valid program"),
        ("program:", "not a valid program"),
    ],
)
def test_an_error_names_the_invalid_part_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        make_workload(text, 12, 4, PACE)
    assert "\n" not in str(refusal.value)


def test_a_replay_of_no_trace_is_refused_in_one_line() -> None:
    with pytest.raises(TraceError, match="/nowhere") as refusal:
        make_workload("replay:/nowhere", 12, 4, PACE)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("value", ["nan", "inf", "-1"])
def test_a_share_of_servers_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="servers"):
        make_workload(f"request-reply:servers={value}", 12, 4, PACE)


def test_a_program_brings_its_own_processes_and_messages(tmp_path: Path) -> None:
    path = tmp_path / "a:b,c=d.json"  # Separators in a path have no meaning.
    sends = [{"process": 2, "targets": [0]}, {"process": 2, "targets": [1]}]
    path.write_text(json.dumps({"processes": 3, "sends": sends}))
    made = make_workload(f"program:{path}", 12, 4, PACE)
    assert isinstance(made, Program)
    assert made.processes == 3
    assert work(made) == [(2, 1, (0,)), (2, 2, (1,))]


def test_a_replay_brings_the_processes_and_messages_of_its_trace(tmp_path: Path) -> None:
    directory = tmp_path / "trace"
    scenario = Scenario(processes=5, messages=3, workload="groups:group=2", seed=1)
    simulate_to(directory, scenario)
    made = make_workload(f"replay:{directory}", 12, 4, PACE)
    assert made.processes == 5
    wanted = [(0, (1,)), (1, (0,)), (2, (3, 4)), (3, (2, 4)), (4, (2, 3))]
    assert sorted(work(made)) == [
        (process, number, targets) for process, targets in wanted for number in (1, 2, 3)
    ]
