"""The command ``antecede study``."""

import argparse
import json
from contextlib import ExitStack
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from antecede.cli.exit_codes import EXIT_HELD, EXIT_UNKNOWN, EXIT_VIOLATED
from antecede.cli.inputs import local_argument
from antecede.cli.options import add_session, check_cores
from antecede.cli.terminal import ProgressLine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from antecede.cli.options import Commands
    from antecede.pipeline.study.run import StudyOutcome
    from antecede.pipeline.study.study import Study
    from antecede.report.write import ReportFiles

__all__ = ["add_parser"]


def add_parser(commands: "Commands") -> None:
    """Add the command ``study``."""
    study = commands.add_parser(
        "study", help="run many simulations on Spark: simulate, verify, measure, report"
    )
    actions = study.add_subparsers(title="actions", required=True, metavar="ACTION")
    running = actions.add_parser("run", help="run a study, or resume it")
    running.add_argument(
        "study", metavar="NAME|FILE.toml", help="name of a built-in study, or a study file"
    )
    running.add_argument("--profile", help="profile of the study, such as reduced")
    running.add_argument(
        "--out",
        type=local_argument,
        help="directory of the study; default: the name of the study",
    )
    running.add_argument(
        "--recordings",
        type=local_argument,
        help="directory of the recorded files that the study replays; without it, that"
        " part is skipped",
    )
    running.add_argument("--no-report", action="store_true", help="do not write the page")
    add_session(running)
    running.add_argument("--json", action="store_true", help="print JSON")
    running.set_defaults(
        run=_run_study, interrupted="interrupted; run the same command again to resume"
    )


def _run_study(options: argparse.Namespace) -> int:
    from antecede.pipeline.spark.session import open_session
    from antecede.pipeline.spark.settings import parse_settings
    from antecede.pipeline.study.run import run_study
    from antecede.report.rendering import prepare_rendering

    check_cores(options)
    conf = parse_settings(options.conf)
    directory = Path(options.out if options.out is not None else Path(options.study).stem)
    with ProgressLine(keeps_lines=not options.json) as line, ExitStack() as stack:
        study = _load_study(options, directory, line)

        def start() -> "SparkSession":
            if not options.no_report and not _missing_for_page():
                prepare_rendering()
            spark = stack.enter_context(
                # Java only starts the tasks: the work is done in Python.
                open_session(
                    options.master, cores=options.cores, fast_start=True, conf=conf
                )
            )
            count = len(study.cells)
            line.say(f"{study.name}: {count} runs on Spark, results in {directory}")
            return spark

        outcome = run_study(start, study, directory, on_progress=line.write)
        files = None if options.no_report else _write_page(directory, line)
    if options.json:
        print(_to_json(study, outcome, files))
    else:
        _print_study(study, outcome, files)
    if outcome.violated:
        return EXIT_VIOLATED
    return EXIT_UNKNOWN if outcome.failed else EXIT_HELD


def _load_study(
    options: argparse.Namespace, directory: Path, line: ProgressLine
) -> "Study":
    from antecede.pipeline.study.study import load_study

    if options.recordings is None:
        return load_study(options.study, options.profile)
    from antecede.advise.recordings import RecordingReader
    from antecede.pipeline.study.directory import StudyDirectory
    from antecede.pipeline.study.lock import lock_directory

    out = StudyDirectory(directory).recordings
    reader = RecordingReader(options.recordings, out, line.write)
    with lock_directory(directory):
        return load_study(options.study, options.profile, reader)


def _write_page(directory: Path, line: ProgressLine) -> "ReportFiles | None":
    """Write the page if the packages of the extra ``report`` are installed."""
    if _missing_for_page():
        line.say("no page: pip install 'antecede[report]', then run `antecede report`")
        return None
    from antecede.report.write import write_report

    line.write("report: draw the charts and write the page")
    return write_report([directory], directory / "report.html")


def _missing_for_page() -> list[str]:
    """Return the missing packages of the extra ``report``."""
    return [name for name in ("jinja2", "vl_convert") if find_spec(name) is None]


def _to_json(study: "Study", outcome: "StudyOutcome", files: "ReportFiles | None") -> str:
    return json.dumps(
        {
            **asdict(outcome),
            "directory": str(outcome.directory),
            "page": None if files is None else str(files.page),
            "skipped": study.skipped,
        },
        indent=2,
    )


def _print_study(
    study: "Study", outcome: "StudyOutcome", files: "ReportFiles | None"
) -> None:
    directory = outcome.directory
    print(f"{study.name}: {outcome.cells} runs, {outcome.simulated} simulated now")
    for note in study.skipped:
        print(f"  skipped: {note}")
    for cell, error in outcome.failed.items():
        print(f"  {cell} failed: {error['error']}; {error['command']}")
    for cell in outcome.violated:
        print(f"  {cell} VIOLATED, not measured; see {directory / 'failed' / cell}")
    print(f"tables in {directory}: cells, verdicts, copies, measures, summary")
    if files is not None:
        from antecede.report.terminal_summary import summary_lines

        print()
        for line in summary_lines(files.tables, files.page, files.claim_results):
            print(line)
