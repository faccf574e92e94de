"""Joining rooms: catching up, at once, under loss, and what is refused."""

import pytest

from antecede import Limits, WhenSilent
from antecede.engine.datagram import JOIN, JOIN_ANSWER
from antecede.engine.join_events import JoinUnreadable
from antecede.errors import ConfigError, JoinError, LocalError
from antecede.net.faults import Faults
from antecede.net.rooms.events import MemberJoined, MemberLeft
from antecede.net.rooms.options import make_options

from .whiteboard import KEY, Group, Whiteboard

NAMES = ("a", "b", "c", "d", "e")


def test_a_late_member_has_the_history_and_gets_what_follows() -> None:
    with Group() as group:
        group.start("a")
        group.run(1)
        group.write("a", "one")
        group.start("b", "a")
        group.run(2)
        assert group.texts("b") == ["one"]
        group.write("a", "two")
        group.write("b", "three")
        group.run(1)
        assert sorted(group.texts("a")) == sorted(group.texts("b"))
        assert group.texts("b")[:1] == ["one"]
        assert set(group.texts("b")) == {"one", "two", "three"}
        assert group.members("a") == group.members("b") == ["a", "b"]
        group.check()


def test_a_member_can_be_reached_through_any_other() -> None:
    with Group() as group:
        for name, seeds in (("a", ()), ("b", ("a",)), ("c", ("b",)), ("d", ("c",))):
            group.start(name, *seeds)
            group.run(2)
        for name in "abcd":
            group.write(name, f"from {name}")
        group.run(1)
        for name in "abcd":
            assert group.members(name) == ["a", "b", "c", "d"]
            assert sorted(group.texts(name)) == [f"from {each}" for each in "abcd"]
        group.check()


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_missed_or_doubled_while_all_join_and_write_under_loss(
    seed: int,
) -> None:
    faults = Faults(delay_s=0.01, jitter_s=0.01, loss=0.1, duplicate=0.1)
    with Group(seed, faults) as group:
        for name in NAMES:
            group.start(name, *NAMES[:2])
        written = []
        for count in range(80):
            for name in NAMES:
                if "r" in group.boards[name].rooms:
                    written.append(f"{name}{count}")
                    group.write(name, written[-1])
            group.run(0.1)
        group.run(15)
        assert len(written) > 100
        for name in NAMES:
            assert group.boards[name].errors == []
            assert sorted(group.texts(name)) == sorted(written), name
            assert group.members(name) == list(NAMES)
        group.check()


def test_two_nodes_that_start_at_once_found_one_room() -> None:
    with Group() as group:
        group.start("a", "b")
        group.start("b", "a")
        group.run(3)
        assert group.members("a") == group.members("b") == ["a", "b"]
        group.write("b", "hello")
        group.run(1)
        assert group.texts("a") == ["hello"]


def test_messages_in_fragments_reach_a_newcomer_once() -> None:
    with Group(faults=Faults(delay_s=0.01, loss=0.05)) as group:
        group.start("a")
        group.start("b", "a")
        group.run(3)
        large = "x" * 200_000
        for count in range(3):
            group.simulation.spawn("a", group.boards["a"].write("r", f"{count}{large}"))
            group.simulation.spawn("b", group.boards["b"].write("r", f"{count}b{large}"))
            group.start(f"n{count}", "a", "b")
            group.run(2)
        group.run(30)
        assert len(group.texts("a")) == 6
        for name in ("b", "n0", "n1", "n2"):
            assert sorted(group.texts(name)) == sorted(group.texts("a"))
        group.check()


def test_events_name_the_members_that_join_and_leave() -> None:
    with Group() as group:
        group.start("a")
        group.run(1)
        events = group.boards["a"].rooms["r"].events()
        group.start("b", "a")
        group.run(2)
        group.call("b", lambda board: board.rooms["r"].leave())
        group.run(1)
        assert group.members("a") == ["a"]
        seen = [type(event) for event in events._events]
        assert seen.index(MemberJoined) < seen.index(MemberLeft)


