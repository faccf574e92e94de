"""``make bench`` (core) and ``make bench-sim``: print ratios against their bounds.

Each measurement runs in a process of its own; the two sides of a ratio take turns, and
the best of each side counts, since noise only ever adds.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SOURCE = str(Path(__file__).parent.parent / "src")
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a ratio: what is measured, on which build."""

    label: str
    work: tuple[str, ...]
    interpreted: bool = False
    module: str = "bench.core_work"

    def measure(self) -> float:
        """Measure once, in a fresh process."""
        environment = os.environ | ({"PYTHONPATH": SOURCE} if self.interpreted else {})
        done = subprocess.run(
            [sys.executable, "-m", self.module, *self.work],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        result = json.loads(done.stdout)
        if result["compiled"] is self.interpreted:
            raise SystemExit(
                f"{self.label}: not the build it claims; is a C compiler there?"
            )
        return float(result["value"])


@dataclass(frozen=True, slots=True)
class Comparison:
    """A ratio and the bound it must keep."""

    name: str
    unit: str
    over: Side
    under: Side
    bound: float
    at_least: bool = False
    rounds: int = ROUNDS
    rate: bool = False
    """More is better, so the best is the most."""

    def run(self) -> bool:
        """Measure, print one line, and tell whether the bound is kept."""
        over = []
        under = []
        for _ in range(self.rounds):
            over.append(self.over.measure())
            under.append(self.under.measure())
        best = max if self.rate else min
        ratio = best(over) / best(under)
        kept = ratio >= self.bound if self.at_least else ratio <= self.bound
        sides = "; ".join(
            f"{side.label} {best(values):,.2f} {self.unit}"
            for side, values in ((self.over, over), (self.under, under))
        )
        limit = f"{'at least' if self.at_least else 'at most'} {self.bound:.2f}"
        verdict = "kept" if kept else "MISSED"
        print(f"{self.name:44} {ratio:5.2f}  ({limit}: {verdict})  {sides}", flush=True)
        return kept


def comparisons(protocol: str) -> list[Comparison]:
    """List what is compared for a protocol."""
    exchange = ("exchange", protocol, "64", "100000")
    return [
        Comparison(
            "compiled against interpreted",
            "us/message",
            Side("interpreted", exchange, interpreted=True),
            Side("compiled", exchange),
            4.0,
            at_least=True,
        ),
        Comparison(
            "time per message, 10,000 peers against 10",
            "us/message",
            Side("10,000 peers", ("peers", protocol, "10000", "200000")),
            Side("10 peers", ("peers", protocol, "10", "200000")),
            1.25,
        ),
        Comparison(
            "time per message, window 10^6 against 100",
            "us/message",
            Side("10^6", ("window", protocol, "1000000", "200000")),
            Side("100", ("window", protocol, "100", "200000")),
            1.25,
        ),
        Comparison(
            "memory per message, 10,000 peers against 10",
            "bytes",
            Side("10,000 peers", ("buffered_bytes", protocol, "10000", "100000")),
            Side("10 peers", ("buffered_bytes", protocol, "10", "100000")),
            1.25,
            rounds=1,
        ),
        Comparison(
            "memory per message, window 10^6 against 100",
            "bytes",
            Side("10^6", ("buffered_bytes", protocol, "1", "1000000")),
            Side("100", ("buffered_bytes", protocol, "1", "100")),
            1.25,
            rounds=1,
        ),
        Comparison(
            "metadata per message, 10,000 processes against 10",
            "bytes",
            Side("10,000", ("metadata_bytes", protocol, "10000", "1000")),
            Side("10", ("metadata_bytes", protocol, "10", "1000")),
            1.0,
            rounds=1,
        ),
    ]


def simulator_comparisons() -> list[Comparison]:
    """List what is compared of the simulator."""
    module = "bench.sim_work"
    hybrid = Side("hybrid", ("hybrid", "100", "300"), module=module)
    slow = Side("hybrid", ("hybrid", "100", "300"), interpreted=True, module=module)
    simpy = Side("SimPy", ("ping_ack", "100", "300"), module=module)
    simpy_too = Side("SimPy", ("ping_ack", "100", "300"), interpreted=True, module=module)
    many = Side("10,000", ("hybrid", "10000", "20"), module=module)
    few = Side("100", ("hybrid", "100", "2000"), module=module)
    unit = "events/s"
    return [
        Comparison(
            "hybrid compiled against SimPy ping-ack",
            unit,
            hybrid,
            simpy,
            10,
            True,
            rate=True,
        ),
        Comparison(
            "hybrid interpreted against SimPy ping-ack",
            unit,
            slow,
            simpy_too,
            3,
            True,
            rate=True,
        ),
        Comparison("10,000 processes against 100", unit, many, few, 0.6, True, rate=True),
    ]


def main(parts: list[str]) -> int:
    missed = 0
    if "core" in parts:
        for protocol in ("hybrid", "hybrid-basic"):
            print(f"\n{protocol}")
            for comparison in comparisons(protocol):
                missed += not comparison.run()
    if "sim" in parts:
        print("\nsimulator")
        for comparison in simulator_comparisons():
            missed += not comparison.run()
    print(f"\n{missed} bounds missed" if missed else "\nall bounds kept")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
