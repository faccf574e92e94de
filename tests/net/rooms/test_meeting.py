"""How nodes meet: restarts elsewhere, old addresses, seeds, and functions that raise."""

import asyncio
import gc
import logging
import threading
from typing import Any, cast

import pytest

from antecede import Limits, WhenSilent
from antecede.engine.datagram import JOIN
from antecede.engine.join_events import JoinRefused
from antecede.net.events import EventHub
from antecede.net.host import DatagramSocket, look_up
from antecede.net.rooms.events import MemberJoined, MemberRemoved

from .whiteboard import KEY, Group

SHORT = Limits(lease_s=2.0, keep_alive_s=0.5)


@pytest.mark.parametrize("options", [{}, {"key": KEY}, {"journal": "b.db"}], ids=str)
def test_a_restarted_node_takes_its_name_back_at_another_address(
    options: dict[str, Any],
) -> None:
    shared: dict[str, Any] = {"key": options["key"]} if "key" in options else {}
    with Group() as group:
        group.start("a", **shared)
        group.run(1)
        for name in ("b", "c"):
            group.start(name, "a", **shared)
            group.run(2)
        group.write("b", "before")
        group.run(1)
        group.simulation.kill("b")
        group.run(0.2)
        board = group.start("b", "c", host="elsewhere", **options)
        group.run(12)
        assert board.errors == []
        assert group.texts("elsewhere") == ["before"]
        group.write("a", "after")
        group.write("elsewhere", "back")
        group.run(1)
        for name in ("a", "c", "elsewhere"):
            assert sorted(group.texts(name)) == ["after", "back", "before"], name
        group.check()


def test_the_seeds_of_a_node_may_name_the_node_itself() -> None:
    with Group() as group:
        group.start("a", "a")  # Alone: it founds the room.
        group.run(1)
        assert group.members("a") == ["a"]
    with Group() as group:
        for name in "abc":
            group.start(name, "a", "b", "c")
        group.run(5)
        for name in "abc":
            assert group.members(name) == ["a", "b", "c"]
    with Group() as group:
        board = group.start("a", "a", join={"found": False})
        group.run(1)
        assert "all seeds are this node itself" in str(board.errors[0])


def test_the_seeds_are_asked_if_the_addresses_in_the_journal_are_outdated() -> None:
    with Group() as group:
        group.start("a", limits=SHORT)
        group.run(1)
        group.start("b", "a", limits=SHORT, journal="b.db")
        group.run(2)
        group.simulation.kill("a")
        group.simulation.kill("b")
        group.start("a", host="elsewhere", limits=SHORT)
        group.run(1)
        board = group.start("b", "elsewhere", limits=SHORT, journal="b.db")
        group.run(10)
        assert board.errors == []
        assert group.members("b") == group.members("elsewhere") == ["a", "b"]


def test_a_node_with_a_journal_and_no_seeds_is_found_at_another_address() -> None:
    with Group() as group:
        group.start("a", limits=SHORT)
        group.run(1)
        for name in "bc":
            group.start(name, "a", limits=SHORT, journal=f"{name}.db")
            group.run(2)
        group.write("c", "before")
        group.simulation.kill("b")
        group.run(0.1)
        group.simulation.move("b")
        board = group.start("b", limits=SHORT, journal="b.db", join={"found": False})
        group.run(10)
        assert board.errors == []
        group.write("a", "after")
        group.run(1)
        for name in "abc":
            assert group.members(name) == ["a", "b", "c"]
            assert group.texts(name) == ["before", "after"]


