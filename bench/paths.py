"""The aims of the transport on paths with loss and little bandwidth: ``make bench-paths``.

Every figure comes from a simulation of nodes in virtual time: it depends on the seed alone,
not on the machine.
"""

import argparse
import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any

from antecede import Limits, Node
from antecede.net.faults import Faults
from antecede.testing import Simulation

PORT = 9000
PROTOCOLS = ("bounded", "hybrid")
CONTROLS = ("fixed", "cubic")
RATE = 10e6 / 8
"""The bytes per second of a thin link: 10 Mbit/s."""

Main = Callable[[Node], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class Flow:
    """Messages from one node to another."""

    source: str
    target: str
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    """Time and payload bytes of each delivered message."""
    delays_s: list[float] = field(default_factory=list)
    datagrams: int = 0
    bytes_out: int = 0
    """The bytes of the datagrams to the target."""

    def bytes_between(self, start: float, end: float) -> int:
        """Return the payload bytes that were delivered in a period."""
        return sum(size for at, size in self.arrivals if start <= at < end)


class Paths:
    """A simulation with some flows between pairs of nodes."""

    def __init__(self, seed: int, faults: Faults, protocol: str, limits: Limits) -> None:
        self.simulation = Simulation(seed, faults)
        self.protocol = protocol
        self.limits = limits

    def start(self, name: str, peers: list[str], main: Main) -> None:
        """Start a process with a node that has some peers."""

        async def run() -> None:
            node = Node(
                name,
                bind=f"{name}:{PORT}",
                peers={peer: f"{peer}:{PORT}" for peer in peers},
                protocol=self.protocol,
                limits=self.limits,
                insecure=True,
            )
            async with node:
                await main(node)

        self.simulation.start(name, run, daemon=True)

    def receive(self, flow: Flow) -> None:
        """Start the target of a flow."""
        simulation = self.simulation

        async def main(node: Node) -> None:
            async for message in node:
                flow.arrivals.append((simulation.now, len(message.data)))
                sent_at = float(message.data[:20]) if len(message.data) > 20 else 0.0
                flow.delays_s.append(simulation.now - sent_at)

        self.start(flow.target, [flow.source], main)

    def send(self, flow: Flow, size: int, interval_s: float, begins_s: float) -> None:
        """Start the source of a flow: as fast as possible if the interval is 0."""
        simulation = self.simulation

        async def main(node: Node) -> None:
            await asyncio.sleep(begins_s)
            due = simulation.now
            while True:
                await node.send(flow.target, b"%-20.9f" % simulation.now + bytes(size - 20))
                due += interval_s
                flow.datagrams = node.engine.stats().datagrams_out
                flow.bytes_out = node.engine.sessions[flow.target].bytes_out
                if due > simulation.now:
                    await asyncio.sleep(due - simulation.now)

        self.start(flow.source, [flow.target], main)


def throughput(protocol: str, control: str, loss: float, size: int, seed: int) -> float:
    """Return the payload bytes per second of a flow on a path of 20 ms."""
    limits = Limits(congestion_control=control)
    paths = Paths(seed, Faults(loss=loss, delay_s=0.01), protocol, limits)
    flow = Flow("ann", "bob")
    paths.receive(flow)
    paths.send(flow, size, 0.0, 0.1)
    with paths.simulation as simulation:
        simulation.run_for(3.0)
    return flow.bytes_between(1.0, 3.0) / 2.0


def mean_window(protocol: str, control: str, loss: float, seed: int) -> float:
    """Return the mean window of a flow on a path of 20 ms, in datagrams, over 30 s."""
    limits = Limits(congestion_control=control)
    paths = Paths(seed, Faults(delay_s=0.01), protocol, limits)
    paths.simulation.network.injector.faults_of["ann", "bob"] = Faults(
        delay_s=0.01, loss=loss
    )
    flow = Flow("ann", "bob")
    paths.receive(flow)
    paths.send(flow, 1000, 0.0, 0.1)
    with paths.simulation as simulation:
        simulation.run_for(5.0)
        first_bytes = flow.bytes_out
        simulation.run_for(30.0)
    return (flow.bytes_out - first_bytes) / 30.0 * 0.02 / limits.datagram_bytes_max


def delay_quantile(protocol: str, control: str, loss: float, seed: int) -> float:
    """Return the 99th percentile of the delivery delay of 1,000 messages/s, in seconds."""
    limits = Limits(congestion_control=control)
    paths = Paths(seed, Faults(loss=loss, delay_s=0.01), protocol, limits)
    flow = Flow("ann", "bob")
    paths.receive(flow)
    paths.send(flow, 64, 0.001, 0.1)
    with paths.simulation as simulation:
        simulation.run_for(11.0)
    delays_s = sorted(flow.delays_s[500:])
    return delays_s[int(0.99 * len(delays_s))]


@dataclass(frozen=True, slots=True)
class Shared:
    """The figures of two flows on one link."""

    utilisation: float
    fairness: float
    loss: float


def share_link(protocol: str, control: str, seed: int) -> Shared:
    """Return how two bulk flows share a link of 10 Mbit/s for 60 s."""
    limits = Limits(congestion_control=control)
    back = Faults(delay_s=0.02)
    paths = Paths(seed, back, protocol, limits)
    link = Faults(delay_s=0.02, bytes_per_s=RATE, queue_s=0.05, bottleneck="link")
    flows = [Flow("ann", "bob"), Flow("cid", "dan")]
    injector = paths.simulation.network.injector
    for begins_s, flow in zip((0.1, 5.1), flows, strict=True):
        injector.faults_of[flow.source, flow.target] = link
        paths.receive(flow)
        paths.send(flow, 1000, 0.0, begins_s)
    with paths.simulation as simulation:
        simulation.run_for(60.1)
    return measure_shares(flows, 5.1, 60.1, injector.counts["overflowed"])


def measure_shares(flows: list[Flow], start: float, end: float, lost: int) -> Shared:
    """Return how flows share a link that loses a fraction of their datagrams.

    The link was in use from 0.1 s on, and the shares are those from ``start`` on.
    """
    rates = [flow.bytes_between(start, end) / (end - start) for flow in flows]
    carried = sum(flow.bytes_between(0.1, end) for flow in flows)
    datagrams = {flow.source: flow.datagrams for flow in flows}
    return Shared(
        # Each message of 1,000 bytes takes a datagram of 1,100 bytes.
        utilisation=carried / (end - 0.1) / RATE,
        fairness=sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates)),
        loss=lost / sum(datagrams.values()),
    )


