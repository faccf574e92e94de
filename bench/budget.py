"""The aims of ``bounded``, as figures and ratios of one run: ``make bench-budget``.

Latency is the mean time from the send of a copy to its delivery in simulated runs, which
depend on their seeds alone. The time per message is measured, with alternating sides.
"""

import argparse
from dataclasses import dataclass

from antecede.core.config import DEFAULT_BUDGET_BYTES
from antecede.sim import RunSummary, Scenario, simulate
from antecede.trace import Kind
from bench.measure import run_for_json

GRAPH = "microservices:layers=3,fan_out=2"
LAN = "exponential:0.0002,0.0003"
WAN = "geographic:0.1,0.005,0.1"
MEAN_DELAY_S = 0.05
SILENT_AT_S = 1.0
SILENT_UNTIL_S = 120.0
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Aim:
    """A figure, and the bound that it should keep."""

    name: str
    bound: float
    at_least: bool = False

    def report(self, value: float, others: str) -> None:
        """Print the figure beside its bound."""
        met = value >= self.bound if self.at_least else value <= self.bound
        word = "at least" if self.at_least else "at most"
        outcome = "met" if met else "MISSED"
        bound = f"({word} {self.bound:g}: {outcome})"
        print(f"{self.name:52} {value:7.2f}  {bound}  {others}", flush=True)


def latency_s(summary: RunSummary) -> float:
    """Return the mean seconds from send to delivery."""
    parts = (summary.sender_wait_s, summary.wire_s, summary.receiver_wait_s)
    return sum(part for part in parts if part is not None)


def graph(protocol: str, delay: str, loss: float, processes: int, budget: float) -> float:
    """Return the mean latency of a service graph."""
    scenario = Scenario(
        protocol=protocol,
        processes=processes,
        workload=GRAPH,
        gap="exponential:0.05",
        service_time="exponential:0.0005",
        service_share=1.0,
        delay=delay,
        loss=loss,
        seed=1,
        budget_bytes=budget,
    )
    return latency_s(simulate(scenario).summary)


def report_latency(budget: float, processes: int) -> None:
    """Print the latency over that of ``optimal``."""
    for name, delay, loss, bound in (
        ("WAN graph, no loss", WAN, 0.0, 1.15),
        ("WAN graph, 5 % loss", WAN, 0.05, 1.3),
        ("LAN graph, 5 % loss", LAN, 0.05, 1.3),
    ):
        best = graph("optimal", delay, loss, processes, 0)
        hybrid = graph("hybrid", delay, loss, processes, 0) / best
        value = graph("bounded", delay, loss, processes, budget) / best
        aim = Aim(f"latency over optimal, {name}, {processes}", bound)
        aim.report(value, f"hybrid {hybrid:.2f}, optimal {1000 * best:.1f} ms")


