"""The measurements of the benchmark of the node, and the ratios that it prints."""

import importlib.util
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.net_processes import BenchmarkError, Worker

__all__ = [
    "GUARANTEES",
    "Cost",
    "Measurement",
    "Ratio",
    "absent_peers",
    "make_measurements",
    "make_ratios",
]

ROUND_TRIPS = 5000
LOOPBACK_DATAGRAM_BYTES = 16_384
"""The default of a node that is bound to a loopback address."""
PATH_DATAGRAM_BYTES = 1_232
"""The default of a node elsewhere; aioquic's own default is 1,200."""
GUARANTEES = {
    "node": "causal order, exactly once, loss recovery, back-pressure",
    "raw UDP, a datagram each": "none",
    "raw UDP, GSO and GRO": "none; the kernel splits one write into datagrams",
    "raw UDP, 16 payloads per datagram": "none",
    "pyzmq DEALER/ROUTER": "FIFO per pair, over TCP; lost with the connection",
    "asyncio TCP in batches": "FIFO per connection; lost with the connection",
    "aioquic": "FIFO per stream, encrypted; lost with the connection",
    "nats-py": "FIFO per publisher, through a server; at most once",
}
"""What a transport guarantees, by the longest prefix of the name of the measurement."""
ABSENT_BECAUSE: Mapping[str, Callable[[], str]] = {
    "pyzmq": lambda: _missing_package("zmq", "pyzmq"),
    "nats-py": lambda: (
        _missing_package("nats", "nats-py")
        or ("" if shutil.which("nats-server") else "the program nats-server is missing")
    ),
    "aioquic": lambda: _missing_package("aioquic", "aioquic"),
}
"""Returns, for each transport that is optional, why it cannot be measured, or ''."""


def _missing_package(module: str, package: str) -> str:
    found = importlib.util.find_spec(module) is not None
    return "" if found else f"the package {package} is not installed"


