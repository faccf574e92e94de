"""The roles of the benchmark of the node that use plain UDP sockets, without guarantees."""

import asyncio
import time

from antecede.net.udp import UdpSocket
from bench.net_task import (
    MESSAGE_TIMEOUT_S,
    PAYLOAD_BYTES,
    Task,
    read_task,
    report,
    report_start,
)

__all__ = ["raw_receive", "raw_round_trips", "raw_send"]

BATCH_DATAGRAMS = 64
IDLE_S = 1.0
"""A raw receiver ends after this time without a datagram; missing datagrams were lost."""


async def raw_receive(task: Task) -> None:
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
        for data, _, _ in udp.receive(256):
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


async def raw_send(task: Task) -> None:
    """Transmit datagrams in batches, with a turn of the event loop after each write."""
    udp = UdpSocket(("127.0.0.1", 0), segmentation=task["segmentation"])
    report("bound", udp.address[1])
    address = ("127.0.0.1", read_task()["ports"][0])
    packed = task.get("packed", 1)
    batch = [(address, bytes(PAYLOAD_BYTES) * packed)] * BATCH_DATAGRAMS
    report_start()
    for _ in range(task["messages"] // (BATCH_DATAGRAMS * packed) + 1):
        transmitted = 0
        while transmitted < len(batch):
            transmitted += udp.transmit(batch[transmitted:])
            await asyncio.sleep(0)


async def raw_round_trips(task: Task) -> None:
    """Measure round trips of two raw sockets; retransmit a lost datagram."""
    loop = asyncio.get_running_loop()
    a, b = UdpSocket(("127.0.0.1", 0)), UdpSocket(("127.0.0.1", 0))
    answers: asyncio.Queue[bytes] = asyncio.Queue()

    def receive_answers() -> None:
        for data, _, _ in a.receive(64):
            answers.put_nowait(data)

    def answer() -> None:
        b.transmit([(address, data) for data, address, _ in b.receive(64)])

    loop.add_reader(a.fileno(), receive_answers)
    loop.add_reader(b.fileno(), answer)
    datagrams = [(b.address, bytes(PAYLOAD_BYTES))]
    round_trips = task["round_trips"]
    start, processor_start = time.perf_counter(), time.process_time()
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
    report(
        "received",
        (time.perf_counter() - start) / round_trips,
        (time.process_time() - processor_start) / round_trips,
    )
