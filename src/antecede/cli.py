"""The command ``antecede``.

Exit codes: 0 held, 1 a property is violated, 2 usage or bad input, 3 a bug of ours.
"""

import argparse
import json
import sys
import traceback
from collections.abc import Sequence
from dataclasses import asdict, fields

import antecede
from antecede.core.registry import protocols
from antecede.errors import AntecedeError, InternalError
from antecede.sim import Scenario, Simulation, simulate
from antecede.sim.catalogue import WORKLOADS

__all__ = ["main"]

EXIT_HELD = 0
EXIT_VIOLATED = 1
EXIT_USAGE = 2
EXIT_INTERNAL = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except InternalError as error:
        print(f"antecede: internal error, please report it: {error}", file=sys.stderr)
        return EXIT_INTERNAL
    except AntecedeError as error:
        print(f"antecede: {error}", file=sys.stderr)
        return EXIT_USAGE
    except Exception as error:
        traceback.print_exc()
        print(f"antecede: internal error, please report it: {error!r}", file=sys.stderr)
        return EXIT_INTERNAL
    return code


def _parser() -> argparse.ArgumentParser:
    how = "compiled" if antecede.compiled else "interpreted"
    parser = argparse.ArgumentParser(
        prog="antecede", description="Causal message delivery: run it, prove it, size it."
    )
    parser.add_argument(
        "--version", action="version", version=f"antecede {antecede.__version__} ({how})"
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    listing = commands.add_parser("protocols", help="what there is and what each needs")
    listing.add_argument("--json", action="store_true", help="print JSON")
    listing.set_defaults(run=_run_protocols)

    simulation = commands.add_parser("simulate", help="one run in virtual time, judged")
    _add_scenario(simulation)
    simulation.add_argument("--json", action="store_true", help="print JSON")
    simulation.set_defaults(run=_run_simulate)
    return parser


def _add_scenario(parser: argparse.ArgumentParser) -> None:
    default = Scenario()

    def add(name: str, kind: type[int] | type[float] | type[str], what: str) -> None:
        value = getattr(default, name)
        flag = f"--{name.removesuffix('_s').replace('_', '-')}"
        parser.add_argument(
            flag, dest=name, type=kind, default=value, help=f"{what}; default: {value}"
        )

    add("protocol", str, "see `antecede protocols`")
    add("processes", int, "how many processes")
    add("messages", int, "how many messages each sends")
    add("workload", str, f"{', '.join(WORKLOADS)}, program:FILE or replay:DIR")
    add("gap", str, "seconds between sends, a distribution such as uniform:0.01,0.1")
    add("size", str, "payload bytes, a distribution")
    add("job", str, "seconds of work that a delivered message asks for, a distribution")
    add("job_share", float, "share of messages that ask for work")
    add("delay", str, "seconds on the wire, a distribution or geographic:ACROSS")
    add("bandwidth", float, "bytes per second out of each process")
    add("loss", float, "probability that a frame is lost")
    add("duplicate", float, "probability that a frame arrives twice")
    add("reorder", float, "probability that a frame is held back")
    add("seed", int, "the same seed gives the same run")
    add("until_s", float, "virtual second at which to stop")


def _run_protocols(options: argparse.Namespace) -> int:
    if options.json:
        table = [
            {
                "name": info.name,
                "summary": info.summary,
                "reference": info.reference,
                **asdict(info.capabilities),
            }
            for info in protocols()
        ]
        print(json.dumps(table, indent=2))
        return EXIT_HELD
    for info in protocols():
        able = asdict(info.capabilities)
        frames = ", ".join(able.pop("control_frames"))
        print(f"{info.name:14}{info.summary} ({info.reference})")
        print(f"{'':14}copes with or offers: {', '.join(k for k in able if able[k])}")
        print(f"{'':14}control frames: {frames}")
    return EXIT_HELD


def _run_simulate(options: argparse.Namespace) -> int:
    names = [field.name for field in fields(Scenario)]
    simulation = simulate(Scenario(**{name: getattr(options, name) for name in names}))
    verdict = simulation.verdict
    if options.json:
        result = {
            **asdict(simulation.outcome),
            **simulation.costs(),
            "messages": verdict.messages,
            "deliveries": verdict.deliveries,
            "held": verdict.held,
            "violations": [str(violation) for violation in verdict.violations],
            "command": simulation.scenario.command(),
        }
        print(json.dumps(result, indent=2))
    else:
        _print_simulation(simulation)
    return EXIT_HELD if verdict.held else EXIT_VIOLATED


def _print_simulation(simulation: Simulation) -> None:
    outcome = simulation.outcome
    verdict = simulation.verdict
    costs = simulation.costs()
    waits = (outcome.sender_wait_s, outcome.wire_s, outcome.receiver_wait_s)
    sender, wire, receiver = (
        "unknown" if wait is None else f"{1000 * wait:.1f} ms" for wait in waits
    )
    print(f"{outcome.protocol}, seed {outcome.seed}: {verdict.messages} messages,", end=" ")
    print(f"{outcome.copies} copies, {outcome.duration_s:.2f} s of virtual time")
    print(f"  waited at the sender    {sender} (mean)")
    print(f"  on the wire             {wire}")
    print(f"  waited at the receiver  {receiver}")
    print(f"  control frames          {costs['control_frames']:.0f}")
    print(f"  retransmissions         {costs['retransmissions']:.0f}")
    print(
        f"  metadata                {costs['metadata_bytes_per_copy']:.1f} bytes per copy"
    )
    for violation in verdict.violations[:10]:
        print(f"  {violation}")
    if not verdict.held:
        broken = ", ".join(sorted(p.value for p in verdict.broken()))
        print(f"verdict: VIOLATED ({broken}), {len(verdict.violations)} violations")
    elif outcome.complete:
        print("verdict: held (causal, fifo, once, genuine, live)")
    else:
        print("verdict: held (causal, fifo, once, genuine) as far as it went")
