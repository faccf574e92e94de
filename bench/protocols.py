"""``make bench-protocols``: what each protocol costs at n = 10, 100 and 1000, as one table.

For each protocol the metadata of a frame that carries a message, all metadata per copy
(control frames included), and the processor time per copy, simulator included; with the
exponent of the growth from n = 10 to n = 1000. Unicast protocols send to random others,
broadcast protocols to all. Each figure comes from a process of its own, the least of a
few.
"""

import json
import subprocess
import sys
from math import log10

from antecede.core.registry import protocols

MODULE = "bench.protocol_work"
SIZES = (10, 100, 1000)
MESSAGES = 10
"""For each sender, at every size."""
ROUNDS = 3


def costs(name: str, processes: int) -> dict[str, float]:
    """Measure a protocol a few times, and return the least of each cost."""
    results: list[dict[str, float]] = []
    for _ in range(ROUNDS if processes < SIZES[-1] else 1):  # Noise matters less then.
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "bench.protocol_work",
                name,
                str(processes),
                str(MESSAGES),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        results.append(json.loads(done.stdout))
    return {key: min(result[key] for result in results) for key in results[0]}


def main() -> int:
    """Print the table."""
    print(f"{'':14}{'bytes per message':^34}{'bytes in all per copy':^34}", end="")
    print(f"{'us per copy':^34}")
    heads = "".join(f"{f'n={n}':>9}" for n in SIZES) + f"{'n^':>7}"
    print(f"{'':14}{heads}{heads}{heads}")
    for info in protocols():
        table = [costs(info.name, n) for n in SIZES]
        print(f"{info.name:14}", end="")
        for key in ("message_bytes", "bytes", "us"):
            values = [each[key] for each in table]
            exponent = log10(values[-1] / values[0]) / log10(SIZES[-1] / SIZES[0])
            print("".join(f"{value:9.1f}" for value in values), end="")
            print(f"{exponent:7.2f}", end="")
        print(flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
