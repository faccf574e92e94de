"""The roles of the bench of the node, each in an OS process of its own.

    python -m bench.net_work ROLE

A role reads its task as a line of JSON. A sender prints ``bound`` and its port, reads a
second line with the ports of the receiver, and prints ``start`` and the time. A receiver
prints ``ready`` and its ports and, after the last message, ``received``, the time and, if
messages may be lost, their number. All processes of a machine share the clock.
"""

import asyncio
import json
import sys
import time
from typing import Any

from antecede import Limits, Node
from antecede.net.udp import UdpSocket

KEY = b"a bench does not keep secrets..."
SIZE = 64
BATCH = 64
IDLE_S = 1.0
"""A raw receiver ends after this time without a datagram: the rest was lost."""
MESSAGE_LIMIT_S = 60.0
"""The longest wait for one message."""


def report(*words: object) -> None:
    print(*words, flush=True)


def read_task() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(sys.stdin.readline())
    return found


def key_of(task: dict[str, Any]) -> bytes | None:
    return KEY if task.get("encrypted") else None


async def node_receive(task: dict[str, Any]) -> None:
    """Run one node per peer, and count the messages that they receive."""
    peers = task["peers"]
    nodes = [Node(f"r{index}", key=key_of(task)) for index in range(peers)]
    for node in nodes:
        await node.open()
        node.add_peer("s", ("127.0.0.1", task["sender_port"]))
    report("ready", *(node.address[1] for node in nodes))
    each = task["messages"] // peers

    async def count(node: Node) -> None:
        await node.receive()  # The first message, which waits for the handshake.
        for _ in range(each):
            await node.receive()

    await asyncio.gather(*map(count, nodes))
    report("received", time.perf_counter())
    await asyncio.gather(*(node.close() for node in nodes))


