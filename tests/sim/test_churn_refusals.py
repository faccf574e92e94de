"""Invalid churn, and protocols that do not support churn."""

from collections.abc import Sequence
from math import inf, nan

import pytest

from antecede.core import ProcessConfig, protocols
from antecede.core.overlay.graphs import ring
from antecede.errors import ConfigError
from antecede.sim import Churn, Join, Leave, LinkChange, Network, run
from antecede.sim.workloads.catalogue import make_workload
from antecede.sim.workloads.synthetic import Broadcast, Pace
from antecede.trace.recorders import EventCounter, MemoryRecorder

QUIET = Network()
Links = Sequence[Sequence[int]]
GROWING = Churn(
    joins=(
        Join(process=4, at_s=0.5, contacts=(0, 2)),
        Join(process=5, at_s=1.0, contacts=(4,)),
    ),
)


def join(process: int = 2, at_s: float = 1.0, contacts: tuple[int, ...] = (0,)) -> Join:
    return Join(process=process, at_s=at_s, contacts=contacts)


def link(source: int, target: int, at_s: float, *, up: bool = True) -> LinkChange:
    return LinkChange(source=source, target=target, at_s=at_s, up=up)


@pytest.mark.parametrize("at_s", [-1.0, inf, nan])
def test_an_invalid_time_is_refused(at_s: float) -> None:
    for churn in (
        {"joins": (join(at_s=at_s),)},
        {"leaves": (Leave(process=1, at_s=at_s),)},
        {"links": (link(0, 1, at_s),)},
    ):
        with pytest.raises(ConfigError, match="times of at least 0"):
            Churn(**churn)


@pytest.mark.parametrize(
    ("joins", "leaves", "links", "message"),
    [
        ([join(), join(at_s=2.0)], [], [], "joins twice"),
        ([], [(1, 1.0), (1, 2.0)], [], "leaves twice"),
        ([join()], [(2, 0.5)], [], "process 2 leaves before it has joined"),
        ([join()], [(2, 1.0)], [], "process 2 leaves before it has joined"),
        ([join(contacts=(0, 2))], [], [], "process 2 cannot have a link to itself"),
        ([], [], [link(1, 1, 0.0)], "process 1 cannot have a link to itself"),
        # A contact that has not joined, joins at the same time, or has left.
        ([join(), join(3, 2.0, (0,)), join(4, 1.5, (3,))], [], [], "of process 3 .* 1.5"),
        ([join(), join(3, 1.0, (2,))], [], [], "2 join at the same moment"),
        ([join()], [(0, 1.0)], [], "of process 0 changes at 1.0 s"),
        # A link of a process that is not a member.
        ([join()], [], [link(2, 1, 0.5)], "of process 2 changes at 0.5 s"),
        ([join()], [], [link(1, 2, 0.5, up=False)], "of process 2 changes at 0.5 s"),
        ([], [(1, 2.0)], [link(0, 1, 2.0)], "of process 1 changes at 2.0 s"),
        ([], [(1, 2.0)], [link(1, 0, 2.5)], "of process 1 changes at 2.5 s"),
    ],
)
def test_invalid_churn_is_refused(
    joins: list[Join],
    leaves: list[tuple[int, float]],
    links: list[LinkChange],
    message: str,
) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        Churn(
            joins=tuple(joins),
            leaves=tuple(Leave(process=p, at_s=at_s) for p, at_s in leaves),
            links=tuple(links),
        )
    assert "\n" not in str(refusal.value)


def test_churn_is_true_if_it_has_a_change() -> None:
    assert not Churn()
    assert Churn(joins=(join(),))
    assert Churn(leaves=(Leave(process=0, at_s=0.0),))
    assert Churn(links=(link(0, 1, 0.0),))


@pytest.mark.parametrize(
    "churn",
    [
        Churn(joins=(join(3),)),
        Churn(joins=(join(contacts=(3,)),)),
        Churn(leaves=(Leave(process=-1, at_s=0.0),)),
        Churn(links=(link(0, 3, 1.0),)),
        Churn(links=(link(-1, 0, 1.0),)),
    ],
)
def test_churn_that_names_an_unknown_process_is_refused(churn: Churn) -> None:
    with pytest.raises(ConfigError, match=r"the churn names process (3|-1) of 3"):
        churn.check_processes(3)


