"""Verifies the stream of a directory in a session of its own; a test kills it."""

import sys
from pathlib import Path

from antecede.pipeline.spark.session import open_session
from tests.spark.test_verify_stream import run_query

if __name__ == "__main__":
    with open_session(cores=2, fast_start=True) as session:
        run_query(session, Path(sys.argv[1]))
