"""Compare the speed of the node with other transports: ``python -m bench.net``.

The other transports are raw UDP, TCP, pyzmq, aioquic and nats-py. Every figure is the
median of several rounds; each round runs every measurement once, so that the two sides of a
ratio alternate. A second figure compares processor times, in seconds per message of the
busier process: other work on the machine disturbs it less. The sender and the receiver are
separate OS processes on loopback, with payloads of 64 bytes. Every wait has a timeout. A
measurement that fails is reported and skipped in later rounds, and the exit code is 1; a
missed aim does not change the exit code.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from statistics import median

import antecede
from antecede.core.config import DEFAULT_PROTOCOL
from bench.net_processes import BenchmarkError, nats_server
from bench.net_rows import (
    GUARANTEES,
    Cost,
    Measurement,
    Ratio,
    absent_peers,
    make_measurements,
    make_ratios,
)

ROUNDS = 3
PROTOCOLS = (DEFAULT_PROTOCOL, "hybrid")


@contextmanager
def report_failure(name: str, failed: set[str]) -> Iterator[None]:
    """Print the error of a failed measurement, and add its name to ``failed``."""
    try:
        yield
    except BenchmarkError as error:
        failed.add(name)
        print(f"{name}: FAILED, skipped: {error}", file=sys.stderr, flush=True)


def run_rounds(
    measurements: Mapping[str, Measurement], rounds: int
) -> tuple[dict[str, Cost], set[str]]:
    """Return the medians of each measurement, and the names of those that failed."""
    values: dict[str, list[Cost]] = {name: [] for name in measurements}
    failed: set[str] = set()
    with nats_server("nats-py" in measurements) as server_port:
        for _ in range(rounds):
            for name, measurement in measurements.items():
                if name not in failed:
                    with report_failure(name, failed):
                        values[name].append(measurement.run(server_port))
    medians = {
        name: Cost(
            median([cost.seconds for cost in found]),
            median([cost.processor_s for cost in found]),
        )
        for name, found in values.items()
        if found
    }
    return medians, failed


def guarantee(name: str) -> str:
    """Return the guarantees of the transport with the longest name that ``name`` has."""
    found = [prefix for prefix in GUARANTEES if name.startswith(prefix)]
    return GUARANTEES[max(found, key=len)] if found else ""


def print_costs(costs: Mapping[str, Cost], measurements: Mapping[str, Measurement]) -> None:
    """Print messages per second or the duration of a round trip, and processor time."""
    for name, cost in costs.items():
        if measurements[name].is_round_trip:
            value = f"{cost.seconds * 1e6:12,.1f} us        "
        else:
            value = f"{1 / cost.seconds:12,.0f} messages/s"
        print(f"{name:46} {value} {cost.processor_s * 1e6:7.2f} us   {guarantee(name)}")


def print_ratios(costs: Mapping[str, Cost], ratios: list[Ratio]) -> None:
    """Print each ratio, the same ratio of processor times, and the aim of the first."""
    lines = [line for ratio in ratios if (line := ratio.line(costs))]
    if lines:
        print(f"\n{'':58} {'ratio':>6} by processor time", *lines, sep="\n")


def main(arguments: list[str] | None = None) -> int:
    """Run all measurements, print the values and ratios, and return the exit code."""
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
    parser.add_argument(
        "--only",
        action="append",
        metavar="TEXT",
        help="run only measurements whose names contain this text; may be repeated",
    )
    options = parser.parse_args(arguments)
    build = "compiled" if antecede.compiled else "interpreted"
    print(f"antecede {antecede.__version__}, {build}", flush=True)
    absent = absent_peers()
    for peer, reason in absent.items():
        print(f"{peer}: skipped: {reason}", flush=True)
    measurements = make_measurements(PROTOCOLS, options.messages, absent)
    if options.only:
        measurements = {
            name: measurement
            for name, measurement in measurements.items()
            if any(text in name for text in options.only)
        }
    costs, failed = run_rounds(measurements, options.rounds)
    print_costs(costs, measurements)
    print_ratios(costs, make_ratios(PROTOCOLS))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
