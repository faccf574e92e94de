"""The protocols of rooms: fixed members, overlays, and what ``auto`` chooses."""

import asyncio
from random import Random
from typing import Any

import pytest

from antecede import Limits, Node, Room, WhenSilent
from antecede.core.registry import protocols
from antecede.errors import ConfigError, JoinError, LocalError
from antecede.net.faults import Faults
from antecede.net.rooms.events import RoomJoined
from antecede.net.rooms.options import RoomOptions
from antecede.net.rooms.room_protocol import RoomProtocol
from tests.net.harness import run

from .whiteboard import KEY, Group

OVERLAY = "pc-broadcast"
QUICK = Limits(exchange_s=5.0, linger_s=4.0, ping_timeout_s=1.0, silence_s=1.0)
FIXED = [info.name for info in protocols() if RoomProtocol(info.name).is_fixed]


def join_overlay(**options: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the options of a whiteboard that joins a room on an overlay."""
    return {
        "protocol": OVERLAY,
        "has_snapshots": False,
        "when_silent": WhenSilent.remove(3.0),
        **options,
    }


def test_every_protocol_runs_in_a_room_with_fixed_members() -> None:
    async def converse(nodes: tuple[Node, ...], protocol: str) -> None:
        members = {node.name: node.address for node in nodes}
        rooms = [
            await node.join(protocol, protocol=protocol, members=members) for node in nodes
        ]
        expected = "bounded" if protocol == "auto" else protocol
        assert {room.protocol for room in rooms} == {expected}
        assert rooms[2].members == ["ann", "bob", "cid"]
        can = rooms[0]._core.runtime.opened_engine().info.capabilities
        if can.broadcast or can.multicast:
            await rooms[0].broadcast(b"question")
            assert await next_of(rooms[1], "ann") == b"question"
            await rooms[1].broadcast(b"answer")
            if can.causal:
                assert await next_of(rooms[2], "ann") == b"question"
            assert await next_of(rooms[2], "bob") == b"answer"
        else:
            await rooms[0].send("bob", b"question")
            assert await next_of(rooms[1], "ann") == b"question"

    async def main() -> None:
        async with Node("ann") as ann, Node("bob") as bob, Node("cid") as cid:
            nodes = (ann, bob, cid)
            names = ("auto", "hybrid", "hybrid-basic", "bounded", *FIXED)
            await asyncio.gather(*(converse(nodes, name) for name in names))
            assert len(ann.rooms) == len(names) == 15

    run(main)


async def next_of(room: Room, source: str) -> bytes:
    """Return the next message of a source; ``newtop`` delivers own messages, too."""
    while (message := await room.receive()).source != source:
        pass
    return message.data


@pytest.mark.parametrize("protocol", FIXED)
def test_nobody_joins_a_room_with_fixed_members(protocol: str) -> None:
    with pytest.raises(ConfigError, match=f"{protocol}.*name all of them with members="):
        RoomOptions(protocol=protocol)
    with pytest.raises(ConfigError, match="cannot remove a silent member"):
        RoomOptions(
            protocol=protocol, members={"a": "a:1"}, when_silent=WhenSilent.remove(5.0)
        )
    RoomOptions(protocol=protocol, members={"a": "a:1"}, when_silent=WhenSilent.block())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"protocol": OVERLAY, "members": {}}, "no fixed members"),
        ({"protocol": OVERLAY, "snapshot": bytes}, "has no snapshot"),
        ({"protocol": OVERLAY, "restore": print}, "has no restore"),
        ({"protocol": OVERLAY, "when_silent": WhenSilent.block()}, "silent neighbours"),
        ({"protocol": OVERLAY, "when_silent": WhenSilent.keep(9)}, "silent neighbours"),
        (
            {"members": {}, "snapshot": bytes, "restore": print},
            "no snapshot and no restore",
        ),
        ({"protocol": "nonsense"}, "unknown protocol 'nonsense'"),
        ({"when_silent": "block"}, r"WhenSilent\.block\(\)"),
        ({"size": -1}, "size must be at least 1"),
        ({"timeout_s": 0}, "timeout_s must be above 0"),
    ],
)
def test_options_that_do_not_fit_each_other(options: Any, reason: str) -> None:  # noqa: ANN401
    with pytest.raises(ConfigError, match=reason):
        RoomOptions(**options)


@pytest.mark.parametrize(
    ("options", "protocol"),
    [
        ({}, "bounded"),
        ({"size": 64}, "bounded"),
        ({"size": 65}, OVERLAY),
        ({"size": 65, "snapshot": bytes}, "bounded"),
        ({"size": 65, "restore": print}, "bounded"),
        ({"size": 65, "members": {}}, "bounded"),
        ({"size": 65, "when_silent": WhenSilent.block()}, "bounded"),
        ({"size": 65, "when_silent": WhenSilent.keep(9)}, "bounded"),
        ({"size": 65, "when_silent": WhenSilent.remove(9)}, OVERLAY),
        ({"size": 500, "protocol": "hybrid"}, "hybrid"),
    ],
)
def test_the_founder_chooses_by_size(options: Any, protocol: str) -> None:  # noqa: ANN401
    assert RoomOptions(**options).founded_protocol().name == protocol


@pytest.mark.parametrize("protocol", ["hybrid", OVERLAY])
def test_a_newcomer_takes_the_protocol_of_the_room(protocol: str) -> None:
    join = {"protocol": protocol, "has_snapshots": False}
    with Group() as group:
        group.start("a", join=join)
        group.run(1)
        group.start("b", "a", join={"has_snapshots": False})
        other = group.start("c", "b", join={"protocol": "bounded"})
        group.run(5)
        assert group.boards["b"].rooms["r"].protocol == protocol
        (error,) = other.errors
        assert isinstance(error, JoinError)
        assert f"the room 'r' uses the protocol {protocol}" in str(error)
        group.write("b", "hello")
        group.run(1)
        assert group.texts("a") == ["hello"]
        group.check()


def test_a_newcomer_that_needs_a_snapshot_is_refused_by_a_room_without() -> None:
    with Group() as group:
        group.start("a", join=join_overlay())
        group.run(1)
        board = group.start("b", "a")
        group.run(5)
        (error,) = board.errors
        assert isinstance(error, JoinError)
        assert "has no snapshot" in str(error)


def test_a_room_on_an_overlay_lives_while_nodes_come_and_go() -> None:
    """Each node knows one seed, and the members hear of each other through the overlay."""
    random = Random(3)
    options: dict[str, Any] = {"limits": QUICK, "key": KEY, "join": join_overlay()}
    with Group(3, Faults(loss=0.03, delay_s=0.002, jitter_s=0.02)) as group:
        group.start("n0", **options)
        group.run(1)
        for index in range(1, 9):
            group.start(f"n{index}", f"n{random.randrange(index)}", **options)
            group.run(0.5)
        group.run(8)
        stable = [f"n{index}" for index in range(7)]
        for name in stable:
            assert group.boards[name].errors == []
        events = group.boards["n1"].rooms["r"].events()
        expected = []
        for step in range(16):
            source = random.choice(stable)
            group.write(source, f"{source} {step}")
            expected.append(f"{source} {step}")
            if step == 6:
                group.simulation.kill("n7")
                group.start("late", "n8", **options)
            if step == 9:
                group.call("n8", lambda board: board.rooms["r"].leave())
            group.run(random.choice((0.05, 0.5)))
        group.run(12)
        for name in stable:
            assert sorted(group.texts(name)) == sorted(expected)
        assert group.boards["late"].texts["r"][-1] in expected
        # The overlay needs fewer links than there are pairs, and third nodes name them.
        neighbours = {name: group.members(name) for name in stable}
        assert min(map(len, neighbours.values())) < len(stable)
        assert any(set(each) - {"n0", name} for name, each in neighbours.items())
        assert all("n7" not in each for each in neighbours.values())
        assert not any(isinstance(event, RoomJoined) for event in events._events)
        group.check()


def test_calls_that_a_room_on_an_overlay_refuses() -> None:
    with Group() as group:
        group.start("a", limits=QUICK, join=join_overlay())
        group.run(1)
        group.start("b", "a", limits=QUICK, join=join_overlay())
        group.run(5)

        async def try_calls(board: Any) -> None:  # noqa: ANN401
            room = board.rooms["r"]
            assert room.members == ["a", "b"]
            with pytest.raises(LocalError, match="has broadcast only"):
                await room.send("b", b"x")
            with pytest.raises(LocalError, match="replaces silent neighbours"):
                await room.remove("b")

        group.call("a", try_calls)
        group.call("b", lambda board: board.rooms["r"].leave())
        group.run(6)  # The overlay keeps the link for Limits.linger_s.
        assert group.members("a") == ["a"]
        group.write("a", "alone")
        group.start("c", "a", limits=QUICK, join=join_overlay())
        group.run(5)
        group.write("a", "together")
        group.run(1)
        assert group.texts("c") == ["together"]


def test_a_node_does_not_join_an_overlay_whose_members_do_not_answer() -> None:
    with Group(faults=Faults(delay_s=0.05)) as group:
        group.start("a", limits=QUICK, join=join_overlay())
        group.run(1)
        board = group.start("b", "a", limits=QUICK, join=join_overlay(timeout_s=4.0))
        while board.node is None or not board.node._rooms._hub._hosts:
            group.run(0.01)  # Until it has found a member to join through.
        group.simulation.partition(["a"], ["b"])
        group.run(8)
        (error,) = board.errors
        assert isinstance(error, JoinError)
        assert "not joined within 4 s" in str(error)
        assert group.boards["b"].node is not None
        assert group.boards["b"].node.rooms == []
