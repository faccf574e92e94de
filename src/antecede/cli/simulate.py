"""The command ``antecede simulate``."""

import argparse
import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

from antecede.cli.exit_codes import EXIT_HELD, EXIT_VIOLATED, exit_code
from antecede.cli.inputs import path_or_uri
from antecede.cli.options import VIOLATIONS_SHOWN
from antecede.cli.terminal import ProgressLine
from antecede.sim import RunSummary, Scenario, simulate, simulate_to
from antecede.sim.simulator import Simulator
from antecede.sim.workloads.catalogue import WORKLOADS

if TYPE_CHECKING:
    from antecede.cli.options import Commands

__all__ = ["add_parser"]


def add_parser(commands: "Commands") -> None:
    """Add the command ``simulate``."""
    parser = commands.add_parser(
        "simulate", help="simulate one run in virtual time and verify it"
    )
    _add_scenario(parser)
    parser.add_argument(
        "--out", type=path_or_uri, help="directory or URI to write the trace to"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _add_scenario(parser: argparse.ArgumentParser) -> None:
    default = Scenario()

    def add(name: str, kind: type[int] | type[float] | type[str], what: str) -> None:
        value = getattr(default, name)
        flag = f"--{name.removesuffix('_s').replace('_', '-')}"
        parser.add_argument(
            flag, dest=name, type=kind, default=value, help=f"{what}; default: {value}"
        )

    add("protocol", str, "name of the protocol, see `antecede protocols`")
    add("processes", int, "number of processes")
    add("messages", int, "number of messages that each process sends")
    add("workload", str, f"{', '.join(WORKLOADS)}, program:FILE or replay:DIR")
    add("gap", str, "seconds between sends, a distribution such as uniform:0.01,0.1")
    add("payload_bytes", str, "payload size in bytes, a distribution")
    add("service_time", str, "seconds of work per delivered message, a distribution")
    add("service_share", float, "share of the messages that cause work")
    add("delay", str, "seconds on the wire, a distribution or geographic:ACROSS")
    add("bandwidth", float, "bytes per second out of each process")
    add("loss", float, "probability that a frame is lost")
    add("duplicate", float, "probability that a frame arrives twice")
    add("reorder", float, "probability that a frame is delayed behind later ones")
    parser.add_argument(
        "--reliable",
        action="store_true",
        help="simulate a network without loss, and omit the link layer",
    )
    add(
        "first_timeout_s",
        float,
        "retransmission timeout before the first round trip is measured",
    )
    add("budget_bytes", float, "bytes of dependencies on a message of `bounded`; inf: any")
    add("overlay", str, "links of flood and pc-broadcast: ring, random:degree=5, spray")
    add("probe", str, "measures to sample during the run; needs --out")
    add("silent_members", int, "number of processes, the last ones, that crash")
    add("silent_from_s", float, "virtual second at which they crash")
    add("seed", int, "seed of the random numbers; the same seed gives the same run")
    add("until_s", float, "virtual second at which the run stops")


def _run(options: argparse.Namespace) -> int:
    names = [field.name for field in fields(Scenario)]
    scenario = Scenario(**{name: getattr(options, name) for name in names})
    line = ProgressLine()

    def show(simulator: Simulator) -> None:
        if line.due():
            line.write(
                f"{simulator.events:,} events, {simulator.now:.1f} s of virtual time"
            )

    if options.out is None:
        simulation = simulate(scenario, on_progress=show)
        summary = simulation.summary
        verdict = simulation.verdict
        held, code = verdict.held, EXIT_HELD if verdict.held else EXIT_VIOLATED
        found = [str(violation) for violation in verdict.violations]
    else:
        from antecede.verify.verifier import verify_trace

        summary = simulate_to(options.out, scenario, show)
        report = verify_trace(options.out)
        held, code = report.held, exit_code(report.status)
        found = [str(violation) for violation in report.violations]
    line.clear()
    if options.json:
        result = {
            **asdict(summary),
            "metadata_bytes_per_copy": summary.metadata_bytes_per_copy,
            "held": held,
            "violations": found,
            "command": scenario.command(),
        }
        print(json.dumps(result, indent=2))
    else:
        _print_summary(summary, held, found)
    return code


def _print_summary(summary: RunSummary, held: bool, found: list[str]) -> None:
    waits = (summary.sender_wait_s, summary.wire_s, summary.receiver_wait_s)
    sender, wire, receiver = (
        "unknown" if wait is None else f"{1000 * wait:.1f} ms" for wait in waits
    )
    print(f"{summary.protocol}, seed {summary.seed}: {summary.copies} copies", end=" ")
    print(f"in {summary.duration_s:.2f} s of virtual time")
    print(f"  waited at the sender    {sender} (mean)")
    print(f"  on the wire             {wire}")
    print(f"  waited at the receiver  {receiver}")
    print(f"  control frames          {summary.control_frames}")
    print(f"  retransmissions         {summary.retransmissions}")
    print(f"  metadata                {summary.metadata_bytes_per_copy:.1f} bytes per copy")
    for violation in found[:VIOLATIONS_SHOWN]:
        print(f"  {violation}")
    if found:
        print(f"verdict: VIOLATED, {len(found)} violations found")
    elif held and summary.complete:
        print("verdict: held (causal, fifo, no-duplication, no-creation, liveness)")
    else:
        print("verdict: held (causal, fifo, no-duplication, no-creation); run cut short")
