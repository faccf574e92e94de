"""What is measured of the core. Run as a module, it prints one measurement as JSON.

Every function here drives real processes in memory and returns a cost per message:
microseconds, or bytes. The garbage collector rests while the clock runs.
"""

import gc
import json
import sys
import tracemalloc
from collections.abc import Callable
from random import Random
from time import perf_counter

import antecede
from antecede.core import Ack, MessageFrame, Process, ProcessId, Transmit, protocol
from antecede.core.config import ProcessConfig


def make(name: str, id: int) -> Process:
    return protocol(name).make(ProcessId(id), ProcessConfig())


def timed(work: Callable[[], object], messages: int) -> float:
    """Return the microseconds per message that ``work`` takes."""
    gc.collect()
    gc.disable()
    start = perf_counter()
    work()
    elapsed = perf_counter() - start
    gc.enable()
    return 1e6 * elapsed / messages


def exchange(name: str, processes: int, messages: int) -> float:
    """Random unicast without payload: every process sends, all frames take equally long.

    The cost of the loop that carries the frames is part of it, so the loop is kept lean:
    it looks no method up, and moves frames in the lists that they come in.
    """
    random = Random(1)
    members = [make(name, i) for i in range(processes)]
    send = [member.send for member in members]
    receive = [member.receive for member in members]
    frames = [member.frames_to_transmit for member in members]
    deliver = [member.messages_to_deliver for member in members]
    rounds: list[list[tuple[ProcessId, list[ProcessId]]]] = []
    for _ in range(messages // processes):
        pairs = [random.sample(range(processes), 2) for _ in range(processes)]
        rounds.append([(ProcessId(a), [ProcessId(b)]) for a, b in pairs])

    def work() -> None:
        wire: list[tuple[ProcessId, list[Transmit]]] = []
        now = 0.0
        for sends in (*rounds, *([] for _ in range(100))):
            arriving = wire
            wire = []
            now += 0.001
            for source, targets in sends:
                send[source](targets, b"", now)
                wire.append((source, frames[source]()))
            for source, outs in arriving:
                for out in outs:
                    target = out.target
                    receive[target](source, out.frame, now)
                    answers = frames[target]()
                    if answers:
                        wire.append((target, answers))
                    deliver[target]()
        assert not wire

    return timed(work, len(rounds) * processes)


def peers(name: str, peers: int, messages: int) -> float:
    """One process that exchanges messages with ``peers`` others, each known already.

    To every peer in turn it sends a message, gets the ack of it, and delivers one. Only
    the one process is real; its peers' frames are made beforehand.
    """
    hub = make(name, 0)
    ids = [ProcessId(1 + i) for i in range(peers)]
    inbound = dict.fromkeys(ids, 0)
    number = 0

    def script(count: int) -> list[tuple[list[ProcessId], Ack, MessageFrame]]:
        nonlocal number
        steps = []
        for index in range(count):
            peer = ids[index % peers]
            number += 1
            inbound[peer] += 1
            message = MessageFrame(inbound[peer], inbound[peer] - 1, True, b"")
            steps.append(([peer], Ack(number, number), message))
        return steps

    def run(steps: list[tuple[list[ProcessId], Ack, MessageFrame]]) -> None:
        now = 0.0
        for targets, ack, message in steps:
            peer = targets[0]
            hub.send(targets, b"", now)
            hub.frames_to_transmit()
            hub.receive(peer, ack, now)
            hub.receive(peer, message, now)
            hub.frames_to_transmit()
            hub.messages_to_deliver()

    run(script(2 * peers))
    steps = script(messages)
    return timed(lambda: run(steps), messages)


def window(name: str, window: int, messages: int) -> float:
    """One process with ``window`` unacked messages: each send is matched by an ack."""
    sender = make(name, 0)
    target = [ProcessId(1)]
    other = [ProcessId(2)]
    for index in range(window):
        sender.send(other if index % 2 else target, b"", 0.0)
        sender.frames_to_transmit()
    steps = [Ack(1 + index, 1 + index) for index in range(messages)]

    def work() -> None:
        for index, ack in enumerate(steps):
            odd = index % 2
            sender.receive(other[0] if odd else target[0], ack, 0.0)
            sender.send(other if odd else target, b"", 0.0)
            sender.frames_to_transmit()

    return timed(work, messages)


def buffered_bytes(name: str, peers: int, window: int) -> float:
    """Return the bytes that each of ``window`` unacked messages to ``peers`` costs."""
    sender = make(name, 0)
    targets = [[ProcessId(1 + index)] for index in range(peers)]
    for target in targets:
        number = sender.send(target, b"", 0.0)
        sender.frames_to_transmit()
        sender.receive(target[0], Ack(number, number), 0.0)
        sender.frames_to_transmit()
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for index in range(window):
        sender.send(targets[index % peers], b"", 0.0)
        sender.frames_to_transmit()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / window


def metadata_bytes(name: str, processes: int, messages: int) -> float:
    """Return the mean metadata of a unicast message when each process sends some."""
    random = Random(1)
    total = 0
    senders = min(processes, 10)
    for source in range(senders):
        sender = make(name, source)
        for _ in range(messages):
            target = random.randrange(processes - 1)
            sender.send([ProcessId(target + (target >= source))], b"", 0.0)
        for out in sender.frames_to_transmit():
            total += out.frame.metadata_size()
    return total / (senders * messages)


WORK: dict[str, Callable[[str, int, int], float]] = {
    "exchange": exchange,
    "peers": peers,
    "window": window,
    "buffered_bytes": buffered_bytes,
    "metadata_bytes": metadata_bytes,
}


if __name__ == "__main__":
    work, name, *sizes = sys.argv[1:]
    value = WORK[work](name, *(int(size) for size in sizes))
    print(json.dumps({"compiled": antecede.compiled, "value": value}))
