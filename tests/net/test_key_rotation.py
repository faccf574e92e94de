"""The key of a group changes while it runs."""

from collections.abc import Iterator

import pytest

from antecede import Node, sync
from antecede.errors import ConfigError, LocalError
from antecede.net.faults import Faults
from tests.net.harness import connect_all, run
from tests.net.simulated import Group
from tests.net.test_events import Events

OLD = bytes(range(32))
NEW = bytes(32)
ROTATION = ([OLD, NEW], [NEW, OLD], [NEW])
"""The keys of each node, step by step."""


def test_the_key_of_a_running_group_changes_and_no_message_waits() -> None:
    """Three nodes send all the time. Each of the nine changes is followed by messages in
    all directions, so that every pair of old and new keys is used."""

    async def main() -> None:
        nodes = [Node(name, key=OLD) for name in ("ann", "bob", "cid")]
        for node in nodes:
            await node.open()
        connect_all(*nodes)
        sent = 0

        async def exchange() -> None:
            nonlocal sent
            for node in nodes:
                await node.broadcast(b"%d" % sent)
            for node in nodes:
                for _ in range(2):
                    assert (await node.receive()).data == b"%d" % sent
            sent += 1

        await exchange()
        for keys in ROTATION:
            for node in nodes:
                node.set_keys(keys)
                await exchange()
        dropped = [node.stats().engine.dropped["authentication"] for node in nodes]
        for node in nodes:
            await node.close()
        assert sent == 10
        assert dropped == [0, 0, 0]

    run(main)


def test_messages_under_way_survive_a_change_of_the_key_on_a_bad_network() -> None:
    """A datagram that is under way may be under a key that is not accepted any more; the
    next transmission is under the new one."""
    with Group(seed=5, faults=Faults(loss=0.2, jitter_s=0.3)) as group:
        group.open_all("ann", "bob", key=OLD)
        numbers: Iterator[int] = iter(range(100))
        for keys in ROTATION:
            for name in ("ann", "bob"):
                for _ in range(5):
                    group.send("ann", "bob", b"%d" % next(numbers))
                group.do(name, lambda node, keys=keys: node.set_keys(keys))  # type: ignore[misc]
        group.run(30)
        assert group.received["bob"] == [b"%d" % index for index in range(30)]


def test_a_node_with_the_former_key_is_shut_out(events: Events) -> None:
    """Bob does not follow the change: he is reported, and his messages do not arrive."""
    with Group() as group:
        for name, peer in (("ann", "bob"), ("bob", "ann")):
            group.open(name, peer, key=OLD, on_event=events.of(name))
        group.send("bob", "ann", b"1")
        group.run(1)
        group.do("ann", lambda node: node.set_keys(NEW))
        group.send("bob", "ann", b"2")
        group.run(20)
        assert group.received["ann"] == [b"1"]
        assert "KeyMismatch" in events.kinds("ann")
        assert "PeerSilent" in events.kinds("bob")  # Ann does not answer him.
        group.do("bob", lambda node: node.set_keys([NEW, OLD]))
        group.run(20)
        assert group.received["ann"] == [b"1", b"2"]


@pytest.fixture
def events() -> Events:
    return Events()


def test_a_new_node_joins_with_either_key() -> None:
    """During the change, a group accepts newcomers with the old and with the new key."""

    async def main() -> None:
        async with (
            Node("ann", key=[NEW, OLD]) as ann,
            Node("bob", key=[OLD, NEW]) as bob,
            Node("cid", key=(NEW, OLD)) as cid,
        ):
            connect_all(ann, bob, cid)
            for node in (ann, bob, cid):
                await node.broadcast(node.name.encode())
            for node in (ann, bob, cid):
                names = {(await node.receive()).source for _ in range(2)}
                assert names == {"ann", "bob", "cid"} - {node.name}

    run(main)


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ([], "1 to 4 different keys, got 0"),
        ([bytes([i] * 32) for i in range(5)], "1 to 4 different keys, got 5"),
        ([NEW, b"short"], "32 bytes, got 5 bytes"),
        ("text", "32 bytes, got str"),
    ],
)
def test_invalid_keys_change_nothing(keys: list[bytes], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        Node("ann", key=keys)

    async def main() -> None:
        async with Node("ann", key=OLD) as ann, Node("bob", key=OLD) as bob:
            connect_all(ann, bob)
            with pytest.raises(ConfigError, match=error):
                ann.set_keys(keys)
            await ann.send("bob", b"x")
            assert (await bob.receive()).data == b"x"

    run(main)


def test_a_node_without_a_key_cannot_set_one() -> None:
    async def main() -> None:
        ann = Node("ann")
        with pytest.raises(LocalError, match="ann is not open"):
            ann.set_keys(NEW)
        async with ann:
            with pytest.raises(LocalError, match="ann was opened without a key"):
                ann.set_keys(NEW)

    run(main)


def test_the_key_changes_for_threads() -> None:
    with sync.Node("ann", key=OLD) as ann, sync.Node("bob", key=OLD) as bob:
        ann.add_peer("bob", bob.address)
        bob.add_peer("ann", ann.address)
        for keys in ROTATION:
            for node in (ann, bob):
                node.set_keys(keys)
                ann.send("bob", b"x")
                assert bob.receive(timeout=60).data == b"x"
