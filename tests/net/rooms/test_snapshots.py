"""Snapshots of busy applications: each message is in the snapshot or follows it."""

import asyncio
from types import SimpleNamespace
from typing import Any

from antecede import Limits, Message
from antecede.engine.message import UnorderedMessage
from antecede.group.member import CutEntry
from antecede.net.faults import Faults
from antecede.net.rooms.snapshots import Snapshots

from .whiteboard import Group, Whiteboard

SLOW = Faults(delay_s=0.02, jitter_s=0.01)


def test_a_message_that_the_sponsor_is_still_processing_is_not_lost() -> None:
    with Group(faults=SLOW) as group:
        group.start("a", join={"reads": False})
        group.run(1)
        board = group.boards["a"]

        async def read_slowly() -> None:
            async for message in board.rooms["r"]:
                await asyncio.sleep(0.3)
                board.texts["r"].append(message.data.decode())

        group.simulation.spawn("a", read_slowly())
        group.start("b", "a")
        group.run(3)

        async def write_many() -> None:
            for count in range(40):
                await group.boards["b"].write("r", f"b{count}")
                await asyncio.sleep(0.1)

        group.simulation.spawn("b", write_many())
        group.run(1)
        group.start("c", "a", join={"timeout_s": 60.0})
        group.start("d", "a", join={"timeout_s": 60.0})
        group.run(40)
        expected = [f"b{count}" for count in range(40)]
        for name in "abcd":
            assert group.texts(name) == expected, name
        group.check()


def test_a_change_whose_broadcast_waits_for_room_is_not_doubled() -> None:
    narrow = Limits(window_copies_max=2)
    with Group(faults=Faults(delay_s=0.1)) as group:
        group.start("a", limits=narrow)
        group.run(1)
        group.start("b", "a", limits=narrow)
        group.run(3)

        async def write_many() -> None:
            for count in range(60):
                await group.boards["a"].write("r", f"a{count}")

        group.simulation.spawn("a", write_many())
        group.run(0.5)
        for name in "cde":
            group.start(name, "a", limits=narrow, join={"timeout_s": 60.0})
            group.run(1)
        group.run(60)
        expected = [f"a{count}" for count in range(60)]
        for name in "abcde":
            assert group.texts(name) == expected, name
        group.check()


def test_a_message_in_fragments_of_another_member_is_not_missed() -> None:
    with Group(faults=Faults(delay_s=0.05, bytes_per_s=200_000)) as group:
        group.start("a")
        group.run(1)
        group.start("b", "a")
        group.run(3)

        async def write_large(board: Whiteboard) -> None:
            for count in range(4):
                await board.write("r", f"{count}" + "x" * 300_000)

        group.simulation.spawn("b", write_large(group.boards["b"]))
        group.run(0.3)
        for name in "cd":
            group.start(name, "a", join={"timeout_s": 60.0})
            group.run(1.5)
        group.run(60)
        expected = [f"{count}" + "x" * 300_000 for count in range(4)]
        for name in "abcd":
            assert group.texts(name) == expected, [text[:1] for text in group.texts(name)]
        group.check()


def test_the_application_that_never_receives_can_still_admit_others() -> None:
    with Group() as group:
        group.start("a", join={"reads": False})
        group.run(1)

        async def write(board: Any) -> None:  # noqa: ANN401
            await board.write("r", "one")

        group.call("a", write)
        group.start("b", "a")
        group.run(3)
        assert group.texts("b") == ["one"]


def test_the_cut_ignores_unordered_messages_in_the_inbox() -> None:
    """The snapshot contains message 5; what waits is 7, and a message without a number."""
    waiting = [UnorderedMessage("b", 0, b"", 0.0, 1), Message("b", 7, b"", 0.0, 2)]
    engine = SimpleNamespace(history=9)
    runtime = SimpleNamespace(
        inbox=SimpleNamespace(messages=waiting), opened_engine=lambda: engine
    )
    core: Any = SimpleNamespace(node="a", last_number=3, runtime=runtime)
    snapshots = Snapshots(core, None, None)
    snapshots.record(Message("b", 5, b"", 0.0, 1))
    snapshots.record(Message("b", 7, b"", 0.0, 2))
    assert snapshots.cut() == [
        CutEntry("b", 1, 5),
        CutEntry("b", 2, 6),
        CutEntry("a", 9, 3),
    ]
