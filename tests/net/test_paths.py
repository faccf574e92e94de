"""Nodes on real sockets whose path changes: a proxy in the same process changes it."""

import asyncio

from antecede.engine import Limits
from antecede.net.faults import Faults
from tests.net.harness import open_network, receive_many, run

SEARCHED = Limits(datagram_bytes_base=1232, datagram_bytes_max=8972)


def test_nodes_find_the_size_of_datagrams_that_the_path_carries() -> None:
    async def main() -> None:
        async with open_network(
            Faults(datagram_bytes_max=1500),
            *("ann", "bob"),
            protocol="hybrid",
            limits=SEARCHED,
        ) as (proxy, (ann, bob)):
            path = ann.engine.sessions["bob"].path

            async def send_and_receive() -> None:
                for index in range(100):
                    await ann.send("bob", b"%03d" % index + bytes(100))
                received = await receive_many(bob, 100)
                assert [int(each.data[:3]) for each in received] == list(range(100))

            while path.mtu.is_waiting or path.mtu.is_due or path.mtu.probe_number:
                await send_and_receive()
            assert 1480 <= path.datagram_bytes <= 1500
            assert proxy.injector.counts["oversized"] > 0
            proxy.injector.faults = Faults(datagram_bytes_max=1300)
            while path.datagram_bytes > 1300:
                await send_and_receive()
            await ann.send("bob", bytes(100_000))
            assert (await receive_many(bob, 1))[0].data == bytes(100_000)

    run(main)


def test_a_flow_continues_while_the_path_shrinks() -> None:
    async def main() -> None:
        async with open_network(
            Faults(), "ann", "bob", protocol="bounded", limits=SEARCHED
        ) as (proxy, (ann, bob)):
            path = ann.engine.sessions["bob"].path
            sent = 0

            async def send() -> None:
                nonlocal sent
                while sent < 2000:
                    await ann.send("bob", b"%05d" % sent + bytes(300))
                    sent += 1

            sending = asyncio.ensure_future(send())
            received = await receive_many(bob, 1000)
            assert path.datagram_bytes == 8972
            proxy.injector.faults = Faults(datagram_bytes_max=1232)
            received += await receive_many(bob, 1000)
            await sending
            assert [int(each.data[:5]) for each in received] == list(range(2000))

    run(main)
