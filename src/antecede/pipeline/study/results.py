"""The results of single runs: verdict, measures and copies, one file for each part.

The task that has written a part of the table of runs calls :func:`write_results`, which
reads the part once more and writes two files of the same name::

    DIR/copies/runs-<id>.parquet    the copies of the runs of the part
    DIR/results/runs-<id>.parquet   one row for each run: its verdict and its measures

So no later step reads the events. :func:`write_missing_results` does the same for parts
that have no valid results: those of a killed task, of an edited study, and of another
origin.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from antecede.core.registry import protocol
from antecede.errors import StorageError, TraceError
from antecede.pipeline.spark.batches import map_batches
from antecede.pipeline.spark.transient import attempt_number, attempts_max, is_transient
from antecede.pipeline.study.directory import StudyDirectory
from antecede.pipeline.study.measure_schema import COPIES_SCHEMA, MEASURES
from antecede.pipeline.study.run_copies import RunCopies, copies_table
from antecede.pipeline.study.run_measures import measure_run, measure_samples
from antecede.pipeline.study.short_run import open_run
from antecede.pipeline.verify.runs import (
    TASKS_PER_CORE,
    VERDICTS,
    SizedRun,
    balanced,
    parallelism,
    verify_run,
)
from antecede.trace.commit import PARTIAL_SUFFIX
from antecede.trace.run_table import TablePart, list_parts, read_part
from antecede.trace.schema import SAMPLES_SCHEMA
from antecede.trace.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "RESULTS_SCHEMA",
    "Parts",
    "is_relaying",
    "missing_results",
    "parts_to_measure",
    "read_results",
    "write_missing_results",
    "write_results",
]

VIOLATIONS_MAX = 10
"""The most violations of each property to name, for each run."""
DICTIONARIES = ["run", "payload_bytes", "metadata_bytes"]
"""The columns of copies with few values."""
GROUP_ROWS_MIN = 1 << 16
"""Rows of a row group of copies: the smallest amount that a reader of one run must read."""

RESULTS_SCHEMA: pa.Schema = pa.schema(
    [
        pa.field("cell", pa.string(), nullable=False),
        *VERDICTS,
        # The reason for missing measures, in one line; otherwise null.
        pa.field("measure_error", pa.string()),
        # The position of the rows of the run in the file of copies.
        pa.field("copies_first", pa.int64()),
        pa.field("copies_rows", pa.int64()),
        # The measures that compare runs are null.
        *(pa.field(name, pa.float64()) for name in MEASURES),
    ]
)
PARTS_SCHEMA = pa.schema([("part", pa.string())])

Relays = Mapping[str, bool]
"""The runs to measure, and whether the protocol of each relays messages."""
Parts = Sequence[tuple[TablePart, Relays]]
"""Parts of a table of runs, each with the runs to measure."""


def is_relaying(name: str) -> bool:
    """Return whether a protocol relays messages."""
    return protocol(name).capabilities.relays


def write_results(
    directory: StudyDirectory, part: TablePart, relays: Relays, attempts: int = 1
) -> None:
    """Verify and measure runs of a part, and write their results and copies.

    Args:
        directory: The directory of the study.
        part: The part.
        relays: The runs of the part to measure.
        attempts: How often Spark runs a task that raises a transient error.
    """
    rows = []
    with _CopiesFile(directory.copies / part.path.name) as file:
        samples = _read_samples(directory.samples / part.path.name)
        for run, is_relayed in relays.items():
            path = directory.events / part.path.name / run
            opened = _OpenedRun()
            row = verify_run(str(path), VIOLATIONS_MAX, attempts, read=opened.open)
            first = file.rows
            row |= {"cell": run, "copies_first": first}
            if row["error"] is None:
                assert opened.run is not None
                row |= _measure(opened.run, run, is_relayed, samples, file, attempts)
            rows.append(row | {"copies_rows": file.rows - first})
    directory.results.mkdir(exist_ok=True)
    target = directory.results / part.path.name
    partial = target.with_name(f".{target.name}{PARTIAL_SUFFIX}")
    pq.write_table(pa.Table.from_pylist(rows, schema=RESULTS_SCHEMA), partial)
    partial.rename(target)


def missing_results(directory: StudyDirectory, parts: Parts) -> Parts:
    """Return the parts whose file of results is missing, or is of other runs."""
    return [
        (part, relays)
        for part, relays in parts
        if _result_cells(directory.results / part.path.name) != relays.keys()
    ]


def write_missing_results(
    spark: "SparkSession", directory: StudyDirectory, missing: Parts
) -> None:
    """Write the results of the parts of :func:`missing_results`, as tasks of Spark."""
    sizes = [sum(part.runs[run].size for run in relays) for part, relays in missing]
    groups = [
        [(missing[i][0].path.name, missing[i][1]) for i in group]
        for group in balanced(sizes, TASKS_PER_CORE * parallelism(spark))
    ]
    # Workers may have another working directory than the driver.
    where = StudyDirectory(directory.path.absolute())
    work = _task(groups, where, attempts_max(spark))
    indices = spark.range(0, len(groups), 1, len(groups))
    map_batches(indices, work, PARTS_SCHEMA).collect()


def parts_to_measure(directory: StudyDirectory, protocols: Mapping[str, str]) -> Parts:
    """Return the parts that have runs of these cells, each with the runs.

    If a run is in several parts, the first part counts.

    Args:
        directory: The directory of the study.
        protocols: The protocol of each cell.

    Raises:
        StorageError: A part is damaged.
    """
    found: list[tuple[TablePart, Relays]] = []
    known: set[str] = set()
    for path in list_parts(open_store(directory.events)):
        try:
            part = read_part(path)
        except TraceError as error:
            raise StorageError(f"cannot measure {path}: {error}") from error
        runs = [run for run in part.runs if run in protocols and run not in known]
        known.update(runs)
        if runs:
            found.append((part, {run: is_relaying(protocols[run]) for run in runs}))
    return found


def read_results(directory: StudyDirectory, parts: Parts) -> pa.Table:
    """Return the results of some parts; the column ``part`` has the name of the part."""
    tables = [RESULTS_SCHEMA.empty_table().append_column("part", pa.array([], pa.string()))]
    for part, _ in parts:
        table = pq.read_table(directory.results / part.path.name, schema=RESULTS_SCHEMA)
        names = pa.repeat(pa.scalar(part.path.name), table.num_rows)
        tables.append(table.append_column("part", names))
    return pa.concat_tables(tables)


def _result_cells(path: Path) -> set[str]:
    """Return the cells of a file of results; none if there is no valid file."""
    try:
        return set(pq.read_table(path, schema=RESULTS_SCHEMA).column("cell").to_pylist())
    except (OSError, pa.ArrowException):
        return set()


def _task(
    groups: Sequence[Sequence[tuple[str, Relays]]],
    directory: StudyDirectory,
    attempts: int,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of a task: it gets indices of groups of parts."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        events = open_store(directory.events)
        for batch in batches:
            for index in batch.column("id").to_pylist():
                for name, relays in groups[index]:
                    write_results(directory, read_part(events / name), relays, attempts)
                    yield pa.RecordBatch.from_pylist([{"part": name}], PARTS_SCHEMA)

    return write


def _measure(
    opened: SizedRun,
    run: str,
    is_relayed: bool,
    samples: pa.Table,
    file: "_CopiesFile",
    attempts: int,
) -> dict[str, object]:
    """Measure a run, and write its copies; return the columns of its result."""
    try:
        if not opened.rows:
            return {}
        found = measure_run(
            opened,
            opened.rows,
            relays=is_relayed,
            on_copies=lambda copies: file.add(run, copies),
        )
        if samples.num_rows:
            found |= measure_samples(samples.filter(pc.equal(samples["run"], run)))
        return dict(found)
    except Exception as error:
        if is_transient(error) and attempt_number() < attempts:
            raise
        first = str(error).strip().partition("\n")[0]
        return {"measure_error": f"{opened.location}: {type(error).__name__}: {first}"}


class _OpenedRun:
    """Opens a run for its verification, and keeps it for the measures."""

    run: SizedRun | None = None

    def open(self, path: str) -> SizedRun:
        """Open the run at the path."""
        self.run = open_run(path)
        return self.run


def _read_samples(path: Path) -> pa.Table:
    """Return the samples of the runs of a part; empty if it has none."""
    return pq.read_table(path) if path.exists() else SAMPLES_SCHEMA.empty_table()


class _CopiesFile:
    """Writes the copies of the runs of a part; the file appears when it is complete."""

    rows: int
    """The number of rows so far."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        self.rows = 0
        self._path = path
        self._partial = path.with_name(f".{path.name}{PARTIAL_SUFFIX}")
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._writer = pq.ParquetWriter(
            self._partial, COPIES_SCHEMA, compression="zstd", use_dictionary=DICTIONARIES
        )

    def add(self, run: str, copies: RunCopies) -> None:
        """Add copies of a run."""
        table = copies_table(run, copies)
        self.rows += table.num_rows
        self._pending.append(table)
        self._pending_rows += table.num_rows
        if self._pending_rows >= GROUP_ROWS_MIN:
            self._flush()

    def _flush(self) -> None:
        if self._pending_rows:
            table = pa.concat_tables(self._pending).combine_chunks()
            self._writer.write_table(table, row_group_size=1 << 20)
            self._pending, self._pending_rows = [], 0

    def __enter__(self) -> "_CopiesFile":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if kind is None:
                self._flush()
            self._writer.close()
            if kind is None:
                self._partial.rename(self._path)
        finally:
            self._partial.unlink(missing_ok=True)
