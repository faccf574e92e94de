"""The nodes and rooms for threads have the methods of the asynchronous ones."""

import inspect
from typing import Any

import pytest

from antecede import Node, Room, sync

ONLY_ASYNCHRONOUS = {
    "engine",  # For tests and tools, on the event loop.
    "send_nowait",  # For callbacks, which run on the event loop.
}
ONLY_FOR_THREADS = {
    "commit",  # That of a message must be called on the event loop.
    "name",  # An attribute of the instances of the other node.
}


def public(cls: type) -> dict[str, Any]:
    """Return the public attributes of a class."""
    return {
        name: value for name, value in inspect.getmembers(cls) if not name.startswith("_")
    }


@pytest.mark.parametrize(
    ("asynchronous", "twin"), [(Node, sync.Node), (Room, sync.Room)], ids=["node", "room"]
)
def test_the_twins_have_the_same_methods_and_parameters(
    asynchronous: type, twin: type
) -> None:
    ours, theirs = public(asynchronous), public(twin)
    assert set(ours) - set(theirs) == ONLY_ASYNCHRONOUS & set(ours)
    assert set(theirs) - set(ours) <= ONLY_FOR_THREADS
    for name in set(ours) & set(theirs):
        if not callable(ours[name]):
            assert isinstance(theirs[name], property)
            continue
        parameters = inspect.signature(ours[name]).parameters
        others = dict(inspect.signature(theirs[name]).parameters)
        others.pop("timeout", None)
        assert list(others) == list(parameters), name
        for each in others:
            assert others[each].default == parameters[each].default, (name, each)
            assert others[each].kind == parameters[each].kind, (name, each)


def test_both_are_used_with_with_and_in_loops() -> None:
    for cls in (sync.Node, sync.Room):
        assert {"__enter__", "__exit__", "__iter__", "__next__"} <= set(dir(cls))
    for twin in (Node, Room):
        assert {"__aenter__", "__aexit__", "__aiter__", "__anext__"} <= set(dir(twin))
