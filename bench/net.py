"""Compare the speed of the node with raw UDP, pyzmq and nats-py: ``python -m bench.net``.

Every figure is the median of several rounds; each round runs every measurement once. The
sender and the receiver are separate OS processes on loopback, with payloads of 64 bytes.
Every wait has a timeout. A measurement that fails is reported and skipped in later rounds,
and the exit code is 1.
"""

import argparse
import importlib.util
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import antecede
from bench.net_processes import BenchmarkError, Worker, nats_server

ROUNDS = 3
ROUND_TRIPS = 5000
GUARANTEES = {
    "node": "causal order, exactly once, loss recovery, back-pressure",
    "node, encrypted": "as node, encrypted and authenticated",
    "node, interpreted": "as node",
    "raw, one payload each": "none",
    "raw, segmentation": "none; the kernel splits one write into datagrams",
    "raw, packed": "none; 16 payloads per datagram",
    "pyzmq DEALER/ROUTER": "FIFO per pair, over TCP; lost with the connection",
    "nats-py": "FIFO per publisher, through a server; at most once",
}


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measurement of messages per second."""

    transport: str
    """The prefix of the sending and the receiving role in :mod:`bench.net_work`."""
    task: Mapping[str, Any]
    interpreted: bool = False

    def run(self, server_port: int) -> float:
        """Return the messages per second from a sender to a receiver."""
        task = {**self.task, "server_port": server_port}
        with (
            Worker(f"{self.transport}_send", interpreted=self.interpreted) as sender,
            Worker(f"{self.transport}_receive", interpreted=self.interpreted) as receiver,
        ):
            # Each worker binds its own port, so no other process can bind it meanwhile.
            sender.write(task)
            sender_port = sender.read("bound")[0]
            receiver.write({**task, "sender_port": int(sender_port)})
            sender.write({"ports": [int(port) for port in receiver.read("ready")]})
            start = float(sender.read("start")[0])
            end, *received = receiver.read("received")
            messages = float(received[0]) if received else float(task["messages"])
            if messages == 0:
                raise BenchmarkError("no message arrived")
            return messages / (float(end) - start)


def measure_round_trip(transport: str) -> float:
    """Return the seconds per round trip."""
    with Worker(f"{transport}_round_trips", interpreted=False) as worker:
        worker.write({"round_trips": ROUND_TRIPS})
        return float(worker.read("received")[0])


def rate_measurements(messages: int) -> dict[str, Measurement]:
    """Return the measurements by name; pyzmq and nats-py only if they are installed."""
    task: dict[str, Any] = {"messages": messages, "peers": 1}
    one_each = {**task, "segmentation": False}
    measurements = {
        "raw, one payload each": Measurement("raw", one_each),
        "raw, segmentation": Measurement("raw", {**task, "segmentation": True}),
        "raw, packed": Measurement("raw", {**one_each, "packed": 16}),
        "node": Measurement("node", task),
        "node, hybrid": Measurement("node", {**task, "protocol": "hybrid"}),
        "node, encrypted": Measurement("node", {**task, "encrypted": True}),
        "node, 2 peers": Measurement("node", {**task, "peers": 2}),
        "node, 200 peers": Measurement("node", {**task, "peers": 200}),
        "node, interpreted": Measurement(
            "node", {**task, "messages": messages // 4}, interpreted=True
        ),
    }
    fewer = {**task, "messages": messages // 8}
    if importlib.util.find_spec("zmq"):
        measurements["pyzmq DEALER/ROUTER"] = Measurement("zmq", fewer)
    if importlib.util.find_spec("nats") and shutil.which("nats-server"):
        measurements["nats-py"] = Measurement("nats", fewer)
    return measurements


@contextmanager
def report_failure(name: str, failed: set[str]) -> Iterator[None]:
    """Print the error of a failed measurement, and add its name to ``failed``."""
    try:
        yield
    except BenchmarkError as error:
        failed.add(name)
        print(f"{name}: FAILED, skipped: {error}", file=sys.stderr, flush=True)


def main() -> int:
    """Run all measurements, print the rates and ratios, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--messages",
        type=int,
        default=400_000,
        help="number of messages per measurement; slow measurements use a fraction of it;"
        " default: 400000",
    )
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help=f"number of rounds; default: {ROUNDS}"
    )
    options = parser.parse_args()
    build = "compiled" if antecede.compiled else "interpreted"
    print(f"antecede {antecede.__version__}, {build}")
    measurements = rate_measurements(options.messages)
    rates: dict[str, list[float]] = {name: [] for name in measurements}
    round_trips: dict[str, list[float]] = {"node": [], "raw": []}
    failed: set[str] = set()
    with nats_server("nats-py" in measurements) as server_port:
        for _ in range(options.rounds):
            for name, measurement in measurements.items():
                if name not in failed:
                    with report_failure(name, failed):
                        rates[name].append(measurement.run(server_port))
            for transport, seconds in round_trips.items():
                name = f"round trip, {transport}"
                if name not in failed:
                    with report_failure(name, failed):
                        seconds.append(measure_round_trip(transport))
    print_rates({name: median(values) for name, values in rates.items() if values})
    if round_trips["node"] and round_trips["raw"]:
        node, raw = median(round_trips["node"]), median(round_trips["raw"])
        print(f"round trip: node {node * 1e6:.0f} us, raw {raw * 1e6:.0f} us")
        print(f"{'round trip, node to raw UDP':29} {node / raw:6.2f}  (aim: at most 1.3)")
    return 1 if failed else 0


def print_rates(rates: Mapping[str, float]) -> None:
    """Print the messages per second, and their ratios with the aims."""
    for name, rate in rates.items():
        print(f"{name:24} {rate:12,.0f} messages/s   {GUARANTEES.get(name, '')}")
    for title, numerator, denominator, aim in (
        ("node to raw UDP", "node", "raw, one payload each", 0.5),
        ("node to raw UDP with GSO", "node", "raw, segmentation", 0.5),
        ("node to raw UDP, packed", "node", "raw, packed", None),
        ("interpreted node to raw UDP", "node, interpreted", "raw, one payload each", 0.2),
        ("node to pyzmq", "node", "pyzmq DEALER/ROUTER", 10),
        ("node to nats-py", "node", "nats-py", 5),
        ("bounded, the default, to hybrid", "node", "node, hybrid", None),
        ("encrypted to plain", "node, encrypted", "node", 0.5),
        ("200 peers to 2", "node, 200 peers", "node, 2 peers", 0.7),
    ):
        if numerator in rates and denominator in rates:
            text = "" if aim is None else f"  (aim: at least {aim})"
            print(f"{title:29} {rates[numerator] / rates[denominator]:6.2f}{text}")


if __name__ == "__main__":
    sys.exit(main())
