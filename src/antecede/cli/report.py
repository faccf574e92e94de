"""The command ``antecede report``."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from antecede.errors import ConfigError

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

__all__ = ["add_parser", "run"]

PACKAGES = ("jinja2", "numpy", "pyarrow", "vl_convert")
"""What the extras bring."""


def add_parser(commands: "Commands") -> None:
    """Add the command to those of ``antecede``."""
    parser = commands.add_parser("report", help="the page of a study, from its tables")
    parser.add_argument(
        "directory",
        type=Path,
        nargs="+",
        metavar="DIR",
        help="the directory of a study, or of several",
    )
    parser.add_argument(
        "--out", type=Path, help="the page to write; default: report.html in the first DIR"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write the report, and print where it is and what became of the claims."""
    out = options.out if options.out is not None else options.directory[0] / "report.html"
    try:
        from antecede.report.write import write_report

        files = write_report(options.directory, out)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in PACKAGES:
            raise
        raise ConfigError(
            "the report needs more packages: pip install 'antecede[report,trace]'"
            f" (no {error.name})"
        ) from error
    totals: dict[str, int] = {}
    for _, result in files.claim_results:
        totals[result.status.value] = totals.get(result.status.value, 0) + 1
    if options.json:
        result = {
            "page": str(files.page),
            "figures": [str(path) for path in files.figures],
            "tables": [str(path) for path in files.tables],
            "claims": [
                {
                    "id": claim.id,
                    "verdict": result.status.value,
                    "figure": result.observed,
                    "why": result.explanation,
                }
                for claim, result in files.claim_results
            ],
        }
        print(json.dumps(result, indent=2))
        return 0
    words = ", ".join(f"{count} {word}" for word, count in totals.items())
    print(f"claims: {words}" if words else "no claims were judged")
    print(f"{len(files.figures)} figures, {len(files.tables)} tables beside the page")
    print(files.page)
    return 0
