"""Print the table of docs/explanation/groups.md: ``python -m bench.joins``.

The exit code is 1 if a property does not hold, or a search is not complete.
"""

import argparse
import sys
import time

from tests.check.join_configs import LONG, SMALL

from antecede.check.join_model import JoinConfig, JoinModel
from antecede.check.join_search import check_rooms

HEADER = """\
| schedule | members | newcomers | messages | states | depth | seconds | verdict |
|---|---:|---:|---:|---:|---:|---:|---|"""


def main() -> int:
    """Run the searches, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--long", action="store_true", help="also run the searches that take minutes"
    )
    searches = SMALL | LONG if parser.parse_args().long else SMALL
    print(HEADER)
    failed = False
    for name, config in searches.items():
        started = time.process_time()
        result = check_rooms(JoinModel(config))
        seconds = time.process_time() - started
        failed |= bool(result.violation) or not result.exhausted
        verdict = result.violation or "held"
        print(
            f"| {name} | {config.members} | {len(config.newcomers)} | {_messages(config)} |"
            f" {result.states:,} | {result.depth} | {seconds:.1f} | {verdict} |",
            flush=True,
        )
    return failed


def _messages(config: JoinConfig) -> int:
    return sum(config.sends.values())


if __name__ == "__main__":
    sys.exit(main())
