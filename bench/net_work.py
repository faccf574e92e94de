"""What the bench of the node measures, each in an OS process of its own.

    python -m bench.net_work ROLE WHAT JSON

A receiver says ``ready PORT`` and, when all has come, ``got`` and the time; the parent
starts the sender with that port, which says ``start`` and the time. The clock is one for
all processes of a machine.
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


def say(*words: object) -> None:
    print(*words, flush=True)


def key_of(task: dict[str, Any]) -> bytes | None:
    return KEY if task.get("sealed") else None


async def node_receive(task: dict[str, Any]) -> None:
    """Host as many nodes as there are to be peers, and count what comes."""
    peers = task["peers"]
    nodes = [Node(f"r{place}", key=key_of(task)) for place in range(peers)]
    for node in nodes:
        await node.open()
        node.add_peer("s", ("127.0.0.1", task["sender_port"]))
    say("ready", *(node.address[1] for node in nodes))
    each = task["messages"] // peers

    async def count(node: Node) -> None:
        await node.receive()  # The one that makes them meet.
        for _ in range(each):
            await node.receive()

    await asyncio.gather(*map(count, nodes))
    say("got", time.perf_counter())
    await asyncio.gather(*(node.close() for node in nodes))


async def node_send(task: dict[str, Any]) -> None:
    """Send to all peers in turn, as fast as the windows allow."""
    ports = task["ports"]
    peers = {f"r{place}": ("127.0.0.1", port) for place, port in enumerate(ports)}
    bind = ("127.0.0.1", task["sender_port"])
    async with Node("s", key=key_of(task), bind=bind, peers=peers) as node:
        names = list(peers)
        payload = bytes(SIZE)
        await node.broadcast(payload)
        await node.flush()
        say("start", time.perf_counter())
        for _ in range(task["messages"] // len(names)):
            for name in names:
                await node.send(name, payload)
        await node.flush()


async def raw_receive(task: dict[str, Any]) -> None:
    """Count datagrams on a bare socket of the same kind; what is lost is lost."""
    udp = UdpSocket(("127.0.0.1", 0), segmentation=task["segmentation"])
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    got = 0
    payload_bytes = 0
    packed = task.get("packed", 1)

    def readable() -> None:
        nonlocal got, payload_bytes
        for data, _ in udp.receive(256):
            if packed == 1:
                payload_bytes += len(data)
                got += 1
            else:
                for start in range(0, len(data), SIZE):
                    payload_bytes += len(data[start : start + SIZE])
                    got += 1
        # A quarter may be lost; the rate is that of what has come.
        if got >= task["messages"] * 3 // 4 and not done.done():
            done.set_result(None)

    loop.add_reader(udp.fileno(), readable)
    say("ready", udp.address[1])
    await done
    say("got", time.perf_counter(), got)


async def raw_send(task: dict[str, Any]) -> None:
    """Transmit datagrams in batches, with a pause whenever the system takes no more."""
    udp = UdpSocket(("127.0.0.1", 0), segmentation=task["segmentation"])
    address = ("127.0.0.1", task["ports"][0])
    packed = task.get("packed", 1)
    batch = [(address, bytes(SIZE) * packed)] * BATCH
    say("start", time.perf_counter())
    for _ in range(task["messages"] * 2 // (BATCH * packed)):
        taken = 0
        while taken < len(batch):
            taken += udp.transmit(batch[taken:])
            await asyncio.sleep(0)


async def zmq_receive(task: dict[str, Any]) -> None:
    import zmq
    import zmq.asyncio

    router = zmq.asyncio.Context().socket(zmq.ROUTER)
    router.setsockopt(zmq.RCVHWM, 100_000)
    say("ready", router.bind_to_random_port("tcp://127.0.0.1"))
    for _ in range(task["messages"]):
        await router.recv_multipart()
    say("got", time.perf_counter())


async def zmq_send(task: dict[str, Any]) -> None:
    import zmq
    import zmq.asyncio

    dealer = zmq.asyncio.Context().socket(zmq.DEALER)
    dealer.setsockopt(zmq.SNDHWM, 100_000)
    dealer.connect(f"tcp://127.0.0.1:{task['ports'][0]}")
    payload = bytes(SIZE)
    say("start", time.perf_counter())
    for _ in range(task["messages"]):
        await dealer.send(payload)
    await asyncio.sleep(3600)


async def nats_receive(task: dict[str, Any]) -> None:
    import nats

    client = await nats.connect(f"nats://127.0.0.1:{task['server_port']}")
    subscription = await client.subscribe("bench", pending_msgs_limit=10_000_000)
    await client.flush()
    say("ready", task["server_port"])
    for _ in range(task["messages"]):
        await subscription.next_msg(timeout=600)
    say("got", time.perf_counter())


async def nats_send(task: dict[str, Any]) -> None:
    import nats

    client = await nats.connect(f"nats://127.0.0.1:{task['server_port']}")
    payload = bytes(SIZE)
    say("start", time.perf_counter())
    for _ in range(task["messages"]):
        await client.publish("bench", payload)
    await client.flush()


async def node_trips(task: dict[str, Any]) -> None:
    """Both ends in one process and on one loop: one message in flight."""
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
            await a.receive()
        say("got", (time.perf_counter() - start) / trips)
        task_of_b.cancel()


async def raw_trips(task: dict[str, Any]) -> None:
    """The same with bare sockets of the same kind."""
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
        a.transmit(payload)
        await queue.get()
    say("got", (time.perf_counter() - start) / trips)


if __name__ == "__main__":
    limits = Limits()  # Loads what is loaded lazily, before any clock runs.
    asyncio.run(globals()[sys.argv[1]](json.loads(sys.argv[2])))
