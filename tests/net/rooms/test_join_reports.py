"""Reports of waiting() about joins that are under way, and the errors of these joins."""

from antecede import Limits, WhenSilent
from antecede.errors import JoinError
from antecede.net.faults import Faults
from antecede.net.rooms.events import RoomRejoining

from .whiteboard import Group

SHORT = Limits(lease_s=2.0, keep_alive_s=0.5)


def reports(group: Group, name: str) -> list[str]:
    """Return the reports of a node without arguments."""
    found: list[str] = []

    async def ask(board: object) -> None:
        node = group.boards[name].node
        assert node is not None
        found.extend(str(report) for report in await node.waiting())

    group.call(name, ask)
    return found


def run_until_found(group: Group, name: str) -> None:
    """Run until a newcomer has found a member to join through."""
    node = group.boards[name].node
    while node is None or not node._rooms._hub._hosts:
        group.run(0.01)
        node = group.boards[name].node


def check_error(group: Group, name: str, report: str, seconds: int) -> None:
    """Check that the error of a join has the text of a report."""
    (error,) = group.boards[name].errors
    assert isinstance(error, JoinError)
    reason = report.removeprefix("joining r: ")
    assert str(error) == f"cannot join the room r: not joined within {seconds} s: {reason}"


def test_seeds_without_an_answer_are_named() -> None:
    with Group() as group:
        board = group.start("a", "gone", "lost", join={"timeout_s": 4.0})
        group.run(3)
        (report,) = reports(group, "a")
        advice = "check the addresses, the key and the firewall"
        assert report == (
            f"joining r: no member answered at gone:9000, lost:9000 for 3 s: {advice}"
        )
        group.run(3)
        (error,) = board.errors
        assert str(error) == report.removeprefix("joining r: ").replace("3 s", "4 s")
        assert reports(group, "a") == []  # The join is over.


def test_a_member_that_does_not_answer_is_named_after_it_was_found() -> None:
    with Group(faults=Faults(delay_s=0.05)) as group:
        group.start("a", limits=SHORT)
        group.run(1)
        group.start("b", "a", limits=SHORT, join={"timeout_s": 5.0})
        run_until_found(group, "b")
        group.simulation.pause("a")
        group.run(4.5)
        (report,) = reports(group, "b")
        assert report.startswith("joining r: no answer from a")
        group.run(5)
        check_error(group, "b", report, 5)


def test_a_member_whose_confirmation_is_missing_is_named() -> None:
    """B does not confirm to a that it has added the newcomer c."""
    with Group() as group:
        group.start("a", limits=SHORT)
        group.run(1)
        group.start("b", "a", limits=SHORT)
        group.run(2)
        group.simulation.pause("b")
        group.start("c", "a", limits=SHORT, join={"timeout_s": 6.0})
        group.run(4)
        (report,) = reports(group, "c")
        assert report == "joining r: a waits for b to confirm"
        assert group.boards["c"].errors == []
        group.run(4)
        check_error(group, "c", report, 6)


def test_members_of_an_overlay_that_do_not_answer_are_named() -> None:
    join = {"protocol": "pc-broadcast", "has_snapshots": False}
    with Group(faults=Faults(delay_s=0.05)) as group:
        group.start("a", limits=SHORT, join=join)
        group.run(1)
        group.start("b", "a", limits=SHORT, join={**join, "timeout_s": 4.0})
        run_until_found(group, "b")
        group.simulation.partition(["a"], ["b"])
        group.run(2)
        (report,) = reports(group, "b")
        assert report == "joining r: no answer from a"
        group.run(4)
        check_error(group, "b", report, 4)


def test_a_room_that_joins_again_has_a_report_until_it_has_joined() -> None:
    with Group() as group:
        join = {"when_silent": WhenSilent.remove(2.0)}
        for name in "abc":
            group.start(name, *("a" if name != "a" else ""), limits=SHORT, join=join)
            group.run(2)
        assert reports(group, "c") == []
        group.simulation.partition(["a", "b"], ["c"])
        group.write("a", "missed")
        while group.members("a") != ["a", "b"]:
            group.run(0.1)
        group.simulation.heal()  # The lease of the removal has not ended.
        room = group.boards["c"].rooms["r"]
        events = room.events()
        while not any(isinstance(event, RoomRejoining) for event in events._events):
            group.run(0.1)
        group.run(0.1)
        found: list[str] = []

        async def ask(board: object) -> None:
            found.extend(str(report) for report in await room.waiting())

        group.call("c", ask)
        assert len(found) == 1
        assert found[0].startswith("joining r: ")
        assert reports(group, "c") == found
        group.run(40)
        assert group.members("c") == ["a", "b", "c"]
        assert reports(group, "c") == []