def test_a_link_follows_a_node_that_moves_only_if_it_answers_there() -> None:
    """Another machine repeats the JOIN of b: the link of a stays where b is."""
    with Group() as group:
        group.start("a")
        group.run(1)
        joins = []
        network = group.simulation.network
        network.captured.clear()
        group.start("b", "a")
        group.run(2)
        joins = [
            (source, datagram)
            for source, _, datagram in network.captured
            if datagram[0] & 15 == JOIN
        ]
        assert joins
        node = group.boards["a"].node
        assert node is not None
        before = node.engine.links.address("b")
        hub = node._rooms._hub

        async def repeat(_: object) -> None:
            hub.on_stranger(joins[0][1], ("10.0.0.99", 9))

        group.call("a", repeat)
        group.run(3)
        assert node.engine.links.address("b") == before
        group.write("a", "still here")
        group.run(1)
        assert group.texts("b") == ["still here"]


def test_a_node_with_a_journal_does_not_wait_for_seeds_that_are_gone() -> None:
    with Group() as group:
        group.start("a", limits=SHORT)
        group.run(1)
        group.start("b", "a", limits=SHORT, journal="b.db")
        group.run(2)
        group.simulation.kill("b")
        board = group.start("b", "gone", limits=SHORT, journal="b.db")
        group.run(5)
        assert board.errors == []
        assert group.members("b") == ["a", "b"]


def test_a_room_is_found_again_through_seeds_after_all_other_members_have_moved() -> None:
    """B is removed by nobody: all others were restarted elsewhere without it."""
    join = {"when_silent": WhenSilent.remove(2.0)}
    with Group() as group:
        group.start("a", limits=SHORT, join=join)
        group.run(1)
        group.start("b", "a", "elsewhere", limits=SHORT, join=join)
        group.run(2)
        group.simulation.kill("a")
        group.start("c", host="elsewhere", limits=SHORT, join={**join, "found": True})
        group.write("b", "lost")
        group.run(5)
        assert group.members("b") == ["b"]

        async def again(board: Any) -> None:  # noqa: ANN401
            await board.rooms["r"].leave()
            await board.join("r", **join, found=False)

        group.call("b", again)
        group.run(1)
        assert group.members("b") == group.members("elsewhere") == ["b", "c"]


def test_a_function_accept_that_raises_refuses_and_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def accept(name: str, address: str) -> bool:
        if name == "bob":
            raise ValueError("no list of guests")
        return True

    with Group() as group:
        ann = group.start("ann", accept=accept)
        group.run(1)
        bob = group.start("bob", "ann")
        eve = group.start("eve", "ann")  # Their requests arrive together.
        group.run(3)
        (error,) = bob.errors
        assert "accept of ann has raised ValueError('no list of guests')" in str(error)
        assert eve.errors == []
        assert group.members("ann") == ["ann", "eve"]
        (event,) = [event for event in ann.events if isinstance(event, JoinRefused)]
        assert event.peer == "bob"
        assert "refused bob at 10.0.0." in caplog.text
        group.check()


def test_a_function_agree_that_raises_does_not_stop_messages(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def agree(remover: str, name: str) -> bool:
        raise ValueError("no opinion")

    with Group() as group:
        group.start("a")
        group.run(1)
        group.start("b", "a", join={"agree": agree})
        group.start("c", "a")
        group.run(4)
        group.simulation.kill("c")

        async def remove(board: Any) -> None:  # noqa: ANN401
            room = board.rooms["r"]
            await room.remove("c")
            await board.write("r", "in the same datagram")

        group.call("a", remove)
        group.run(2)
        assert group.texts("b") == ["in the same datagram"]
        assert group.members("b") == ["a", "b"]
        assert "agree has raised" in caplog.text
        group.check()


def test_members_that_come_and_go_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "antecede.net.events")
    with Group() as group:
        group.start("a")
        group.run(1)
        group.start("b", "a")
        group.run(2)
        events = group.boards["a"].rooms["r"].events()

        async def remove(board: Any) -> None:  # noqa: ANN401
            await board.rooms["r"].remove("b")

        group.call("a", remove)
        group.run(0.5)
    lines = [record.getMessage() for record in caplog.records]
    assert lines.count("a in r: b joined the room r") == 1
    assert lines.count("a in r: b was removed from the room r by a") == 1
    kinds = [type(event) for event in events._events]
    assert MemberJoined not in kinds  # It was before the iterator.
    assert kinds.count(MemberRemoved) == 1


