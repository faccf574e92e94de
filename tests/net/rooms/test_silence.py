"""Members that are silent, and members that only seem to be."""

from antecede import Limits, WhenSilent
from antecede.net.faults import Faults
from antecede.net.rooms.events import MemberRemoved, RoomRejoining

from .whiteboard import Group

SHORT = Limits(lease_s=2.0, keep_alive_s=0.5)


def test_only_the_silent_member_is_removed() -> None:
    """The messages of the others to each other wait for a permit of the dead member.

    So these do not hear of each other in the room, unless they ask.
    """
    join = {"protocol": "hybrid", "when_silent": WhenSilent.remove(3.0)}
    with Group(faults=Faults(delay_s=0.01)) as group:
        for name in "abcd":
            group.start(name, *("a" if name != "a" else ""), limits=SHORT, join=join)
            group.run(2)
        events = {name: group.boards[name].rooms["r"].events() for name in "abc"}
        group.write("d", "the first")
        group.simulation.partition(["d"], ["c"])
        group.write("d", "the last")
        group.run(0.05)  # It arrives at a and b only: d never grants its permit.
        group.simulation.kill("d")
        for count in range(10):
            for name in "abc":
                group.write(name, f"{name} {count}")
        group.run(20)
        for name in "abc":
            assert group.members(name) == ["a", "b", "c"]
            assert {f"{each} 9" for each in "abc"} < set(group.texts(name))
            found = list(events[name]._events)
            removed = {each.peer for each in found if isinstance(each, MemberRemoved)}
            assert removed == {"d"}, name
            assert not any(isinstance(each, RoomRejoining) for each in found)
        group.check()
