"""The API of a node: sending, receiving, flow control and cancellation."""

import asyncio
import contextlib
import time

import pytest

from antecede.engine.limits import Limits
from antecede.errors import LocalError, WindowFull
from antecede.net import Node
from antecede.net.faults import Faults
from tests.net.harness import (
    LOOPS,
    connect_all,
    open_network,
    open_nodes,
    receive_many,
    run,
    stays_pending,
    wait_until,
)
from tests.net.limits import quick_limits

pytestmark = pytest.mark.parametrize("loop", LOOPS)


def small_window(window: int = 3) -> Limits:
    return quick_limits(window_copies_max=window)


def test_a_message_arrives_with_its_fields(loop: str) -> None:
    async def main() -> None:
        started = time.time()
        async with open_nodes("ann", "bob") as (ann, bob):
            number = await ann.send("bob", b"hello")
            message = await bob.receive()
            assert (message.source, message.number) == ("ann", number) == ("ann", 1)
            assert message.data == b"hello"
            assert started <= message.delivered_at <= time.time()
            await message.commit()  # Without a journal this does nothing.
            assert await bob.send("ann", b"") == 1
            assert (await ann.receive()).data == b""
            assert await ann.send("bob", b"again") == 2

    run(main, loop)


def test_multicast_is_one_message_and_broadcast_reaches_all_peers(loop: str) -> None:
    async def main() -> None:
        async with open_nodes("a", "b", "c", "d") as (a, b, c, d):
            assert sorted(a.peers) == ["b", "c", "d"]
            assert await a.multicast(["b", "d"], b"two") == 1
            assert await a.broadcast(b"all") == 2
            assert await a.multicast({"c"}, b"one") == 3
            assert [m.number for m in await receive_many(b, 2)] == [1, 2]
            assert [m.number for m in await receive_many(c, 2)] == [2, 3]
            assert [m.number for m in await receive_many(d, 2)] == [1, 2]

    run(main, loop)


