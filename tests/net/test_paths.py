"""Nodes on real sockets whose path changes: a proxy in the same process changes it."""

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from antecede.engine import Limits
from antecede.engine.ecn import CE, ECT, NOT_ECT
from antecede.net import Node
from antecede.net.faults import Faults
from antecede.net.ip_options import report_marks, set_mark
from antecede.net.udp import UdpSocket
from tests.net.harness import open_network, open_nodes, receive_many, run
from tests.net.simulated import Group

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


def test_a_node_uses_smaller_datagrams_than_one_that_its_socket_has_refused() -> None:
    async def main() -> None:
        async with open_nodes("ann", "bob", limits=SEARCHED) as (ann, bob):
            session = ann.engine.sessions["bob"]
            while session.path.datagram_bytes < 8972:
                await ann.send("bob", bytes(100_000))
                await bob.receive()
            socket = ann._runtime._socket
            assert socket is not None
            socket.on_refused(session.address, 8972)
            assert session.path.datagram_bytes == 1232
            await ann.send("bob", bytes(100_000))
            assert (await bob.receive()).data == bytes(100_000)

    run(main)


@pytest.mark.parametrize("protocol", ["bounded", "hybrid"])
def test_a_peer_that_moves_in_mid_stream_is_found(protocol: str) -> None:
    async def main() -> None:
        async with open_network(
            Faults(), "ann", "bob", protocol=protocol, key=bytes(range(32))
        ) as (proxy, (ann, bob)):
            session = ann.engine.sessions["bob"]
            former = session.address

            async def send(source: Node, target: str) -> None:
                for index in range(200):
                    await source.send(target, b"%d" % index)
                    await asyncio.sleep(0.001)

            sends = asyncio.gather(send(ann, "bob"), send(bob, "ann"))
            received = await receive_many(bob, 100)
            await proxy.rebind("bob")
            received += await receive_many(bob, 100)
            back = await receive_many(ann, 200)
            await sends
            assert [int(each.data) for each in received] == list(range(200))
            assert [int(each.data) for each in back] == list(range(200))
            assert session.address == proxy.endpoints["bob"] != former

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


class MarkingRelay:
    """Forwards datagrams between two nodes, and gives all of them the same mark."""

    def __init__(self) -> None:
        self.mark = NOT_ECT
        self.arrived: set[int] = set()
        """The marks of the datagrams that have arrived."""
        self.ends = {name: UdpSocket(("127.0.0.1", 0)) for name in ("ann", "bob")}
        self.nodes: dict[str, object] = {}

    def start(self, ann: Node, bob: Node) -> None:
        """Represent each node to the other one."""
        self.nodes = {"ann": ann.address, "bob": bob.address}
        self.ends["bob"].start_reading(lambda: self._forward("bob", "ann"))
        self.ends["ann"].start_reading(lambda: self._forward("ann", "bob"))
        ann.add_peer("bob", self.ends["bob"].address)
        bob.add_peer("ann", self.ends["ann"].address)

    def _forward(self, target: str, source: str) -> None:
        out = self.ends[source]
        set_mark(out._socket, self.mark)
        for datagram, _, mark in self.ends[target].receive(100):
            self.arrived.add(mark)
            out.transmit([(self.nodes[target], datagram)])


@contextlib.contextmanager
def marking_relay() -> Iterator[MarkingRelay]:
    relay = MarkingRelay()
    try:
        if not report_marks(relay.ends["ann"]._socket):
            pytest.skip("optional: the system reports the marks of datagrams")
        yield relay
    finally:
        for end in relay.ends.values():
            end.close()


@pytest.mark.parametrize("segmentation", [True, False])
def test_nodes_react_to_marks_on_real_sockets(segmentation: bool) -> None:
    async def main() -> None:
        with marking_relay() as relay:
            limits = Limits(congestion_control="newreno")
            ann = Node("ann", limits=limits, segmentation=segmentation)
            bob = Node("bob", limits=limits, segmentation=segmentation)
            async with ann, bob:
                relay.start(ann, bob)
                path = ann.engine.sessions["bob"].path

                async def send_and_receive() -> None:
                    for index in range(100):
                        await ann.send("bob", b"%03d" % index + bytes(1000))
                    received = await receive_many(bob, 100)
                    assert [int(each.data[:3]) for each in received] == list(range(100))

                # A queue that marks everything: the window becomes small, nothing is lost.
                relay.mark = CE
                for _ in range(5):
                    await send_and_receive()
                assert path.window <= 4 * path.datagram_bytes
                assert ann.stats().engine.marks >= 5
                assert path.ecn.is_validated
                # A path that clears the marks is not validated any more.
                relay.mark = NOT_ECT
                while path.ecn.is_marking:
                    await send_and_receive()
                relay.arrived.clear()
                await send_and_receive()
                await send_and_receive()
                assert relay.arrived <= {NOT_ECT, ECT}  # bob's acks may be marked still.
                assert ann.engine.paths.marked == set()

    run(main)


@pytest.mark.parametrize("control", ["cubic", "newreno"])
def test_a_queue_that_marks_need_not_drop(control: str) -> None:
    link = Faults(delay_s=0.02, bytes_per_s=2.5e5, queue_s=0.1, mark_s=0.02)
    with Group(3, link) as group:
        limits = Limits(congestion_control=control)
        group.open("ann", "bob", limits=limits, receive=False)
        group.open("bob", "ann", limits=limits)

        async def produce(node: Node) -> None:
            while True:
                await node.send("bob", bytes(1000))

        group.start_task("ann", produce)
        counts = group.simulation.network.injector.counts
        group.run(5.0)
        overflowed, received = counts["overflowed"], len(group.received["bob"])
        group.run(10.0)
        assert counts["marked"] > 0
        assert counts["overflowed"] == overflowed  # Only slow start may overflow.
        assert (len(group.received["bob"]) - received) * 1000 / 10.0 > 0.8 * 2.5e5
