"""The command ``antecede merge``."""

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from antecede.cli.exit_codes import EXIT_HELD
from antecede.cli.inputs import local_argument

if TYPE_CHECKING:
    from antecede.cli.options import Commands

__all__ = ["add_parser"]


def add_parser(commands: "Commands") -> None:
    """Add the command ``merge``."""
    parser = commands.add_parser("merge", help="merge the traces of several nodes into one")
    parser.add_argument(
        "out", type=local_argument, help="new directory for the merged trace"
    )
    parser.add_argument(
        "trace",
        type=local_argument,
        nargs="+",
        help="directory of a node, or of several nodes",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from antecede.merge.merge import merge_traces
    from antecede.trace.live.reader import find_node_traces

    merged = merge_traces(find_node_traces(options.trace), options.out)
    if options.json:
        print(json.dumps({**asdict(merged), "path": str(merged.path)}, indent=2))
        return EXIT_HELD
    size = f"{merged.nodes:,} nodes, {merged.restarts:,} restarts, {merged.events:,} events"
    print(f"{merged.run}: {size}, {merged.messages:,} messages")
    for what, lines in (("missing", merged.missing), ("note", merged.notes)):
        for line in lines:
            print(f"  {what}: {line}")
    print(f"merged into {merged.path}; verify it with: antecede verify {merged.path}")
    return EXIT_HELD