@pytest.mark.parametrize("size", [5, 300_000])
def test_a_node_can_send_to_itself(loop: str, size: int) -> None:
    async def main() -> None:
        async with open_nodes("a", "b") as (a, b):
            data = bytes(range(256)) * (size // 256) + b"tail"
            await a.send("a", data)
            await a.multicast(["a", "b"], data[::-1])
            assert [m.data for m in await receive_many(a, 2)] == [data, data[::-1]]
            assert (await b.receive()).data == data[::-1]

    run(main, loop)


@pytest.mark.long
def test_flush_waits_until_all_messages_are_delivered(loop: str) -> None:
    async def main() -> None:
        async with open_network(Faults(delay_s=0.05), "a", "b", limits=quick_limits()) as (
            proxy,
            (a, b),
        ):
            for index in range(10):
                await a.send("b", b"%d" % index)
            await a.flush()
            assert a.engine.backlog == 0
            assert b.engine.stats().delivered == 10
            proxy.injector.partition("a", "b")
            await a.send("b", b"late")
            flushing = asyncio.create_task(a.flush())
            assert await stays_pending(flushing)
            proxy.injector.heal()
            await flushing
            assert len(await receive_many(b, 11)) == 11

    run(main, loop)


@pytest.mark.long
def test_a_full_window_makes_send_wait_or_raise(loop: str) -> None:
    async def main() -> None:
        async with open_network(Faults(), "a", "b", "c", limits=small_window()) as (
            proxy,
            (a, b, _),
        ):
            proxy.injector.partition("a", "b")
            for _ in range(3):
                await a.send("b", b"x", wait=False)
            with pytest.raises(
                WindowFull, match="window of b is full; pass wait=True, or try"
            ):
                await a.send("b", b"y", wait=False)
            with pytest.raises(WindowFull, match="window of b is full"):
                await a.multicast(["c", "b"], b"y" * 90_000, wait=False)
            await a.send("c", b"not blocked by b", wait=False)
            blocked = asyncio.create_task(a.send("b", b"z"))
            assert await stays_pending(blocked)
            proxy.injector.heal()
            await blocked
            assert [m.data for m in await receive_many(b, 4)] == [b"x", b"x", b"x", b"z"]

    run(main, loop)


@pytest.mark.long
def test_a_cancelled_send_of_a_large_message_delivers_all_of_it_or_nothing(
    loop: str,
) -> None:
    async def main() -> None:
        limits = quick_limits(window_copies_max=4)
        async with open_network(Faults(), "a", "b", "c", limits=limits) as (
            proxy,
            (a, b, c),
        ):
            proxy.injector.partition("a", "bc")
            for cancel in (True, False, True):
                sending = asyncio.create_task(a.multicast(["b", "c"], b"1" * 60_000))
                assert await stays_pending(sending)
                if not cancel:
                    continue
                sending.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await sending
            proxy.injector.heal()
            await a.multicast(["b", "c"], b"2" * 50_000)
            await a.flush()
            for node in (b, c):
                whole = [
                    m.data for m in await receive_many(node, node.engine.stats().delivered)
                ]
                assert whole[-1] == b"2" * 50_000
                assert set(whole) <= {b"1" * 60_000, b"2" * 50_000}

    run(main, loop)


def test_a_slow_consumer_blocks_senders_and_loses_no_message(loop: str) -> None:
    async def main() -> None:
        limits = quick_limits(window_copies_max=4, inbox_messages_max=8)
        async with open_nodes("a", "b", limits=limits) as (a, b):
            total = 100

            async def produce() -> None:
                for index in range(total):
                    await a.send("b", b"%d" % index)

            producing = asyncio.create_task(produce())
            assert await stays_pending(producing)
            assert b.engine.stats().delivered <= 8 + 1
            assert b.engine.stats().dropped["inbox"] == 0
            got = [int(m.data) for m in await receive_many(b, total)]
            assert got == list(range(total))
            await producing

    run(main, loop)


def test_iteration_ends_when_the_node_is_closed(loop: str) -> None:
    async def main() -> None:
        async with open_nodes("a", "b") as (a, b):
            got: list[bytes] = []

            async def consume() -> None:
                got.extend([message.data async for message in b])

            consumers = [asyncio.create_task(consume()) for _ in range(3)]
            await a.send("b", b"1")
            await a.send("b", b"2")
            await a.flush()
            await b.close()
            await asyncio.gather(*consumers)
            assert sorted(got) == [b"1", b"2"]
            with pytest.raises(
                LocalError, match="cannot receive: b is closed and its inbox is empty"
            ):
                await b.receive()

    run(main, loop)


def test_messages_delivered_before_the_close_can_be_received_after_it(loop: str) -> None:
    async def main() -> None:
        async with open_nodes("a", "b") as (a, b):
            for index in range(5):
                await a.send("b", b"%d" % index)
            await a.flush()
            await b.close()
            assert [message.data async for message in b] == [b"0", b"1", b"2", b"3", b"4"]

    run(main, loop)


@pytest.mark.parametrize("when", ["waiting", "woken"])
def test_a_cancelled_reader_leaves_its_message_to_another_reader(
    loop: str, when: str
) -> None:
    async def main() -> None:
        async with open_nodes("a") as (a,):  # No datagram resumes the reader at once.
            readers = [asyncio.create_task(a.receive()) for _ in range(2)]
            await asyncio.sleep(0)
            if when == "waiting":
                readers[0].cancel()
            await a.send("a", b"1")  # Wakes the first reader in the next turn of the loop,
            if when == "woken":  # which is cancelled here before it runs.
                asyncio.get_running_loop().call_soon(readers[0].cancel)
            assert (await readers[1]).data == b"1"
            assert readers[0].cancelled()

    run(main, loop)


@pytest.mark.long
def test_receive_with_a_timeout_loses_no_message(loop: str) -> None:
    async def main() -> None:
        async with open_nodes("a", "b") as (a, b):
            total = 300
            got: list[int] = []

            async def produce() -> None:
                for index in range(total):
                    await a.send("b", b"%d" % index)
                    await asyncio.sleep(0.001 * (index % 3))

            producing = asyncio.create_task(produce())
            timeouts = 0
            while len(got) < total:
                try:
                    message = await asyncio.wait_for(b.receive(), 0.001)
                except TimeoutError:
                    timeouts += 1
                else:
                    got.append(int(message.data))
            await producing
            assert got == list(range(total))
            assert timeouts > 0

    run(main, loop)


def test_a_large_message_does_not_corrupt_messages_sent_meanwhile(loop: str) -> None:
    async def main() -> None:
        async with open_nodes("a", "b", "c") as (a, b, c):
            large = bytes(range(256)) * 4096  # 1 MiB, four times the window.
            sending = [
                asyncio.create_task(a.multicast(["b", "c"], large)),
                asyncio.create_task(c.send("b", large[::-1])),
                asyncio.create_task(a.send("b", large[1:])),
            ]
            for index in range(50):
                await a.send("b", b"%d" % index)
                await asyncio.sleep(0)
            await asyncio.gather(*sending)
            got = [m.data for m in await receive_many(b, 53)]
            assert [data for data in got if len(data) < 9] == [b"%d" % n for n in range(50)]
            assert sorted(data[:4] for data in got if len(data) > 9) == sorted(
                [large[:4], large[:-5:-1], large[1:5]]
            )
            assert {large, large[::-1], large[1:]} < set(got)
            assert (await c.receive()).data == large

    run(main, loop)


@pytest.mark.parametrize("a_segments", [True, False])
@pytest.mark.parametrize("b_segments", [True, False])
def test_nodes_with_and_without_segmentation_interoperate(
    loop: str, a_segments: bool, b_segments: bool
) -> None:
    async def main() -> None:
        limits = quick_limits()
        async with (
            Node("a", segmentation=a_segments, limits=limits) as a,
            Node("b", segmentation=b_segments, limits=limits) as b,
        ):
            connect_all(a, b)
            sizes = [1, 1100, 1100, 1100, 40, 5000, 0, 1100, 90_000, 3]
            for source, target in ((a, b), (b, a)):
                for size in sizes:
                    await source.send(target.name, b"x" * size)
                assert [
                    len(m.data) for m in await receive_many(target, len(sizes))
                ] == sizes
                await source.flush()
            assert sum(a.engine.stats().dropped.values()) == 0

    run(main, loop)


@pytest.mark.long
def test_nodes_with_a_group_key_exchange_messages(loop: str) -> None:
    async def main() -> None:
        pytest.importorskip("cryptography")
        async with open_nodes("a", "b", key=bytes(32)) as (a, b):
            await a.send("b", b"x" * 100_000)
            assert len((await b.receive()).data) == 100_000
            async with Node("c", key=bytes(31) + b"1") as stranger:
                connect_all(a, stranger)
                await stranger.send("a", b"let me in")
                await wait_until(lambda: a.engine.stats().dropped["authentication"] > 1)
                assert a.engine.stats().delivered == 0
                await stranger.close(0)

    run(main, loop)


def test_nodes_exchange_messages_over_ipv6(loop: str) -> None:
    async def main() -> None:
        async with open_nodes("a", "b", bind="[::1]:0") as (a, b):
            assert a.address[0] == "::1"
            await a.send("b", b"ipv6" * 10_000)
            assert (await b.receive()).data == b"ipv6" * 10_000
            await b.send("a", b"back")
            assert (await a.receive()).data == b"back"

    run(main, loop)
