"""Compare the verification of spans with a read by Spark: ``python -m bench.spark_spans``.

The spans are generated (:mod:`bench.generate_spans`), by default 3 million: with skewed
clocks that drift, timeouts, retries and lost spans. The benchmark measures two ways to use
them in one warm session:

* *scan*: read the columns that the verification needs, and discard them;
* *verify*: ``antecede.spark.verify``, and all verdicts collected.

The bounds apply to ``--spans 50000000``, which needs 2 GB of disk for the spans, and 8 GB
for temporary files.
"""

import argparse
import json
import resource
import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame

from antecede.spark import verify
from bench.generate_spans import generate_spans
from bench.measure import seconds_of
from bench.spark_session import plain_session
from bench.spark_verify import worker_peak_mib

SPANS = 3_000_000


def scan(table: DataFrame) -> None:
    """Read all columns, and discard them."""
    table.write.format("noop").mode("overwrite").save()


def verify_spans(table: DataFrame, found: dict[str, object]) -> None:
    """Verify the spans as one run, and add the verdict to ``found``."""
    result = verify(table, windows=True)
    rows = {row.property: row for row in result.verdicts.collect()}
    result.unpersist()
    causal = rows["causal"]
    assert causal.error is None, causal.error
    assert causal.judged > causal.unknown
    found |= {"judged": causal.judged, "violated": causal.violated}
    found |= {"unknown": causal.unknown, "reasons": causal.reasons}


def main() -> int:
    """Print the measurements as JSON, and then the ratio with its bound."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spans", type=int, default=SPANS, help="number of spans")
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path(tempfile.gettempdir()) / "antecede-bench",
        help="directory for the spans; default: %(default)s",
    )
    options = parser.parse_args()
    path = options.directory / f"spans-{options.spans}"
    generate_spans(path, options.spans)
    found: dict[str, object] = {}
    with plain_session() as spark:
        table = spark.read.parquet(str(path))
        scan(table)  # The first read starts the session's threads.
        seconds = {
            "scan": seconds_of(lambda: scan(table)),
            "verify": seconds_of(lambda: verify_spans(table, found)),
        }
        found["spans"] = table.count()
        found |= {f"{name}_s": round(value, 1) for name, value in seconds.items()}
        found["verify_per_scan"] = round(seconds["verify"] / seconds["scan"], 1)
        found["worker_peak_mib"] = worker_peak_mib(spark)
        driver = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        found["driver_peak_mib"] = round(driver)
    print(json.dumps(found, indent=2))
    ratio = found["verify_per_scan"]
    print(f"time, verify spans to Spark's read{ratio:>8}   (at most 10)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