async def node_send(task: dict[str, Any]) -> None:
    """Send to all peers in turn, as fast as the windows allow."""
    async with Node("s", key=key_of(task)) as node:
        report("bound", node.address[1])
        names = []
        for index, port in enumerate(read_task()["ports"]):
            names.append(f"r{index}")
            node.add_peer(names[-1], ("127.0.0.1", port))
        payload = bytes(SIZE)
        await node.broadcast(payload)
        await node.flush()
        report("start", time.perf_counter())
        for _ in range(task["messages"] // len(names)):
            for name in names:
                await node.send(name, payload)
        await node.flush()


async def raw_receive(task: dict[str, Any]) -> None:
    """Count the datagrams that arrive on a raw socket; some may be lost."""
    udp = UdpSocket(("127.0.0.1", 0), segmentation=task["segmentation"])
    loop = asyncio.get_running_loop()
    got = 0
    payload_bytes = 0
    last = 0.0
    packed = task.get("packed", 1)

    def readable() -> None:
        nonlocal got, payload_bytes, last
        for data, _ in udp.receive(256):
            if packed == 1:
                payload_bytes += len(data)
                got += 1
            else:
                for start in range(0, len(data), SIZE):
                    payload_bytes += len(data[start : start + SIZE])
                    got += 1
        last = time.perf_counter()

    loop.add_reader(udp.fileno(), readable)
    report("ready", udp.address[1])
    begun = time.perf_counter()
    while got < task["messages"]:
        await asyncio.sleep(IDLE_S / 10)
        silent_since = last or begun + MESSAGE_LIMIT_S
        if time.perf_counter() - silent_since > IDLE_S:
            break
    report("received", last, got)


async def raw_send(task: dict[str, Any]) -> None:
    """Transmit datagrams in batches, and pause when the socket accepts no more."""
    udp = UdpSocket(("127.0.0.1", 0), segmentation=task["segmentation"])
    report("bound", udp.address[1])
    address = ("127.0.0.1", read_task()["ports"][0])
    packed = task.get("packed", 1)
    batch = [(address, bytes(SIZE) * packed)] * BATCH
    report("start", time.perf_counter())
    for _ in range(task["messages"] // (BATCH * packed) + 1):
        taken = 0
        while taken < len(batch):
            taken += udp.transmit(batch[taken:])
            await asyncio.sleep(0)


async def zmq_receive(task: dict[str, Any]) -> None:
    import zmq
    import zmq.asyncio

    router = zmq.asyncio.Context().socket(zmq.ROUTER)
    router.setsockopt(zmq.RCVHWM, 100_000)
    report("ready", router.bind_to_random_port("tcp://127.0.0.1"))
    for _ in range(task["messages"]):
        await router.recv_multipart()
    report("received", time.perf_counter())


async def zmq_send(task: dict[str, Any]) -> None:
    import zmq
    import zmq.asyncio

    dealer = zmq.asyncio.Context().socket(zmq.DEALER)
    dealer.setsockopt(zmq.SNDHWM, 100_000)
    report("bound", 0)
    dealer.connect(f"tcp://127.0.0.1:{read_task()['ports'][0]}")
    payload = bytes(SIZE)
    report("start", time.perf_counter())
    for _ in range(task["messages"]):
        await dealer.send(payload)
    await asyncio.sleep(MESSAGE_LIMIT_S)  # Until the parent ends this process.


async def nats_receive(task: dict[str, Any]) -> None:
    import nats

    client = await nats.connect(f"nats://127.0.0.1:{task['server_port']}")
    subscription = await client.subscribe("bench", pending_msgs_limit=10_000_000)
    await client.flush()
    report("ready", task["server_port"])
    for _ in range(task["messages"]):
        await subscription.next_msg(timeout=MESSAGE_LIMIT_S)
    report("received", time.perf_counter())


async def nats_send(task: dict[str, Any]) -> None:
    import nats

    client = await nats.connect(f"nats://127.0.0.1:{task['server_port']}")
    payload = bytes(SIZE)
    report("bound", 0)
    read_task()
    report("start", time.perf_counter())
    for _ in range(task["messages"]):
        await client.publish("bench", payload)
    await client.flush()


async def node_trips(task: dict[str, Any]) -> None:
    """Measure round trips of two nodes in one process, with one message in flight."""
    async with Node("a") as a, Node("b") as b:
        a.add_peer("b", b.address)
        b.add_peer("a", a.address)
        payload = bytes(SIZE)

        async def answer() -> None:
            async for message in b:
                await b.send("a", message.data)

        task_of_b = asyncio.create_task(answer())
        await a.send("b", payload)
        await a.receive()
        trips = task["trips"]
        start = time.perf_counter()
        for _ in range(trips):
            await a.send("b", payload)
            async with asyncio.timeout(MESSAGE_LIMIT_S):
                await a.receive()
        report("received", (time.perf_counter() - start) / trips)
        task_of_b.cancel()


async def raw_trips(task: dict[str, Any]) -> None:
    """Measure round trips of two raw sockets; a lost datagram is sent again."""
    loop = asyncio.get_running_loop()
    a, b = UdpSocket(("127.0.0.1", 0)), UdpSocket(("127.0.0.1", 0))
    queue: asyncio.Queue[bytes] = asyncio.Queue()

    def at_a() -> None:
        for data, _ in a.receive(64):
            queue.put_nowait(data)

    def at_b() -> None:
        b.transmit([(address, data) for data, address in b.receive(64)])

    loop.add_reader(a.fileno(), at_a)
    loop.add_reader(b.fileno(), at_b)
    payload = [(b.address, bytes(SIZE))]
    trips = task["trips"]
    start = time.perf_counter()
    for _ in range(trips):
        answered = False
        while not answered:
            a.transmit(payload)
            try:
                async with asyncio.timeout(IDLE_S):
                    await queue.get()
                answered = True
            except TimeoutError:
                continue
    report("received", (time.perf_counter() - start) / trips)


if __name__ == "__main__":
    limits = Limits()  # Imports the package before the clock starts.
    asyncio.run(globals()[sys.argv[1]](read_task()))
