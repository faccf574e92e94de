"""Print the costs of every protocol with 10, 100 and 1,000 processes, as one table.

``make bench-protocols`` runs this program. For each protocol, the table has the metadata of
a frame with a message, the metadata of all frames per copy, including control frames, and
the processor time per copy, including the simulator, each with the exponent of its growth
from 10 to 1,000 processes. Each message has one random target if the protocol has unicast;
otherwise it is a broadcast. Each measurement runs in its own process, and the table has the
least value of a few rounds.
"""

import sys
from math import log10

from antecede.core.registry import protocols
from bench.measure import run_for_json

SIZES = (10, 100, 1000)
MESSAGES = 10
"""The number of messages of each sender, for every number of processes."""
ROUNDS = 3
COSTS = {
    "message_bytes": "metadata bytes in a message",
    "copy_bytes": "metadata bytes per copy",
    "copy_us": "us per copy",
}


def least_costs(name: str, processes: int) -> dict[str, float]:
    """Measure a protocol in several rounds, and return the least value of each cost."""
    # With the largest size a run is long, so noise matters less and one round suffices.
    rounds = ROUNDS if processes < SIZES[-1] else 1
    results = [
        run_for_json("bench.protocol_work", name, str(processes), str(MESSAGES))
        for _ in range(rounds)
    ]
    return {cost: min(float(result[cost]) for result in results) for cost in COSTS}


def main() -> int:
    """Print the table."""
    columns = "".join(f"{f'n={size}':>9}" for size in SIZES) + f"{'exponent':>10}"
    print(" " * 14 + "".join(f"{title:^{len(columns)}}" for title in COSTS.values()))
    print(" " * 14 + columns * len(COSTS))
    for info in protocols():
        costs = [least_costs(info.name, size) for size in SIZES]
        print(f"{info.name:14}", end="")
        for cost in COSTS:
            values = [each[cost] for each in costs]
            exponent = log10(values[-1] / values[0]) / log10(SIZES[-1] / SIZES[0])
            print("".join(f"{value:9.1f}" for value in values), end="")
            print(f"{exponent:10.2f}", end="")
        print(flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
