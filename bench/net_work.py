"""The roles of the benchmark of the node: ``python -m bench.net_work ROLE``.

Each role runs in its own OS process and reads its task as a line of JSON. A sender prints
``bound`` and its port, reads a second line with the ports of the receiver, and prints
``start``, the time and the processor time that it has used. A receiver prints ``ready`` and
its ports. After the last message it prints ``received``, the time and, if messages may be
lost, the number of received messages. The processes of one machine have a common clock. A
role that measures round trips prints ``received``, the seconds and the processor time per
round trip.
"""

import asyncio
import sys
import time
from collections.abc import Callable

from antecede import Limits, Message, Node
from antecede.core.config import DEFAULT_PROTOCOL
from bench.net_brokers import nats_receive, nats_send, zmq_receive, zmq_send
from bench.net_raw import raw_receive, raw_round_trips, raw_send
from bench.net_streams import quic_receive, quic_send, tcp_receive, tcp_send
from bench.net_task import (
    BATCH_MESSAGES,
    MESSAGE_TIMEOUT_S,
    PAYLOAD_BYTES,
    Task,
    check_payloads,
    read_task,
    report,
    report_start,
)

KEY = bytes(range(32))
RECEIVE_MESSAGES = 1024
"""The maximum number of messages that a receiver takes in one call."""


def make_node(
    name: str, task: Task, on_message: Callable[[Message], object] | None = None
) -> Node:
    """Return a node with the protocol, the key and the size of datagrams of a task."""
    size = task.get("datagram_bytes")
    return Node(
        name,
        key=KEY if task.get("encrypted") else None,
        protocol=task.get("protocol", DEFAULT_PROTOCOL),
        limits=Limits(datagram_bytes_max=size) if size else None,
        on_message=on_message,
    )


async def _receive_messages(node: Node, messages: int, *, in_batches: bool) -> None:
    """Receive this number of messages, after one that waits for the handshake."""
    await node.receive()
    if in_batches:
        while messages > 0:
            received = await node.receive_many(RECEIVE_MESSAGES)
            messages -= check_payloads([message.data for message in received])
    else:
        for _ in range(messages):
            await node.receive()


async def node_receive(task: Task) -> None:
    """Run one node per peer, until each has received its share of the messages."""
    peers = task["peers"]
    nodes = [make_node(f"r{index}", task) for index in range(peers)]
    for node in nodes:
        await node.open()
        node.add_peer("s", ("127.0.0.1", task["sender_port"]))
    report("ready", *(node.address[1] for node in nodes))
    share = task["messages"] // peers
    in_batches = task.get("in_batches", False)
    await asyncio.gather(
        *(_receive_messages(node, share, in_batches=in_batches) for node in nodes)
    )
    report("received", time.perf_counter())
    await asyncio.gather(*(node.close() for node in nodes))


async def node_send(task: Task) -> None:
    """Send to all peers in turn, as fast as the windows allow."""
    async with make_node("s", task) as node:
        report("bound", node.address[1])
        names = []
        for index, port in enumerate(read_task()["ports"]):
            names.append(f"r{index}")
            node.add_peer(names[-1], ("127.0.0.1", port))
        payload = bytes(PAYLOAD_BYTES)
        await node.broadcast(payload)
        await node.flush()
        report_start()
        if task.get("in_batches"):
            for _ in range(task["messages"] // BATCH_MESSAGES + 1):
                await node.send_many(names[0], [bytes(PAYLOAD_BYTES)] * BATCH_MESSAGES)
        else:
            for _ in range(task["messages"] // len(names)):
                for name in names:
                    await node.send(name, payload)
        await node.flush()


async def node_round_trips(task: Task) -> None:
    """Measure round trips of two nodes in one process, with one message in flight."""
    async with make_node("a", task) as a, make_node("b", task) as b:
        a.add_peer("b", b.address)
        b.add_peer("a", a.address)
        payload = bytes(PAYLOAD_BYTES)

        async def answer() -> None:
            async for message in b:
                await b.send("a", message.data)

        answering = asyncio.create_task(answer())
        await a.send("b", payload)
        await a.receive()
        round_trips = task["round_trips"]
        start, processor_start = time.perf_counter(), time.process_time()
        for _ in range(round_trips):
            await a.send("b", payload)
            async with asyncio.timeout(MESSAGE_TIMEOUT_S):
                await a.receive()
        report(
            "received",
            (time.perf_counter() - start) / round_trips,
            (time.process_time() - processor_start) / round_trips,
        )
        answering.cancel()


async def node_callback_round_trips(task: Task) -> None:
    """Measure the same with callbacks instead of tasks that receive."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    started: list[float] = []
    missing = task["round_trips"]

    def answer(message: Message) -> None:
        b.send_nowait("a", message.data)

    def send_next(message: Message) -> None:
        nonlocal missing
        if not started:  # The first round trip, with the handshake, does not count.
            started.extend((time.perf_counter(), time.process_time()))
        if missing == 0:
            ended.set_result(None)
            return
        missing -= 1
        a.send_nowait("b", message.data)

    async with (
        make_node("a", task, on_message=send_next) as a,
        make_node("b", task, on_message=answer) as b,
    ):
        a.add_peer("b", b.address)
        b.add_peer("a", a.address)
        await a.send("b", bytes(PAYLOAD_BYTES))
        async with asyncio.timeout(MESSAGE_TIMEOUT_S):
            await ended
        start, processor_start = started
        report(
            "received",
            (time.perf_counter() - start) / task["round_trips"],
            (time.process_time() - processor_start) / task["round_trips"],
        )


ROLES = {
    "node_callback_round_trips": node_callback_round_trips,
    "nats_receive": nats_receive,
    "nats_send": nats_send,
    "node_receive": node_receive,
    "node_round_trips": node_round_trips,
    "node_send": node_send,
    "quic_receive": quic_receive,
    "quic_send": quic_send,
    "raw_receive": raw_receive,
    "raw_round_trips": raw_round_trips,
    "raw_send": raw_send,
    "tcp_receive": tcp_receive,
    "tcp_send": tcp_send,
    "zmq_receive": zmq_receive,
    "zmq_send": zmq_send,
}


if __name__ == "__main__":
    asyncio.run(ROLES[sys.argv[1]](read_task()))
