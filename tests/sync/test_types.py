"""The types of `antecede.sync`, which mypy checks, and which hold when the test runs."""

import inspect
from typing import assert_type

import antecede
from antecede import Message, sync

ONLY_ASYNCHRONOUS = {"engine", "send_nowait"}
"""The engine is not for threads; `send` with ``wait=False`` is what threads need."""
ONLY_FOR_THREADS = {"commit", "name"}
"""A message of the asynchronous node commits itself, and its name is an attribute."""


def names(cls: type) -> set[str]:
    return {name for name in vars(cls) if not name.startswith("_")}


def test_both_nodes_have_the_same_methods_and_arguments() -> None:
    both = names(antecede.Node) - ONLY_ASYNCHRONOUS
    assert both == names(sync.Node) - ONLY_FOR_THREADS
    for name in both | {"__init__"}:
        asynchronous, threads = getattr(antecede.Node, name), getattr(sync.Node, name)
        if isinstance(asynchronous, property):
            continue
        expected = dict(inspect.signature(asynchronous).parameters)
        found = dict(inspect.signature(threads).parameters)
        found.pop("timeout", None)
        assert list(found) == list(expected), name
        for parameter in expected.values():
            assert found[parameter.name].default == parameter.default, (name, parameter)


def test_results_have_the_types_of_the_asynchronous_node() -> None:
    with sync.Node("ann", limits=antecede.Limits()) as ann:
        assert_type(ann, sync.Node)
        assert_type(ann.send("ann", b"1"), int)
        assert_type(ann.multicast(["ann"], b"2", timeout=60.0), int)
        assert_type(ann.send_many("ann", [b"3", b"4"]), list[int])
        message = assert_type(ann.receive(timeout=60.0), Message)
        assert_type(message.data, bytes)
        assert_type(ann.receive_many(2), list[Message])
        assert_type(next(ann), Message)
        assert_type(ann.address, tuple[str, int])
        assert_type(ann.peers, list[str])
        assert_type(ann.name, str)
        ann.flush()


def check_that_mypy_knows_the_arguments() -> None:
    """Never called: mypy reports an error here that it does not find."""
    sync.Node("ann", bind=("127.0.0.1", 0), key=None, encode=repr)  # type: ignore[arg-type]
    sync.Node("ann", segmentation="no")  # type: ignore[arg-type]
    sync.Node()  # type: ignore[call-arg]
