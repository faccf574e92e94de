"""The stage that measures: from the events of a study's runs to tidy tables.

:func:`write_measures` writes three tables beside the events. Times are in seconds.

``copies``
    One row per copy of a message, for another process than its source: when it was sent,
    released, arrived and delivered *for the first time*, and the waits between. Where
    messages are relayed, it is released when its source lets the first frame of the
    message go, and the bytes are those of that frame. A broadcast has a copy for each
    process that it was delivered at.

``measures``
    One row per cell and measure; :data:`MEASURES` says what each is. Each measured cell
    has a row for every measure, with null where it makes no sense: means of nothing, a
    comparison with nothing. A cell without events has none at all.

``summary``
    The same over the seeds of each group of cells: how many, mean, standard deviation,
    and the ends of the confidence interval of the mean (Student's t, 95 %).

*Non-causal latency* is how much longer a copy took than in the cell that does the same
work on the same network and delivers at the earliest moment that causal order allows:
``optimal``, or else ``matrix``. It is the same copy if source, number
and target are the same, which is so where a process sends the same messages in the same
order under every protocol. Where a workload's messages are answers, that order may depend
on the protocol. A copy without a partner, or one whose message has other targets there
than here, is not compared, but counted in ``non_causal_unmatched``; two answers that have
changed places on their way to the same target go unnoticed, and so a workload of answers
tells only what is true on average. The difference can be negative: a protocol that delays
messages also has fewer of them depend on others.

This module needs the extra ``antecede[spark]``.
"""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from antecede.core.registry import protocols
from antecede.errors import ConfigError, InternalError
from antecede.pipeline.study import measure_sql
from antecede.pipeline.study.intervals import student_t
from antecede.trace.schema import EVENTS_NAME, SAMPLES_NAME, SAMPLES_SCHEMA, SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

__all__ = [
    "COPIES_SCHEMA",
    "MEASURES",
    "MEASURES_SCHEMA",
    "SUMMARY_SCHEMA",
    "Measure",
    "copies",
    "ledger",
    "measures",
    "plan_tables",
    "read_cells",
    "read_events",
    "read_samples",
    "spark_schema",
    "summary",
    "write_measures",
]

