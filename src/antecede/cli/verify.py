"""The command ``antecede verify``."""

import argparse
import sys
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

from antecede.cli.exit_codes import (
    EXIT_HELD,
    EXIT_UNKNOWN,
    EXIT_USAGE,
    EXIT_VIOLATED,
    exit_code,
)
from antecede.cli.follow import add_follow, follow, is_followed
from antecede.cli.inputs import local_argument, path_or_uri, sort_inputs, verify_stored
from antecede.cli.options import VIOLATIONS_SHOWN, add_foreign, add_session, check_cores
from antecede.cli.terminal import ProgressLine
from antecede.errors import ConfigError
from antecede.trace.uri import redact

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from antecede.cli.foreign import ForeignFiles
    from antecede.cli.options import Commands
    from antecede.cli.spark_files import SparkFiles, SparkVerdict
    from antecede.cli.verify_page import VerifyPage
    from antecede.ingest.verdict import LocatedVerdict
    from antecede.trace.store import StorePath
    from antecede.verify.verdict import TraceVerdict

__all__ = ["add_parser"]


def add_parser(commands: "Commands") -> None:
    """Add the command ``verify``."""
    parser = commands.add_parser("verify", help="verify recorded traces: were they causal?")
    parser.add_argument(
        "trace",
        type=path_or_uri,
        nargs="+",
        help="directory of a run, directory that contains runs, Delta or Iceberg table, or"
        " file of another format, or directory of Parquet files; a path or a URI such as"
        " s3://BUCKET/RUN",
    )
    parser.add_argument(
        "--max-violations",
        type=int,
        default=VIOLATIONS_SHOWN,
        help="number of violations to print of each property; default: %(default)s",
    )
    parser.add_argument(
        "--spark",
        choices=("on", "off", "auto"),
        default="auto",
        help="use Spark; default: auto, for many events or large files where it is"
        " installed",
    )
    add_session(parser)
    parser.add_argument(
        "--report",
        type=local_argument,
        metavar="PAGE",
        help="HTML page to write: violations by pair of processes, by time and by path, and"
        " an example of each kind as a diagram",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_foreign(parser)
    parser.add_argument(
        "--out",
        type=local_argument,
        help="directory to keep the traces in that files of other formats are converted to;"
        " not for files that are left to Spark",
    )
    add_follow(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if is_followed(options):
        return follow(options)
    from antecede.pipeline.spark.session import open_session
    from antecede.pipeline.spark.settings import parse_settings
    from antecede.pipeline.verify.traces import find_runs, verify_traces
    from antecede.trace.live.reader import are_nodes_of_one_run

    conf = parse_settings(options.conf)
    _check_options(options, conf)
    output = _Output(options)
    codes: Counter[int] = Counter()
    with ProgressLine() as line, ExitStack() as stack:
        inputs = sort_inputs(options.trace)
        foreign: ForeignFiles | None = None
        on_spark: SparkFiles | None = None
        runs = find_runs(inputs.directories)
        if inputs.files or inputs.tables:
            foreign, on_spark = _open_foreign(options, line)
            stack.enter_context(foreign)
            groups = on_spark.choose(inputs.groups(one_run=options.one_run))
            runs += foreign.ingest(groups, has_others=bool(on_spark))
            runs += foreign.add_tables(inputs.tables, on_spark.take)
            for error in foreign.errors:
                codes[EXIT_USAGE] += 1
                line.say(f"antecede: {error}")
                output.add_error(error)
        master = options.master
        if conf and (runs or on_spark):
            opened = open_session(master, cores=options.cores, conf=conf)
            master = stack.enter_context(opened)
        for verified in verify_traces(
            runs,
            master=master,
            cores=options.cores,
            use_spark=options.spark,
            violations_max=output.violations_max,
            with_breakdown=output.with_breakdown,
            on_notice=line.say,
            on_progress=line.write,
        ):
            line.clear()
            name: str = str(verified.path)
            verdict: TraceVerdict | LocatedVerdict | None = verified.verdict
            if foreign is not None and verified.verdict is not None:
                name, verdict = foreign.named_verdict(verified.path, verified.verdict)
            codes[output.add(name, verified.path, verdict, verified.error)] += 1
        if on_spark:
            spark = stack.enter_context(open_session(master, cores=options.cores))
            codes.update(_verify_on_spark(on_spark, spark, output, line))
        for stored in verify_stored(
            inputs.stored_runs,
            violations_max=output.violations_max,
            with_breakdown=output.with_breakdown,
            on_notice=line.say,
        ):
            line.clear()
            run = stored.run
            codes[output.add(str(run), run, stored.verdict, stored.error)] += 1
    output.close()
    if codes.total() > 1 and not options.json:
        print(_summary(codes))
    if len(runs) > 1 and are_nodes_of_one_run(runs):
        print("these are nodes of one run: use antecede merge OUT DIR...", file=sys.stderr)
    return _worst(codes)


def _open_foreign(
    options: argparse.Namespace, line: ProgressLine
) -> "tuple[ForeignFiles, SparkFiles]":
    """Return the files of other formats that this process reads, and those for Spark."""
    from antecede.cli.foreign import ForeignFiles
    from antecede.cli.spark_files import SparkFiles

    return ForeignFiles(options, line.write), SparkFiles(options, line.say)


def _verify_on_spark(
    files: "SparkFiles", spark: "SparkSession", output: "_Output", line: ProgressLine
) -> "Iterator[int]":
    """Verify files on Spark, print the verdicts, and yield their exit codes."""
    for each in files.verify(
        spark,
        violations_max=output.violations_max,
        with_breakdown=output.with_breakdown,
        on_progress=line.write,
    ):
        line.clear()
        yield output.add_from_spark(each)


def _check_options(options: argparse.Namespace, conf: "Mapping[str, str]") -> None:
    """Raise ConfigError if options are out of range or exclude each other."""
    check_cores(options)
    if options.max_violations < 0:
        raise ConfigError(
            f"--max-violations must be at least 0, got {options.max_violations}"
        )
    for option, value in (("--master", options.master), ("--conf", conf)):
        if value and options.spark == "off":
            raise ConfigError(f"{option} needs Spark, but --spark is off: remove one")
    stores = any(isinstance(each, str) for each in options.trace)
    if stores and (options.spark == "on" or options.master):
        raise ConfigError("Spark does not verify traces in a store: omit --spark, --master")


class _Output:
    """Prints the verdicts, and adds them to the page of ``--report``."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.violations_max: int = options.max_violations
        self.with_breakdown = options.report is not None
        self._printed_max: int = options.max_violations
        self._as_json: bool = options.json
        self._page: VerifyPage | None = None
        if options.report is not None:
            from antecede.cli import verify_page

            self._page = verify_page.VerifyPage(options.report)
            self.violations_max = max(self._printed_max, self._page.violations_min)

    def add(
        self,
        name: str,
        where: "Path | StorePath",
        verdict: "TraceVerdict | LocatedVerdict | None",
        error: str | None,
    ) -> int:
        """Print the verdict on a run, or its error; return the exit code."""
        if self._page is not None:
            from antecede.cli.verify_page import first_violations

            self._page.add(name, where, verdict, error)
            if verdict is not None:
                verdict = first_violations(verdict, self._printed_max)
        return self._print(name, verdict, error)

    def add_from_spark(self, verified: "SparkVerdict") -> int:
        """Print the verdict on files that Spark verified, as :meth:`add` does."""
        verdict: TraceVerdict | LocatedVerdict | None = verified.verdict
        if self._page is not None:
            from antecede.cli.verify_page import first_violations

            self._page.add_from_spark(verified.title, verified)
            if verdict is not None:
                verdict = first_violations(verdict, self._printed_max)
        return self._print(verified.title, verdict, verified.error)

    def _print(
        self,
        name: str,
        verdict: "TraceVerdict | LocatedVerdict | None",
        error: str | None,
    ) -> int:
        if verdict is None:
            print(f"antecede: {redact(str(error))}", file=sys.stderr)
            return EXIT_USAGE
        print(verdict.to_json() if self._as_json else f"{name}\n{verdict}")
        return exit_code(verdict.status)

    def add_error(self, error: str) -> None:
        """Add a file that could not be read to the page."""
        if self._page is not None:
            self._page.add_error("not read", error)

    def close(self) -> None:
        """Write the page."""
        if self._page is not None:
            path = self._page.write()
            print(f"wrote {path}", file=sys.stderr if self._as_json else sys.stdout)


def _worst(codes: Counter[int]) -> int:
    """Return the exit code of the command, from those of its runs."""
    order = (EXIT_USAGE, EXIT_VIOLATED, EXIT_UNKNOWN, EXIT_HELD)
    return next(code for code in order if codes[code])


def _summary(codes: Counter[int]) -> str:
    words = {
        EXIT_HELD: "held",
        EXIT_VIOLATED: "VIOLATED",
        EXIT_UNKNOWN: "unknown",
        EXIT_USAGE: "not verified",
    }
    counts = [f"{codes[code]:,} {word}" for code, word in words.items() if codes[code]]
    return f"{codes.total():,} runs: {', '.join(counts)}"