def share_uplink(protocol: str, control: str, seed: int) -> Shared:
    """Return how eight bulk flows of one node share a link of 10 Mbit/s for 30 s."""
    paths = Paths(seed, Faults(delay_s=0.02), protocol, Limits(congestion_control=control))
    link = Faults(delay_s=0.02, bytes_per_s=RATE, queue_s=0.05, bottleneck="link")
    flows = [Flow("ann", f"p{number}") for number in range(8)]
    injector = paths.simulation.network.injector
    for flow in flows:
        injector.faults_of[flow.source, flow.target] = link
        paths.receive(flow)

    async def send(node: Node, flow: Flow) -> None:
        while True:
            await node.send(flow.target, b"%-20.9f" % 0.0 + bytes(980))
            flow.datagrams = node.engine.stats().datagrams_out

    async def source(node: Node) -> None:
        await asyncio.sleep(0.1)
        await asyncio.gather(*(send(node, flow) for flow in flows))

    paths.start("ann", [flow.target for flow in flows], source)
    with paths.simulation as simulation:
        simulation.run_for(35.0)
    return measure_shares(flows, 5.0, 35.0, injector.counts["overflowed"])


def bulk_delay(
    protocol: str, control: str, seed: int, link: Faults, *, same_peer: bool = False
) -> float:
    """Return the longest delay of small messages while a peer gets 4 MiB, in seconds.

    The delay beyond that of the path counts. The small messages go to another peer, or to
    the same one.
    """
    back = Faults(delay_s=link.delay_s)
    paths = Paths(seed, back, protocol, Limits(congestion_control=control))
    simulation = paths.simulation
    for peer in ("bob", "cid"):
        simulation.network.injector.faults_of["ann", peer] = link
    delays_s: list[float] = []

    async def source(node: Node) -> None:
        await asyncio.sleep(0.1)
        bulk = asyncio.ensure_future(node.send("bob", bytes(4 << 20)))
        while not bulk.done():
            await node.send(small, b"%-20.9f" % simulation.now)
            await asyncio.sleep(0.005)

    async def receive(node: Node) -> None:
        async for message in node:
            is_small = len(message.data) == 20
            delays_s.extend([simulation.now - float(message.data)] if is_small else [])

    small = "bob" if same_peer else "cid"
    paths.start("bob", ["ann"], receive)
    paths.start("cid", ["ann"], receive)
    paths.start("ann", ["bob", "cid"], source)
    with simulation:
        simulation.run_for(30.0)
    return max(delays_s) - link.delay_s


