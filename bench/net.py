"""Speed of the node beside raw UDP, pyzmq and nats-py: ratios of one run.

    python -m bench.net [--messages N] [--rounds N]

Every figure is the median of several rounds, in which each contestant runs once. Sender and
receiver are separate OS processes on loopback, with payloads of 64 bytes. Every wait has a
limit; a contestant that fails is reported and skipped.
"""

import argparse
import importlib.util
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from statistics import median
from typing import Any

import antecede
from bench.net_processes import BenchError, Worker, nats_server

ROUNDS = 3
ROUND_TRIPS = 5000
GUARANTEES = {
    "node": "causal order, exactly once, loss recovery, back-pressure",
    "node, encrypted": "the same, encrypted and authenticated",
    "node, interpreted": "as node",
    "raw, one payload each": "none",
    "raw, segmentation": "none; the kernel splits one write into datagrams",
    "raw, packed": "none; 16 payloads per datagram",
    "pyzmq DEALER/ROUTER": "FIFO per pair, over TCP; lost with the connection",
    "nats-py": "FIFO per publisher, through a server; at most once",
}


def measure_rate(kind: str, task: dict[str, Any], *, interpreted: bool = False) -> float:
    """Return the messages per second from a sender to a receiver."""
    with (
        Worker(f"{kind}_send", interpreted=interpreted) as sender,
        Worker(f"{kind}_receive", interpreted=interpreted) as receiver,
    ):
        # Each worker binds its own port, so that no other process can take it meanwhile.
        sender.write(task)
        sender_port = sender.read("bound")[0]
        receiver.write({**task, "sender_port": int(sender_port)})
        sender.write({"ports": [int(port) for port in receiver.read("ready")]})
        began = float(sender.read("start")[0])
        ended, *received = receiver.read("received")
        messages = float(received[0]) if received else float(task["messages"])
        if messages == 0:
            raise BenchError("no message arrived")
        return messages / (float(ended) - began)


def measure_round_trip(kind: str) -> float:
    """Return the seconds per round trip."""
    with Worker(f"{kind}_trips", interpreted=False) as worker:
        worker.write({"trips": ROUND_TRIPS})
        return float(worker.read("received")[0])


def contestants(messages: int) -> dict[str, tuple[str, dict[str, Any], bool]]:
    """Return each contestant's kind, its task, and whether it runs interpreted."""
    task: dict[str, Any] = {"messages": messages, "peers": 1}
    found: dict[str, tuple[str, dict[str, Any], bool]] = {
        "raw, one payload each": ("raw", {**task, "segmentation": False}, False),
        "raw, segmentation": ("raw", {**task, "segmentation": True}, False),
        "raw, packed": ("raw", {**task, "segmentation": False, "packed": 16}, False),
        "node": ("node", task, False),
        "node, encrypted": ("node", {**task, "encrypted": True}, False),
        "node, 2 peers": ("node", {**task, "peers": 2}, False),
        "node, 200 peers": ("node", {**task, "peers": 200}, False),
        "node, interpreted": ("node", {**task, "messages": messages // 4}, True),
    }
    fewer = {**task, "messages": messages // 8}
    if importlib.util.find_spec("zmq"):
        found["pyzmq DEALER/ROUTER"] = ("zmq", fewer, False)
    if importlib.util.find_spec("nats") and shutil.which("nats-server"):
        found["nats-py"] = ("nats", fewer, False)
    return found


@contextmanager
def reported(name: str, failed: set[str]) -> Iterator[None]:
    """Report that a contestant failed, instead of ending the bench."""
    try:
        yield
    except BenchError as error:
        failed.add(name)
        print(f"{name}: FAILED, skipped: {error}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    print(f"antecede {antecede.__version__}, compiled: {antecede.compiled}")
    runs = contestants(options.messages)
    rates: dict[str, list[float]] = {name: [] for name in runs}
    trips: dict[str, list[float]] = {"node": [], "raw": []}
    failed: set[str] = set()
    with nats_server("nats-py" in runs) as server_port:
        for _ in range(options.rounds):
            for name, (kind, task, interpreted) in runs.items():
                if name not in failed:
                    with reported(name, failed):
                        task = {**task, "server_port": server_port}
                        rates[name].append(
                            measure_rate(kind, task, interpreted=interpreted)
                        )
            for kind, seconds in trips.items():
                if f"round trip, {kind}" not in failed:
                    with reported(f"round trip, {kind}", failed):
                        seconds.append(measure_round_trip(kind))
    print_rates({name: median(found) for name, found in rates.items() if found})
    if trips["node"] and trips["raw"]:
        node, raw = median(trips["node"]), median(trips["raw"])
        print(f"round trip: node {node * 1e6:.0f} us, raw {raw * 1e6:.0f} us")
        print(f"round trip, node over raw     {node / raw:6.2f}  (aim: at most 1.3)")
    return 1 if failed else 0


def print_rates(rates: Mapping[str, float]) -> None:
    for name, rate in rates.items():
        print(f"{name:24} {rate:12,.0f} messages/s   {GUARANTEES.get(name, '')}")
    for title, one, other, aim in (
        ("node over raw UDP", "node", "raw, one payload each", 0.5),
        ("node over raw UDP with GSO", "node", "raw, segmentation", 0.5),
        ("node over raw UDP, packed", "node", "raw, packed", None),
        ("interpreted over raw UDP", "node, interpreted", "raw, one payload each", 0.2),
        ("node over pyzmq", "node", "pyzmq DEALER/ROUTER", 10),
        ("node over nats-py", "node", "nats-py", 5),
        ("encrypted over plain", "node, encrypted", "node", 0.5),
        ("200 peers over 2", "node, 200 peers", "node, 2 peers", 0.7),
    ):
        if one in rates and other in rates:
            text = "" if aim is None else f"  (aim: at least {aim})"
            print(f"{title:29} {rates[one] / rates[other]:6.2f}{text}")


if __name__ == "__main__":
    sys.exit(main())
