r"""Read logs with vector clocks in the formats of ShiViz and GoVector.

A regular expression describes an event. It has the groups ``host`` and ``clock`` and
optionally ``event`` (its text) and ``timestamp``, in the notation of ShiViz
(``(?<host>\S*)``) or of Python, and can match several lines. Without one, the usual layouts
are tried on the head of the file, and the layout that matches the most lines is used.

A line that is not part of an event becomes a record with a problem, unless it is empty, is
to be ignored, or starts a run.

A file is read in pieces of some MiB: an event must be shorter than
:data:`OVERLAP_CHARACTERS`.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from antecede.errors import ConfigError, TraceError
from antecede.ingest.formats.records import (
    CLOCK_SCHEMA,
    ReadOptions,
    Records,
    UnreadableError,
    to_batches,
)
from antecede.ingest.formats.source import Split, read_head, read_text
from antecede.ingest.timestamps import TimeUnit

__all__ = ["find_layout", "read_shiviz"]

LAYOUTS = (
    r"^(?<timestamp>\d{10,19}) (?<event>.*)\n(?<host>\S+) (?<clock>\{.*\})$",
    r"^(?<event>.*)\n(?<host>\S+) (?<clock>\{.*\})$",
    r"^(?<host>\S+) (?<clock>\{.*\})\n(?<event>.*)$",
    r"^(?<host>\S+) (?<clock>\{[^}]*\}) (?<event>.*)$",
    r"^(?<host>\S+) (?<clock>\{.*\})$",
)
"""The usual layouts; the text of an event comes before or after its clock."""
LAYOUT_EXAMPLE = r"'(?<event>.*)\n(?<host>\S*) (?<clock>{.*})'"
NO_EVENT = "not part of an event"
OVERLAP_CHARACTERS = 1 << 16
"""A match that ends this close to the end of a piece is repeated with the next piece."""


def read_shiviz(split: Split, options: ReadOptions) -> Records:
    """Yield the events of a file.

    Raise ConfigError if an expression is invalid, TraceError if no layout matches.
    """
    expressions = _Expressions(
        event=_compile(options, "regex", options.regex, ("host", "clock"))
        if options.regex is not None
        else find_layout(split.path, options),
        delimiter=_compile_if_any(options, "delimiter", options.delimiter),
        ignore=_compile_if_any(options, "ignore", options.ignore),
        receives=_compile_if_any(options, "receives", options.receives),
    )
    return to_batches(_events(split, expressions), CLOCK_SCHEMA)


class _Expressions(NamedTuple):
    event: re.Pattern[str]
    delimiter: re.Pattern[str] | None
    ignore: re.Pattern[str] | None
    receives: re.Pattern[str] | None


def _compile(
    options: ReadOptions, name: str, expression: str, groups: tuple[str, ...] = ()
) -> re.Pattern[str]:
    # JavaScript writes a named group as (?<name>...); (?<= and (?<! are lookbehinds.
    python = re.sub(r"\(\?<(?![=!])", "(?P<", expression)
    try:
        pattern = re.compile(python, re.MULTILINE)
    except re.error as error:
        text = options.option(name, repr(expression))
        raise ConfigError(f"invalid {text}: {error}") from error
    for group in groups:
        if group not in pattern.groupindex:
            text = options.option(name, repr(expression))
            raise ConfigError(f"invalid {text}: the group (?<{group}>...) is missing")
    return pattern


def _compile_if_any(
    options: ReadOptions, name: str, expression: str | None
) -> re.Pattern[str] | None:
    return None if expression is None else _compile(options, name, expression)


def find_layout(path: str, options: ReadOptions) -> re.Pattern[str]:
    """Return the usual layout that matches the most lines of a file's head.

    Raise TraceError if no layout matches at least half of the lines.
    """
    text = read_head(path).decode("utf-8", "replace").replace("\r\n", "\n")
    total = sum(1 for line in text.split("\n") if line.strip())
    unmatched = total
    best = None
    # A line with a host and a clock is not the text of an event.
    clock_line = _compile(options, "regex", LAYOUTS[-1])
    for layout in LAYOUTS:
        pattern = _compile(options, "regex", layout)
        matched = sum(
            1
            for match in pattern.finditer(text)
            if not clock_line.match(match.groupdict().get("event") or "")
            for line in match.group().split("\n")
            if line.strip()
        )
        if total - matched < unmatched:
            best, unmatched = pattern, total - matched
    if best is None or unmatched > total / 2:
        raise TraceError(
            f"{path}: line 1: no usual layout of ShiViz logs matches: describe an event"
            f" with {options.option('regex', LAYOUT_EXAMPLE)}"
        )
    return best


def _events(split: Split, expressions: _Expressions) -> Iterator[dict[str, object]]:
    run: str | None = None
    runs = 0
    unit = TimeUnit()
    for line, piece in _pieces(split, expressions.event):
        if isinstance(piece, re.Match):
            location = f"{split.path}: line {line}"
            event = _event(piece, expressions.receives, unit, location)
            yield {"line": line, "run": run, **event}
            continue
        start = None
        if expressions.delimiter is not None:
            start = expressions.delimiter.search(piece)
        if start is not None:
            runs += 1
            name = start.groupdict().get("run") or start.groupdict().get("trace")
            run = name or str(runs)
        elif expressions.ignore is None or not expressions.ignore.search(piece):
            yield {"line": line, "run": run, "problem": NO_EVENT}


def _event(
    match: re.Match[str],
    receives: re.Pattern[str] | None,
    unit: TimeUnit,
    location: str,
) -> dict[str, object]:
    groups = match.groupdict()
    process, text = groups["host"], groups.get("event") or ""
    if not process:
        return {"problem": "an empty host"}
    try:
        clock = json.loads(groups["clock"])
    except ValueError:
        clock = None
    if not isinstance(clock, dict) or not all(type(n) is int for n in clock.values()):
        return {"process": process, "problem": "an invalid clock"}
    event = {"process": process, "clock": list(clock.items()), "text": text}
    if groups.get("timestamp"):
        event["time_ns"] = unit.parse(groups["timestamp"])
        if event["time_ns"] is None:
            raise TraceError(
                f"{location}: {groups['timestamp']!r} is not a valid time: the group"
                " timestamp must match an ISO 8601 date, or a number in the unit of the"
                " earlier ones"
            )
    if receives is not None:
        event["is_receive"] = receives.search(text) is not None
    return event


def _pieces(
    split: Split, event: re.Pattern[str]
) -> Iterator[tuple[int, re.Match[str] | str]]:
    """Yield matches and non-empty lines outside of matches, each with its line number."""
    text, position, line = "", 0, 1
    pieces = read_text(split)
    ended = False
    while not ended:
        more, damage = next(pieces, ("", None))
        ended = not more or damage is not None
        # Drop the text before the position, but for the character that ^ inspects.
        kept = max(0, position - 1)
        text, position = text[kept:] + more, position - kept
        certain = len(text) if ended else max(position, len(text) - OVERLAP_CHARACTERS)
        for match in event.finditer(text, position):
            if match.end() > certain:
                certain = min(certain, match.start())
                break
            if match.end() == match.start():
                continue
            yield from _lines_between(text, position, match.start(), line)
            line += text.count("\n", position, match.start())
            yield line, match
            line += text.count("\n", match.start(), match.end())
            position = match.end()
        # No later match can contain the lines before this position.
        done = len(text) if ended else text.rfind("\n", position, certain) + 1
        if done > position:
            yield from _lines_between(text, position, done, line)
            line += text.count("\n", position, done)
            position = done
        if damage is not None:
            raise UnreadableError(line, damage)


def _lines_between(
    text: str, start: int, stop: int, line: int
) -> Iterator[tuple[int, str]]:
    """Yield the complete non-empty lines between two matches."""
    between = text[start:stop].split("\n")
    for index, each in enumerate(between):
        is_end_of_match = index == 0 and start > 0 and text[start - 1] != "\n"
        is_start_of_match = index == len(between) - 1 and stop < len(text)
        if each.strip() and not is_end_of_match and not is_start_of_match:
            yield line + index, each
