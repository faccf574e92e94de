"""Verifies the stream of a directory in a session of its own; a test kills it."""

import sys
from pathlib import Path

from antecede.pipeline.spark.session import open_session
from tests.spark import test_verify_span_stream, test_verify_stream

RUN_QUERY = {
    "events": test_verify_stream.run_query,
    "spans": test_verify_span_stream.run_query,
}

if __name__ == "__main__":
    kind, path = sys.argv[1:]
    with open_session(cores=2, fast_start=True) as session:
        session.conf.set("spark.sql.shuffle.partitions", 2)
        RUN_QUERY[kind](session, Path(path))