COPIES_SCHEMA = pa.schema(
    [
        pa.field("run", pa.string()),
        pa.field("source", pa.int32()),
        pa.field("number", pa.int64()),
        pa.field("target", pa.int32()),
        pa.field("sent", pa.float64()),
        pa.field("released", pa.float64()),
        pa.field("arrived", pa.float64()),
        pa.field("delivered", pa.float64()),
        # From each of these moments to the next, and from the first to the last.
        pa.field("sender_wait", pa.float64()),
        pa.field("wire", pa.float64()),
        pa.field("receiver_wait", pa.float64()),
        pa.field("latency", pa.float64()),
        # Of its first transmission.
        pa.field("payload_bytes", pa.int32()),
        pa.field("metadata_bytes", pa.int32()),
    ]
)
MEASURES_SCHEMA = pa.schema(
    [
        pa.field("cell", pa.string()),
        pa.field("measure", pa.string()),
        pa.field("value", pa.float64()),
    ]
)
SUMMARY_SCHEMA = pa.schema(
    [
        pa.field("group", pa.string()),
        # What all cells of the group have in common.
        pa.field("grid", pa.string()),
        pa.field("protocol", pa.string()),
        pa.field("workload", pa.string()),
        pa.field("network", pa.string()),
        pa.field("processes", pa.int32()),
        pa.field("messages", pa.int32()),
        pa.field("measure", pa.string()),
        # How many cells have a value; the rest is about those.
        pa.field("seeds", pa.int64()),
        pa.field("mean", pa.float64()),
        pa.field("deviation", pa.float64()),
        pa.field("low", pa.float64()),
        pa.field("high", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A measure of a run."""

    unit: str
    """What it counts or is measured in."""
    meaning: str


def _statistics(name: str, unit: str, meaning: str) -> dict[str, Measure]:
    words = {"mean": "mean", "p50": "median", "p99": "99th percentile", "max": "largest"}
    return {
        f"{name}_{key}": Measure(unit=unit, meaning=f"{meaning}, {word}")
        for key, word in words.items()
    }


MEASURES: dict[str, Measure] = {
    **_statistics("sender_wait", "s", "from send to release"),
    **_statistics("wire", "s", "from release to the first arrival"),
    **_statistics("receiver_wait", "s", "from the first arrival to delivery"),
    **_statistics("latency", "s", "from send to delivery"),
    **_statistics("non_causal_latency", "s", "latency beyond what causal order asks for"),
    "non_causal_unmatched": Measure(
        unit="copies", meaning="delivered, but not compared for non-causal latency"
    ),
    "copies": Measure(unit="copies", meaning="sent to other processes"),
    "delivered": Measure(unit="copies", meaning="delivered at other processes"),
    "execution_time": Measure(
        unit="s", meaning="from 0 to the last delivery or end of a job"
    ),
    "job_start_mean": Measure(unit="s", meaning="from 0 to the start of a job, mean"),
    "throughput": Measure(unit="copies/s", meaning="copies delivered by execution time"),
    "execution_speedup": Measure(
        unit="times", meaning="execution time of buffer at the same work, by this one's"
    ),
    "job_start_speedup": Measure(
        unit="times", meaning="mean job start of buffer at the same work, by this one's"
    ),
    "in_transit_max": Measure(unit="copies", meaning="released and not arrived, at once"),
    "in_transit_source_max": Measure(
        unit="copies", meaning="released and not arrived, at once, of one source"
    ),
    "in_transit_pair_max": Measure(
        unit="copies", meaning="released and not arrived, at once, of one source and target"
    ),
    "sender_buffer_max": Measure(
        unit="copies", meaning="sent and not released, at once, at one source"
    ),
    "receiver_buffer_max": Measure(
        unit="copies", meaning="arrived and not delivered, at once, at one target"
    ),
    "control_frames": Measure(unit="frames", meaning="without a message"),
    "control_bytes": Measure(unit="bytes", meaning="in frames without a message"),
    **_statistics("metadata_bytes", "bytes", "beside the payload when first transmitted"),
    "metadata_bytes_total": Measure(
        unit="bytes", meaning="beside the payload in all frames, repeats and control too"
    ),
    "payload_bytes_total": Measure(unit="bytes", meaning="payload in all frames"),
    "retransmissions": Measure(unit="frames", meaning="transmitted again, hop by hop"),
    "relays": Measure(unit="frames", meaning="passed on for another process"),
    "drops": Measure(unit="frames", meaning="lost by the network"),
    # Only of runs that were sampled.
    "links": Measure(unit="links", meaning="of a process on the overlay, safe or not"),
    "unsafe_links": Measure(unit="links", meaning="of a process, not to be used yet"),
    "mean_path": Measure(unit="hops", meaning="fewest along safe links, to anybody, mean"),
    "unreached": Measure(unit="share", meaning="of processes that no safe way leads to"),
    "view_links": Measure(unit="links", meaning="of a process, to and from views only"),
    "view_mean_path": Measure(unit="hops", meaning="the same as mean_path along these"),
    "state_numbers_mean": Measure(unit="numbers", meaning="kept by a process, mean"),
    "state_numbers_max": Measure(unit="numbers", meaning="kept by a process, most"),
    "sender_work_us": Measure(
        unit="µs", meaning="of processor time per message sent, at its source"
    ),
    "receiver_work_us": Measure(
        unit="µs", meaning="of processor time per message that arrived, at its target"
    ),
}
"""Every measure, in the order in which to show them."""


def spark_schema(schema: pa.Schema = SCHEMA) -> "StructType":
    """Return a schema, that of the events, as Spark has it; any column may be null."""
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [StructField(field.name, _spark_type(field.type)) for field in schema]
    )


def read_events(spark: "SparkSession", directory: Path) -> "DataFrame":
    """Read the events of all finished cells of a study."""
    # The names of traces that are still being written begin with a dot.
    if not any(directory.glob(f"events/[!.]*/{EVENTS_NAME}")):
        return spark.createDataFrame([], spark_schema())
    pattern = f"{_address(directory)}/events/[^.]*/{EVENTS_NAME}"
    return spark.read.schema(spark_schema()).parquet(pattern)


def read_samples(spark: "SparkSession", directory: Path) -> "DataFrame":
    """Read what the finished cells of a study noted of their processes."""
    schema = spark_schema(SAMPLES_SCHEMA)
    if not any(directory.glob(f"events/[!.]*/{SAMPLES_NAME}")):
        return spark.createDataFrame([], schema)
    pattern = f"{_address(directory)}/events/[^.]*/{SAMPLES_NAME}"
    return spark.read.schema(schema).parquet(pattern)


def read_cells(spark: "SparkSession", directory: Path) -> "DataFrame":
    """Read a study's table of cells; raise ConfigError if it has none."""
    path = directory / "cells.parquet"
    if not path.exists():
        raise ConfigError(f"no cells.parquet in {directory}: not the directory of a study")
    return spark.read.parquet(_address(path))


def ledger(spark: "SparkSession", events: "DataFrame", cells: "DataFrame") -> "DataFrame":
    """Return what all tables are made from; see :func:`plan_tables` before persisting."""
    relaying = [info.name for info in protocols() if info.capabilities.relays]
    names = ", ".join(f"'{name}'" for name in relaying)
    relays = cells.selectExpr(
        "cell", "comparable", "protocol", f"protocol IN ({names}) AS relays"
    )
    # In steps: Spark does not know a persisted table again that has a WITH in it.
    told = spark.sql(measure_sql.TOLD, events=events, cells=relays)
    lives = spark.sql(measure_sql.LIVES, told=told)
    return spark.sql(measure_sql.LEDGER, lives=lives)


def copies(spark: "SparkSession", ledger: "DataFrame") -> "DataFrame":
    """Return the table ``copies``."""
    found = spark.sql(measure_sql.COPIES, ledger=ledger)
    return found.select(*COPIES_SCHEMA.names)


def measures(
    spark: "SparkSession", ledger: "DataFrame", samples: "DataFrame | None" = None
) -> "DataFrame":
    """Return the table ``measures``; ``samples`` are those of :func:`read_samples`."""
    if samples is None:
        samples = spark.createDataFrame([], spark_schema(SAMPLES_SCHEMA))
    found = spark.sql(measure_sql.COPIES, ledger=ledger)
    compared = spark.sql(measure_sql.COMPARED, copies=found)
    wide = spark.sql(
        measure_sql.WIDE,
        statistics=spark.sql(measure_sql.STATISTICS, compared=compared),
        peaks=spark.sql(measure_sql.PEAKS, copies=found),
        totals=spark.sql(measure_sql.TOTALS, ledger=ledger),
        sampled=spark.sql(measure_sql.SAMPLES, samples=samples),
    )
    values = [f"CAST({name} AS DOUBLE) AS {name}" for name in MEASURES]
    return wide.selectExpr("cell", *values).unpivot("cell", None, "measure", "value")


def plan_tables(
    spark: "SparkSession", directory: Path, cells: "DataFrame"
) -> "tuple[DataFrame, DataFrame, DataFrame]":
    """Return the ledger, persisted, and ``copies`` and ``measures``, made from it.

    Unpersist the ledger when both are written.
    """
    from pyspark import StorageLevel

    book = ledger(spark, read_events(spark, directory), cells)
    found = copies(spark, book)
    measured = measures(spark, book, read_samples(spark, directory))
    # Not before: a query by text has views of its inputs, and to drop a view is to forget
    # what was persisted of it.
    return book.persist(StorageLevel.DISK_ONLY), found, measured


def summary(
    spark: "SparkSession", measures: "DataFrame", cells: "DataFrame"
) -> "DataFrame":
    """Return the table ``summary``."""
    most = spark.sql(measure_sql.SEEDS_MAX, cells=cells).first()
    seeds_max = (most[0] if most is not None else None) or 0
    quantiles = spark.createDataFrame(
        [(seeds, student_t(seeds - 1)) for seeds in range(2, seeds_max + 1)],
        "runs long, t double",
    )
    return spark.sql(
        measure_sql.SUMMARY,
        measures=measures,
        cells=cells,
        quantiles=quantiles,
    )


def write_measures(spark: "SparkSession", directory: Path) -> None:
    """Measure the finished cells of a study, and write or replace its three tables.

    The tables are folders of Parquet files, ``copies``, ``measures`` and ``summary``, in
    the study's directory, which the workers must reach under the same name. Nothing is
    replaced before all of it is written and has the schema that it should.

    Raises:
        ConfigError: The directory is not a study's, has a file that is no trace, or
            cannot be written to.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    directory = directory.resolve()
    try:
        cells = read_cells(spark, directory)
        book, all_copies, all_measures = plan_tables(spark, directory, cells)
        try:
            _write(all_copies, directory / "copies", COPIES_SCHEMA)
            _write(all_measures.repartition(1), directory / "measures", MEASURES_SCHEMA)
        finally:
            book.unpersist()
        written = spark.read.parquet(_address(_partial(directory / "measures")))
        _write(
            summary(spark, written, cells).repartition(1),
            directory / "summary",
            SUMMARY_SCHEMA,
        )
        for name in ("copies", "measures", "summary"):
            _replace(directory / name)
    except (Py4JJavaError, PySparkException) as error:
        # Of all that Spark can say, these are not for us to repair.
        found = re.search(r"\[FAILED_READ_FILE.*|No space left on device", str(error))
        if found is None:
            raise
        raise ConfigError(f"cannot measure {directory}: {found[0]}") from error
    except OSError as error:
        raise ConfigError(f"cannot write to {directory}: {error.strerror}") from error
    finally:
        for name in ("copies", "measures", "summary"):
            shutil.rmtree(_partial(directory / name), ignore_errors=True)


def _spark_type(arrow: pa.DataType) -> "DataType":
    from pyspark.sql import types

    if pa.types.is_list(arrow):
        return types.ArrayType(_spark_type(arrow.value_type))
    return {
        pa.string(): types.StringType(),
        pa.int32(): types.IntegerType(),
        pa.int64(): types.LongType(),
        pa.float64(): types.DoubleType(),
    }[arrow]


def _address(path: Path) -> str:
    """Return a path for Spark to read, in which nothing is a pattern."""
    return "file://" + re.sub(r"([*?\[\]{}\\])", r"\\\1", str(path.resolve()))


def _partial(table: Path) -> Path:
    return table.with_name(f".{table.name}.partial")


def _write(frame: "DataFrame", table: Path, schema: pa.Schema) -> None:
    """Write a table beside its place, and check what was written."""
    partial = _partial(table)
    frame.write.mode("overwrite").parquet(f"file://{partial}")
    for part in sorted(partial.glob("*.parquet")):
        found = pq.read_schema(part)
        if (found.names, found.types) != (schema.names, schema.types):
            raise InternalError(f"the table {table.name} has the schema {found}")


def _replace(table: Path) -> None:
    """Put a table that has been written into its place."""
    old = table.with_name(f".{table.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if table.exists():
        table.rename(old)
    _partial(table).rename(table)
    shutil.rmtree(old, ignore_errors=True)