def absent_peers() -> dict[str, str]:
    """Return the transports that cannot be measured on this machine, and why."""
    reasons = {name: reason() for name, reason in ABSENT_BECAUSE.items()}
    return {name: reason for name, reason in reasons.items() if reason}


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a message or of a round trip."""

    seconds: float
    processor_s: float
    """The processor time of the busier process. Other work on the machine changes it less
    than the seconds."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measurement of the cost of a message or of a round trip."""

    transport: str
    """The prefix of the roles in :mod:`bench.net_work`."""
    task: Mapping[str, Any]
    interpreted: bool = False

    @property
    def is_round_trip(self) -> bool:
        """Whether the cost is that of a round trip."""
        return "round_trips" in self.task

    def run(self, server_port: int) -> Cost:
        """Measure once, in new processes."""
        if self.is_round_trip:
            callbacks = "callback_" if self.task.get("callbacks") else ""
            role = f"{self.transport}_{callbacks}round_trips"
            with Worker(role, interpreted=False) as worker:
                worker.write(self.task)
                seconds, processor_s = worker.read("received")
                return Cost(float(seconds), float(processor_s))
        return self._measure_rate(server_port)

    def _measure_rate(self, server_port: int) -> Cost:
        """Return the cost of a message from a sender to a receiver."""
        task = {**self.task, "server_port": server_port}
        with (
            Worker(f"{self.transport}_send", interpreted=self.interpreted) as sender,
            Worker(f"{self.transport}_receive", interpreted=self.interpreted) as receiver,
        ):
            # Each worker binds its own port, so no other process can bind it meanwhile.
            sender.write(task)
            sender_port = sender.read("bound")[0]
            receiver.write({**task, "sender_port": int(sender_port)})
            ports = [int(port) for port in receiver.read("ready")]
            receiver_s = receiver.processor_s()
            sender.write({"ports": ports})
            start, sender_s = (float(value) for value in sender.read("start"))
            end, *received = receiver.read("received")
            sender_s = sender.processor_s() - sender_s
            receiver_s = receiver.processor_s() - receiver_s
            messages = float(received[0]) if received else float(task["messages"])
            if messages == 0:
                raise BenchmarkError("no message arrived")
            return Cost(
                (float(end) - start) / messages, max(sender_s, receiver_s) / messages
            )


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of messages per second, or of seconds per round trip, with its aim."""

    title: str
    numerator: str
    denominator: str
    aim: float | None
    at_least: bool = True
    """Whether the aim is a minimum; otherwise it is a maximum, of round trips."""

    def line(self, costs: Mapping[str, Cost]) -> str:
        """Return the line to print; '' if one of the measurements has no value."""
        if self.numerator not in costs or self.denominator not in costs:
            return ""
        first, second = costs[self.numerator], costs[self.denominator]
        if self.at_least:  # A ratio of messages per second.
            first, second = second, first
        ratio = first.seconds / second.seconds
        processor_ratio = first.processor_s / second.processor_s
        text = f"{self.title:58} {ratio:6.2f} {processor_ratio:6.2f}"
        if self.aim is None:
            return text
        met = ratio >= self.aim if self.at_least else ratio <= self.aim
        word = "at least" if self.at_least else "at most"
        return f"{text}  (aim: {word} {self.aim:g}, {'met' if met else 'MISSED'})"


def _node_measurements(protocol: str, messages: int) -> dict[str, Measurement]:
    """Return the measurements of the node with one protocol."""
    task: dict[str, Any] = {"messages": messages, "peers": 1, "protocol": protocol}
    batches = {**task, "in_batches": True}
    encrypted = {**batches, "encrypted": True}
    on_path = {**encrypted, "datagram_bytes": PATH_DATAGRAM_BYTES}
    quarter = {**task, "messages": messages // 4}
    round_trips = {"round_trips": ROUND_TRIPS, "protocol": protocol}
    name = f"node, {protocol}"
    return {
        name: Measurement("node", task),
        f"{name}, batch calls": Measurement("node", batches),
        f"{name}, batch calls, encrypted": Measurement("node", encrypted),
        f"{name}, batch calls, encrypted, 1,232 B": Measurement("node", on_path),
        f"{name}, interpreted": Measurement("node", quarter, interpreted=True),
        f"{name}, round trip": Measurement("node", round_trips),
        f"{name}, round trip, callbacks": Measurement(
            "node", {**round_trips, "callbacks": True}
        ),
    }


def make_measurements(
    protocols: tuple[str, ...], messages: int, absent: Mapping[str, str]
) -> dict[str, Measurement]:
    """Return the measurements by name, without those of absent transports.

    The first protocol is also measured encrypted, with 2 peers and with 200.
    """
    task: dict[str, Any] = {"messages": messages, "peers": 1}
    half = {**task, "messages": messages // 2}
    eighth = {**task, "messages": messages // 8}
    one_each = {**task, "segmentation": False}
    measurements = {
        "raw UDP, a datagram each": Measurement("raw", one_each),
        "raw UDP, GSO and GRO": Measurement("raw", {**task, "segmentation": True}),
        "raw UDP, 16 payloads per datagram": Measurement("raw", {**one_each, "packed": 16}),
        "raw UDP, round trip": Measurement("raw", {"round_trips": ROUND_TRIPS}),
        "asyncio TCP in batches": Measurement("tcp", task),
        "pyzmq DEALER/ROUTER": Measurement("zmq", eighth),
        "aioquic, 1,232 B": Measurement(
            "quic", {**eighth, "datagram_bytes": PATH_DATAGRAM_BYTES}
        ),
        "aioquic, 16 KiB": Measurement(
            "quic", {**half, "datagram_bytes": LOOPBACK_DATAGRAM_BYTES}
        ),
        "nats-py": Measurement("nats", eighth),
    }
    for protocol in protocols:
        measurements |= _node_measurements(protocol, messages)
    name = f"node, {protocols[0]}"
    task["protocol"] = protocols[0]
    measurements |= {
        f"{name}, encrypted": Measurement("node", {**task, "encrypted": True}),
        f"{name}, 2 peers": Measurement("node", {**task, "peers": 2}),
        f"{name}, 200 peers": Measurement("node", {**task, "peers": 200}),
    }
    return {
        name: measurement
        for name, measurement in measurements.items()
        if not name.startswith(tuple(absent))
    }


def make_ratios(protocols: tuple[str, ...]) -> list[Ratio]:
    """Return the ratios with their aims, in the order in which they are printed."""
    ratios = []
    for protocol in protocols:
        node = f"node, {protocol}"
        batches = f"{node}, batch calls"
        encrypted = f"{batches}, encrypted"
        on_path = f"{encrypted}, 1,232 B"
        trip = f"{node}, round trip"
        raw_trip = "raw UDP, round trip"
        ratios += [
            Ratio(f"{node}: to raw UDP", node, "raw UDP, a datagram each", 1.6),
            Ratio(f"{batches}: to raw UDP with GSO", batches, "raw UDP, GSO and GRO", 0.4),
            Ratio(f"{node}: to asyncio pyzmq", node, "pyzmq DEALER/ROUTER", 15),
            Ratio(f"{batches}: to asyncio TCP", batches, "asyncio TCP in batches", 0.5),
            Ratio(f"{on_path}: to aioquic", on_path, "aioquic, 1,232 B", 5),
            Ratio(f"{encrypted}, 16 KiB: to aioquic", encrypted, "aioquic, 16 KiB", 5),
            Ratio(f"{node}: to nats-py", node, "nats-py", 5),
            Ratio(f"{trip}: to raw UDP", trip, raw_trip, 1.5, at_least=False),
            Ratio(
                f"{trip}, callbacks: to raw UDP",
                f"{trip}, callbacks",
                raw_trip,
                1.5,
                at_least=False,
            ),
            Ratio(
                f"{node}, interpreted: to raw UDP",
                f"{node}, interpreted",
                "raw UDP, a datagram each",
                0.3,
            ),
        ]
    first = f"node, {protocols[0]}"
    ratios += [
        Ratio(f"{first}: encrypted to plain", f"{first}, encrypted", first, 0.5),
        Ratio(f"{first}: 200 peers to 2", f"{first}, 200 peers", f"{first}, 2 peers", 0.7),
    ]
    ratios += [
        Ratio(f"{first}: to {other}", first, f"node, {other}", None)
        for other in protocols[1:]
    ]
    return ratios
