"""The command ``antecede check``."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from antecede.cli.exit_codes import EXIT_HELD, EXIT_UNKNOWN, EXIT_VIOLATED
from antecede.cli.inputs import local_argument
from antecede.cli.options import add_conf
from antecede.cli.terminal import ProgressLine
from antecede.core.config import DEFAULT_BUDGET_BYTES
from antecede.core.process import UNBOUNDED
from antecede.errors import ConfigError, StorageError

if TYPE_CHECKING:
    from antecede.check.checker import CheckResult
    from antecede.check.counterexample import Counterexample
    from antecede.check.search import SearchResult
    from antecede.check.transitions import TransitionTable
    from antecede.cli.options import Commands

__all__ = ["add_parser"]


def add_parser(commands: "Commands") -> None:
    """Add the command ``check``."""
    parser = commands.add_parser(
        "check", help="check every schedule of a protocol, up to a bound"
    )
    _add_bounds(parser)
    parser.set_defaults(run=_run)


def _add_bounds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--protocol", default="hybrid", help="name of the protocol; default: hybrid"
    )
    for name, default, description in (
        ("processes", 3, "number of processes"),
        ("messages", 2, "number of messages that each process sends"),
        ("max-losses", 0, "maximum number of lost frames in a schedule"),
        ("max-duplicates", 0, "maximum number of duplicated frames in a schedule"),
        ("max-removals", 0, "maximum number of removals of a live peer"),
        ("max-stops", 0, "maximum number of processes that stop and are removed"),
        ("max-silences", 0, "maximum number of processes that become silent"),
        ("max-returns", 0, "maximum number of silent processes that return"),
        ("max-states", 200_000_000, "stop the search after this number of states"),
    ):
        parser.add_argument(
            f"--{name}",
            type=int,
            default=default,
            help=f"{description}; default: {default}",
        )
    parser.add_argument(
        "--max-memory",
        type=float,
        default=20.0,
        metavar="GIB",
        help="stop the search above this memory use, in GiB; default: 20",
    )
    parser.add_argument(
        "--budget-bytes",
        type=float,
        default=DEFAULT_BUDGET_BYTES,
        metavar="BYTES",
        help="bytes of dependencies on a message of `bounded`; inf: any;"
        f" default: {DEFAULT_BUDGET_BYTES}",
    )
    parser.add_argument(
        "--multicast", action="store_true", help="also check sends to several targets"
    )
    parser.add_argument(
        "--symmetry",
        choices=("on", "off"),
        default="on",
        help="merge states that are equal up to renaming of processes; default: on",
    )
    parser.add_argument(
        "--master",
        help="search on Spark at this master, such as local[2] or spark://HOST:7077",
    )
    add_conf(parser)
    parser.add_argument(
        "--checkpoint-dir",
        type=local_argument,
        metavar="DIR",
        help="directory for a checkpoint, from which the same command continues; with"
        " --master, all workers must reach it; default: none",
    )
    parser.add_argument(
        "--save", type=local_argument, help="file to write a counterexample to"
    )
    parser.add_argument(
        "--svg", type=local_argument, help="file to draw a counterexample to"
    )
    parser.add_argument(
        "--replay", type=local_argument, help="counterexample file to replay"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _run(options: argparse.Namespace) -> int:
    if options.replay is not None:
        return _replay(options.replay)
    if options.conf and options.master is None:
        raise ConfigError("--conf needs a search on Spark: add --master")
    result = _search(options)
    counterexample = None
    if result.violation is not None:
        from antecede.check import Counterexample

        counterexample = Counterexample.from_result(result)
        _write_counterexample(counterexample, options)
    if options.json:
        print(_to_json(result, counterexample))
    else:
        _print_result(result, counterexample)
    if counterexample is not None:
        return EXIT_VIOLATED
    return EXIT_HELD if result.exhausted else EXIT_UNKNOWN


def _search(options: argparse.Namespace) -> "CheckResult":
    from antecede.check import CheckConfig, check

    config = CheckConfig(
        protocol=options.protocol,
        processes=options.processes,
        messages=options.messages,
        losses=options.max_losses,
        duplicates=options.max_duplicates,
        removals=options.max_removals,
        stops=options.max_stops,
        silences=options.max_silences,
        returns=options.max_returns,
        multicast=options.multicast,
        budget_bytes=_budget(options.budget_bytes),
        symmetry=options.symmetry == "on",
        states_max=options.max_states,
        memory_max_gib=options.max_memory,
    )
    with ProgressLine() as line:
        start = monotonic()

        def show(progress: "SearchResult", table: "TransitionTable") -> None:
            if line.due():
                rate = progress.states / max(monotonic() - start, 1e-9)
                line.write(
                    f"{progress.states:,} states, {rate:,.0f} per second,"
                    f" depth {progress.depth}, {len(table.locals):,} local states"
                )

        if options.master is None:
            return check(config, on_progress=show, directory=options.checkpoint_dir)
        from antecede.pipeline.check.levels import check_at
        from antecede.pipeline.spark.settings import parse_settings

        return check_at(
            options.master,
            config,
            options.checkpoint_dir,
            conf=parse_settings(options.conf),
            on_progress=show,
        )


def _budget(size: float) -> int:
    if not size >= 0:
        raise ConfigError(f"--budget-bytes must be at least 0, got {size}")
    return int(min(size, UNBOUNDED))


def _to_json(result: "CheckResult", counterexample: "Counterexample | None") -> str:
    return json.dumps(
        {
            **asdict(result.config),
            "states": result.states,
            "transitions": result.transitions,
            "ends": result.ends,
            "depth": result.depth,
            "local_states": result.local_states,
            "exhausted": result.exhausted,
            "seconds": result.seconds,
            "violated": None if counterexample is None else counterexample.property,
            "schedule": None if counterexample is None else counterexample.steps,
            "undelivered": None if counterexample is None else counterexample.undelivered,
        },
        indent=2,
    )


def _print_result(result: "CheckResult", counterexample: "Counterexample | None") -> None:
    print(
        f"{result.config.protocol}: {result.states:,} states, {result.transitions:,}"
        f" transitions, depth {result.depth}, {result.local_states:,} local states,"
        f" {result.seconds:.1f} s"
    )
    if counterexample is not None:
        for line in counterexample.lines():
            print(line)
        for line in counterexample.conclusion():
            print(line)
        print(f"verdict: VIOLATED ({counterexample.property})")
    elif result.exhausted:
        print("verdict: held")
    else:
        print(
            "verdict: UNKNOWN, the search stopped at its bound;"
            " raise --max-states or --max-memory"
        )


def _replay(path: Path) -> int:
    from antecede.check import Counterexample
    from antecede.testing.replay import replay, violations_in

    counterexample = Counterexample.load(path)
    violations = violations_in(replay(counterexample), counterexample)
    for line in counterexample.lines():
        print(line)
    for violation in violations:
        print(f"  {violation}")
    print("verdict: VIOLATED" if violations else "verdict: held")
    return EXIT_VIOLATED if violations else EXIT_HELD


def _write_counterexample(
    counterexample: "Counterexample", options: argparse.Namespace
) -> None:
    """Write the counterexample to the files that ``--save`` and ``--svg`` name."""
    from antecede.diagram.draw import draw
    from antecede.testing.replay import replay, violations_in

    try:
        if options.save is not None:
            options.save.write_text(counterexample.to_json(), encoding="utf-8")
        if options.svg is not None:
            cluster = replay(counterexample)
            violations = violations_in(cluster, counterexample)
            svg = draw(cluster.history, violations=violations, control=True)
            options.svg.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write {error.filename}: {error.strerror}") from error
