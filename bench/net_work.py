"""The roles of the benchmark of the node: ``python -m bench.net_work ROLE``.

Each role runs in its own OS process and reads its task as a line of JSON. A sender prints
``bound`` and its port, reads a second line with the ports of the receiver, and prints
``start`` and the time. A receiver prints ``ready`` and its ports. After the last message it
prints ``received``, the time and, if messages may be lost, the number of received messages.
The processes of one machine have a common clock. A role that measures round trips prints
``received`` and the seconds per round trip.
"""

import asyncio
import json
import sys
import time
from typing import Any

from antecede import Node
from antecede.core.config import DEFAULT_PROTOCOL
from antecede.net.udp import UdpSocket

KEY = bytes(range(32))
PAYLOAD_BYTES = 64
BATCH_DATAGRAMS = 64
IDLE_S = 1.0
"""A raw receiver ends after this time without a datagram; missing datagrams were lost."""
MESSAGE_TIMEOUT_S = 60.0
"""The maximum wait for one message."""


def report(*words: object) -> None:
    """Print a line for the parent process."""
    print(*words, flush=True)


def read_task() -> dict[str, Any]:
    """Read a task of the parent process."""
    task: dict[str, Any] = json.loads(sys.stdin.readline())
    return task


def key_of(task: dict[str, Any]) -> bytes | None:
    """Return the group key of a task, or None if the task is not encrypted."""
    return KEY if task.get("encrypted") else None


def make_node(name: str, task: dict[str, Any]) -> Node:
    """Return a node with the protocol and the key of a task."""
    protocol = task.get("protocol", DEFAULT_PROTOCOL)
    return Node(name, key=key_of(task), protocol=protocol)


async def node_receive(task: dict[str, Any]) -> None:
    """Run one node per peer, until each has received its share of the messages."""
    peers = task["peers"]
    nodes = [make_node(f"r{index}", task) for index in range(peers)]
    for node in nodes:
        await node.open()
        node.add_peer("s", ("127.0.0.1", task["sender_port"]))
    report("ready", *(node.address[1] for node in nodes))
    messages_per_peer = task["messages"] // peers

    async def receive_all(node: Node) -> None:
        await node.receive()  # The first message waits for the handshake.
        for _ in range(messages_per_peer):
            await node.receive()

    await asyncio.gather(*map(receive_all, nodes))
    report("received", time.perf_counter())
    await asyncio.gather(*(node.close() for node in nodes))


