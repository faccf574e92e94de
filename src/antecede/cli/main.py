"""The command ``antecede``.

Exit codes: 0 held, 1 a property is violated, 2 usage or bad input, 3 a bug of ours,
4 inconclusive, 130 interrupted. What is heavy is imported only by the commands that need
it.
"""

import argparse
import json
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING

import antecede
from antecede.cli.advise import add_parser as add_advise
from antecede.cli.demo import add_parser as add_demo
from antecede.cli.report import add_parser as add_report
from antecede.cli.terminal import (
    EXIT_INTERNAL,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    ProgressLine,
)
from antecede.cli.traces import (
    VIOLATIONS_SHOWN,
    add_foreign,
    add_merge,
    add_study,
    add_verify,
)
from antecede.core.registry import protocols
from antecede.errors import AntecedeError, ConfigError, InternalError
from antecede.sim import Outcome, Scenario, simulate, simulate_to
from antecede.sim.simulator import Loop
from antecede.sim.workloads.catalogue import WORKLOADS
from antecede.verify import MessageId
from antecede.verify.verdict import EXIT_HELD, EXIT_UNKNOWN, EXIT_VIOLATED

if TYPE_CHECKING:
    from antecede.check.counterexample import Story
    from antecede.check.search import Result
    from antecede.check.transitions import Model

