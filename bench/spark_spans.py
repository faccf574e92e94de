"""Compare the verification of spans with a read by Spark: ``python -m bench.spark_spans``.

The spans are generated (:mod:`bench.generate_spans`), by default 3 million: with skewed
clocks that drift, timeouts, retries and lost spans. The benchmark measures three ways to
use them in one warm session:

* *scan*: read the columns that the verification needs, and discard them;
* *files*: verify the files, as ``antecede verify`` does;
* *table*: ``antecede.spark.verify`` of the DataFrame, and all verdicts collected.

The processor time is that of the driver, of Java and of all workers; it depends less on
other work on the machine.

The bound applies to ``--spans 50000000``, which needs 2.2 GB of disk for the spans, and 16
GB for temporary files.
"""

import argparse
import json
import resource
import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from antecede.ingest.formats.records import ReadOptions
from antecede.ingest.formats.registry import get_format
from antecede.pipeline.records.files import ForeignRun, verify_files
from antecede.spark import verify
from antecede.verify.oracle import Property
from bench.generate_spans import generate_spans
from bench.measure import processor_seconds, seconds_of
from bench.spark_session import plain_session
from bench.spark_verify import worker_peak_mib

SPANS = 3_000_000
VIOLATIONS_MAX = 10
"""The most violations to name, as by default for ``antecede verify``."""


def scan(table: DataFrame) -> None:
    """Read all columns, and discard them."""
    table.write.format("noop").mode("overwrite").save()


def verify_as_files(spark: SparkSession, path: Path, spans: int) -> dict[str, object]:
    """Verify the files as one run; return figures of the verdict."""
    run = ForeignRun(
        name="spans",
        files=tuple(sorted(path.glob("*.parquet"))),
        format=get_format("spancsv"),
        options=ReadOptions(),
        records=spans,
    )
    verdict = verify_files(spark, run, violations_max=VIOLATIONS_MAX).verdict
    violated = verdict.counts[Property.CAUSAL]
    return {"deliveries": verdict.deliveries, "violated": violated}


def verify_as_table(table: DataFrame) -> dict[str, object]:
    """Verify the DataFrame as one run; return figures of the verdict."""
    result = verify(table, windows=True, violations_max=VIOLATIONS_MAX)
    rows = {row.property: row for row in result.verdicts.collect()}
    result.unpersist()
    causal = rows["causal"]
    assert causal.error is None, causal.error
    return {"deliveries": causal.deliveries, "violated": causal.violated}


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
    parser.add_argument(
        "--files-only", action="store_true", help="do not verify the DataFrame"
    )
    options = parser.parse_args()
    path = options.directory / f"spans-{options.spans}"
    generate_spans(path, options.spans)
    verdicts: list[dict[str, object]] = []
    with plain_session() as spark:
        table = spark.read.parquet(str(path))
        scan(table)  # The first read starts the session's threads.
        spans = table.count()
        work = {
            "scan": lambda: scan(table),
            "files": lambda: verdicts.append(verify_as_files(spark, path, spans)),
        }
        if not options.files_only:
            work["table"] = lambda: verdicts.append(verify_as_table(table))
        seconds: dict[str, float] = {}
        used: dict[str, float] = {}
        for name, function in work.items():
            before = processor_seconds()
            seconds[name] = seconds_of(function)
            used[name] = processor_seconds() - before
        driver = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        found: dict[str, object] = {
            "spans": spans,
            **verdicts[0],
            **{f"{name}_s": round(value, 1) for name, value in seconds.items()},
            **{f"{name}_processor_s": round(value, 1) for name, value in used.items()},
            "worker_peak_mib": worker_peak_mib(spark),
            "driver_peak_mib": round(driver),
        }
    assert all(each == verdicts[0] for each in verdicts), verdicts
    print(json.dumps(found, indent=2))
    for name in list(seconds)[1:]:
        ratio = round(seconds[name] / seconds["scan"], 1)
        print(f"time, verify spans as {name} to Spark's read{ratio:>8}   (at most 10)")
        ratio = round(used[name] / used["scan"], 1)
        print(f"processor time, the same as {name:<23}{ratio:>8}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
