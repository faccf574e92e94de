"""Speed of the simulator or SimPy: ``python -m bench.sim_work NAME PROCESSES MESSAGES``.

The program prints the events per second of processor time as JSON. In both models, an event
is a send or the arrival of a frame; timers do not count.
"""

import gc
import json
import sys
from collections.abc import Generator
from random import Random
from time import process_time
from typing import Any

import simpy

import antecede
from antecede.sim.delay import Everywhere
from antecede.sim.distribution import Constant, Exponential
from antecede.sim.network import Network
from antecede.sim.runner import run
from antecede.sim.workloads.synthetic import Pace, Uniform
from antecede.trace.recorders import EventCounter

GAP_S = 0.02
DELAY_S = 0.05
PEERS = 10


def hybrid(processes: int, messages: int) -> float:
    """Return the events per second of a simulated run of ``hybrid``.

    The simulator counts events and does not record them. The SimPy model does not record
    events either.
    """
    counter = EventCounter()
    pace = Pace(gap=Exponential(GAP_S))
    workload = Uniform(processes, messages, pace, peers=min(PEERS, processes - 1))
    network = Network(delay=Everywhere(Constant(DELAY_S)))
    gc.collect()
    start = process_time()
    summary = run("hybrid", workload, network, counter)
    elapsed = process_time() - start
    frames = summary.copies + summary.control_frames + summary.retransmissions
    return (processes * messages + frames) / elapsed


def ping_ack(processes: int, messages: int) -> float:
    """Return the events per second of a SimPy model where each ping waits for its ack."""
    environment = simpy.Environment()
    random = Random(1)
    inboxes = [simpy.Store(environment) for _ in range(processes)]
    events = 0

    def transmit(
        target: int, frame: tuple[simpy.Event | None, int]
    ) -> Generator[simpy.Event, Any, None]:
        yield environment.timeout(DELAY_S)
        yield inboxes[target].put(frame)

    def ping(source: int, target: int) -> Generator[simpy.Event, Any, None]:
        acked = environment.event()
        yield from transmit(target, (acked, source))
        yield acked

    def send(source: int) -> Generator[simpy.Event, Any, None]:
        nonlocal events
        for _ in range(messages):
            yield environment.timeout(random.expovariate(1 / GAP_S))
            target = random.randrange(processes - 1)
            environment.process(ping(source, target + (target >= source)))
            events += 1

    def receive(process: int) -> Generator[simpy.Event, Any, None]:
        nonlocal events
        while True:
            acked, source = yield inboxes[process].get()
            events += 1
            if source >= 0:
                environment.process(transmit(source, (acked, -1)))
            else:
                acked.succeed()

    for process in range(processes):
        environment.process(send(process))
        environment.process(receive(process))
    gc.collect()
    start = process_time()
    environment.run()
    return events / (process_time() - start)


MEASUREMENTS = {"hybrid": hybrid, "ping_ack": ping_ack}


if __name__ == "__main__":
    measurement, processes, messages = sys.argv[1:]
    value = MEASUREMENTS[measurement](int(processes), int(messages))
    print(json.dumps({"compiled": antecede.compiled, "value": value}))
