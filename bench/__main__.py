"""Compare measurements of the core and of the simulator: ``python -m bench [core] [sim]``.

``make bench`` runs the comparisons of the core, ``make bench-sim`` those of the simulator.
Each measurement runs in its own process. The two sides of a ratio alternate, and the ratio
uses the best value of each side, because noise can only make a value worse. The exit code
is 1 if a ratio misses its bound.
"""

import sys
from dataclasses import dataclass

from bench.measure import run_for_json

ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a ratio: a measurement, and the build that it runs on."""

    label: str
    arguments: tuple[str, ...]
    interpreted: bool = False
    module: str = "bench.core_work"

    def measure(self) -> float:
        """Run the measurement once, in a new process, and return its value."""
        result = run_for_json(self.module, *self.arguments, interpreted=self.interpreted)
        if result["compiled"] is self.interpreted:
            expected = "interpreted" if self.interpreted else "compiled"
            raise SystemExit(
                f"{self.label}: the build is not {expected}; run `make bench`, which"
                " installs the compiled build if a C compiler is present"
            )
        return float(result["value"])


@dataclass(frozen=True, slots=True)
class Comparison:
    """A ratio of two measurements, and its bound."""

    name: str
    unit: str
    numerator: Side
    denominator: Side
    bound: float
    at_least: bool = False
    """Whether the bound is a minimum; otherwise it is a maximum."""
    rounds: int = ROUNDS
    is_rate: bool = False
    """Whether the best value of a side is the largest one."""

    def run(self) -> bool:
        """Measure both sides, print the ratio, and return whether it meets the bound."""
        numerators = []
        denominators = []
        for _ in range(self.rounds):
            numerators.append(self.numerator.measure())
            denominators.append(self.denominator.measure())
        best = max if self.is_rate else min
        ratio = best(numerators) / best(denominators)
        met = ratio >= self.bound if self.at_least else ratio <= self.bound
        sides = "; ".join(
            f"{side.label} {best(values):,.2f} {self.unit}"
            for side, values in (
                (self.numerator, numerators),
                (self.denominator, denominators),
            )
        )
        bound = f"{'at least' if self.at_least else 'at most'} {self.bound:.2f}"
        outcome = "met" if met else "MISSED"
        print(f"{self.name:58} {ratio:5.2f}  ({bound}: {outcome})  {sides}", flush=True)
        return met


def core_comparisons(protocol: str) -> list[Comparison]:
    """Return the comparisons of the core, for one protocol."""
    exchange = ("exchange_us", protocol, "64", "100000")
    return [
        Comparison(
            "time per message, interpreted to compiled",
            "us/message",
            Side("interpreted", exchange, interpreted=True),
            Side("compiled", exchange),
            4.0,
            at_least=True,
        ),
        Comparison(
            "time per message, 10,000 peers to 10",
            "us/message",
            Side("10,000 peers", ("peers_us", protocol, "10000", "200000")),
            Side("10 peers", ("peers_us", protocol, "10", "200000")),
            1.25,
        ),
        Comparison(
            "time per message, 10^6 unacked messages to 100",
            "us/message",
            Side("10^6 unacked", ("unacked_us", protocol, "1000000", "200000")),
            Side("100 unacked", ("unacked_us", protocol, "100", "200000")),
            1.25,
        ),
        Comparison(
            "memory per unacked message, 10,000 peers to 10",
            "bytes",
            Side("10,000 peers", ("unacked_bytes", protocol, "10000", "100000")),
            Side("10 peers", ("unacked_bytes", protocol, "10", "100000")),
            1.25,
            rounds=1,
        ),
        Comparison(
            "memory per unacked message, 10^6 unacked messages to 100",
            "bytes",
            Side("10^6 unacked", ("unacked_bytes", protocol, "1", "1000000")),
            Side("100 unacked", ("unacked_bytes", protocol, "1", "100")),
            1.25,
            rounds=1,
        ),
        Comparison(
            "metadata per message, 10,000 processes to 10",
            "bytes",
            Side("10,000 processes", ("metadata_bytes", protocol, "10000", "1000")),
            Side("10 processes", ("metadata_bytes", protocol, "10", "1000")),
            1.0,
            rounds=1,
        ),
    ]


def simulator_comparisons() -> list[Comparison]:
    """Return the comparisons of the simulator."""
    module = "bench.sim_work"
    hybrid = ("hybrid", "100", "300")
    ping_ack = ("ping_ack", "100", "300")
    unit = "events/s"
    return [
        Comparison(
            "hybrid compiled to SimPy ping-ack",
            unit,
            Side("hybrid", hybrid, module=module),
            Side("SimPy", ping_ack, module=module),
            20,
            at_least=True,
            is_rate=True,
        ),
        Comparison(
            "hybrid interpreted to SimPy ping-ack",
            unit,
            Side("hybrid", hybrid, interpreted=True, module=module),
            Side("SimPy", ping_ack, interpreted=True, module=module),
            1.5,
            at_least=True,
            is_rate=True,
        ),
        Comparison(
            "10,000 processes to 100, 20 messages per pair each",
            unit,
            Side("10,000 processes", ("hybrid", "10000", "200"), module=module),
            Side("100 processes", ("hybrid", "100", "200"), module=module),
            0.7,
            at_least=True,
            rounds=2,
            is_rate=True,
        ),
        Comparison(
            "10,000 processes to 100, equal messages in total",
            unit,
            Side("10,000 processes", ("hybrid", "10000", "20"), module=module),
            Side("100 processes", ("hybrid", "100", "2000"), module=module),
            0.6,
            at_least=True,
            rounds=2,
            is_rate=True,
        ),
        Comparison(
            "a pair without messages in flight to 450 bytes",
            "bytes",
            Side("idle pair", ("idle_pair_bytes", "hybrid", "2000", "2")),
            Side("aim", ("aim", "hybrid", "450", "1")),
            1.0,
            rounds=1,
        ),
    ]


def main(parts: list[str]) -> int:
    """Run the comparisons of the named parts, and return the exit code."""
    missed = 0
    if "core" in parts:
        for protocol in ("hybrid", "hybrid-basic"):
            print(f"\n{protocol}")
            for comparison in core_comparisons(protocol):
                missed += not comparison.run()
    if "sim" in parts:
        print("\nsimulator")
        for comparison in simulator_comparisons():
            missed += not comparison.run()
    print(f"\n{missed} bounds missed" if missed else "\nall bounds met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