async def node_send(task: dict[str, Any]) -> None:
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
        report("start", time.perf_counter())
        for _ in range(task["messages"] // len(names)):
            for name in names:
                await node.send(name, payload)
        await node.flush()


async def raw_receive(task: dict[str, Any]) -> None:
    """Count the payloads that arrive on a raw socket; datagrams may be lost."""
    udp = UdpSocket(("127.0.0.1", 0), segmentation=task["segmentation"])
    loop = asyncio.get_running_loop()
    received = 0
    payload_bytes = 0
    last_arrival = 0.0
    packed = task.get("packed", 1)

    def receive_datagrams() -> None:
        # Split the datagrams and read each length: a receiver of messages needs this too.
        nonlocal received, payload_bytes, last_arrival
        for data, _ in udp.receive(256):
            if packed == 1:
                payload_bytes += len(data)
                received += 1
            else:
                for offset in range(0, len(data), PAYLOAD_BYTES):
                    payload_bytes += len(data[offset : offset + PAYLOAD_BYTES])
                    received += 1
        last_arrival = time.perf_counter()

    loop.add_reader(udp.fileno(), receive_datagrams)
    report("ready", udp.address[1])
    start = time.perf_counter()
    while received < task["messages"]:
        await asyncio.sleep(IDLE_S / 10)
        idle_since = last_arrival or start + MESSAGE_TIMEOUT_S
        if time.perf_counter() - idle_since > IDLE_S:
            break
    report("received", last_arrival, received)


async def raw_send(task: dict[str, Any]) -> None:
    """Transmit datagrams in batches, with a turn of the event loop after each write."""
    udp = UdpSocket(("127.0.0.1", 0), segmentation=task["segmentation"])
    report("bound", udp.address[1])
    address = ("127.0.0.1", read_task()["ports"][0])
    packed = task.get("packed", 1)
    batch = [(address, bytes(PAYLOAD_BYTES) * packed)] * BATCH_DATAGRAMS
    report("start", time.perf_counter())
    for _ in range(task["messages"] // (BATCH_DATAGRAMS * packed) + 1):
        transmitted = 0
        while transmitted < len(batch):
            transmitted += udp.transmit(batch[transmitted:])
            await asyncio.sleep(0)


async def zmq_receive(task: dict[str, Any]) -> None:
    """Receive messages on a ROUTER socket of pyzmq."""
    import zmq
    import zmq.asyncio

    router = zmq.asyncio.Context().socket(zmq.ROUTER)
    router.setsockopt(zmq.RCVHWM, 100_000)
    report("ready", router.bind_to_random_port("tcp://127.0.0.1"))
    for _ in range(task["messages"]):
        await router.recv_multipart()
    report("received", time.perf_counter())


async def zmq_send(task: dict[str, Any]) -> None:
    """Send messages on a DEALER socket of pyzmq."""
    import zmq
    import zmq.asyncio

    dealer = zmq.asyncio.Context().socket(zmq.DEALER)
    dealer.setsockopt(zmq.SNDHWM, 100_000)
    report("bound", 0)
    dealer.connect(f"tcp://127.0.0.1:{read_task()['ports'][0]}")
    payload = bytes(PAYLOAD_BYTES)
    report("start", time.perf_counter())
    for _ in range(task["messages"]):
        await dealer.send(payload)
    await asyncio.sleep(MESSAGE_TIMEOUT_S)  # The parent process kills this process.


async def nats_receive(task: dict[str, Any]) -> None:
    """Receive messages of a subject from a NATS server."""
    import nats

    client = await nats.connect(f"nats://127.0.0.1:{task['server_port']}")
    subscription = await client.subscribe("bench", pending_msgs_limit=10_000_000)
    await client.flush()
    report("ready", task["server_port"])
    for _ in range(task["messages"]):
        await subscription.next_msg(timeout=MESSAGE_TIMEOUT_S)
    report("received", time.perf_counter())


async def nats_send(task: dict[str, Any]) -> None:
    """Publish messages on a subject of a NATS server."""
    import nats

    client = await nats.connect(f"nats://127.0.0.1:{task['server_port']}")
    payload = bytes(PAYLOAD_BYTES)
    report("bound", 0)
    read_task()
    report("start", time.perf_counter())
    for _ in range(task["messages"]):
        await client.publish("bench", payload)
    await client.flush()


async def node_round_trips(task: dict[str, Any]) -> None:
    """Measure round trips of two nodes in one process, with one message in flight."""
    async with Node("a") as a, Node("b") as b:
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
        start = time.perf_counter()
        for _ in range(round_trips):
            await a.send("b", payload)
            async with asyncio.timeout(MESSAGE_TIMEOUT_S):
                await a.receive()
        report("received", (time.perf_counter() - start) / round_trips)
        answering.cancel()


async def raw_round_trips(task: dict[str, Any]) -> None:
    """Measure round trips of two raw sockets; retransmit a lost datagram."""
    loop = asyncio.get_running_loop()
    a, b = UdpSocket(("127.0.0.1", 0)), UdpSocket(("127.0.0.1", 0))
    answers: asyncio.Queue[bytes] = asyncio.Queue()

    def receive_answers() -> None:
        for data, _ in a.receive(64):
            answers.put_nowait(data)

    def answer() -> None:
        b.transmit([(address, data) for data, address in b.receive(64)])

    loop.add_reader(a.fileno(), receive_answers)
    loop.add_reader(b.fileno(), answer)
    datagrams = [(b.address, bytes(PAYLOAD_BYTES))]
    round_trips = task["round_trips"]
    start = time.perf_counter()
    for _ in range(round_trips):
        answered = False
        while not answered:
            a.transmit(datagrams)
            try:
                async with asyncio.timeout(IDLE_S):
                    await answers.get()
                answered = True
            except TimeoutError:
                continue
    report("received", (time.perf_counter() - start) / round_trips)


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](read_task()))
