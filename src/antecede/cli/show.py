"""The command ``antecede show``."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from antecede.cli.exit_codes import EXIT_HELD
from antecede.cli.inputs import local_argument
from antecede.cli.options import VIOLATIONS_SHOWN, add_foreign
from antecede.errors import ConfigError, StorageError
from antecede.verify import MessageId

if TYPE_CHECKING:
    from antecede.cli.options import Commands

__all__ = ["add_parser"]


def add_parser(commands: "Commands") -> None:
    """Add the command ``show``."""
    parser = commands.add_parser("show", help="draw a run as a space-time diagram")
    parser.add_argument(
        "trace",
        type=local_argument,
        nargs="+",
        help="directory of a run, or file of another format; several with --one-run",
    )
    near = parser.add_mutually_exclusive_group()
    near.add_argument(
        "--around",
        metavar="SOURCE:NUMBER",
        help="draw only the part around a message; SOURCE is a number or a name",
    )
    near.add_argument(
        "--violation",
        type=int,
        metavar="N",
        help="draw only around the N-th violation",
    )
    parser.add_argument("--control", action="store_true", help="also draw control frames")
    parser.add_argument(
        "--svg", type=local_argument, required=True, help="SVG file to write"
    )
    add_foreign(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from antecede.cli.foreign import one_run
    from antecede.diagram.draw import draw
    from antecede.trace.reader import read_trace
    from antecede.verify.verifier import verify_trace

    with one_run(options) as (path, _):
        trace = read_trace(path)
        names = trace.info.names
        violations = verify_trace(trace, violations_max=VIOLATIONS_SHOWN).violations
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
        raise StorageError(f"cannot write {options.svg}: {error.strerror}") from error
    print(f"wrote {options.svg}")
    return EXIT_HELD


def _message(text: str, names: Mapping[int, str]) -> MessageId:
    """Parse SOURCE:NUMBER; a source is a process number or a name."""
    source, colon, number = text.rpartition(":")
    numbers = {name: process for process, name in names.items()}
    process = numbers.get(source, int(source) if source.isdecimal() else None)
    if not colon or process is None or not number.isdecimal():
        raise ConfigError(f"invalid message {text!r}: expected SOURCE:NUMBER, such as 0:1")
    return MessageId(process, int(number))
