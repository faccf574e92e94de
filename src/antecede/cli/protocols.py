"""The command ``antecede protocols``."""

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from antecede.cli.exit_codes import EXIT_HELD
from antecede.core.registry import protocols

if TYPE_CHECKING:
    from antecede.cli.options import Commands

__all__ = ["add_parser"]


def add_parser(commands: "Commands") -> None:
    """Add the command ``protocols``."""
    parser = commands.add_parser(
        "protocols", help="list the protocols and their capabilities"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.json:
        table = [
            {
                "name": info.name,
                "summary": info.summary,
                "reference": info.reference,
                **asdict(info.capabilities),
            }
            for info in protocols()
        ]
        print(json.dumps(table, indent=2))
        return EXIT_HELD
    columns = ("unicast", "multicast", "broadcast", "loss", "reordering", "dynamic")
    print(f"{'':14}{' '.join(columns)}  control frames")
    for info in protocols():
        able = asdict(info.capabilities)
        marks = " ".join(f"{'yes' if able[c] else '-':{len(c)}}" for c in columns)
        frames = ", ".join(able["control_frames"]) or "-"
        order = "" if able["causal"] else "; does NOT guarantee causal order"
        print(f"{info.name:14}{marks}  {frames}")
        print(f"{'':14}{info.summary}{order}")
        if info.reference:
            print(f"{'':14}{info.reference}")
    print(
        "\nloss, reordering: tolerated by the protocol; the others run over the link layer"
    )
    return EXIT_HELD
