"""Every protocol of the registry has exactly the capabilities that it declares."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import nan
from random import Random

import pytest

from antecede.check.snapshot import snapshot
from antecede.core import ProcessConfig, ProtocolInfo, protocol, protocols
from antecede.core.codec import Frame, Reader
from antecede.core.link import ReliableLink
from antecede.core.link_frames import LinkAck
from antecede.core.process import NEVER, Delivery, ProcessBase, ProcessId, Transmit
from antecede.core.protocols.baseline import BaselineMessage, read_baseline
from antecede.errors import ConfigError, LocalError, PeerError
from antecede.testing import Cluster
from antecede.verify import Property
from tests.core.broadcasts import cluster_of, pick
from tests.core.protocol_runs import (
    Ledger,
    Network,
    Outcome,
    observe,
    run,
    send_something,
    uses_overlay,
)

RUNS = 400
RUNS_OF_LIARS = 100


def each_of(infos: Iterable[ProtocolInfo]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("info", list(infos), ids=lambda info: info.name)


every_protocol = each_of(protocols())
every_unicast_protocol = each_of(i for i in protocols() if i.capabilities.unicast)
every_dynamic_protocol = each_of(
    i for i in protocols() if i.capabilities.dynamic and not uses_overlay(i)
)
every_static_protocol = each_of(
    i for i in protocols() if not i.capabilities.dynamic and not uses_overlay(i)
)
with_and_without_links = pytest.mark.parametrize(
    "reliable", [False, True], ids=["linked", "bare"]
)

STATIC_WITHOUT_A_GROUP = {
    "optimal": "messages to a process that has left stay in all logs",
}
"""Protocols that are not dynamic although they need no number of processes."""


def lossy() -> Network:
    """Return a network with all faults, for processes with links if they need them."""
    return Network(reliable=False, faults=0.1)


def assumed(info: ProtocolInfo) -> Network:
    """Return the worst network that the protocol tolerates without links."""
    return Network(reliable=True, overtaking=info.capabilities.reordering)


def unexpected_failures(info: ProtocolInfo, outcome: Outcome) -> list[str]:
    """Return the failures that the capabilities do not allow."""
    if info.capabilities.causal:
        return outcome.failures
    allowed = ["causal"] + ["fifo"] * info.capabilities.reordering
    return [
        failure
        for failure in outcome.failures
        if not any(f": {name}: " in failure for name in allowed)
    ]


def names_match(info: ProtocolInfo, outcome: Outcome, *, all_of_them: bool) -> bool:
    """Return whether the control frames are those in the capabilities.

    A class may be called by the protocol and the name, as in CykasAck.
    """
    declared = info.capabilities.control_frames
    found: set[str] = set()
    for control in outcome.controls:
        names = [n for n in declared if control == n or control.endswith(f"-{n}")]
        if len(names) != 1:
            return False
        found.add(names[0])
    return found == set(declared) or not all_of_them


# Order.


@pytest.mark.long
@every_protocol
@with_and_without_links
def test_random_runs_match_the_capabilities(info: ProtocolInfo, reliable: bool) -> None:
    """Order, liveness, frames and their encoding, in the same runs.

    The baselines must violate causal order, so the runs can detect violations.
    """
    outcome = observe(info, assumed(info) if reliable else lossy(), RUNS)
    assert unexpected_failures(info, outcome) == []
    assert outcome.deliveries > 5 * RUNS
    broken: set[Property] = set()
    if not info.capabilities.causal:
        broken.add(Property.CAUSAL)
        if info.capabilities.reordering:
            broken.add(Property.FIFO)
    assert outcome.broken == broken
    assert outcome.miscoded == []
    assert outcome.frames > 2 * RUNS
    assert outcome.misnamed == []
    all_of_them = not uses_overlay(info)  # Some are for changing links only.
    assert names_match(info, outcome, all_of_them=all_of_them), outcome.controls
    assert (outcome.relays > 0) == info.capabilities.relays


@pytest.mark.long
@every_protocol
def test_a_protocol_that_needs_fifo_links_fails_without_them(info: ProtocolInfo) -> None:
    """Otherwise its measured cost would include unnecessary links."""
    outcome = observe(info, Network(reliable=True), RUNS_OF_LIARS)
    assert bool(unexpected_failures(info, outcome)) == (not info.capabilities.reordering)


@every_protocol
def test_a_protocol_gets_links_exactly_if_it_needs_them(info: ProtocolInfo) -> None:
    process = info.make(ProcessId(0), ProcessConfig(processes=3))
    assert isinstance(process, ReliableLink) == (not info.capabilities.loss)
    process = info.make(ProcessId(0), ProcessConfig(processes=3, reliable=True))
    assert not isinstance(process, ReliableLink)


@every_protocol
@with_and_without_links
def test_the_same_seed_gives_the_same_events(info: ProtocolInfo, reliable: bool) -> None:
    network = assumed(info) if reliable else lossy()
    for seed in range(20):
        first = run(info, network, seed, Outcome())
        second = run(info, network, seed, Outcome())
        assert first.history == second.history
        assert [str(snapshot(process)) for process in inner(first.cluster)] == [
            str(snapshot(process)) for process in inner(second.cluster)
        ]


def inner(cluster: Cluster) -> list[object]:
    return [vars(process)["inner"] for process in cluster.processes]


# Frames.


@every_protocol
@pytest.mark.parametrize("head", [0x00, 0xE0, 0xF0, 0xF1])
def test_no_protocol_uses_the_kinds_of_the_link_layer(
    info: ProtocolInfo, head: int
) -> None:
    with pytest.raises(PeerError):
        info.read(Reader(bytes([head]) + bytes(64)))


@pytest.mark.long
@every_protocol
@with_and_without_links
def test_changing_links_violate_order_only(info: ProtocolInfo, reliable: bool) -> None:
    """The tests of each protocol check its order."""
    if not uses_overlay(info):
        return
    network = Network(
        reliable=reliable,
        faults=0.0 if reliable else 0.1,
        overtaking=info.capabilities.reordering or not reliable,
        churn=True,
    )
    outcome = observe(info, network, RUNS_OF_LIARS)
    assert outcome.miscoded == []
    assert outcome.misnamed == []
    assert outcome.broken <= {Property.CAUSAL, Property.FIFO}
    assert names_match(info, outcome, all_of_them=False), outcome.controls
    assert bool(outcome.controls) == bool(info.capabilities.control_frames)


# Refusals.


def busy(info: ProtocolInfo, reliable: bool) -> ProcessBase:
    """Return process 0 of 3 after some traffic, with frames in flight."""
    random = Random(5)
    config = ProcessConfig(processes=3, reliable=reliable)
    members = [info.make(ProcessId(i), config) for i in range(3)]
    cluster = cluster_of(members)
    for turn in range(12):
        send_something(cluster, random, info, random.randrange(3), turn)
        if cluster.in_flight:
            cluster.arrive()
    cluster.run_until_idle()
    for turn in range(6):
        send_something(cluster, random, info, turn % 3, turn)
        if cluster.in_flight:
            cluster.arrive(pick(cluster, random, fifo=not info.capabilities.reordering))
    return members[0]


def offers(info: ProtocolInfo) -> list[Callable[[ProcessBase, object, float], int]]:
    """Return a function for each kind of send that the protocol supports."""
    one, two = ProcessId(1), ProcessId(2)
    ways: list[Callable[[ProcessBase, object, float], int]] = []
    if info.capabilities.unicast:
        ways.append(lambda process, payload, now: process.send([one], payload, now))
    if info.capabilities.multicast:
        ways.append(lambda process, payload, now: process.send([one, two], payload, now))
    if info.capabilities.broadcast:
        ways.append(lambda process, payload, now: process.broadcast(payload, now))
    return ways


@every_protocol
@with_and_without_links
def test_supported_inputs_work_and_others_are_refused(
    info: ProtocolInfo, reliable: bool
) -> None:
    process = busy(info, reliable)
    one, two = ProcessId(1), ProcessId(2)
    before = snapshot(process)
    if not info.capabilities.multicast:
        for several in ([one, two], [process.id, one], [one, one, two]):
            with pytest.raises(LocalError):
                process.send(several, b"", 1.0)
    if not info.capabilities.unicast and not info.capabilities.multicast:
        for single in ([one], [process.id]):
            with pytest.raises(LocalError, match="broadcast only"):
                process.send(single, b"", 1.0)
    if not info.capabilities.broadcast:
        with pytest.raises(LocalError, match="no broadcast"):
            process.broadcast(b"", 1.0)
    if not uses_overlay(info):
        with pytest.raises(LocalError, match="no overlay"):
            process.connect(one, 1.0)
        with pytest.raises(LocalError, match="no overlay"):
            process.disconnect(one, 1.0)
    assert snapshot(process) == before
    number = 0
    for way in offers(info):
        sent = way(process, b"", 1.0)
        assert (
            sent == number + 1 or number == 0
        )  # Numbers are consecutive for all kinds of messages.
        number = sent


@every_unicast_protocol
@with_and_without_links
def test_a_duplicate_target_counts_once_and_own_messages_are_delivered_at_once(
    info: ProtocolInfo, reliable: bool
) -> None:
    process = info.make(ProcessId(0), ProcessConfig(processes=3, reliable=reliable))
    number = process.send([process.id, process.id], b"own", 0.0)
    assert number == 1
    (delivery,) = process.messages_to_deliver()
    assert (delivery.source, delivery.number, delivery.payload) == (0, 1, b"own")
    assert process.frames_to_transmit() == []
    process.send([ProcessId(1), ProcessId(1)], b"", 0.0)
    assert len(process.frames_to_transmit()) == 1


@every_protocol
@with_and_without_links
def test_invalid_input_is_refused_and_changes_nothing(
    info: ProtocolInfo, reliable: bool
) -> None:
    process = busy(info, reliable)
    one = ProcessId(1)
    before = snapshot(process)
    for way in offers(info):
        with pytest.raises(LocalError, match="must be bytes"):
            way(process, "text", 1.0)
        with pytest.raises(LocalError, match="finite"):
            way(process, b"", nan)
    if info.capabilities.unicast:
        for targets in ([], [ProcessId(-1)]):
            with pytest.raises(LocalError):
                process.send(targets, b"", 1.0)
    with pytest.raises(LocalError, match="finite"):
        process.receive(one, LinkAck(1, 1), nan)
    with pytest.raises(LocalError, match="finite"):
        process.handle_timer(nan)
    with pytest.raises(LocalError):
        process.receive(process.id, LinkAck(1, 1), 1.0)
    with pytest.raises(PeerError):
        process.receive(one, Frame(), 1.0)
    with pytest.raises(PeerError):
        process.receive(one, LinkAck(10**6, 10**6), 1.0)
    assert snapshot(process) == before


# Membership.


@every_static_protocol
def test_a_protocol_that_is_not_dynamic_needs_the_group_or_has_a_reason(
    info: ProtocolInfo,
) -> None:
    if info.name in STATIC_WITHOUT_A_GROUP:
        info.make(ProcessId(0), ProcessConfig())
    else:
        with pytest.raises(ConfigError, match="needs the number of processes"):
            info.make(ProcessId(0), ProcessConfig())


@every_dynamic_protocol
@with_and_without_links
def test_a_dynamic_protocol_exchanges_messages_with_new_processes(
    info: ProtocolInfo, reliable: bool
) -> None:
    config = ProcessConfig(reliable=reliable)
    members: dict[int, ProcessBase] = {}
    delivered: list[tuple[int, int]] = []
    for newcomer in (3, 1000, 0):
        members[newcomer] = info.make(ProcessId(newcomer), config)
        for source, process in members.items():
            for target in members:
                process.send([ProcessId(target)], b"", 0.0)
                exchange(members, delivered, source)
        assert sorted(delivered) == sorted((s, t) for s in members for t in members)
        delivered.clear()


def exchange(
    members: dict[int, ProcessBase], delivered: list[tuple[int, int]], first: int
) -> None:
    """Pass on all frames until none is in flight; record the deliveries."""
    busy = [first]
    while busy:
        source = busy.pop(0)
        delivered += [(d.source, source) for d in members[source].messages_to_deliver()]
        for transmit in members[source].frames_to_transmit():
            target = transmit.target
            members[target].receive(ProcessId(source), transmit.frame, 0.0)
            busy.append(target)


def test_names_are_unique_and_the_default_comes_first() -> None:
    names = [info.name for info in protocols()]
    assert len(set(names)) == len(names)
    assert names[0] == "hybrid"
    for info in protocols():
        assert protocol(info.name) is info


@every_protocol
def test_every_protocol_has_a_way_to_send(info: ProtocolInfo) -> None:
    assert offers(info)
    assert info.summary
    assert info.reference or not info.capabilities.causal


# The tests above detect wrong capabilities.


def claiming(name: str, **claims: object) -> ProtocolInfo:
    """Return a protocol of the registry with other capabilities."""
    info = protocol(name)
    return replace(info, capabilities=replace(info.capabilities, **claims))  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.parametrize(
    "wrong",
    [
        claiming("unordered", causal=True),
        claiming("fifo", causal=True),
        claiming("fifo", reordering=True, causal=True),
        claiming("buffer-fifo", reordering=True),
        claiming("newtop", reordering=True),
        claiming("tree", reordering=True),
        claiming("matrix", loss=True),
        claiming("buffer", loss=True),
        claiming("vector", loss=True),
    ],
    ids=lambda wrong: f"{wrong.name} {wrong.capabilities}",
)
def test_missing_requirements_are_detected(wrong: ProtocolInfo) -> None:
    assert unexpected_failures(wrong, observe(wrong, lossy(), RUNS_OF_LIARS))


@pytest.mark.long
@pytest.mark.parametrize(
    "wrong",
    [
        claiming("hybrid", control_frames=("ack", "permit")),
        claiming("hybrid", control_frames=("ack", "permit", "request", "null")),
        claiming("cykas", control_frames=("ack",)),
        claiming("matrix", control_frames=("ack",)),
        claiming("newtop", control_frames=()),
    ],
    ids=lambda wrong: f"{wrong.name} {wrong.capabilities.control_frames}",
)
def test_wrong_control_frames_are_detected(wrong: ProtocolInfo) -> None:
    outcome = observe(wrong, lossy(), RUNS_OF_LIARS)
    assert not names_match(wrong, outcome, all_of_them=True)


@pytest.mark.long
def test_a_wrong_frame_reader_is_detected() -> None:
    wrong = replace(protocol("hybrid"), read=read_baseline)
    assert observe(wrong, lossy(), RUNS_OF_LIARS).miscoded


def test_frames_and_deliveries_with_a_wrong_message_are_detected() -> None:
    outcome = Outcome()
    ledger = Ledger(protocol("fifo"), True, outcome)
    ledger.payloads[1, 7] = b"payload"
    one, two = ProcessId(1), ProcessId(2)
    ledger.transmitted(1, Transmit(two, BaselineMessage(7, b"payload")))
    ledger.delivered(2, Delivery(one, 7, b"payload"))
    assert outcome == Outcome(frames=1, deliveries=1)
    ledger.transmitted(1, Transmit(two, BaselineMessage(6, b"payload")))
    ledger.transmitted(2, Transmit(one, BaselineMessage(7, b"payload")))
    ledger.transmitted(1, Transmit(two, BaselineMessage(7, b"paylord")))
    ledger.transmitted(1, Transmit(two, BaselineMessage(7, b"payload.")))
    ledger.delivered(2, Delivery(one, 6, b"payload"))
    ledger.delivered(1, Delivery(two, 7, b"payload"))
    ledger.delivered(2, Delivery(one, 7, b"paylord"))
    assert len(outcome.misnamed) == 7
    assert outcome.miscoded == []


@every_unicast_protocol
def test_next_wake_is_next_timer_with_infinity_for_none(info: ProtocolInfo) -> None:
    process = info.make(ProcessId(0), ProcessConfig(processes=3))
    for now in (1.0, 2.0):
        due = process.next_timer()
        assert process.next_wake() == (NEVER if due is None else due)
        process.send([ProcessId(1)], b"", now)
        process.frames_to_transmit()
        process.messages_to_deliver()