__all__ = ["main"]


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
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("numba", "numpy", "pyarrow"):
            raise
        needs = "this needs more packages: pip install 'antecede[trace]'"
        print(f"antecede: {needs} (no {error.name})", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        words = getattr(options, "interrupted", "interrupted")
        print(f"antecede: {words}", file=sys.stderr)
        return EXIT_INTERRUPTED
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
    simulation.add_argument("--out", type=Path, help="directory to write the trace to")
    simulation.add_argument("--json", action="store_true", help="print JSON")
    simulation.set_defaults(run=_run_simulate)

    checking = commands.add_parser("check", help="every schedule, up to a bound")
    _add_bound(checking)
    checking.set_defaults(run=_run_check)

    add_verify(commands)
    add_advise(commands)
    add_merge(commands)
    add_study(commands)
    add_report(commands)
    add_demo(commands)

    showing = commands.add_parser("show", help="draw a space-time diagram")
    showing.add_argument(
        "trace",
        type=Path,
        nargs="+",
        help="a run's directory, or a file of another format; several with --together",
    )
    near = showing.add_mutually_exclusive_group()
    near.add_argument(
        "--around",
        metavar="SOURCE:NUMBER",
        help="only near a message; its source by number or name",
    )
    near.add_argument(
        "--violation", type=int, metavar="N", help="only near the N-th that verify names"
    )
    showing.add_argument("--control", action="store_true", help="control frames, too")
    showing.add_argument("--svg", type=Path, required=True, help="the file to write")
    add_foreign(showing)
    showing.set_defaults(run=_run_show)
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
    parser.add_argument(
        "--reliable",
        action="store_true",
        help="a network that loses nothing, and no link layer to make it so",
    )
    add("first_timeout_s", float, "seconds until what is lost first is transmitted again")
    add("overlay", str, "links of flood and preventive: ring, random:degree=5, spray")
    add("sample", str, "what to note of the processes beside their events, for --out")
    add("seed", int, "the same seed gives the same run")
    add("until_s", float, "virtual second at which to stop")


def _add_bound(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--protocol", default="hybrid", help="see `antecede protocols`")
    for name, default, what in (
        ("processes", 3, "how many processes"),
        ("messages", 2, "how many messages each sends"),
        ("loss", 0, "how many frames may be lost in a schedule"),
        ("duplicate", 0, "how many frames may arrive twice in a schedule"),
        ("abandon", 0, "how often a process may let go of another that goes on"),
        ("stop", 0, "how many processes may stop, and be let go of"),
        ("states", 200_000_000, "give up beyond so many states"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=default, help=f"{what}; default: {default}"
        )
    parser.add_argument(
        "--memory", type=float, default=20.0, help="give up beyond so many GiB"
    )
    parser.add_argument("--multicast", action="store_true", help="to several at once, too")
    parser.add_argument(
        "--reduce",
        choices=("on", "off"),
        default="on",
        help="take states for one that differ in names only; default: on",
    )
    parser.add_argument(
        "--master", help="search on Spark, at this master, such as local[2] or spark://..."
    )
    parser.add_argument(
        "--work",
        type=Path,
        help="on Spark, where levels are kept, so that the command can go on; all workers"
        " must reach it; default: a temporary directory",
    )
    parser.add_argument("--save", type=Path, help="write a counterexample to this file")
    parser.add_argument("--svg", type=Path, help="draw a counterexample to this file")
    parser.add_argument("--replay", type=Path, help="replay a saved counterexample")
    parser.add_argument("--json", action="store_true", help="print JSON")


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
    columns = ("unicast", "multicast", "broadcast", "loss", "reordering", "dynamic")
    print(f"{'':14}{' '.join(columns)}  control frames")
    for info in protocols():
        able = asdict(info.capabilities)
        marks = " ".join(f"{'yes' if able[c] else '-':{len(c)}}" for c in columns)
        frames = ", ".join(able["control_frames"]) or "-"
        order = "" if able["causal"] else "; does NOT keep causal order"
        print(f"{info.name:14}{marks}  {frames}")
        print(f"{'':14}{info.summary}{order}")
        if info.reference:
            print(f"{'':14}{info.reference}")
    print("\nloss, reordering: copes by itself; else it gets the link layer underneath")
    return EXIT_HELD


def _run_simulate(options: argparse.Namespace) -> int:
    names = [field.name for field in fields(Scenario)]
    scenario = Scenario(**{name: getattr(options, name) for name in names})
    progress = _Progress()
    if options.out is None:
        simulation = simulate(scenario, report=progress.show)
        outcome = simulation.outcome
        verdict = simulation.verdict
        held, code = verdict.held, EXIT_HELD if verdict.held else EXIT_VIOLATED
        found = [str(violation) for violation in verdict.violations]
    else:
        from antecede.verify.verifier import verify

        outcome = simulate_to(options.out, scenario, progress.show)
        report = verify(options.out)
        held, code = report.held, report.exit_code
        found = [str(violation) for violation in report.violations]
    progress.clear()
    if options.json:
        result = {
            **asdict(outcome),
            "metadata_bytes_per_copy": outcome.metadata_bytes_per_copy,
            "held": held,
            "violations": found,
            "command": scenario.command(),
        }
        print(json.dumps(result, indent=2))
    else:
        _print_outcome(outcome, held, found)
    return code


def _run_check(options: argparse.Namespace) -> int:
    from antecede.check import Bound, check, tell

    if options.replay is not None:
        return _replay_story(options.replay)
    if options.work is not None and options.master is None:
        raise ConfigError("--work is for a search on Spark: give --master, too")
    bound = Bound(
        protocol=options.protocol,
        processes=options.processes,
        messages=options.messages,
        losses=options.loss,
        duplicates=options.duplicate,
        abandons=options.abandon,
        stops=options.stop,
        multicast=options.multicast,
        reduce=options.reduce == "on",
        states_max=options.states,
        memory_max_gib=options.memory,
    )
    progress = _Progress()
    if options.master is None:
        checked = check(bound, report=progress.show_search)
    else:
        from antecede.pipeline.check.levels import check_at

        checked = check_at(options.master, bound, options.work, report=progress.show_search)
    progress.clear()
    story = tell(checked) if checked.violation is not None else None
    if story is not None:
        _keep_story(story, options)
    if options.json:
        result = {
            **asdict(bound),
            "states": checked.states,
            "transitions": checked.transitions,
            "ends": checked.ends,
            "depth": checked.depth,
            "local_states": checked.local_states,
            "exhausted": checked.exhausted,
            "seconds": checked.seconds,
            "broken": None if story is None else story.property,
            "schedule": None if story is None else story.steps,
        }
        print(json.dumps(result, indent=2))
    else:
        print(
            f"{bound.protocol}: {checked.states:,} states, {checked.transitions:,} steps,"
            f" depth {checked.depth}, {checked.local_states:,} local states,"
            f" {checked.seconds:.1f} s"
        )
        for line in story.lines() if story is not None else ():
            print(line)
    if story is not None:
        if not options.json:
            print(f"verdict: VIOLATED ({story.property})")
        return EXIT_VIOLATED
    if not options.json:
        done = checked.exhausted
        print("verdict: held" if done else "verdict: NOT EXHAUSTED, a bound was reached")
    return EXIT_HELD if checked.exhausted else EXIT_UNKNOWN


def _replay_story(path: Path) -> int:
    from antecede.check import load_story
    from antecede.testing import replay

    story = load_story(path)
    verdict = replay(story).verdict()
    for line in story.lines():
        print(line)
    for violation in verdict.violations:
        print(f"  {violation}")
    print("verdict: held" if verdict.held else "verdict: VIOLATED")
    return EXIT_HELD if verdict.held else EXIT_VIOLATED


def _keep_story(story: "Story", options: argparse.Namespace) -> None:
    """Write a counterexample where it was asked for."""
    from antecede.diagram.draw import draw
    from antecede.testing import replay

    try:
        if options.save is not None:
            options.save.write_text(story.to_json(), encoding="utf-8")
        if options.svg is not None:
            cluster = replay(story)
            violations = cluster.verdict().violations
            svg = draw(cluster.history, violations=violations, control=True)
            options.svg.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {error.filename}: {error.strerror}") from error


def _print_outcome(outcome: Outcome, held: bool, found: list[str]) -> None:
    waits = (outcome.sender_wait_s, outcome.wire_s, outcome.receiver_wait_s)
    sender, wire, receiver = (
        "unknown" if wait is None else f"{1000 * wait:.1f} ms" for wait in waits
    )
    print(f"{outcome.protocol}, seed {outcome.seed}: {outcome.copies} copies", end=" ")
    print(f"in {outcome.duration_s:.2f} s of virtual time")
    print(f"  waited at the sender    {sender} (mean)")
    print(f"  on the wire             {wire}")
    print(f"  waited at the receiver  {receiver}")
    print(f"  control frames          {outcome.control_frames}")
    print(f"  retransmissions         {outcome.retransmissions}")
    print(f"  metadata                {outcome.metadata_bytes_per_copy:.1f} bytes per copy")
    for violation in found[:VIOLATIONS_SHOWN]:
        print(f"  {violation}")
    if found:
        print(f"verdict: VIOLATED, {len(found)} violations found")
    elif held and outcome.complete:
        print("verdict: held (causal, fifo, once, genuine, live)")
    else:
        print("verdict: held (causal, fifo, once, genuine) as far as it went")


def _run_show(options: argparse.Namespace) -> int:
    from antecede.cli.foreign import one_run
    from antecede.diagram.draw import draw
    from antecede.trace.reader import read_trace
    from antecede.verify.verifier import verify

    with one_run(options) as (path, _):
        trace = read_trace(path)
        names = trace.info.names
        violations = verify(trace, violations_max=VIOLATIONS_SHOWN).violations
        around = None if options.around is None else _message(options.around, names)
        if options.violation is not None:
            if not 1 <= options.violation <= len(violations):
                raise ConfigError(
                    f"--violation {options.violation}: verify names {len(violations)} here"
                )
            violations = violations[options.violation - 1 : options.violation]
            around = violations[0].message
        svg = draw(
            list(trace.events()),
            around=around,
            violations=violations,
            names=names,
            control=options.control,
        )
    try:
        options.svg.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {options.svg}: {error.strerror}") from error
    print(f"wrote {options.svg}")
    return EXIT_HELD


def _message(text: str, names: Mapping[int, str]) -> MessageId:
    """Read which message is meant; its source may be a name of a foreign trace."""
    source, colon, number = text.rpartition(":")
    numbers = {name: process for process, name in names.items()}
    process = numbers.get(source, int(source) if source.isdecimal() else None)
    if not colon or process is None or not number.isdecimal():
        raise ConfigError(f"a message is SOURCE:NUMBER, not {text!r}")
    return MessageId(process, int(number))


class _Progress(ProgressLine):
    """A line on a terminal that says how far a long run has come."""

    def show(self, loop: Loop) -> None:
        if self.due():
            self.write(f"{loop.events:,} events, {loop.now:.1f} s of virtual time")

    def show_search(self, result: "Result", model: "Model") -> None:
        if self.due():
            self.write(f"{result.states:,} states, depth {result.depth}")