def report(name: str, value: float, bound: float | None, *, at_least: bool = True) -> bool:
    """Print a figure beside its aim, and return whether it is met."""
    text = ""
    met = True
    if bound is not None:
        met = value >= bound if at_least else value <= bound
        word = "at least" if at_least else "at most"
        text = f"  (aim: {word} {bound:g}, {'met' if met else 'MISSED'})"
    print(f"{name:62} {value:8.3f}{text}", flush=True)
    return met


QUEUED = Faults(delay_s=0.01, bytes_per_s=RATE, queue_s=0.05)
SHARED = replace(QUEUED, bottleneck="link")
LINKS = (
    ("a link of its own, 10 Mbit/s", QUEUED, 5),
    ("the same link, 100 Mbit/s", replace(SHARED, bytes_per_s=10 * RATE), 5),
    (
        "the same link, 10 Mbit/s, that marks from 5 ms on",
        replace(SHARED, mark_s=0.005),
        10,
    ),
    ("the same link, 10 Mbit/s, that only drops", SHARED, None),
)
"""Names of links, and aims in milliseconds."""


def report_bulk(protocol: str, seed: int) -> None:
    """Print by how much a message of 4 MiB delays small messages."""
    print("  longest delay of small messages by 4 MiB to another peer, ms")
    for name, link, aim in LINKS:
        delay_s = bulk_delay(protocol, "cubic", seed, link)
        report(f"    {name}", 1000 * delay_s, aim, at_least=False)
    delay_s = bulk_delay(protocol, "cubic", seed, QUEUED, same_peer=True)
    report("  the same to the same peer, 10 Mbit/s", 1000 * delay_s, None)


def report_protocol(protocol: str, seed: int) -> None:
    """Print the figures of a protocol."""
    print(f"{protocol}:")
    for size in (64, 1000):
        for control in CONTROLS:
            lossless = throughput(protocol, control, 0.0, size, seed)
            lossy = throughput(protocol, control, 0.01, size, seed)
            aim = 0.85 if control == "fixed" else None
            report(
                f"  throughput at 1 % loss over lossless, {size} B, {control}",
                lossy / lossless,
                aim,
            )
            print(f"      lossless {lossless / 1e6:.2f} MB/s, lossy {lossy / 1e6:.2f} MB/s")
    # RFC 9438, section 4.3: with so small a window, CUBIC is as fast as Reno.
    report(
        "  mean window at 1 % loss over sqrt(1.5 / loss), cubic",
        mean_window(protocol, "cubic", 0.01, seed) / sqrt(1.5 / 0.01),
        0.9,
    )
    for control in ("fixed", "cubic"):
        quantile_s = delay_quantile(protocol, control, 0.01, seed)
        report(
            f"  p99 delay of 1,000 messages/s at 1 % loss, round trips, {control}",
            quantile_s / 0.02,
            2.5,
            at_least=False,
        )
    for control in ("newreno", "cubic"):
        shared = share_link(protocol, control, seed)
        report(f"  two flows on 10 Mbit/s, utilisation, {control}", shared.utilisation, 0.9)
        report(f"  Jain's fairness, {control}", shared.fairness, 0.9)
        report(
            f"  datagrams lost in the queue, %, {control}",
            100 * shared.loss,
            2,
            at_least=False,
        )
    shared = share_uplink(protocol, "cubic", seed)
    report("  one node to eight peers, Jain's fairness, cubic", shared.fairness, 0.9)
    report_bulk(protocol, seed)


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="seed of the simulations")
    parser.add_argument("--protocol", choices=PROTOCOLS, help="only this protocol")
    options = parser.parse_args()
    for protocol in [options.protocol] if options.protocol else PROTOCOLS:
        report_protocol(protocol, options.seed)


if __name__ == "__main__":
    main()
