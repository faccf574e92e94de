"""What each protocol costs: metadata and work per copy of a message, as n grows.

Run as a module with a protocol, a number of processes and a number of messages for
each sender, it prints one measurement as JSON. The network is reliable, so that each
protocol shows its own cost and not that of the link layer.
"""

import gc
import json
import sys
from time import process_time

from antecede.core.config import ProcessConfig
from antecede.core.overlay.graphs import random_graph
from antecede.core.registry import protocol
from antecede.sim.delay import Everywhere
from antecede.sim.distribution import Exponential
from antecede.sim.network import Network
from antecede.sim.runner import run
from antecede.sim.workloads.synthetic import Broadcast, Pace, Uniform
from antecede.sim.workloads.workload import Workload
from antecede.trace.recorders import EventCounter

GAP_S = 0.05
DELAY_S = 0.05
DEGREE = 5
"""Of the overlay: how many links each process draws; they go both ways."""
SENDERS = 10
"""How many processes broadcast; of the unicasting ones, all send."""


def measure(name: str, processes: int, messages: int) -> dict[str, float]:
    """Run a protocol and return its costs per copy: bytes, and microseconds of work."""
    pace = Pace(gap=Exponential(GAP_S))
    able = protocol(name).capabilities
    workload: Workload
    if able.unicast:
        workload = Uniform(processes, messages, pace)
    else:
        workload = Broadcast(processes, messages, pace, senders=SENDERS)
    links = None
    if able.overlay:
        links = random_graph(processes, min(DEGREE, processes - 1), 1, both_ways=True)
    counter = EventCounter()
    gc.collect()
    start = process_time()
    outcome = run(
        name,
        workload,
        Network(delay=Everywhere(Exponential(DELAY_S))),
        counter,
        config=ProcessConfig(reliable=True, links=links),
    )
    elapsed = process_time() - start
    frames = counter.releases + counter.relays
    return {
        "message_bytes": (counter.metadata_bytes - counter.control_bytes) / frames,
        "bytes": counter.metadata_bytes / outcome.copies,
        "us": 1e6 * elapsed / outcome.copies,
    }


if __name__ == "__main__":
    name, processes, messages = sys.argv[1:]
    print(json.dumps(measure(name, int(processes), int(messages))))
