"""``antecede verify --follow``: verify a run while its traces are written."""

import argparse
import json
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from antecede.cli.exit_codes import EXIT_HELD, EXIT_UNKNOWN, EXIT_VIOLATED
from antecede.cli.terminal import ProgressLine
from antecede.errors import ConfigError

if TYPE_CHECKING:
    from antecede.merge.follower import RunFollower
    from antecede.verify.online.status import OnlineViolation
    from antecede.verify.online.verifier import OnlineVerifier

__all__ = ["add_follow", "follow", "is_followed"]

WATERMARK_S = 60.0
POLL_S = 0.25
"""The time between two looks at the directories."""


def add_follow(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``--follow``."""
    group = parser.add_argument_group("traces that are being written")
    group.add_argument(
        "--follow",
        action="store_true",
        help="verify the traces of the nodes of one run while they are written, until"
        " Ctrl-C; print each violation when it is found",
    )
    group.add_argument(
        "--watermark",
        type=float,
        metavar="SECONDS",
        help="time to wait for an event that others depend on; what is then missing makes"
        f" deliveries unknown; default: {WATERMARK_S:g}",
    )
    group.add_argument(
        "--until-finished",
        action="store_true",
        help="end when all nodes have closed their traces",
    )


def is_followed(options: argparse.Namespace) -> bool:
    """Return whether to follow; raise ConfigError on an option that needs ``--follow``."""
    if not options.follow:
        given = {
            "--watermark": options.watermark,
            "--until-finished": options.until_finished,
        }
        for option, value in given.items():
            if value:
                raise ConfigError(f"{option} needs --follow: add it")
    return bool(options.follow)


def follow(options: argparse.Namespace) -> int:
    """Follow the traces, print violations, and return the exit code."""
    from antecede.merge.follower import RunFollower
    from antecede.verify.online.verifier import OnlineVerifier

    watermark = WATERMARK_S if options.watermark is None else options.watermark
    if not watermark > 0:
        raise ConfigError(f"--watermark must be greater than 0, got {watermark:g}")
    paths = [Path(each) for each in options.trace]
    if any(isinstance(each, str) for each in options.trace):
        raise ConfigError("--follow reads directories on this machine, and not a URI")
    for path in paths:
        if not path.is_dir():
            raise ConfigError(f"no such directory: {path}: create it, then follow it")
    run = RunFollower(paths)
    verifier = OnlineVerifier(watermark, location=" ".join(map(str, paths)))
    with ProgressLine() as line:
        with suppress(KeyboardInterrupt):  # The way to end it.
            _follow(run, verifier, line, options)
        if run.has_ended and run.restart is None and options.until_finished:
            found = verifier.finish(unrecorded=run.unrecorded())
            _print_violations(found, run, options.json, line)
    return _print_summary(run, verifier, options.json)


def _follow(
    run: "RunFollower",
    verifier: "OnlineVerifier",
    line: ProgressLine,
    options: argparse.Namespace,
) -> None:
    """Poll until the user interrupts, or until all traces are closed if wanted."""
    while True:
        batches = run.poll()
        now = time.monotonic()
        found = verifier.add(batches, now) if batches else []
        found += verifier.advance(now)
        _print_violations(found, run, options.json, line)
        if line.due():
            line.write(_progress(run, verifier))
        if run.restart is not None:
            line.say(run.restart)
            return
        if run.has_ended and options.until_finished:
            return
        if not batches:
            time.sleep(POLL_S)


def _progress(run: "RunFollower", verifier: "OnlineVerifier") -> str:
    counters = verifier.counters
    return (
        f"{run.traces} traces, {counters.events:,} events, {counters.deliveries:,}"
        f" deliveries, {sum(counters.violated.values()):,} violations,"
        f" {verifier.waiting:,} waiting"
    )


def _print_violations(
    found: "list[OnlineViolation]", run: "RunFollower", as_json: bool, line: ProgressLine
) -> None:
    if found:
        line.clear()
    for each in found:
        text = each.format(run.names)
        if as_json:
            fields = {
                "property": each.property.value,
                "process": run.names.get(each.process, str(each.process)),
                "text": text,
            }
            text = json.dumps(fields)
        print(text, flush=True)


def _print_summary(run: "RunFollower", verifier: "OnlineVerifier", as_json: bool) -> int:
    """Print the counters and statuses; return the exit code."""
    from antecede.verify.online.status import determine_online_statuses
    from antecede.verify.verdict import Status

    counters = verifier.counters
    statuses = determine_online_statuses(counters, has_ended=verifier.has_ended)
    undelivered = verifier.checker.undelivered + counters.lost_copies
    if as_json:
        found = {which.value: status.value for which, status in statuses.items()}
        more = {"run": run.run, "statuses": found, "undelivered": undelivered}
        print(json.dumps({**more, **counters.to_fields()}))
    else:
        size = f"{counters.messages} messages, {counters.deliveries} deliveries"
        print(f"{run.run or 'no trace'}: {size}")
        for which, status in statuses.items():
            count = counters.violated[which.value]
            text = f"{status.value} ({count})" if count else status.value
            if status is Status.UNKNOWN:
                unknown = counters.unknown[which.value]
                judged = counters.deliveries - unknown
                text += f": no violation so far among {judged} deliveries"
                text += f", {unknown} undecided" if unknown else ""
            print(f"  {which.value:14} {text}")
        print(f"  {'liveness':14} not judged: {undelivered} copies undelivered")
        if counters.missing or counters.unsent or counters.late:
            print(
                f"given up: {counters.missing} missing events, {counters.unsent} sends;"
                f" {counters.late} events were late"
            )
    if Status.VIOLATED in statuses.values():
        return EXIT_VIOLATED
    if Status.UNKNOWN in statuses.values() or undelivered:
        return EXIT_UNKNOWN
    return EXIT_HELD