@pytest.mark.parametrize("at_s", [0.5, 1.0])
def test_a_crash_before_the_join_is_refused(at_s: float) -> None:
    churn = Churn(joins=(join(),))
    with pytest.raises(ConfigError, match="process 2 crashes before it has joined"):
        churn.check_crashes([(0, 0.1), (2, at_s)])
    churn.check_crashes([(0, 0.1), (2, 1.5)])


def test_the_initial_overlay_is_without_processes_that_join() -> None:
    churn = Churn(joins=(join(),))
    assert churn.initial_links(None, 4) == [[1, 3], [0, 3], [], [0, 1]]
    assert Churn().initial_links(None, 3) == [[1, 2], [0, 2], [0, 1]]
    assert churn.initial_links([(1, 3), [0], [], []], 4) == [[1, 3], [0], [], []]


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ([[1], [0]], "for 4 processes has 2 rows"),
        ([[1], [0], [], [4]], "a link from 3 to 4"),
        ([[1], [-1], [], []], "a link from 1 to -1"),
        ([[1], [1], [], []], "a link from 1 to 1"),
        ([[2], [], [], []], "from 0 to 2 before both are members"),
        ([[], [], [0], []], "from 2 to 0 before both are members"),
    ],
)
def test_an_invalid_overlay_is_refused(links: Links, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Churn(joins=(join(),)).initial_links(links, 4)


FIXED = [
    info.name
    for info in protocols()
    if not (info.capabilities.dynamic and info.capabilities.broadcast)
]


@pytest.mark.parametrize("name", FIXED)
def test_a_protocol_without_broadcast_to_changing_members_refuses_churn(name: str) -> None:
    unicast = {info.name: info.capabilities.unicast for info in protocols()}[name]
    words = "uniform" if unicast else "broadcast"
    churn = Churn(leaves=(Leave(process=1, at_s=1.0),))
    recorder = MemoryRecorder()
    with pytest.raises(ConfigError, match=f"{name} has no broadcast with dynamic"):
        run(
            name,
            make_workload(words, 3, 2, Pace()),
            QUIET,
            EventCounter(recorder),
            churn=churn,
        )
    assert recorder.events == []
    summary = run(
        name,
        make_workload(words, 3, 2, Pace()),
        QUIET,
        EventCounter(recorder),
        churn=Churn(),
    )
    assert summary.complete


@pytest.mark.parametrize("name", FIXED)
def test_an_overlay_for_other_processes_is_refused(name: str) -> None:
    unicast = {info.name: info.capabilities.unicast for info in protocols()}[name]
    workload = make_workload("uniform" if unicast else "broadcast", 3, 2, Pace())
    with pytest.raises(ConfigError, match="for 3 processes has 2 rows"):
        run(name, workload, QUIET, EventCounter(), config=ProcessConfig(links=[[1], [0]]))


@pytest.mark.parametrize(
    ("churn", "crashes", "message"),
    [
        (Churn(leaves=(Leave(process=6, at_s=0.0),)), (), "churn names process 6 of 6"),
        (GROWING, ((5, 0.75),), "process 5 crashes before it has joined"),
    ],
)
def test_the_runner_refuses_invalid_churn(
    churn: Churn, crashes: tuple[tuple[int, float], ...], message: str
) -> None:
    recorder = MemoryRecorder()
    with pytest.raises(ConfigError, match=message):
        run(
            "pc-broadcast",
            Broadcast(6, 15, Pace()),
            Network(crashes=crashes),
            EventCounter(recorder),
            churn=churn,
        )
    assert recorder.events == []


def test_the_runner_refuses_an_overlay_with_a_process_that_has_not_joined() -> None:
    config = ProcessConfig(links=ring(6))
    with pytest.raises(ConfigError, match="before both are members"):
        run(
            "pc-broadcast",
            Broadcast(6, 1, Pace()),
            QUIET,
            EventCounter(),
            config=config,
            churn=GROWING,
        )
