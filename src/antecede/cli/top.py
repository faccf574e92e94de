"""The command ``antecede top``."""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from antecede.cli.exit_codes import EXIT_HELD, EXIT_UNKNOWN
from antecede.errors import ConfigError

if TYPE_CHECKING:
    from antecede.cli.options import Commands
    from antecede.top.endpoint import EndpointReading

__all__ = ["add_parser"]

TIMEOUT_S: Final = 2.0
"""The time-out for one endpoint, in seconds."""
OPEN_SCREEN: Final = "\x1b[?1049h\x1b[?25l"
"""Switch to the alternate screen of the terminal, and hide the cursor."""
CLOSE_SCREEN: Final = "\x1b[?25h\x1b[?1049l"
HOME: Final = "\x1b[H"
CLEAR_LINE: Final = "\x1b[K"
CLEAR_REST: Final = "\x1b[J"


def add_parser(commands: "Commands") -> None:
    """Add the command ``top``."""
    parser = commands.add_parser(
        "top",
        help="show a running group, from the metrics of its nodes",
        description="Show a running group live: nodes, rates, links, and which node"
        " waits for which. Start each node with metrics=PORT, and give the endpoints here."
        " Ctrl-C ends the command.",
    )
    parser.add_argument(
        "url",
        nargs="+",
        help="endpoint of a node: a URL, host:port, or a port of this machine",
    )
    parser.add_argument(
        "--interval",
        type=float,
        default=1.0,
        help="seconds between two readings; default: 1",
    )
    parser.add_argument(
        "--once",
        action="store_true",
        help="print one table and exit: with 0, or with 4 if an endpoint did not answer",
    )
    parser.add_argument(
        "--json", action="store_true", help="with --once: print the readings as JSON"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from antecede.top.endpoint import parse_url, read_endpoints
    from antecede.top.table import draw_group

    if not 0.1 <= options.interval <= 3600:
        raise ConfigError(f"--interval must be 0.1 to 3600, got {options.interval:g}")
    if options.json and not options.once:
        raise ConfigError("--json needs --once")
    urls = list(dict.fromkeys(map(parse_url, options.url)))
    if options.once:
        readings = read_endpoints(urls, TIMEOUT_S)
        if options.json:
            print(json.dumps([asdict(reading) for reading in readings], indent=2))
        else:
            print("\n".join(draw_group(readings)))
        return EXIT_UNKNOWN if any(each.error for each in readings) else EXIT_HELD
    screen = _Screen(live=sys.stdout.isatty())
    before: Sequence[EndpointReading] = ()
    try:
        with screen:
            while True:
                readings = read_endpoints(urls, TIMEOUT_S)
                screen.show(draw_group(readings, before))
                before = readings
                time.sleep(options.interval)
    except KeyboardInterrupt:
        return EXIT_HELD


class _Screen:
    """The screen of the terminal, or plain output that is appended.

    Args:
        live: redraw the table in place.
    """

    def __init__(self, *, live: bool) -> None:
        self._live = live

    def __enter__(self) -> "_Screen":
        if self._live:
            print(OPEN_SCREEN, end="", flush=True)
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            print(CLOSE_SCREEN, end="", flush=True)

    def show(self, lines: list[str]) -> None:
        """Replace the shown lines, as far as the terminal has room."""
        if not self._live:
            print("\n".join([*lines, ""]), flush=True)
            return
        width, height = shutil.get_terminal_size()
        shown = [line[:width] + CLEAR_LINE for line in lines[: height - 1]]
        print(HOME + "\n".join(shown) + CLEAR_REST, end="", flush=True)
