r"""Read logs with vector clocks as ShiViz takes them, such as GoVector writes.

What an event looks like is told by a regular expression with the groups ``host``,
``clock`` and, if you like, ``event`` (its text) and ``timestamp``, in the notation of
ShiViz (``(?<host>\S*)``) or of Python. It may go over several lines. Without one, the
layouts that are usual are tried on the head of the file, and the one that leaves the fewest
lines over is taken.

A line that is not part of any event becomes a record with a problem, unless it is empty, or
is told to be ignored, or begins a new run.

A file is read some MiB at a time: an event must be shorter than :data:`OVERLAP_CHARACTERS`.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from antecede.errors import ConfigError
from antecede.ingest.formats.records import (
    CLOCKED,
    Options,
    Records,
    Unreadable,
    batches_of,
)
from antecede.ingest.formats.source import Split, head, texts
from antecede.ingest.timestamps import nanoseconds

__all__ = ["find_layout", "read_shiviz"]

LAYOUTS = (
    r"^(?<timestamp>\d{10,19}) (?<event>.*)\n(?<host>\S+) (?<clock>\{.*\})$",
    r"^(?<event>.*)\n(?<host>\S+) (?<clock>\{.*\})$",
    r"^(?<host>\S+) (?<clock>\{.*\})\n(?<event>.*)$",
    r"^(?<host>\S+) (?<clock>\{[^}]*\}) (?<event>.*)$",
    r"^(?<host>\S+) (?<clock>\{.*\})$",
)
"""What is tried if nothing is told; the text of an event may come before or after."""
NO_EVENT = "part of no event"
OVERLAP_CHARACTERS = 1 << 16
"""So near to the end of what has been read, a match is looked for again with more."""


def read_shiviz(split: Split, options: Options) -> Records:
    """Yield the events of a file as :data:`antecede.ingest.formats.records.CLOCKED`.

    Raise ConfigError if an expression makes no sense, or fits nowhere in the file.
    """
    expressions = _Expressions(
        event=_compile("regex", options.regex, ("host", "clock"))
        if options.regex is not None
        else find_layout(split.path),
        delimiter=_compile_if_any("delimiter", options.delimiter),
        ignore=_compile_if_any("ignore", options.ignore),
        receives=_compile_if_any("receives", options.receives),
    )
    return batches_of(_events(split, expressions), CLOCKED)


class _Expressions(NamedTuple):
    event: re.Pattern[str]
    delimiter: re.Pattern[str] | None
    ignore: re.Pattern[str] | None
    receives: re.Pattern[str] | None


def _compile(name: str, expression: str, groups: tuple[str, ...] = ()) -> re.Pattern[str]:
    # A group is written so in JavaScript; what looks back is written so in both.
    ours = re.sub(r"\(\?<(?![=!])", "(?P<", expression)
    try:
        pattern = re.compile(ours, re.MULTILINE)
    except re.error as error:
        raise ConfigError(f"--{name} {expression!r}: {error}") from error
    for group in groups:
        if group not in pattern.groupindex:
            raise ConfigError(f"--{name} {expression!r}: it needs a group (?<{group}>...)")
    return pattern


def _compile_if_any(name: str, expression: str | None) -> re.Pattern[str] | None:
    return None if expression is None else _compile(name, expression)


def find_layout(path: str) -> re.Pattern[str]:
    """Return the usual layout that fits the head of a file best.

    Raise ConfigError if most of its lines fit none.
    """
    text = head(path).decode("utf-8", "replace").replace("\r\n", "\n")
    total = sum(1 for line in text.split("\n") if line.strip())
    over = total
    best = None
    # What looks like host and clock is not the text of an event.
    clock_line = _compile("regex", LAYOUTS[-1])
    for layout in LAYOUTS:
        pattern = _compile("regex", layout)
        fits = sum(
            1
            for match in pattern.finditer(text)
            if not clock_line.match(match.groupdict().get("event") or "")
            for line in match.group().split("\n")
            if line.strip()
        )
        if total - fits < over:
            best, over = pattern, total - fits
    if best is None or over > total / 2:
        raise ConfigError(
            f"{path}: line 1: no host and clock where ShiViz logs have them; tell what an"
            r" event looks like with --regex '(?<event>.*)\n(?<host>\S*) (?<clock>{.*})'"
        )
    return best


def _events(split: Split, expressions: _Expressions) -> Iterator[dict[str, object]]:
    run: str | None = None
    runs = 0
    for line, piece in _pieces(split, expressions.event):
        if isinstance(piece, re.Match):
            event = _event(piece, expressions.receives, f"{split.path}: line {line}")
            yield {"line": line, "run": run, **event}
            continue
        begins = None
        if expressions.delimiter is not None:
            begins = expressions.delimiter.search(piece)
        if begins is not None:
            runs += 1
            named = begins.groupdict().get("run") or begins.groupdict().get("trace")
            run = named or str(runs)
        elif expressions.ignore is None or not expressions.ignore.search(piece):
            yield {"line": line, "run": run, "problem": NO_EVENT}


def _event(
    match: re.Match[str], receives: re.Pattern[str] | None, where: str
) -> dict[str, object]:
    groups = match.groupdict()
    process, text = groups["host"], groups.get("event") or ""
    if not process:
        return {"problem": "it names no host"}
    try:
        clock = json.loads(groups["clock"])
    except ValueError:
        clock = None
    if not isinstance(clock, dict) or not all(type(n) is int for n in clock.values()):
        return {"process": process, "problem": "a clock that is none"}
    event = {"process": process, "clock": list(clock.items()), "text": text}
    if groups.get("timestamp"):
        event["time_ns"] = nanoseconds(groups["timestamp"])
        if event["time_ns"] is None:
            raise ConfigError(
                f"{where}: {groups['timestamp']!r} is no time; write (?<timestamp>...)"
                " around a number or an ISO 8601 date"
            )
    if receives is not None:
        event["is_receive"] = receives.search(text) is not None
    return event


def _pieces(
    split: Split, event: re.Pattern[str]
) -> Iterator[tuple[int, re.Match[str] | str]]:
    """Yield, with their lines, matches and the lines that are in none and not empty."""
    text, place, line = "", 0, 1
    pieces = texts(split)
    ended = False
    while not ended:
        more, broken = next(pieces, ("", None))
        ended = not more or broken is not None
        # What came before is done with, but for the character that ^ looks at.
        kept = max(0, place - 1)
        text, place = text[kept:] + more, place - kept
        sure = len(text) if ended else max(place, len(text) - OVERLAP_CHARACTERS)
        for match in event.finditer(text, place):
            if match.end() > sure:
                sure = min(sure, match.start())
                break
            if match.end() == match.start():
                continue
            yield from _lines_between(text, place, match.start(), line)
            line += text.count("\n", place, match.start())
            yield line, match
            line += text.count("\n", match.start(), match.end())
            place = match.end()
        # Lines before this one are in no match, however much more is read.
        done = len(text) if ended else text.rfind("\n", place, sure) + 1
        if done > place:
            yield from _lines_between(text, place, done, line)
            line += text.count("\n", place, done)
            place = done
        if broken is not None:
            raise Unreadable(line, broken)


def _lines_between(
    text: str, start: int, stop: int, line: int
) -> Iterator[tuple[int, str]]:
    """Yield the lines of a stretch between matches, without those that a match has."""
    between = text[start:stop].split("\n")
    for place, each in enumerate(between):
        is_rest = place == 0 and start > 0 and text[start - 1] != "\n"
        is_begun = place == len(between) - 1 and stop < len(text)
        if each.strip() and not is_rest and not is_begun:
            yield line + place, each
