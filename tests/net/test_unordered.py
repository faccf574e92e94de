"""Unordered messages: one datagram each, which nothing waits for."""

from pathlib import Path

import pytest

from antecede import Limits, Message, Node
from antecede.errors import LocalError
from antecede.net.faults import Faults
from antecede.trace.event import Kind
from antecede.trace.reader import read_trace
from tests.net.harness import connect_all, open_nodes, run, wait_until
from tests.net.simulated import Group
from tests.net.test_events import KEY


def collect(group: Group, name: str, peer: str, **options: object) -> list[Message]:
    """Open a node with a callback, and return the list of its messages."""
    found: list[Message] = []
    group.open(name, peer, receive=False, on_message=found.append, **options)
    return found


def cast(group: Group, source: str, data: bytes) -> None:
    """Send an unordered message to all peers."""
    group.call(source, group.nodes[source].broadcast(data, ordered=False))


@pytest.mark.parametrize("protocol", ["bounded", "hybrid", "fifo"])
def test_an_unordered_message_is_delivered_and_marked(protocol: str) -> None:
    async def main() -> None:
        async with open_nodes("ann", "bob", protocol=protocol, key=KEY) as (ann, bob):
            number = await ann.send("bob", b"text")
            assert (await bob.receive()).ordered
            assert await ann.send("bob", b"cursor", ordered=False) == 0
            message = await bob.receive()
            assert (message.data, message.source) == (b"cursor", "ann")
            assert not message.ordered
            assert message.number == 0
            assert repr(message) == "Message(ann, unordered, 6 B)"
            await message.commit()
            assert await ann.send("bob", b"text") == number + 1
            assert (await bob.receive()).ordered
            assert await ann.multicast(["bob"], b"a", ordered=False) == 0
            assert (await bob.receive()).data == b"a"

    run(main)


def test_an_unordered_message_overtakes_one_that_waits() -> None:
    """Bob's message to cid waits for a permit of ann; his presence does not."""
    with Group() as group:
        group.open_all("ann", "bob", "cid", protocol="hybrid")
        for peer in ("bob", "cid"):
            group.send("ann", peer, b"0")
        group.send("bob", "cid", b"0")
        group.run(1)
        group.simulation.block("ann", "cid")
        group.send("ann", "cid", b"1")
        group.send("ann", "bob", b"2")
        group.run(0.5)
        group.send("bob", "cid", b"3")
        group.run(1)
        assert group.received["cid"] == [b"0", b"0"]
        group.call("bob", group.nodes["bob"].send("cid", b"presence", ordered=False))
        group.run(1)
        assert group.received["cid"] == [b"0", b"0", b"presence"]


def test_a_lost_message_is_not_transmitted_again_and_nothing_waits_for_it() -> None:
    with Group() as group:
        group.open("ann", "bob")
        found = collect(group, "bob", "ann")
        group.send("ann", "bob", b"1")
        group.run(1)
        group.simulation.block("ann", "bob")
        cast(group, "ann", b"lost")
        assert group.nodes["ann"].engine.backlog == 0
        group.run(0.2)
        group.simulation.heal()
        group.send("ann", "bob", b"2")
        group.run(20)
        assert [message.data for message in found] == [b"1", b"2"]


def test_the_newest_message_wins_while_the_peer_has_not_answered() -> None:
    with Group() as group:
        group.open("ann", "bob")
        for data in (b"1", b"2", b"3"):
            cast(group, "ann", data)
        found = collect(group, "bob", "ann")
        group.run(1)
        assert [message.data for message in found] == [b"3"]


def test_a_message_that_waited_too_long_is_dropped() -> None:
    with Group() as group:
        group.open("ann", "bob")
        cast(group, "ann", b"old")
        group.run(10)
        found = collect(group, "bob", "ann")
        group.run(10)
        assert group.nodes["ann"].stats().peers["bob"].handshake_done
        assert found == []
        assert group.nodes["ann"].stats().engine.dropped["late"] == 1


def test_a_message_that_a_newer_one_has_overtaken_is_dropped() -> None:
    """The delays differ by more than the pause between two messages."""
    with Group(seed=3, faults=Faults(jitter_s=0.5)) as group:
        group.open("ann", "bob")
        found = collect(group, "bob", "ann")
        group.send("ann", "bob", b"x")
        group.run(2)
        found.clear()
        for index in range(50):
            cast(group, "ann", b"%d" % index)
            group.run(0.05)
        group.run(2)
        got = [int(message.data) for message in found]
        assert got == sorted(set(got))
        late = {
            name: node.stats().engine.dropped["late"] for name, node in group.nodes.items()
        }
        assert late["bob"] > 0
        assert len(got) + late["bob"] + late["ann"] == 50  # Ann may hold back some of them.


