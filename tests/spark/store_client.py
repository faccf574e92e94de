"""Simulate to an object store on Spark, read the table again, verify it; print JSON."""

import json
import sys

from antecede.errors import ConfigError
from antecede.pipeline.spark.session import open_session
from antecede.spark import simulate, verify
from antecede.verify.oracle import Property
from antecede.verify.verifier import verify_trace

GRID = {
    "protocols": ["hybrid", "unordered"],
    "processes": [4],
    "seeds": 2,
    "messages": 20,
}


def error_of(uri: str) -> str:
    """Return the message of the error that a simulation to a URI raises."""
    try:
        simulate({**GRID, "seeds": 1}, out=uri)
    except ConfigError as error:
        return str(error)
    return ""


def main(uri: str, without_bucket: str) -> None:
    """Print what the runs in the store are, and the errors of bad URIs."""
    with open_session("local[2]"):
        runs = simulate(GRID, out=uri)
        verdicts = verify(runs.events).verdicts.where("property = 'causal'").collect()
        cells = [row["cell"] for row in runs.cells.select("cell").collect()]
        where, _, options = uri.partition("?")
        found = {
            "events": runs.events.count(),
            "expected": {
                cell: verify_trace(f"{where}/events/{cell}?{options}")
                .statuses[Property.CAUSAL]
                .value
                for cell in cells
            },
            "statuses": {row["run"]: row["status"] for row in verdicts},
            "again": error_of(uri),
            "without_bucket": error_of(without_bucket),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
