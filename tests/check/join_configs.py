"""The searches over the joins of a room, for tests and for ``make verification``."""

from antecede.check.found_model import FoundConfig
from antecede.check.join_model import JoinConfig

__all__ = ["FOUNDING", "LONG", "SMALL"]

SMALL = {
    "one newcomer": JoinConfig(members=3),
    "a message of a third member": JoinConfig(members=3, sends={"b": 1}),
    "messages of the sponsor and of a member": JoinConfig(
        members=2, sends={"a": 1, "b": 1}
    ),
    "the newcomer answers a message": JoinConfig(members=3, sends={"c": 1, "x": 1}),
    "two newcomers at once": JoinConfig(members=2, newcomers={"x": "a", "y": "b"}),
    "two newcomers of one sponsor": JoinConfig(members=2, newcomers={"x": "a", "y": "a"}),
    "a newcomer sponsors the next": JoinConfig(members=1, newcomers={"x": "a", "y": "x"}),
    "the sponsor crashes": JoinConfig(members=2, sends={"b": 1}, crashes=("a",)),
    "a member crashes": JoinConfig(members=2, sends={"a": 1}, crashes=("b",)),
    "a sponsor is suspected": JoinConfig(members=2, timeouts=1),
}
"""Searches that take seconds each."""

LONG = {
    "three members write": JoinConfig(members=3, sends={"a": 1, "b": 1, "c": 1}),
    "members and the newcomer write": JoinConfig(members=3, sends={"a": 1, "b": 1, "x": 1}),
    "two newcomers at once, a member writes": JoinConfig(
        members=2, sends={"a": 1}, newcomers={"x": "a", "y": "b"}
    ),
    "two newcomers at once, one writes": JoinConfig(
        members=2, sends={"x": 1}, newcomers={"x": "a", "y": "b"}
    ),
    "a newcomer sponsors the next, and writes": JoinConfig(
        members=2, sends={"b": 1, "x": 1}, newcomers={"x": "a", "y": "x"}
    ),
    "the sponsor of three crashes": JoinConfig(members=3, sends={"b": 1}, crashes=("a",)),
}
"""Searches that take minutes each."""

FOUNDING = {
    "each is the seed of the other": FoundConfig(seeds={"a": "b", "b": "a"}),
    "one is the seed of the other": FoundConfig(seeds={"a": "", "b": "a"}),
    "a third node is the seed of both": FoundConfig(seeds={"a": "d", "b": "d"}),
}
"""Searches over nodes that look for a room that does not exist yet."""