def test_unordered_messages_leave_three_quarters_of_the_inbox_to_others() -> None:
    limits = Limits(lease_s=2.0, inbox_messages_max=16)
    with Group() as group:
        group.open("ann", "bob", limits=limits)
        group.open("bob", "ann", receive=False, limits=limits)
        group.send("ann", "bob", b"x")
        group.run(1)
        for _ in range(20):
            cast(group, "ann", b"cursor")
            group.run(0.1)
        assert group.nodes["bob"].stats().inbox == 4
        assert group.nodes["bob"].stats().engine.dropped["inbox"] == 17
        for _ in range(4):
            group.send("ann", "bob", b"text")
        group.run(1)
        assert group.nodes["bob"].stats().inbox == 8


def test_unordered_messages_stay_within_the_congestion_window() -> None:
    """The peer has gone, so that nothing is acknowledged: the first messages fill the
    window, and of all others only the newest waits."""
    with Group() as group:
        group.open_all("ann", "bob", limits=Limits(lease_s=60.0))
        group.send("ann", "bob", b"x")
        group.run(1)
        group.simulation.block("ann", "bob")
        for _ in range(500):
            cast(group, "ann", bytes(1000))
        stats = group.nodes["ann"].stats()
        peer = stats.peers["bob"]
        assert peer.congestion_window_bytes is not None
        assert 0 < peer.in_flight_bytes <= peer.congestion_window_bytes
        assert stats.engine.dropped["late"] > 400


def test_a_removed_peer_cannot_send_unordered_messages() -> None:
    with Group() as group:
        group.open("bob", "ann")
        found = collect(group, "ann", "bob")
        group.send("bob", "ann", b"x")
        group.run(1)
        group.call("ann", group.nodes["ann"].remove_peer("bob"))
        cast(group, "bob", b"cursor")
        group.run(1)
        assert [message.data for message in found] == [b"x"]
        assert group.nodes["ann"].stats().engine.dropped["removed"] >= 1


def test_invalid_unordered_messages_are_refused() -> None:
    async def main() -> None:
        limits = Limits(datagram_bytes_base=1232)
        async with open_nodes("ann", "bob", limits=limits) as (ann, _):
            most = ann.engine.unordered.bytes_max
            assert await ann.send("bob", bytes(most), ordered=False) == 0
            for data, error in (
                (bytes(most + 1), f"at most {most} bytes"),
                ("text", "got str"),
            ):
                with pytest.raises(LocalError, match=error):
                    await ann.send("bob", data, ordered=False)
            with pytest.raises(LocalError, match="eve is not a peer of ann"):
                await ann.multicast(["bob", "eve"], b"x", ordered=False)
            with pytest.raises(LocalError, match="has no receipt"):
                await ann.send(  # type: ignore[call-overload]
                    "bob", b"x", ordered=False, receipt=True
                )
        with pytest.raises(LocalError, match="ann is closed"):
            await ann.send("bob", b"x", ordered=False)

    run(main)


def test_the_largest_message_fits_into_one_datagram() -> None:
    async def main() -> None:
        limits = Limits(datagram_bytes_base=600, datagram_bytes_max=600)
        async with open_nodes("ann", "bob", limits=limits, key=KEY) as (ann, bob):
            await ann.send("bob", b"x")
            await bob.receive()
            await ann.flush()
            data = bytes(ann.engine.unordered.bytes_max)
            await ann.send("bob", data, ordered=False)
            assert (await bob.receive()).data == data
            assert len(data) > 400

    run(main)


def test_neither_the_journal_nor_the_trace_has_unordered_messages(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            Node("ann", trace=tmp_path / "ann") as ann,
            Node("bob", journal=tmp_path / "bob.db", trace=tmp_path / "bob") as bob,
        ):
            connect_all(ann, bob)
            await ann.send("bob", b"text")
            await (await bob.receive()).commit()
            await ann.send("bob", b"cursor", ordered=False)
            await wait_until(lambda: bob.stats().inbox == 1)
        async with Node("bob", journal=tmp_path / "bob.db") as bob:
            assert bob.stats().inbox == 0

    run(main)
    assert kinds(tmp_path / "ann").count(Kind.SEND) == 1
    assert kinds(tmp_path / "bob").count(Kind.DELIVER) == 1


def kinds(path: Path) -> list[Kind]:
    """Return the kinds of the events that a node has recorded."""
    return [event.kind for event in read_trace(path).events()]
