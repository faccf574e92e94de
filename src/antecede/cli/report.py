"""The command ``antecede report``."""

import argparse
import json
from collections import Counter
from typing import TYPE_CHECKING

from antecede.cli.inputs import local_argument
from antecede.errors import ConfigError

if TYPE_CHECKING:
    from antecede.cli.options import Commands

__all__ = ["add_parser", "run"]

PACKAGES = ("jinja2", "numpy", "pyarrow", "vl_convert")
"""The packages of the extras ``report`` and ``trace``."""


def add_parser(commands: "Commands") -> None:
    """Add the command ``report`` to the parser of ``antecede``."""
    parser = commands.add_parser("report", help="write the report of finished studies")
    parser.add_argument(
        "directory",
        type=local_argument,
        nargs="+",
        metavar="DIR",
        help="directory of a study, or of several studies",
    )
    parser.add_argument(
        "--out",
        type=local_argument,
        help="HTML file to write; default: report.html in the first DIR",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write the report, and print the number of claims by status and the page's path."""
    out = options.out if options.out is not None else options.directory[0] / "report.html"
    try:
        from antecede.report.write import write_report

        files = write_report(options.directory, out)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in PACKAGES:
            raise
        raise ConfigError(
            f"the report needs the package {error.name}: pip install"
            " 'antecede[report,trace]'"
        ) from error
    if options.json:
        fields = {
            "page": str(files.page),
            "figures": [str(path) for path in files.figures],
            "tables": [str(path) for path in files.csv_tables],
            "claims": [
                {
                    "id": claim.id,
                    "status": result.status.value,
                    "observed": result.observed,
                    "explanation": result.explanation,
                }
                for claim, result in files.claim_results
            ],
        }
        print(json.dumps(fields, indent=2))
        return 0
    totals = Counter(result.status.value for _, result in files.claim_results)
    print(f"claims: {', '.join(f'{count} {status}' for status, count in totals.items())}")
    print(
        f"{len(files.figures)} figures and {len(files.csv_tables)} tables beside the page"
    )
    print(files.page)
    return 0
