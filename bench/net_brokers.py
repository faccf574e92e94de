"""The roles of the benchmark of the node that use pyzmq or nats-py.

The libraries are imported only in the process that measures them.
"""

import asyncio
import time

from bench.net_task import (
    MESSAGE_TIMEOUT_S,
    PAYLOAD_BYTES,
    Task,
    read_task,
    report,
    report_start,
)

__all__ = ["nats_receive", "nats_send", "zmq_receive", "zmq_send"]


async def zmq_receive(task: Task) -> None:
    """Receive messages on a ROUTER socket of pyzmq."""
    import zmq
    import zmq.asyncio

    router = zmq.asyncio.Context().socket(zmq.ROUTER)
    router.setsockopt(zmq.RCVHWM, 100_000)
    report("ready", router.bind_to_random_port("tcp://127.0.0.1"))
    for _ in range(task["messages"]):
        await router.recv_multipart()
    report("received", time.perf_counter())


async def zmq_send(task: Task) -> None:
    """Send messages on a DEALER socket of pyzmq."""
    import zmq
    import zmq.asyncio

    dealer = zmq.asyncio.Context().socket(zmq.DEALER)
    dealer.setsockopt(zmq.SNDHWM, 100_000)
    report("bound", 0)
    dealer.connect(f"tcp://127.0.0.1:{read_task()['ports'][0]}")
    payload = bytes(PAYLOAD_BYTES)
    report_start()
    for _ in range(task["messages"]):
        await dealer.send(payload)
    await asyncio.sleep(MESSAGE_TIMEOUT_S)  # The parent process kills this process.


async def nats_receive(task: Task) -> None:
    """Receive messages of a subject from a NATS server."""
    import nats

    client = await nats.connect(f"nats://127.0.0.1:{task['server_port']}")
    subscription = await client.subscribe("bench", pending_msgs_limit=10_000_000)
    await client.flush()
    report("ready", task["server_port"])
    for _ in range(task["messages"]):
        await subscription.next_msg(timeout=MESSAGE_TIMEOUT_S)
    report("received", time.perf_counter())


async def nats_send(task: Task) -> None:
    """Publish messages on a subject of a NATS server."""
    import nats

    client = await nats.connect(f"nats://127.0.0.1:{task['server_port']}")
    payload = bytes(PAYLOAD_BYTES)
    report("bound", 0)
    read_task()
    report_start()
    for _ in range(task["messages"]):
        await client.publish("bench", payload)
    await client.flush()
