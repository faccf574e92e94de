"""The command ``antecede``: its parser, and what it does with errors.

:mod:`antecede.cli.exit_codes` lists the exit codes. A command imports heavy packages only
when it runs.
"""

import argparse
import sys
import traceback
from collections.abc import Sequence

import antecede
from antecede.cli import (
    advise,
    check,
    demo,
    merge,
    protocols,
    report,
    show,
    simulate,
    study,
    top,
    verify,
)
from antecede.cli.exit_codes import EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_USAGE
from antecede.errors import AntecedeError, InternalError
from antecede.trace.uri import redact

__all__ = ["build_parser", "main"]

COMMANDS = (
    protocols,
    simulate,
    check,
    verify,
    advise,
    merge,
    study,
    report,
    demo,
    top,
    show,
)
"""One module per command, in the order of the help text."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = build_parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except InternalError as error:
        text = redact(str(error))
        print(f"antecede: internal error, please report it: {text}", file=sys.stderr)
        return EXIT_INTERNAL
    except AntecedeError as error:
        print(f"antecede: {redact(str(error))}", file=sys.stderr)
        return EXIT_USAGE
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("numba", "numpy", "pyarrow"):
            raise
        needs = "this command needs more packages: pip install 'antecede[trace]'"
        print(f"antecede: {needs} (no {error.name})", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        notice = getattr(options, "interrupted", "interrupted")
        print(f"antecede: {notice}", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as error:
        print(redact(traceback.format_exc()), end="", file=sys.stderr)
        text = redact(repr(error))
        print(f"antecede: internal error, please report it: {text}", file=sys.stderr)
        return EXIT_INTERNAL
    return code


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line; the reference in the docs is made from it."""
    how = "compiled" if antecede.compiled else "interpreted"
    parser = argparse.ArgumentParser(
        prog="antecede", description="Causal message delivery: run it, prove it, size it."
    )
    parser.add_argument(
        "--version", action="version", version=f"antecede {antecede.__version__} ({how})"
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.add_parser(commands)
    return parser
