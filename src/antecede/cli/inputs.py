"""Sort the traces, files and tables that a command line names, as paths or URIs."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from antecede.cli.file_groups import FileGroup, file_group, find_parts, one_group
from antecede.errors import ConfigError, StorageError, TraceError
from antecede.trace.uri import local_path, redact_uri

if TYPE_CHECKING:
    from antecede.trace.store import StorePath
    from antecede.verify.verdict import TraceVerdict

__all__ = [
    "Inputs",
    "StoredVerdict",
    "local_argument",
    "path_or_uri",
    "sort_inputs",
    "verify_stored",
]


def path_or_uri(text: str) -> Path | str:
    """Parse an argument: return a path on this machine, or the URI of a store."""
    try:
        path = local_path(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text if path is None else path


def local_argument(text: str) -> Path:
    """Parse an argument that must be a path on this machine."""
    found = path_or_uri(text)
    if isinstance(found, str):
        raise argparse.ArgumentTypeError(
            f"{redact_uri(text)}: a URI is not supported here; give a local path"
        )
    return found


@dataclass(slots=True)
class Inputs:
    """The arguments of a command by kind."""

    directories: list[Path] = field(default_factory=list)
    """Local directories of runs."""
    files: list[FileGroup] = field(default_factory=list)
    """Files of other formats, and directories of Parquet files; each is a group."""
    tables: list[Path | str] = field(default_factory=list)
    """Delta and Iceberg tables, and Parquet files or folders of events."""
    stored_runs: "list[StorePath]" = field(default_factory=list)
    """Directories of runs in a store."""

    def groups(self, *, one_run: bool) -> list[FileGroup]:
        """Return the groups of files; one group if all files are parts of one run."""
        return [one_group(self.files)] if one_run and self.files else self.files


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVerdict:
    """The verdict on a run in a store, or the reason why there is none."""

    run: "StorePath"
    verdict: "TraceVerdict | None" = None
    error: str | None = None


def sort_inputs(arguments: Sequence[Path | str]) -> Inputs:
    """Look at each argument, and sort it by kind.

    Raise TraceError if a URI cannot be read.
    """
    from antecede.ingest.live_tables import find_table_format

    inputs = Inputs()
    for where in arguments:
        if find_table_format(where) is not None:
            inputs.tables.append(where)
        elif isinstance(where, Path) and where.is_file():
            _sort_file(where, inputs)
        elif isinstance(where, Path):
            _sort_directory(where, inputs)
        else:
            _sort_uri(where, inputs)
    return inputs


def _sort_file(where: Path | str, inputs: Inputs) -> None:
    if _has_events(where):
        inputs.tables.append(where)
    else:
        inputs.files.append(file_group(where))


def _sort_directory(where: Path, inputs: Inputs) -> None:
    """Sort a local directory: of runs, or of a table that was written as Parquet files."""
    from antecede.pipeline.verify.traces import find_runs
    from antecede.trace.store import open_store

    parts = find_parts(where)
    if parts is not None and not _is_run(open_store(where)):
        try:
            find_runs([where])
        except TraceError:
            if not parts:
                raise TraceError(
                    f"{where} has no Parquet files: nothing to verify"
                ) from None
            if _has_events(parts[0]):
                inputs.tables.append(where)
            else:
                inputs.files.append(file_group(where, parts))
            return
    inputs.directories.append(where)


def _sort_uri(uri: str, inputs: Inputs) -> None:
    from antecede.trace.reader import read_trace
    from antecede.trace.run_table import table_run_names
    from antecede.trace.store import open_store

    path = open_store(uri)
    if path.is_file():
        _sort_file(uri, inputs)
        return
    if _is_run(path):
        inputs.stored_runs.append(path)
        return
    found = [child for child in path.children() if _is_run(child)]
    found += [child for child in (path / "events").children() if _is_run(child)]
    for events in (path, path / "events"):
        found += [events / name for name in table_run_names(events)]
    if found:
        inputs.stored_runs += found
    elif any(child.name.endswith(".parquet") for child in path.children()):
        inputs.tables.append(uri)
    else:
        # Not the directory of a run: a run in a table, or read_trace raises the error.
        inputs.stored_runs.append(read_trace(path).location)


def _is_run(path: "StorePath") -> bool:
    from antecede.trace.schema import EVENTS_NAME

    return path.name[:1] != "." and (path / EVENTS_NAME).exists()


def _has_events(where: Path | str) -> bool:
    """Return whether a file is a Parquet file of events, outside the directory of a run."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from antecede.ingest.formats.parquet_columns import is_parquet
    from antecede.ingest.formats.source import open_bytes
    from antecede.ingest.table_runs import is_event_table
    from antecede.trace.schema import EVENTS_NAME
    from antecede.trace.store import open_store

    if open_store(where).name == EVENTS_NAME:
        return False
    try:
        if not is_parquet(where):
            return False
        with open_bytes(where) as file:
            return is_event_table(pq.read_schema(file))
    except (OSError, pa.ArrowException):
        return False  # The reader of the format raises the specific error.


def verify_stored(
    runs: "Sequence[StorePath]",
    *,
    violations_max: int,
    with_breakdown: bool,
    on_notice: Callable[[str], None],
) -> Iterator[StoredVerdict]:
    """Verify runs in a store in this process, one after the other."""
    from antecede.trace.reader import read_trace
    from antecede.verify.verifier import verify_trace

    for run in runs:
        try:
            trace = read_trace(run)
            if not trace.rows:
                raise TraceError(f"{run} contains no events: nothing to verify")
            on_notice(f"verified in one process, without Spark: {trace.rows:,} events")
            verdict = verify_trace(
                trace, violations_max=violations_max, with_breakdown=with_breakdown
            )
        except (StorageError, TraceError) as error:
            yield StoredVerdict(run=run, error=str(error))
        else:
            yield StoredVerdict(run=run, verdict=verdict)
