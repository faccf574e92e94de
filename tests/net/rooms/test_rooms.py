"""Rooms beside each other: silence, shared datagrams, restarts, removal, fixed members."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from antecede import Limits, Node, WhenSilent, WindowFull
from antecede.engine.carrier import CARRY_OVERHEAD_BYTES
from antecede.engine.datagram import CARRY, JOIN
from antecede.engine.events import Gap, PeerRemoved
from antecede.engine.message import Message
from antecede.errors import ConfigError, JoinError, LocalError
from antecede.net.faults import Faults
from antecede.net.rooms.events import MemberRemoved, RoomRejoining

from .whiteboard import Group

SHORT = Limits(lease_s=2.0, keep_alive_s=0.5)


def test_a_silent_member_of_one_room_does_not_delay_another_room() -> None:
    with Group() as group:
        group.start("a", rooms=("r", "s"))
        group.run(1)
        group.start("b", "a", rooms=("r", "s"))
        group.start("c", "a", rooms=("s",))
        group.run(3)
        assert group.members("a", "s") == ["a", "b", "c"]
        group.simulation.pause("c")
        for count in range(20):
            group.write("a", f"s{count}", "s")
            group.write("b", f"S{count}", "s")
            group.write("a", f"r{count}", "r")
            group.write("b", f"R{count}", "r")
        group.run(1)
        expected = sorted(
            [f"r{count}" for count in range(20)] + [f"R{count}" for count in range(20)]
        )
        assert sorted(group.texts("a", "r")) == expected
        assert sorted(group.texts("b", "r")) == expected
        assert not group.texts("c", "s")
        waiting: list[object] = []

        async def ask(board: Any) -> None:  # noqa: ANN401
            waiting.extend(await board.rooms["r"].waiting())

        group.call("a", ask)
        assert waiting == []
        group.simulation.resume("c")
        group.run(10)
        assert sorted(group.texts("c", "s")) == sorted(group.texts("a", "s"))
        group.check()


def test_many_rooms_share_datagrams_and_keep_alives() -> None:
    rooms = tuple(f"room {number}" for number in range(12))
    with Group() as group:
        group.start("a", rooms=rooms)
        group.run(1)
        group.start("b", "a", rooms=rooms)
        group.run(10)
        network = group.simulation.network
        counts = network.injector.counts
        before = counts["all"]

        async def write_all(board: Any) -> None:  # noqa: ANN401
            for room in rooms:
                await board.write(room, "hello")

        group.call("a", write_all)
        group.run(0.001)
        # Without sharing there would be a datagram per room, and one for each answer.
        assert counts["all"] - before <= len(rooms) // 2
        group.run(2)
        assert all(group.texts("b", room) == ["hello"] for room in rooms)
        before = counts["all"]
        group.run(80)
        # Two nodes keep one link alive, at most every 6 s: 12 rooms would need 300.
        assert counts["all"] - before < 60
        group.check()


def test_a_restarted_node_joins_again_with_the_history() -> None:
    with Group() as group:
        group.start("a", limits=SHORT)
        group.run(1)
        group.start("b", "a", limits=SHORT)
        group.run(2)
        group.write("b", "before")
        group.run(1)
        group.simulation.kill("b")
        group.write("a", "meanwhile")
        group.start("b", "a", limits=SHORT)
        group.run(10)
        assert group.boards["b"].errors == []
        assert sorted(group.texts("b")) == ["before", "meanwhile"]
        group.write("b", "after")
        group.run(1)
        assert sorted(group.texts("a")) == ["after", "before", "meanwhile"]
        assert group.members("a") == ["a", "b"]
        group.check()


def test_a_dead_member_is_removed_and_the_others_go_on() -> None:
    join = {"when_silent": WhenSilent.remove(3.0)}
    with Group() as group:
        for name in "abc":
            group.start(name, *("a" if name != "a" else ""), limits=SHORT, join=join)
            group.run(2)
        events = group.boards["a"].rooms["r"].events()
        group.simulation.kill("c")
        for count in range(5):
            group.write("a", f"a{count}")
            group.write("b", f"b{count}")
        group.run(20)
        assert group.members("a") == group.members("b") == ["a", "b"]
        assert sorted(group.texts("a")) == sorted(group.texts("b"))
        seen = list(events._events)
        assert any(isinstance(event, MemberRemoved) for event in seen)
        assert any(isinstance(event, Gap) and event.peer == "c" for event in seen)
        group.write("b", "later")
        group.run(1)
        assert "later" in group.texts("a")
        group.check()


def test_a_member_that_was_removed_joins_again_with_a_snapshot() -> None:
    join = {"when_silent": WhenSilent.remove(2.0)}
    with Group() as group:
        for name in "abc":
            group.start(name, *("a" if name != "a" else ""), limits=SHORT, join=join)
            group.run(2)
        room = group.boards["c"].rooms["r"]
        events = room.events()
        former = room._core.runtime.opened_engine().history
        group.simulation.partition(["a", "b"], ["c"])
        for count in range(5):
            group.write("a", f"a{count}")
        group.write("c", "lost")
        number = room._core.last_number
        group.run(20)
        assert group.members("a") == ["a", "b"]
        group.simulation.heal()
        group.write("b", "b")
        group.run(40)
        assert group.members("a") == group.members("c") == ["a", "b", "c"]
        assert any(isinstance(event, RoomRejoining) for event in events._events)
        # The member that was removed learns which of its messages did not arrive.
        gaps = [event for event in events._events if isinstance(event, Gap)]
        assert {(each.peer, each.direction, each.numbers) for each in gaps} == {
            (peer, "to", ((number, number),)) for peer in "ab"
        }
        # The others no longer wait for the permits of its former history.
        assert room._core.runtime.opened_engine().history != former
        assert sorted(group.texts("c")) == sorted(group.texts("a"))
        group.write("c", "back")
        group.run(1)
        assert "back" in group.texts("a")
        assert "back" in group.texts("b")
        group.check()


def test_a_member_that_slept_and_was_removed_gets_gaps_to_and_from_the_others() -> None:
    join = {"when_silent": WhenSilent.remove(2.0)}
    with Group() as group:
        for name in "abc":
            group.start(name, *("a" if name != "a" else ""), limits=SHORT, join=join)
            group.run(2)
        events = group.boards["c"].rooms["r"].events()
        group.simulation.pause("c")
        group.write("a", "meanwhile")
        group.run(20)
        assert group.members("b") == ["a", "b"]
        group.simulation.resume("c")
        group.write("b", "b")
        group.run(40)
        assert group.members("c") == ["a", "b", "c"]
        gaps = [event for event in events._events if isinstance(event, Gap)]
        assert {(each.peer, each.direction) for each in gaps} == {
            ("a", "from"),
            ("b", "from"),
        }
        assert sorted(group.texts("c")) == ["b", "meanwhile"]
        group.check()


def test_a_room_may_block_for_a_silent_member() -> None:
    join = {"when_silent": WhenSilent.block()}
    with Group() as group:
        group.start("a", limits=SHORT, join=join)
        group.run(1)
        group.start("b", "a", limits=SHORT, join=join)
        group.run(2)
        group.simulation.pause("b")
        group.write("a", "one")
        group.run(60)
        assert group.members("a") == ["a", "b"]
        group.simulation.resume("b")
        group.run(5)
        assert group.texts("b") == ["one"]
        assert not any(isinstance(event, PeerRemoved) for event in group.boards["a"].events)


def test_a_room_keeps_messages_for_a_silent_member_up_to_a_limit() -> None:
    """Nobody waits; the member is removed at the limit, and joins again with everything."""
    join = {"when_silent": WhenSilent.keep(30)}
    with Group() as group:
        for name in "abc":
            group.start(name, *("a" if name != "a" else ""), limits=SHORT, join=join)
            group.run(2)
        events = {name: group.boards[name].rooms["r"].events() for name in "abc"}
        group.simulation.partition(["a", "b"], ["c"])
        for count in range(20):
            group.write("a", f"a{count}")
        group.run(60)  # It is silent for long, but the messages are below the limit.
        assert group.members("a") == ["a", "b", "c"]
        for count in range(20, 40):
            group.write("a", f"a{count}")
        assert group.members("a") == ["a", "b"]
        group.run(1)
        assert group.texts("b")[-1] == "a39"
        group.run(10)
        (gap,) = [each for each in events["a"]._events if isinstance(each, Gap)]
        assert (gap.peer, gap.direction) == ("c", "to")
        group.write("b", "later")
        group.simulation.heal()
        group.run(60)
        for name in "abc":
            assert group.members(name) == ["a", "b", "c"]
            assert sorted(group.texts(name)) == sorted(group.texts("a"))
        assert any(isinstance(each, RoomRejoining) for each in events["c"]._events)
        group.check()


def test_a_sender_that_waits_for_a_silent_member_is_freed_when_that_is_noticed() -> None:
    """The limit is reached before the member counts as silent (Limits.silence_s)."""
    join = {"when_silent": WhenSilent.keep(10)}
    with Group() as group:
        group.start("a", limits=SHORT, join=join)
        group.run(1)
        group.start("b", "a", limits=SHORT, join=join)
        group.run(2)
        group.simulation.kill("b")
        for count in range(20):
            group.write("a", f"a{count}")
        assert group.members("a") == ["a"]


def test_a_member_that_answers_is_not_removed_however_full_its_window_is() -> None:
    limits = replace(SHORT, inbox_messages_max=5)
    join = {"when_silent": WhenSilent.keep(10)}
    with Group() as group:
        group.start("a", limits=limits, join=join)
        group.run(1)
        group.start("b", "a", limits=limits, join={"reads": False, **join})
        group.run(2)

        full: list[int] = []

        async def fill(board: Any) -> None:  # noqa: ANN401
            for count in range(100):
                try:
                    await board.rooms["r"].broadcast(b"x", wait=False)
                except WindowFull:
                    full.append(count)
                    return

        for _ in range(3):
            group.call("a", fill)
            group.run(20)
        assert len(full) == 3
        assert group.members("a") == ["a", "b"]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: WhenSilent.keep(0), "at least 1 message"),
        (lambda: WhenSilent.remove(0.0), "must be above 0"),
        (lambda: WhenSilent.remove(float("inf")), "use block"),
        (lambda: WhenSilent(remove_after_s=1.0, bytes_max=-1), "bytes_max must be"),
    ],
)
def test_policies_that_are_refused(make: Callable[[], WhenSilent], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        make()


def test_unordered_messages_and_receipts_in_a_room() -> None:
    async def main() -> None:
        async with Node("ann") as ann, Node("bob", seeds=[ann.address]) as bob:
            first = await ann.join("r", snapshot=lambda: b"state")
            nobody = await first.broadcast(b"nobody is here", receipt=True)
            assert (await nobody).is_delivered
            second = await bob.join("r")
            assert await first.broadcast(b"cursor", ordered=False) == 0
            message = await second.receive()
            assert (message.data, message.ordered, message.number) == (b"cursor", False, 0)
            assert await second.send("ann", b"cursor", ordered=False) == 0
            receipt = await first.send("bob", b"ordered", receipt=True)
            assert str(await receipt) == "delivered at bob"
            assert (await second.receive()).number == receipt.number
            # The inbox of ann has an unordered message, which no snapshot contains.
            async with Node("cid", seeds=[ann.address]) as cid:
                joining = asyncio.create_task(cid.join("r"))
                await first.receive()
                reading = asyncio.create_task(first.receive())
                waiting = asyncio.create_task(second.receive())
                third = await joining
                await third.broadcast(b"last")
                assert (await reading).data == (await waiting).data == b"last"

    asyncio.run(asyncio.wait_for(main(), 30))


def test_remove_is_taken_up_by_the_others_unless_they_disagree() -> None:
    with Group() as group:
        group.start("a")
        group.run(1)
        group.start("b", "a")
        group.start("c", "a", join={"agree": lambda remover, name: False})
        group.start("d", "a")
        group.run(4)
        group.simulation.kill("d")

        async def remove(board: Any) -> None:  # noqa: ANN401
            await board.rooms["r"].remove("d")

        group.call("a", remove)
        group.run(2)
        assert group.members("a") == group.members("b") == ["a", "b", "c"]
        assert group.members("c") == ["a", "b", "c", "d"]


def test_leaving_the_group_says_goodbye() -> None:
    with Group() as group:
        group.start("a")
        group.run(1)
        group.start("b", "a")
        group.run(2)
        group.write("b", "last words")

        async def leave(board: Any) -> None:  # noqa: ANN401
            await board.node.leave()

        group.call("b", leave)
        group.run(1)
        assert group.texts("a") == ["last words"]
        assert group.members("a") == ["a"]
        assert group.boards["a"].node is not None
        group.write("a", "alone")
        group.run(30)
        stats = group.boards["a"].rooms["r"].stats()
        assert stats.peers == {} or all(not peer.backlog for peer in stats.peers.values())


def test_a_link_is_no_peer_of_the_node() -> None:
    with Group() as group:
        group.start("a")
        group.run(1)
        group.start("b", "a")
        group.run(2)
        node = group.boards["a"].node
        assert node is not None
        assert node.peers == []
        assert node.rooms == ["r"]

        async def send(board: Any) -> None:  # noqa: ANN401
            with pytest.raises(LocalError, match="b is not a peer"):
                await board.node.send("b", b"hello")

        group.call("a", send)


def test_a_closed_room_refuses_calls_and_can_be_joined_again() -> None:
    with Group() as group:
        group.start("a")
        group.run(1)
        group.start("b", "a")
        group.run(2)

        async def close(board: Any) -> None:  # noqa: ANN401
            room = board.rooms["r"]
            async with room:
                pass
            with pytest.raises(LocalError, match="closed"):
                await room.broadcast(b"late")
            with pytest.raises(LocalError, match="closed"):
                await room.receive()
            with pytest.raises(LocalError, match="closed; join it again"):
                await room.remove("a")
            await board.join("r")

        group.write("b", "before")
        group.call("b", close)
        group.run(3)
        assert group.members("a") == ["a", "b"]
        group.write("a", "after")
        group.run(1)
        assert group.texts("b") == ["before", "after"]


def test_the_datagrams_of_rooms_fit_into_those_of_links() -> None:
    small = Limits(datagram_bytes_base=256, datagram_bytes_max=256)
    with Group() as group:
        board = group.start("a", limits=small)
        group.run(1)
        (error,) = board.errors
        assert isinstance(error, ConfigError)
        assert f"at least {256 + CARRY_OVERHEAD_BYTES} bytes" in str(error)
    sizes = set()
    base = Limits(datagram_bytes_base=600, datagram_bytes_max=600)
    with Group(faults=Faults(delay_s=0.01)) as group:
        group.start("a", limits=base)
        group.run(1)
        group.start("b", "a", limits=base)
        group.run(2)
        network = group.simulation.network
        group.write("a", "x" * 100_000)
        for _ in range(50):
            group.run(0.01)
            sizes |= {
                len(datagram)
                for _, _, datagram in network.captured
                if datagram[0] & 15 in (CARRY, JOIN)
            }
        group.run(5)
        assert len(group.texts("b")[0]) == 100_000
        assert 500 < max(sizes) <= 600


def test_members_can_be_named_by_the_application() -> None:
    async def main() -> None:
        async with Node("ann") as ann, Node("bob") as bob:
            members = {"ann": ann.address, "bob": bob.address}
            first = await ann.join("r", members=members)
            second = await bob.join("r", members=members)
            assert await first.broadcast(b"hello") == 1
            message = await second.receive()
            assert (message.source, message.data) == ("ann", b"hello")
            await second.send("ann", b"answer")
            assert (await first.receive()).data == b"answer"
            assert first.members == second.members == ["ann", "bob"]
            with pytest.raises(LocalError, match="cid is not a member of r"):
                await first.send("cid", b"hello")
            await first.flush()

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_sponsor_whose_application_does_not_receive_refuses_newcomers() -> None:
    with Group() as group:
        group.start("a", join={"reads": False})
        group.run(1)
        group.start("b", "a")
        group.run(2)
        group.write("b", "unread")
        group.run(1)
        other = group.start("c", "a")
        group.run(20)
        (error,) = other.errors
        assert isinstance(error, JoinError)
        assert "the application of a" in str(error)
        assert "receive in a task of its own" in str(error)


def test_rooms_on_real_sockets() -> None:
    async def main() -> None:
        texts: dict[str, list[bytes]] = {"ann": [], "bob": [], "cid": []}
        async with Node("ann", encode=str.encode, decode=bytes.decode) as ann:
            queue: asyncio.Queue[Message] = asyncio.Queue()
            seeds = [ann.address]
            async with Node("bob", seeds=seeds) as bob, Node("cid", seeds=seeds) as cid:
                room = await ann.join("r", snapshot=lambda: b"state")
                await room.broadcast("nobody is here")

                async def read() -> None:
                    async for message in room:
                        queue.put_nowait(message)

                reader = asyncio.get_running_loop().create_task(read())
                other = await bob.join("r", restore=texts["bob"].append)
                assert texts["bob"] == [b"state"]
                await room.broadcast("text")
                assert (await other.receive()).data == b"text"
                await other.broadcast(b"reply")
                assert (await queue.get()).value == "reply"
                third = await cid.join("r", restore=texts["cid"].append)
                assert third.members == ["ann", "bob", "cid"]
                await third.multicast(["ann", "bob"], b"both")
                assert (await queue.get()).data == b"both"
                assert (await other.receive()).data == b"both"
                third.send_nowait("bob", b"at once")
                assert (await other.receive()).data == b"at once"
                await third.leave()
                await other.leave()
                await room.close()
                await reader

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_node_with_a_journal_keeps_its_peers_and_joins_its_rooms_again() -> None:
    with Group() as group:
        peers = {"b": "b:9000"}
        options: dict[str, Any] = {"limits": SHORT, "journal": "a.db", "peers": peers}
        group.start("b", limits=SHORT, peers={"a": "a:9000"})
        group.run(1)
        group.start("c", "b", limits=SHORT)
        group.run(2)
        group.start("a", "b", **options)
        group.run(3)
        group.write("a", "before")
        group.run(1)
        for _ in range(2):
            group.simulation.kill("a")
            group.start("a", **options)  # It knows the others from its journal.
            group.run(12)
            assert group.boards["a"].errors == []
            assert group.members("a") == ["a", "b", "c"]
            assert group.texts("a") == ["before"]
            node = group.boards["a"].node
            assert node is not None
            assert node.peers == ["b"]

            async def send(board: Any) -> None:  # noqa: ANN401
                assert await board.node.send("b", b"outside of rooms") > 0
                await board.node.flush()

            group.call("a", send)
        group.check()


def test_a_node_finds_its_rooms_through_the_addresses_in_its_journal() -> None:
    with Group() as group:
        group.start("a", limits=SHORT)
        group.run(1)
        group.start("b", "a", limits=SHORT, journal="b.db")
        group.run(2)
        group.write("b", "before")
        group.run(1)
        group.simulation.kill("b")
        group.start("b", limits=SHORT, journal="b.db", join={"found": False})
        group.run(10)
        assert group.boards["b"].errors == []
        assert group.members("b") == ["a", "b"]
        assert group.texts("b") == ["before"]
