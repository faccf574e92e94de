"""The command ``antecede``.

Exit codes: 0 held, 1 a property is violated, 2 usage or bad input, 3 a bug of ours.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

import antecede
from antecede.core.registry import protocol, protocols
from antecede.errors import AntecedeError, InternalError
from antecede.sim import Network, Run, Summary, simulate, summarise

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
    add = simulation.add_argument
    add("--protocol", default=protocols()[0].name, help="default: %(default)s")
    add("--processes", type=int, default=10, help="default: %(default)s")
    add("--messages", type=int, default=20, help="per process, default: %(default)s")
    add("--fan-out", type=int, default=1, help="targets each, default: %(default)s")
    add("--delay", type=float, default=0.05, help="mean seconds, default: %(default)s")
    add("--loss", type=float, default=0.0, help="probability, default: %(default)s")
    add("--duplicate", type=float, default=0.0, help="probability, default: %(default)s")
    add("--seed", type=int, default=0, help="default: %(default)s")
    add("--json", action="store_true", help="print JSON")
    simulation.set_defaults(run=_run_simulate)
    return parser


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
    protocol(options.protocol)
    run = simulate(
        options.protocol,
        processes=options.processes,
        messages=options.messages,
        fan_out=options.fan_out,
        network=Network(
            delay_s=options.delay, loss=options.loss, duplicate=options.duplicate
        ),
        seed=options.seed,
    )
    summary = summarise(run.history)
    if options.json:
        violations = [str(violation) for violation in run.verdict.violations]
        print(
            json.dumps(
                {
                    "protocol": run.protocol,
                    "seed": run.seed,
                    "held": run.verdict.held,
                    "violations": violations,
                    **asdict(summary),
                },
                indent=2,
            )
        )
    else:
        _print_summary(run, summary)
    return EXIT_HELD if run.verdict.held else EXIT_VIOLATED


def _print_summary(run: Run, summary: Summary) -> None:
    waits = (summary.sender_wait_s, summary.wire_s, summary.receiver_wait_s)
    at_sender, on_wire, at_receiver = (f"{1000 * wait:.1f} ms" for wait in waits)
    print(f"{run.protocol}, seed {run.seed}: {summary.messages} messages,")
    print(f"  {summary.copies} copies in {summary.duration_s:.2f} s of virtual time")
    print(f"  waited {at_sender} at the sender, {on_wire} on the wire,")
    print(f"  {at_receiver} at the receiver (means)")
    print(f"  {summary.control_frames} control frames,", end=" ")
    print(f"{summary.retransmissions} retransmissions,", end=" ")
    print(f"{summary.metadata_bytes_per_copy:.1f} bytes of metadata per copy, all told")
    for violation in run.verdict.violations[:10]:
        print(f"  {violation}")
    if run.verdict.held:
        print("verdict: held (causal, fifo, once, genuine, live)")
    else:
        broken = ", ".join(sorted(p.value for p in run.verdict.broken()))
        print(f"verdict: VIOLATED ({broken}), {len(run.verdict.violations)} violations")
