"""Choose the foreign files that Spark verifies, and verify them.

One process needs about 1 GB of memory for a million spans. Spark needs no more for many,
but takes longer to start than one process needs for few.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from antecede.cli.file_groups import FileGroup
from antecede.cli.foreign import read_options
from antecede.errors import AntecedeError, ConfigError, StorageError, TraceError
from antecede.ingest.formats.record_count import estimate_records
from antecede.ingest.formats.records import CLOCK_SCHEMA, SPAN_SCHEMA
from antecede.ingest.formats.registry import Format, detect_format, get_format
from antecede.ingest.verdict import LocatedVerdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from antecede.pipeline.records.files import ForeignRun
    from antecede.pipeline.records.records_verdict import RecordsVerdict
    from antecede.pipeline.spark.progress import OnProgress

__all__ = ["RECORDS_MAX", "SparkFiles", "SparkVerdict"]

RECORDS_MAX = 2_000_000
"""The most records of a run that one process verifies: it needs about 2 GB for them."""
GB_PER_RECORD = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkVerdict:
    """The verdict on a group of files, or the reason why there is none."""

    title: str
    verdict: LocatedVerdict | None = None
    found: "RecordsVerdict | None" = None
    """The rows of the messages of the violations."""
    error: str | None = None


class SparkFiles:
    """The groups of files of a command line that Spark verifies."""

    def __init__(
        self, arguments: argparse.Namespace, on_notice: Callable[[str], None]
    ) -> None:
        """Read the command line; ``on_notice`` is called with a line."""
        self._format_name: str | None = arguments.format
        self._options = read_options(arguments)
        self._out: Path | None = arguments.out
        self._use_spark: str = arguments.spark
        self._forced = arguments.spark == "on" or arguments.master is not None
        self._on_notice = on_notice
        self._runs: list[tuple[str, ForeignRun]] = []

    def __bool__(self) -> bool:
        """Return whether Spark verifies any group."""
        return bool(self._runs)

    def choose(self, groups: Sequence[FileGroup]) -> list[FileGroup]:
        """Take the groups that Spark verifies, and return the others.

        Raises:
            ConfigError: A group that is too large for one process cannot be converted to a
                trace, which ``--out`` needs.
        """
        return [group for group in groups if not self.take(group)]

    def take(self, group: FileGroup) -> bool:
        """Take a group if Spark verifies it; return whether."""
        if self._use_spark == "off":
            return False
        try:
            chosen = self._format(group)
            records = sum(estimate_records(path, chosen) for path in group.paths)
        except (AntecedeError, OSError):
            return False  # Its conversion raises the specific error.
        is_large = records > RECORDS_MAX
        unit = _unit(chosen)
        size = f"about {records:,} {unit}, which need about {records * GB_PER_RECORD:,.0f}"
        if chosen.schema is CLOCK_SCHEMA:
            if is_large:
                self._on_notice(
                    f"{group.title}: {size} GB: Spark does not read vector clocks"
                )
            return False
        if any(isinstance(path, str) for path in group.paths):
            # Workers may have no access to a store.
            if is_large:
                self._on_notice(
                    f"{group.title}: {size} GB in one process, because Spark does not read"
                    " files in a store here: copy them, or read them with spark.read and"
                    " antecede.spark.verify"
                )
            return False
        if is_large and find_spec("pyspark") is None and not self._forced:
            self._on_notice(
                f"{group.title}: {size} GB in one process; with Spark, memory does not grow"
                " with the file: pip install 'antecede[spark]'"
            )
            return False
        if self._out is not None:
            if is_large:
                raise ConfigError(
                    f"--out: one process converts the files, and {group.title} has {size}"
                    " GB: omit --out to verify them on Spark, or pass --spark off"
                )
            return False
        if not is_large and not self._forced:
            return False
        self._add(group, chosen, records)
        return True

    def _format(self, group: FileGroup) -> Format:
        if self._format_name is not None:
            return get_format(self._format_name)
        return detect_format(group.paths[0], self._options)

    def _add(self, group: FileGroup, chosen: Format, records: int) -> None:
        from antecede.pipeline.records.files import ForeignRun

        run = ForeignRun(
            name=group.name,
            files=tuple(map(Path, group.paths)),
            format=chosen,
            options=self._options,
            records=records,
        )
        self._runs.append((group.title, run))

    def verify(
        self,
        spark: "SparkSession",
        *,
        violations_max: int,
        with_breakdown: bool,
        on_progress: "OnProgress",
    ) -> Iterator[SparkVerdict]:
        """Verify the groups, one after the other; an error does not stop the others."""
        from antecede.pipeline.records.files import verify_files
        from antecede.pipeline.spark.master import master_name

        for title, run in self._runs:
            count = f"{run.records:,} {_unit(run.format)}"
            self._on_notice(f"verified on Spark, {master_name(spark)}: about {count}")
            try:
                found = verify_files(
                    spark,
                    run,
                    violations_max=violations_max,
                    with_breakdown=with_breakdown,
                    on_progress=on_progress,
                )
            except (ConfigError, StorageError, TraceError) as error:
                yield SparkVerdict(title=title, error=str(error))
            else:
                verdict = LocatedVerdict(trace_verdict=found.verdict, ingested=found)
                yield SparkVerdict(title=title, verdict=verdict, found=found)


def _unit(chosen: Format) -> str:
    if chosen.schema is CLOCK_SCHEMA:
        return "events"
    return "spans" if chosen.schema is SPAN_SCHEMA else "messages"
