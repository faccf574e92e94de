"""Measurements of the core: ``python -m bench.core_work NAME PROTOCOL SIZE SIZE``.

The program prints one measurement as JSON. Every measurement drives processes in memory
and returns a cost per message, in microseconds or bytes. The garbage collector is disabled
during measurements of time.
"""

import gc
import json
import sys
import tracemalloc
from collections.abc import Callable
from random import Random
from time import perf_counter

import antecede
from antecede.core import Ack, MessageFrame, Permit, Process, ProcessId, Transmit, protocol
from antecede.core.config import ProcessConfig


def make_process(name: str, id: int) -> Process:
    """Return a process of the named protocol."""
    return protocol(name).make(ProcessId(id), ProcessConfig())


def microseconds_per_message(work: Callable[[], object], messages: int) -> float:
    """Call a function, and return its time in microseconds, divided by ``messages``."""
    gc.collect()
    gc.disable()
    start = perf_counter()
    work()
    elapsed = perf_counter() - start
    gc.enable()
    return 1e6 * elapsed / messages


def exchange_us(name: str, processes: int, messages: int) -> float:
    """Return the microseconds per message of random unicast, without payload.

    In each round every process sends, on average. All frames take one round. The time
    includes the loop that passes frames between processes. To keep the loop fast, it looks
    up no methods and moves whole lists of frames.
    """
    return _exchange_us(name, processes, messages, processes)


def light_exchange_us(name: str, processes: int, messages: int) -> float:
    """Return the same with one message per round."""
    return _exchange_us(name, processes, messages, 1)


def _exchange_us(name: str, processes: int, messages: int, per_round: int) -> float:
    random = Random(1)
    members = [make_process(name, i) for i in range(processes)]
    send = [member.send for member in members]
    receive = [member.receive for member in members]
    frames = [member.frames_to_transmit for member in members]
    deliver = [member.messages_to_deliver for member in members]
    rounds: list[list[tuple[ProcessId, list[ProcessId]]]] = []
    for _ in range(messages // per_round):
        pairs = [random.sample(range(processes), 2) for _ in range(per_round)]
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
            for source, transmits in arriving:
                for transmit in transmits:
                    target = transmit.target
                    receive[target](source, transmit.frame, now)
                    answers = frames[target]()
                    if answers:
                        wire.append((target, answers))
                    deliver[target]()
        assert not wire

    return microseconds_per_message(work, len(rounds) * per_round)


def peers_us(name: str, peers: int, messages: int) -> float:
    """Return the microseconds per message of one process with a number of peers.

    The process sends a message to each peer in turn, receives the ack, and delivers one
    message of the peer. The peers are simulated: their frames are created before the
    measurement. Two such steps with each peer precede the measurement.
    """
    process = make_process(name, 0)
    ids = [ProcessId(1 + i) for i in range(peers)]
    received = dict.fromkeys(ids, 0)
    number = 0

    def make_steps(count: int) -> list[tuple[list[ProcessId], Ack, MessageFrame]]:
        nonlocal number
        steps = []
        for index in range(count):
            peer = ids[index % peers]
            number += 1
            received[peer] += 1
            message = MessageFrame(received[peer], received[peer] - 1, True, b"")
            steps.append(([peer], Ack(number, number), message))
        return steps

    def run(steps: list[tuple[list[ProcessId], Ack, MessageFrame]]) -> None:
        now = 0.0
        for targets, ack, message in steps:
            peer = targets[0]
            process.send(targets, b"", now)
            process.frames_to_transmit()
            process.receive(peer, ack, now)
            process.receive(peer, message, now)
            process.frames_to_transmit()
            process.messages_to_deliver()

    run(make_steps(2 * peers))
    steps = make_steps(messages)
    return microseconds_per_message(lambda: run(steps), messages)


def unacked_us(name: str, unacked: int, messages: int) -> float:
    """Return the microseconds per message of one process with a number of unacked messages.

    Each step acks the oldest message and sends another one, to two targets in turn.
    """
    sender = make_process(name, 0)
    targets = [[ProcessId(1)], [ProcessId(2)]]
    for index in range(unacked):
        sender.send(targets[index % 2], b"", 0.0)
        sender.frames_to_transmit()
    acks = [Ack(1 + index, 1 + index) for index in range(messages)]

    def work() -> None:
        for index, ack in enumerate(acks):
            target = targets[index % 2]
            sender.receive(target[0], ack, 0.0)
            sender.send(target, b"", 0.0)
            sender.frames_to_transmit()

    return microseconds_per_message(work, messages)


def unacked_bytes(name: str, peers: int, unacked: int) -> float:
    """Return the bytes of memory per unacked message, with a number of peers."""
    sender = make_process(name, 0)
    targets = [[ProcessId(1 + index)] for index in range(peers)]
    for target in targets:
        number = sender.send(target, b"", 0.0)
        sender.frames_to_transmit()
        sender.receive(target[0], Ack(number, number), 0.0)
        sender.frames_to_transmit()
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for index in range(unacked):
        sender.send(targets[index % peers], b"", 0.0)
        sender.frames_to_transmit()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / unacked


def metadata_bytes(name: str, processes: int, messages: int) -> float:
    """Return the mean bytes of metadata of a unicast message, over up to ten sources."""
    random = Random(1)
    total = 0
    senders = min(processes, 10)
    for source in range(senders):
        sender = make_process(name, source)
        for _ in range(messages):
            target = random.randrange(processes - 1)
            sender.send([ProcessId(target + (target >= source))], b"", 0.0)
        for transmit in sender.frames_to_transmit():
            total += transmit.frame.metadata_size()
    return total / (senders * messages)


def idle_pair_bytes(name: str, peers: int, messages: int) -> float:
    """Return the bytes of the state of a sender and a receiver without messages in flight.

    One process sends some messages to each of its peers, and another receives some from
    each. All are acked and permitted, and the timers have expired.
    """
    sender = make_process(name, 0)
    receiver = make_process(name, 1)
    ids = [ProcessId(2 + index) for index in range(peers)]

    def exchange(number: int, now: float) -> None:
        for peer in ids:
            sent = sender.send([peer], b"", now)
            sender.frames_to_transmit()
            sender.receive(peer, Ack(sent, sent), now + 0.05)
            sender.frames_to_transmit()
            receiver.receive(peer, MessageFrame(number, number - 1, False, b""), now)
            receiver.messages_to_deliver()
            receiver.receive(peer, Permit(number), now + 0.05)
            receiver.frames_to_transmit()

    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(1, messages + 1):
        exchange(number, float(number))
    for process in (sender, receiver):
        process.handle_timer(1000.0)
        process.frames_to_transmit()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / peers


def aim(name: str, value: int, unit: int) -> float:
    """Return an aim, to compare a measurement with."""
    return value / unit


MEASUREMENTS: dict[str, Callable[[str, int, int], float]] = {
    "exchange_us": exchange_us,
    "light_exchange_us": light_exchange_us,
    "peers_us": peers_us,
    "unacked_us": unacked_us,
    "unacked_bytes": unacked_bytes,
    "idle_pair_bytes": idle_pair_bytes,
    "aim": aim,
    "metadata_bytes": metadata_bytes,
}


if __name__ == "__main__":
    measurement, name, *sizes = sys.argv[1:]
    value = MEASUREMENTS[measurement](name, *(int(size) for size in sizes))
    print(json.dumps({"compiled": antecede.compiled, "value": value}))
