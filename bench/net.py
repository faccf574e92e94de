"""Speed of the node beside raw UDP, pyzmq and nats-py: ratios of one run.

    python -m bench.net [--messages N]

Every figure is the median of several rounds, in which everybody has a turn. Sender and
receiver are OS processes of their own, on loopback, with payloads of 64 bytes.
"""

import argparse
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

import antecede

ROUNDS = 3
GUARANTEES = {
    "node": "causal order, once, loss recovery, back-pressure",
    "node, sealed": "the same, encrypted and authenticated",
    "node, interpreted": "as node",
    "raw, a datagram each": "none",
    "raw, cut by the kernel": "none",
    "raw, packed": "none; 16 payloads to a datagram, by hand",
    "pyzmq DEALER/ROUTER": "order of each pair, over TCP; lost with the connection",
    "nats-py": "order of each publisher, by way of a server; at most once",
}


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        return int(udp.getsockname()[1])


def start(
    role: str, task: Mapping[str, Any], *, interpreted: bool
) -> subprocess.Popen[str]:
    environment = dict(os.environ)
    if interpreted:
        environment["PYTHONPATH"] = "src"
    return subprocess.Popen(
        [sys.executable, "-m", "bench.net_work", role, json.dumps(task)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def words_of(child: subprocess.Popen[str]) -> list[str]:
    assert child.stdout is not None
    line = child.stdout.readline()
    if not line:
        raise SystemExit("a part of the bench has stopped; see above")
    return line.split()


def rate(kind: str, task: dict[str, Any], *, interpreted: bool = False) -> float:
    """Return messages per second from a sender to a receiver."""
    task = {**task, "sender_port": free_port()}
    receiver = start(f"{kind}_receive", task, interpreted=interpreted)
    try:
        task["ports"] = [int(word) for word in words_of(receiver)[1:]]
        sender = start(f"{kind}_send", task, interpreted=interpreted)
        try:
            began = float(words_of(sender)[1])
            told = words_of(receiver)
            seconds = float(told[1]) - began
            came = float(told[2]) if len(told) > 2 else float(task["messages"])
        finally:
            time.sleep(0.2)
            sender.kill()
            sender.wait()
    finally:
        receiver.kill()
        receiver.wait()
    return came / seconds


def trip(kind: str, trips: int) -> float:
    """Return seconds per round trip."""
    child = start(f"{kind}_trips", {"trips": trips}, interpreted=False)
    seconds = float(words_of(child)[1])
    child.wait()
    return seconds


def contestants(messages: int) -> dict[str, tuple[str, dict[str, Any], bool]]:
    plain: dict[str, Any] = {"messages": messages, "peers": 1}
    found: dict[str, tuple[str, dict[str, Any], bool]] = {
        "raw, a datagram each": ("raw", {**plain, "segmentation": False}, False),
        "raw, cut by the kernel": ("raw", {**plain, "segmentation": True}, False),
        "raw, packed": ("raw", {**plain, "segmentation": False, "packed": 16}, False),
        "node": ("node", plain, False),
        "node, sealed": ("node", {**plain, "sealed": True}, False),
        "node, 2 peers": ("node", {**plain, "peers": 2}, False),
        "node, 200 peers": ("node", {**plain, "peers": 200}, False),
        "node, interpreted": ("node", {**plain, "messages": messages // 4}, True),
    }
    slow = {**plain, "messages": messages // 8}
    if importlib.util.find_spec("zmq"):
        found["pyzmq DEALER/ROUTER"] = ("zmq", slow, False)
    if importlib.util.find_spec("nats") and shutil.which("nats-server"):
        found["nats-py"] = ("nats", slow, False)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    print(f"antecede {antecede.__version__}, compiled: {antecede.compiled}")
    server_port = free_port()
    server = None
    runs = contestants(options.messages)
    if "nats-py" in runs:
        command = ["nats-server", "-a", "127.0.0.1", "-p", str(server_port)]
        server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        time.sleep(1)
    try:
        rates: dict[str, list[float]] = {name: [] for name in runs}
        trips: dict[str, list[float]] = {"node": [], "raw": []}
        for _ in range(options.rounds):
            for name, (kind, task, interpreted) in runs.items():
                task = {**task, "server_port": server_port}
                rates[name].append(rate(kind, task, interpreted=interpreted))
            for kind in trips:
                trips[kind].append(trip(kind, 5000))
    finally:
        if server is not None:
            server.terminate()
    show({name: median(found) for name, found in rates.items()})
    node, raw = median(trips["node"]), median(trips["raw"])
    print(f"round trip: node {node * 1e6:.0f} us, raw {raw * 1e6:.0f} us")
    print(f"round trip, node over raw     {node / raw:6.2f}  (aim: at most 1.3)")


def show(rates: Mapping[str, float]) -> None:
    for name, figure in rates.items():
        print(f"{name:24} {figure:12,.0f} messages/s   {GUARANTEES.get(name, '')}")
    node = rates["node"]
    for words, one, other, aim in (
        ("node over raw UDP", "node", "raw, a datagram each", 0.5),
        ("node over raw UDP with GSO", "node", "raw, cut by the kernel", 0.5),
        ("interpreted over raw UDP", "node, interpreted", "raw, a datagram each", 0.2),
        ("node over pyzmq", "node", "pyzmq DEALER/ROUTER", 10),
        ("node over nats-py", "node", "nats-py", 5),
        ("sealed over plain", "node, sealed", "node", 0.5),
        ("200 peers over 2", "node, 200 peers", "node, 2 peers", 0.7),
    ):
        if other in rates:
            ratio = rates[one] / rates[other]
            print(f"{words:29} {ratio:6.2f}  (aim: at least {aim})")
    packed = rates.get("raw, packed")
    if packed:
        print(f"{'node over raw, packed':29} {node / packed:6.2f}")


if __name__ == "__main__":
    main()
