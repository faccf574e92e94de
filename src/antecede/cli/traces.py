"""The commands on many events: ``antecede verify``, ``merge`` and ``study``."""

import argparse
import json
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from antecede.cli.terminal import EXIT_USAGE, ProgressLine
from antecede.errors import ConfigError
from antecede.verify.verdict import EXIT_HELD, EXIT_UNKNOWN, EXIT_VIOLATED

if TYPE_CHECKING:
    from antecede.pipeline.study.run import StudyOutcome
    from antecede.pipeline.study.study import Study

    # Argparse gives what it returns no public name, nor is it generic when the code runs.
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

__all__ = [
    "VIOLATIONS_SHOWN",
    "add_foreign",
    "add_merge",
    "add_session",
    "add_study",
    "add_verify",
    "check_cores",
]

VIOLATIONS_SHOWN = 10
"""More of them would hide the first."""


def add_verify(commands: "Commands") -> None:
    """Add ``verify`` to what :meth:`argparse.ArgumentParser.add_subparsers` returned."""
    parser = commands.add_parser("verify", help="judge recorded traces")
    parser.add_argument(
        "trace",
        type=Path,
        nargs="+",
        help="a run's directory, or one that holds runs, or a file of another format",
    )
    parser.add_argument(
        "--violations",
        type=int,
        default=VIOLATIONS_SHOWN,
        help="how many to name of each property; default: %(default)s",
    )
    parser.add_argument(
        "--spark",
        choices=("on", "off", "auto"),
        default="auto",
        help="whether to use Spark; default: for many events, if it is installed",
    )
    add_session(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_foreign(parser)
    parser.set_defaults(run=_run_verify)


def add_foreign(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how to read files of other formats (docs/traces.md)."""
    foreign = parser.add_argument_group("files of other formats, see docs/traces.md")
    foreign.add_argument(
        "--format",
        help="shiviz, tracechecker, jaeger, zipkin, otlp, spancsv or messages;"
        " default: found out",
    )
    foreign.add_argument("--regex", help="ShiViz: the expression of an event")
    foreign.add_argument("--delimiter", help="ShiViz: of a line that begins a new run")
    foreign.add_argument("--ignore", help="ShiViz: of lines that are no events")
    foreign.add_argument("--receives", help="ShiViz: of the text of events that receive")
    foreign.add_argument(
        "--columns",
        action="append",
        metavar="OURS=THEIRS,...",
        help="CSV and Parquet: what our columns are called there",
    )
    foreign.add_argument(
        "--together", action="store_true", help="all these files are of one run"
    )
    foreign.add_argument("--out", type=Path, help="a directory to keep the traces in")


def add_merge(commands: "Commands") -> None:
    """Add ``merge`` to what :meth:`argparse.ArgumentParser.add_subparsers` returned."""
    parser = commands.add_parser("merge", help="join the traces of live nodes into one")
    parser.add_argument("out", type=Path, help="the merged trace's directory, a new one")
    parser.add_argument(
        "trace", type=Path, nargs="+", help="a node's directory, or one that holds nodes'"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run_merge)


def add_study(commands: "Commands") -> None:
    """Add ``study`` to what :meth:`argparse.ArgumentParser.add_subparsers` returned."""
    study = commands.add_parser(
        "study", help="many runs on Spark: simulate, verify, measure"
    )
    deeds = study.add_subparsers(title="what to do", required=True, metavar="DEED")
    running = deeds.add_parser("run", help="run a study, or go on with it")
    running.add_argument(
        "study", metavar="NAME|FILE.toml", help="a built-in study, or a study's file"
    )
    running.add_argument("--profile", help="one of the study's profiles, such as reduced")
    running.add_argument(
        "--out", type=Path, help="its directory; default: the study's name"
    )
    running.add_argument(
        "--no-report", action="store_true", help="leave the page to `antecede report`"
    )
    add_session(running)
    running.add_argument("--json", action="store_true", help="print JSON")
    running.set_defaults(
        run=_run_study, interrupted="interrupted; give the same command again to go on"
    )


def add_session(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which Spark to use."""
    parser.add_argument("--master", help="a Spark master's URL; default: local Spark")
    parser.add_argument("--cores", type=int, help="cores of local Spark; default: all")


def check_cores(options: argparse.Namespace) -> None:
    """Raise ConfigError if there cannot be so many cores."""
    if options.cores is not None and options.cores < 1:
        raise ConfigError(f"--cores must be at least 1, got {options.cores}")


def _run_verify(options: argparse.Namespace) -> int:
    from antecede.pipeline.verify.traces import find_runs, verify_traces
    from antecede.trace.live.reader import are_nodes_of_one_run

    check_cores(options)
    if options.violations < 0:
        raise ConfigError(f"--violations must be at least 0, got {options.violations}")
    if options.master is not None and options.spark == "off":
        raise ConfigError("--master asks for Spark and --spark off for none; leave out one")
    codes: Counter[int] = Counter()
    with ProgressLine() as line, ExitStack() as stack:
        files = [path for path in options.trace if path.is_file()]
        foreign = None
        runs = find_runs([path for path in options.trace if path not in files])
        if files:
            from antecede.cli.foreign import ForeignFiles

            foreign = stack.enter_context(ForeignFiles(options, line.write))
            runs += foreign.take([files] if options.together else [[f] for f in files])
            for error in foreign.errors:
                codes[EXIT_USAGE] += 1
                line.say(f"antecede: {error}")
        for judged in verify_traces(
            runs,
            master=options.master,
            cores=options.cores,
            use_spark=options.spark,
            violations_max=options.violations,
            say=line.say,
            show=line.write,
        ):
            line.clear()
            if judged.report is None:
                codes[EXIT_USAGE] += 1
                print(f"antecede: {judged.error}", file=sys.stderr)
                continue
            name, report = str(judged.path), judged.report
            told = (name, report) if foreign is None else foreign.told(judged.path, report)
            codes[told[1].exit_code] += 1
            print(told[1].to_json() if options.json else f"{told[0]}\n{told[1]}")
    if codes.total() > 1 and not options.json:
        print(_summary(codes))
    if len(runs) > 1 and are_nodes_of_one_run(runs):
        words = "these are nodes of one run; judge them together: antecede merge OUT DIR..."
        print(words, file=sys.stderr)
    worst = (EXIT_USAGE, EXIT_VIOLATED, EXIT_UNKNOWN, EXIT_HELD)
    return next(code for code in worst if codes[code])


def _run_merge(options: argparse.Namespace) -> int:
    from antecede.merge.merge import merge_traces
    from antecede.pipeline.verify.traces import find_runs

    merged = merge_traces(find_runs(options.trace), options.out)
    if options.json:
        print(json.dumps({**asdict(merged), "path": str(merged.path)}, indent=2))
        return EXIT_HELD
    size = f"{merged.nodes:,} nodes, {merged.restarts:,} restarts, {merged.events:,} events"
    print(f"{merged.run}: {size}, {merged.messages:,} messages")
    for what, lines in (("missing", merged.holes), ("note", merged.notes)):
        for line in lines:
            print(f"  {what}: {line}")
    print(f"merged into {merged.path}; judge it with: antecede verify {merged.path}")
    return EXIT_HELD


def _summary(codes: Counter[int]) -> str:
    words = {
        EXIT_HELD: "held",
        EXIT_VIOLATED: "VIOLATED",
        EXIT_UNKNOWN: "unknown",
        EXIT_USAGE: "not judged",
    }
    told = ", ".join(
        f"{codes[code]:,} {word}" for code, word in words.items() if codes[code]
    )
    return f"{codes.total():,} runs: {told}"


def _run_study(options: argparse.Namespace) -> int:
    from antecede.pipeline.spark.session import open_session
    from antecede.pipeline.study.run import run_study
    from antecede.pipeline.study.study import load_study

    check_cores(options)
    study = load_study(options.study, options.profile)
    directory = options.out if options.out is not None else Path(options.study).stem
    directory = Path(directory)
    with (
        ProgressLine() as line,
        open_session(options.master, cores=options.cores) as spark,
    ):
        outcome = run_study(spark, study, directory, report=line.write)
        page = None if options.no_report else _write_page(directory, line)
    _print_study(study, outcome, page, as_json=options.json)
    if outcome.broken:
        return EXIT_VIOLATED
    return EXIT_UNKNOWN if outcome.failed else EXIT_HELD


def _write_page(directory: Path, line: ProgressLine) -> Path | None:
    """Write the report, if what it needs is installed."""
    missing = [name for name in ("jinja2", "vl_convert") if find_spec(name) is None]
    if missing:
        line.say("no page: pip install 'antecede[report]', then `antecede report`")
        return None
    from antecede.report.write import write_report

    return write_report([directory], directory / "report.html").page


def _print_study(
    study: "Study", outcome: "StudyOutcome", page: Path | None, *, as_json: bool
) -> None:
    directory = outcome.directory
    if as_json:
        result = {
            **asdict(outcome),
            "directory": str(directory),
            "page": None if page is None else str(page),
            "left_out": study.left_out,
        }
        print(json.dumps(result, indent=2))
        return
    print(f"{study.name}: {outcome.cells} cells, {outcome.simulated} simulated now")
    for note in study.left_out:
        print(f"  left out: {note}")
    for cell, error in outcome.failed.items():
        print(f"  {cell} failed: {error['error']}; {error['command']}")
    for cell in outcome.broken:
        print(f"  {cell} VIOLATED; see {directory / 'verdicts'}")
    print(f"tables in {directory}: cells, verdicts, copies, measures, summary")
    if page is not None:
        print(page)