def uniform(protocol: str, processes: int, gap_s: float, budget: float) -> RunSummary:
    """Return the summary of unicast to random targets."""
    messages = max(2_000 // processes, 3)
    return simulate(
        protocol=protocol,
        processes=processes,
        messages=messages,
        gap=f"exponential:{gap_s}",
        delay=f"exponential:{MEAN_DELAY_S}",
        seed=1,
        budget_bytes=budget,
    ).summary


def report_bytes(budget: float) -> None:
    """Print the metadata of all frames per message."""
    value = uniform("bounded", 1_000, 10 * MEAN_DELAY_S, budget).metadata_bytes_per_copy
    few = uniform("bounded", 10, 10 * MEAN_DELAY_S, budget).metadata_bytes_per_copy
    hybrid = uniform("hybrid", 1_000, 10 * MEAN_DELAY_S, budget).metadata_bytes_per_copy
    names = run_for_json("bench.node_names", "20", "40", interpreted=True)["bytes"]
    aim = Aim("bytes of metadata a copy, 1,000 processes, light", 64)
    aim.report(
        value,
        f"10 processes {few:.1f}, hybrid {hybrid:.1f};"
        f" names between 20 nodes {names:.1f} more",
    )


def report_control_frames(budget: float) -> None:
    """Print the control frames per copy."""
    for name, gap_s, bound in (("light", 10.0, 2.0), ("heavy", 1.0, 3.5)):
        figures = []
        for protocol in ("bounded", "hybrid"):
            summary = uniform(protocol, 40, gap_s * MEAN_DELAY_S, budget)
            figures.append(summary.control_frames / summary.copies)
        aim = Aim(f"control frames a copy, {name} load", bound)
        aim.report(figures[0], f"hybrid {figures[1]:.2f}")


def share_delivered(protocol: str, processes: int, silent: int, budget: float) -> float:
    """Return the share of the copies among the living that are delivered.

    The last processes crash; counted are the copies that were sent afterwards.
    """
    crashed = set(range(processes - silent, processes))
    run = simulate(
        protocol=protocol,
        processes=processes,
        messages=40,
        workload="conversation:reply_share=0.5,depth=4",
        gap=f"exponential:{5 * MEAN_DELAY_S}",
        first_timeout_s=6 * MEAN_DELAY_S,
        until_s=SILENT_UNTIL_S,
        seed=3,
        budget_bytes=budget,
        delay=f"exponential:{MEAN_DELAY_S}",
        silent_members=silent,
        silent_from_s=SILENT_AT_S,
    )
    if not run.verdict.held:
        raise SystemExit(f"{protocol} violated causal order")
    delivered = {
        (event.source, event.number, event.process)
        for event in run.history
        if event.kind == Kind.DELIVER
    }
    copies = [
        (event.process, event.number, target)
        for event in run.history
        if event.kind == Kind.SEND
        and event.time > SILENT_AT_S
        and event.process not in crashed
        for target in event.targets or ()
        if target not in crashed and target != event.process
    ]
    return sum(copy in delivered for copy in copies) / len(copies)


def report_silence(budget: float, sizes: list[int]) -> None:
    """Print the share of copies delivered while members are silent."""
    for processes in sizes:
        for silent in (1, 3):
            if 4 * silent <= processes:
                value = share_delivered("bounded", processes, silent, budget)
                hybrid = share_delivered("hybrid", processes, silent, budget)
                aim = Aim(f"share delivered, {silent} of {processes} silent", 0.99, True)
                aim.report(value, f"hybrid {hybrid:.2f}")


def report_time() -> None:
    """Print the time per message over that of ``hybrid``, on the installed build."""
    for load, measurement in (("light", "light_exchange_us"), ("heavy", "exchange_us")):
        best: dict[str, float] = {}
        for _ in range(ROUNDS):
            for protocol in ("bounded", "hybrid"):
                result = run_for_json(
                    "bench.core_work", measurement, protocol, "64", "100000"
                )
                best[protocol] = min(result["value"], best.get(protocol, result["value"]))
        aim = Aim(f"time per message over hybrid, {load} load", 1.5)
        aim.report(best["bounded"] / best["hybrid"], f"hybrid {best['hybrid']:.2f} us")


def main() -> None:
    """Print every figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--budget-bytes",
        type=float,
        default=DEFAULT_BUDGET_BYTES,
        help=f"budget of bounded; default: {DEFAULT_BUDGET_BYTES}",
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=100,
        help="processes of the service graphs; default: 100",
    )
    parser.add_argument(
        "--silent",
        type=int,
        nargs="+",
        default=[5, 10, 20, 40],
        help="sizes of the groups with silent members; default: 5 10 20 40",
    )
    options = parser.parse_args()
    print(f"bounded with {options.budget_bytes:g} bytes")
    report_latency(options.budget_bytes, options.processes)
    report_bytes(options.budget_bytes)
    report_control_frames(options.budget_bytes)
    report_silence(options.budget_bytes, options.silent)
    report_time()


if __name__ == "__main__":
    main()
