"""Batch calls of a node, and the callback for messages."""

import asyncio
from pathlib import Path

import pytest

from antecede import LocalError, Message, Node, WindowFull
from tests.net.limits import quick_limits

BATCH = [bytes([number]) for number in range(200)]


async def meet(*nodes: Node) -> None:
    """Open nodes that are peers of each other, and complete the handshakes."""
    for node in nodes:
        await node.open()
    for node in nodes:
        for peer in nodes:
            if peer is not node:
                node.add_peer(peer.name, peer.address)


async def close(*nodes: Node) -> None:
    await asyncio.gather(*(node.close() for node in nodes))


async def receive_all(node: Node, count: int) -> list[Message]:
    messages: list[Message] = []
    async with asyncio.timeout(20):
        while len(messages) < count:
            messages += await node.receive_many()
    return messages


@pytest.mark.parametrize("protocol", ["bounded", "hybrid", "fifo"])
def test_a_batch_arrives_in_order(protocol: str) -> None:
    async def scenario() -> None:
        a, b = Node("a", protocol=protocol), Node("b", protocol=protocol)
        await meet(a, b)
        assert await a.send_many("b", []) == []
        assert await a.send_many("b", BATCH) == list(range(1, 201))
        assert await a.send("b", b"last") == 201
        messages = await receive_all(b, 201)
        assert [each.data for each in messages] == [*BATCH, b"last"]
        assert [each.number for each in messages] == list(range(1, 202))
        await close(a, b)

    asyncio.run(scenario())


def test_a_batch_may_exceed_the_window_and_contain_large_messages() -> None:
    async def scenario() -> None:
        limits = quick_limits(window_copies_max=8, inbox_messages_max=16)
        a, b = Node("a", limits=limits), Node("b", limits=limits)
        await meet(a, b)
        batch = [*BATCH, bytes(5000), *BATCH]
        sending = asyncio.create_task(a.send_many("b", iter(batch)))
        messages = await receive_all(b, len(batch))
        assert [each.data for each in messages] == batch
        assert await sending == [each.number for each in messages]
        await close(a, b)

    asyncio.run(scenario())


def test_a_batch_with_an_invalid_message_or_target_raises() -> None:
    async def scenario() -> None:
        a, b = Node("a"), Node("b")
        await meet(a, b)
        with pytest.raises(LocalError, match="data must be bytes, not str"):
            await a.send_many("b", [b"1", "2"])
        with pytest.raises(LocalError, match="eve is not a peer of a"):
            await a.send_many("eve", [b"1"])
        assert [each.data for each in await receive_all(b, 1)] == [b"1"]
        await close(a, b)
        with pytest.raises(LocalError, match="cannot send: a is closed"):
            await a.send_many("b", [b"1"])

    asyncio.run(scenario())


def test_receive_many_returns_at_most_so_many() -> None:
    async def scenario() -> None:
        a, b = Node("a"), Node("b")
        await meet(a, b)
        await a.send_many("b", BATCH)
        await a.flush()
        assert [each.number for each in await b.receive_many(3)] == [1, 2, 3]
        assert [each.number for each in await b.receive_many(1)] == [4]
        assert len(await b.receive_many()) == 196
        with pytest.raises(LocalError, match="max_messages must be at least 1, got 0"):
            await b.receive_many(0)
        await close(a, b)
        with pytest.raises(LocalError, match="cannot receive: b is closed"):
            await b.receive_many()

    asyncio.run(scenario())


def test_a_node_with_a_journal_receives_bundles(tmp_path: Path) -> None:
    async def scenario() -> None:
        a, b = Node("a"), Node("b", journal=tmp_path / "b.db")
        await meet(a, b)
        address = b.address
        await a.send_many("b", BATCH)
        messages = await receive_all(b, len(BATCH))
        await asyncio.gather(*(each.commit() for each in messages[:150]))
        await b.close(0.0)
        again = Node("b", bind=address, journal=tmp_path / "b.db")
        await again.open()
        redelivered = await receive_all(again, 50)
        assert [(each.number, each.data) for each in redelivered] == [
            (number, BATCH[number - 1]) for number in range(151, 201)
        ]
        await close(a, again)

    asyncio.run(scenario())


def test_send_nowait_never_waits() -> None:
    async def scenario() -> None:
        limits = quick_limits(window_copies_max=8)
        a, b = Node("a", limits=limits), Node("b", limits=limits)
        await meet(a, b)
        assert [a.send_nowait("b", b"x") for _ in range(8)] == list(range(1, 9))
        with pytest.raises(WindowFull, match="the window of b is full"):
            a.send_nowait("b", b"x")
        with pytest.raises(LocalError, match="5000 bytes do not fit into one datagram"):
            a.send_nowait("b", bytes(5000))
        with pytest.raises(LocalError, match="eve is not a peer"):
            a.send_nowait("eve", b"x")
        assert a.send_nowait("a", b"to itself") == 9
        assert (await a.receive()).data == b"to itself"
        await a.flush()
        assert len(await receive_all(b, 8)) == 8
        await close(a, b)
        with pytest.raises(LocalError, match="cannot send: a is closed"):
            a.send_nowait("b", b"x")

    asyncio.run(scenario())


def test_a_batch_of_a_node_with_a_journal_is_in_the_journal(tmp_path: Path) -> None:
    async def scenario() -> None:
        a, b = Node("a", journal=tmp_path / "a.db"), Node("b")
        await a.open()
        a.add_peer("b", ("127.0.0.1", 9))
        assert await a.send_many("b", BATCH) == list(range(1, 201))
        await a.close(0.0)
        again = Node("a", journal=tmp_path / "a.db")
        await meet(again, b)
        assert [each.data for each in await receive_all(b, 200)] == BATCH
        await close(again, b)

    asyncio.run(scenario())


def test_send_nowait_refuses_a_journal(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Node("a", journal=tmp_path / "a.db") as a:
            with pytest.raises(LocalError, match="a has a journal; await send"):
                a.send_nowait("a", b"x")

    asyncio.run(scenario())


def test_a_callback_gets_all_messages_in_order_and_may_answer() -> None:
    async def scenario() -> None:
        got: list[bytes] = []

        def answer(message: Message) -> None:
            got.append(message.data)
            b.send_nowait("a", message.data)

        a, b = Node("a"), Node("b", on_message=answer)
        await meet(a, b)
        await a.send_many("b", BATCH)
        messages = await receive_all(a, len(BATCH))
        assert got == BATCH
        assert [each.data for each in messages] == BATCH
        with pytest.raises(LocalError, match="b has on_message, which gets all messages"):
            await b.receive()
        await close(a, b)

    asyncio.run(scenario())


def test_a_callback_that_sends_to_its_own_node_is_not_called_again_meanwhile() -> None:
    async def scenario() -> None:
        got: list[bytes] = []

        def relay(message: Message) -> None:
            if len(message.data) < 4:
                node.send_nowait("a", message.data + b".")
            got.append(message.data)

        async with Node("a", on_message=relay) as node:
            node.send_nowait("a", b"x")
            node.send_nowait("a", b"y")
            await node.flush()
            await asyncio.sleep(0.05)
        assert got == [b"x", b"y", b"x.", b"y.", b"x..", b"y..", b"x...", b"y..."]

    asyncio.run(scenario())