def test_a_task_that_waits_for_events_needs_no_reference() -> None:
    async def main() -> None:
        hub = EventHub("ann", None)
        found: list[object] = []

        async def watch() -> None:
            found.extend([event async for event in hub.iterate()])

        done = asyncio.Event()

        async def watch_all() -> None:
            await watch()
            done.set()

        asyncio.ensure_future(watch_all())  # noqa: RUF006 (nobody refers to it)
        await asyncio.sleep(0)
        gc.collect()
        event = JoinRefused(peer="bob", address=None, reason="")
        hub.publish([event], 0.0)
        await asyncio.sleep(0)
        hub.close()
        await asyncio.wait_for(done.wait(), 10)
        assert found == [event]

    asyncio.run(main())


class SlowNames:
    """A socket whose name server answers only while the event loop runs."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.was_asked = threading.Event()

    def resolve(self, address: tuple[str, int]) -> tuple[str, int]:
        self.was_asked.set()
        return ("10.0.0.9", 9) if self.may_answer.wait(10) else ("", 0)


def test_the_event_loop_runs_while_a_name_is_resolved() -> None:
    async def main() -> None:
        names = SlowNames()
        socket = cast("DatagramSocket", names)
        found: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        look_up(socket, ("slow.example", 9), found.set_result)
        names.may_answer.set()
        assert await asyncio.wait_for(found, 20) == ("10.0.0.9", 9)
        found = asyncio.get_running_loop().create_future()
        look_up(socket, ("10.0.0.9", 9), found.set_result)
        assert found.done()  # A numeric address needs no thread.

    asyncio.run(main())


def test_a_removed_member_delays_no_other_newcomer() -> None:
    """It is admitted when the lease of its removal has ended: others join meanwhile."""
    with Group() as group:
        group.start("a")
        group.run(1)
        for name in "bc":
            group.start(name, "a")
            group.run(2)

        async def remove(board: Any) -> None:  # noqa: ANN401
            await board.rooms["r"].remove("c")

        group.call("a", remove)
        group.run(1)
        other = group.start("d", "a", join={"timeout_s": 5.0})
        group.run(6)
        assert other.errors == []
        assert group.members("d") == ["a", "b", "d"]
        group.write("d", "before it returns")
        group.run(60)  # Two leases of 20 s.
        for name in "abcd":
            assert group.members(name) == ["a", "b", "c", "d"]
            assert group.texts(name) == ["before it returns"]
        group.check()


def test_a_member_that_was_removed_and_restarted_joins_within_the_default_time() -> None:
    with Group() as group:
        group.start("a")
        group.run(1)
        group.start("b", "a")
        group.run(2)
        group.simulation.kill("b")

        async def remove(board: Any) -> None:  # noqa: ANN401
            await board.rooms["r"].remove("b")

        group.call("a", remove)
        board = group.start("b", "a")
        group.run(60)
        assert board.errors == []
        assert group.members("b") == ["a", "b"]
        group.check()


def test_a_snapshot_that_takes_longer_than_the_patience_of_the_newcomer_arrives() -> None:
    taken = []

    def snapshot(board: Any) -> bytes:  # noqa: ANN401 (a function that takes 4 s)
        taken.append(group.simulation.now)
        group.simulation.pause("a")
        group.simulation.call_later(4.0, lambda: group.simulation.resume("a"))
        return b"state"

    with Group() as group:
        board = group.start("a", rooms=())
        group.run(1)

        async def join(_: object) -> None:
            assert board.node is not None
            room = await board.node.join("r", snapshot=lambda: snapshot(board))
            board._readers.append(asyncio.ensure_future(anext(room)))  # type: ignore[arg-type]

        group.call("a", join)
        other = group.start("b", "a")
        group.run(30)
        assert other.errors == []
        assert group.texts("b") == ["state"]
        assert 1 <= len(taken) <= 2
