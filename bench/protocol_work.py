"""Cost of a protocol: ``python -m bench.protocol_work PROTOCOL PROCESSES MESSAGES``.

The program simulates a run in which each sender sends ``MESSAGES`` messages, and prints the
metadata and the processor time as JSON. The network is reliable, so the cost does not
include the link layer.
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
"""The number of random peers to which each process adds a link, in both directions."""
SENDERS = 10
"""The number of processes that broadcast; all processes send if there is unicast."""


def measure(name: str, processes: int, messages: int) -> dict[str, float]:
    """Return the costs of a protocol in a simulated run.

    ``message_bytes`` is the mean metadata of a frame with a message, ``copy_bytes`` the
    metadata of all frames per copy, and ``copy_us`` the processor time per copy, which
    includes the simulator.
    """
    pace = Pace(gap=Exponential(GAP_S))
    capabilities = protocol(name).capabilities
    workload: Workload
    if capabilities.unicast:
        workload = Uniform(processes, messages, pace)
    else:
        workload = Broadcast(processes, messages, pace, senders=SENDERS)
    links = None
    if capabilities.overlay:
        links = random_graph(processes, min(DEGREE, processes - 1), 1, both_ways=True)
    counter = EventCounter()
    gc.collect()
    start = process_time()
    summary = run(
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
        "copy_bytes": counter.metadata_bytes / summary.copies,
        "copy_us": 1e6 * elapsed / summary.copies,
    }


if __name__ == "__main__":
    name, processes, messages = sys.argv[1:]
    print(json.dumps(measure(name, int(processes), int(messages))))