def test_a_sender_without_members_sends_to_nobody() -> None:
    with Group() as group:
        board = group.start("a")
        group.run(1)
        numbers = []

        async def broadcast(_: object) -> None:
            numbers.append(await board.rooms["r"].broadcast(b"nobody hears it"))

        group.call("a", broadcast)
        assert numbers == [0]


# What is refused.


def test_a_seed_without_an_answer_is_named() -> None:
    with Group() as group:
        board = group.start("a", "gone", join={"timeout_s": 2.0})
        group.run(4)
        (error,) = board.errors
        assert isinstance(error, JoinError)
        assert "no member answered at gone:9000 for 2 s" in str(error)
        assert "check the addresses, the key and the firewall" in str(error)


def test_a_node_with_another_key_gets_no_answer_and_is_reported() -> None:
    with Group() as group:
        group.start("a", key=KEY)
        group.run(1)
        board = group.start("b", "a", key=bytes(32), join={"timeout_s": 2.0})
        group.run(4)
        (error,) = board.errors
        assert "the key" in str(error)
        unreadable = [
            event for event in group.boards["a"].events if isinstance(event, JoinUnreadable)
        ]
        assert len(unreadable) == 1
        assert "the same key" in str(unreadable[0])


def test_nodes_with_one_key_join() -> None:
    with Group() as group:
        group.start("a", key=KEY)
        group.run(1)
        group.start("b", "a", key=KEY)
        group.run(2)
        group.write("b", "secret")
        group.run(1)
        assert group.texts("a") == ["secret"]
        packets = [datagram for _, _, datagram in group.simulation.network.captured]
        assert packets
        assert not any(b"secret" in datagram for datagram in packets)


def test_a_taken_name_is_refused_and_its_owner_stays() -> None:
    with Group() as group:
        group.start("a")
        group.start("b", "a")
        group.run(3)
        other = group.start("b", "a", host="elsewhere")
        group.run(6)
        (error,) = other.errors
        assert "the name b is taken by the node at 10.0.0." in str(error)
        assert group.members("a") == ["a", "b"]


def test_a_node_of_the_seed_s_name_is_refused() -> None:
    with Group() as group:
        group.start("a")
        group.run(1)
        other = group.start("a", "a", host="elsewhere")
        group.run(6)
        (error,) = other.errors
        assert "the name a is taken by this node" in str(error)


def test_another_protocol_outside_of_rooms_is_refused() -> None:
    with Group() as group:
        group.start("a", protocol="hybrid")
        group.run(1)
        board = group.start("b", "a", protocol="bounded")
        group.run(2)
        (error,) = board.errors
        assert "protocol=bounded differs from hybrid" in str(error)


def test_another_protocol_of_the_room_is_refused() -> None:
    with Group() as group:
        group.start("a", join={"protocol": "hybrid"})
        group.run(1)
        board = group.start("b", "a", join={"protocol": "bounded"})
        group.run(3)
        (error,) = board.errors
        assert isinstance(error, JoinError)
        assert "hybrid" in str(error)


def test_another_lease_is_refused() -> None:
    with Group() as group:
        group.start("a")
        group.run(1)
        board = group.start("b", "a", limits=Limits(lease_s=7))
        group.run(2)
        (error,) = board.errors
        assert "Limits.lease_s=7 differs from 20" in str(error)


def test_the_application_may_refuse_a_newcomer() -> None:
    asked = []

    def accept(name: str, address: str) -> bool:
        asked.append((name, address))
        return False

    with Group() as group:
        group.start("a", accept=accept)
        group.run(1)
        board = group.start("b", "a")
        group.run(2)
        (error,) = board.errors
        assert "the application has refused it" in str(error)
        assert {name for name, _ in asked} == {"b"}


def test_a_snapshot_that_raises_refuses_the_newcomer() -> None:
    def fail() -> bytes:
        raise ValueError("no state")

    with Group() as group:
        board = group.start("a", rooms=())
        group.run(1)

        async def join(_: object) -> None:
            assert board.node is not None
            await board.node.join("r", snapshot=fail)

        group.call("a", join)
        other = group.start("b", "a")
        group.run(5)
        (error,) = other.errors
        assert "snapshot" in str(error)
        assert "no state" in str(error)


