"""The command ``antecede advise``."""

import argparse
import tempfile
from contextlib import ExitStack
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from antecede.cli.exit_codes import EXIT_HELD, EXIT_UNKNOWN, EXIT_VIOLATED
from antecede.cli.inputs import local_argument
from antecede.cli.options import add_foreign, add_session, check_cores
from antecede.cli.terminal import ProgressLine
from antecede.errors import ConfigError

if TYPE_CHECKING:
    from antecede.cli.options import Commands

__all__ = ["add_parser", "run"]

MESSAGES_MAX = 20_000
"""Two cores replay these under all unicast protocols in about two minutes."""


def add_parser(commands: "Commands") -> None:
    """Add the command to those of ``antecede``."""
    parser = commands.add_parser(
        "advise", help="recommend a protocol by replaying recorded traffic under each"
    )
    parser.add_argument(
        "trace",
        type=local_argument,
        nargs="+",
        help="a run's directory, or a file of another format; several with --one-run",
    )
    parser.add_argument(
        "--delay",
        help="network delay in seconds, as for simulate; default: half of the trace's"
        " round trips",
    )
    parser.add_argument(
        "--loss", type=float, default=0.0, help="probability that a frame is lost"
    )
    parser.add_argument(
        "--bandwidth",
        type=float,
        default=inf,
        help="maximum number of bytes per second that each process sends",
    )
    parser.add_argument(
        "--protocols",
        help="comma-separated protocols to try; default: all that support the traffic",
    )
    parser.add_argument(
        "--messages-max",
        type=int,
        default=MESSAGES_MAX,
        help="maximum number of messages to replay; of a longer trace, windows spread over"
        " all of it; default: %(default)s",
    )
    add_session(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_foreign(parser)
    parser.add_argument(
        "--out",
        type=local_argument,
        help="directory to keep the replayed runs and the tables in",
    )
    parser.set_defaults(
        run=run,
        interrupted="interrupted; with --out, run the same command again to resume",
    )


def run(options: argparse.Namespace) -> int:
    """Print the advice; return 1 after a violation of causal order, 4 if runs failed."""
    from antecede.advise.advise import AdviceOptions, advise, prepare
    from antecede.advise.table import lines, to_json
    from antecede.advise.traffic import extract_traffic
    from antecede.cli.foreign import one_run
    from antecede.pipeline.spark.session import open_session
    from antecede.pipeline.spark.settings import parse_settings
    from antecede.trace.reader import read_trace

    check_cores(options)
    conf = parse_settings(options.conf)
    if not 0 <= options.loss < 1:
        raise ConfigError(f"--loss must be from 0 to below 1, got {options.loss}")
    advice_options = AdviceOptions(
        delay=options.delay,
        loss=options.loss,
        bandwidth=options.bandwidth,
        protocols=_names(options.protocols),
    )
    with ProgressLine() as line, ExitStack() as stack:
        path, name = stack.enter_context(one_run(options, line.write))
        traffic = extract_traffic(read_trace(path), messages_max=options.messages_max)
        directory = options.out
        if directory is None:
            temporary = tempfile.TemporaryDirectory(prefix="antecede-")
            directory = Path(stack.enter_context(temporary))
        plan = prepare(traffic, directory, advice_options)
        spark = stack.enter_context(
            open_session(
                options.master, cores=options.cores, fast_start=plan.is_short, conf=conf
            )
        )
        advice = advise(spark, plan, on_progress=line.write)
    print(to_json(advice, name) if options.json else "\n".join(lines(advice, name)))
    if options.out is not None and not options.json:
        print(f"runs and tables in {options.out}")
    if advice.violated:
        return EXIT_VIOLATED
    return EXIT_UNKNOWN if advice.failed else EXIT_HELD


def _names(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ConfigError("--protocols names no protocol; see `antecede protocols`")
    return names