def test_rooms_and_links_are_limited() -> None:
    limits = Limits(rooms_max=1, links_max=1)
    with Group() as group:
        board = group.start("a", rooms=("r", "s"), limits=limits)
        group.run(1)
        (error,) = board.errors
        assert isinstance(error, LocalError)
        assert "Limits.rooms_max" in str(error)
        group.start("b", "a")
        group.run(2)
        other = group.start("c", "a")
        group.run(2)
        (error,) = other.errors
        assert "Limits.links_max" in str(error)


def test_a_room_is_joined_once_and_has_a_valid_name() -> None:
    with Group() as group:
        board = group.start("a", rooms=("r", "r"))
        group.run(1)
        assert "is in the room r already" in str(board.errors[0])
        board = group.start("b", rooms=("",))
        group.run(1)
        assert isinstance(board.errors[0], ConfigError)


def test_a_node_that_must_not_found_a_room_says_so() -> None:
    with Group() as group:
        board = group.start("a", join={"found": False})
        group.run(1)
        assert "the node has no seeds" in str(board.errors[0])


def test_a_node_that_has_not_reached_its_seed_lets_nobody_found_the_room() -> None:
    with Group() as group:
        group.start("bob", "ann")  # No answer yet.
        group.start("eve", "bob")
        group.run(5)
        group.start("ann")
        group.run(15)
        for name in ("ann", "bob", "eve"):
            assert group.members(name) == ["ann", "bob", "eve"]
        group.check()


def test_a_node_that_gives_up_its_join_leaves_the_room_to_others() -> None:
    with Group() as group:
        bob = group.start("bob", "ann", join={"timeout_s": 5.0})
        group.start("eve", "bob")
        group.run(10)
        assert "no member answered at ann:9000" in str(bob.errors)
        assert group.members("eve") == ["eve"]
        group.check()


def test_an_answer_is_never_larger_than_the_join() -> None:
    limits = Limits(datagram_bytes_base=376, datagram_bytes_max=376)
    with Group() as group:
        name = "a" * 255
        group.start(name, host="a", limits=limits)
        group.run(1)
        board = group.start("b", "a", limits=limits, protocol="hybrid")
        group.run(2)
        (error,) = board.errors
        assert "protocol=hybrid differs" in str(error)
        sizes: dict[int, list[int]] = {JOIN: [], JOIN_ANSWER: []}
        for _, _, datagram in group.simulation.network.captured:
            sizes[datagram[0] & 15].append(len(datagram))
        assert max(sizes[JOIN_ANSWER]) <= min(sizes[JOIN]) == 376


def test_an_unknown_option_of_join_is_named() -> None:
    with pytest.raises(TypeError, match="join has no option 'snapshots'; its options are"):
        make_options({"snapshots": bytes})  # type: ignore[typeddict-unknown-key]


@pytest.mark.parametrize("seed", range(24, 40))
def test_members_agree_after_a_removal_whose_leases_end_at_different_times(
    seed: int,
) -> None:
    """The removed member joins again while a lease on its former messages lasts."""
    limits = Limits(lease_s=2.0, keep_alive_s=0.5)
    join = {"when_silent": WhenSilent.remove(3.0), "timeout_s": 60.0}

    async def remove(board: Whiteboard) -> None:
        await board.rooms["r"].remove("c")

    with Group(seed, Faults(delay_s=0.01, jitter_s=0.1, loss=0.05)) as group:
        for name in "abc":
            group.start(name, *("a" if name != "a" else ""), limits=limits, join=join)
            group.run(1)
        group.run(2)
        group.write("c", "before")
        group.call("a", remove)
        group.run(16)
        for name in "abc":
            assert group.members(name) == ["a", "b", "c"], name
            group.write(name, f"{name} at the end")
        group.run(3)
        for name in "abc":
            assert {f"{each} at the end" for each in "abc"} <= set(group.texts(name))
        group.check()
