"""Ingest the foreign files that a command line names."""

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from antecede.cli.file_groups import FileGroup, file_group, find_parts, one_group
from antecede.errors import ConfigError, StorageError, TraceError
from antecede.ingest.conversion import IngestedRun, ingest
from antecede.ingest.formats.records import ReadOptions
from antecede.ingest.live_tables import open_live_table
from antecede.ingest.table_runs import is_event_table, write_copy, write_table_runs
from antecede.ingest.verdict import IngestedVerdict
from antecede.pipeline.verify.traces import find_runs
from antecede.trace.store import open_store
from antecede.verify.verdict import TraceVerdict

__all__ = ["ForeignFiles", "one_run", "read_options"]


def read_options(arguments: argparse.Namespace) -> ReadOptions:
    """Return the options for reading foreign files.

    Raise ConfigError if ``--columns`` is not a list of ``OURS=THEIRS``.
    """
    columns: dict[str, str] = {}
    for each in ",".join(arguments.columns or ()).split(","):
        ours, equals, theirs = each.partition("=")
        if each and not (ours and equals and theirs):
            raise ConfigError(f"invalid --columns {each!r}: must be OURS=THEIRS,...")
        if each:
            columns[ours.strip()] = theirs.strip()
    return ReadOptions(
        regex=arguments.regex,
        delimiter=arguments.delimiter,
        ignore=arguments.ignore,
        receives=arguments.receives,
        columns=columns,
    )


class ForeignFiles:
    """Writes the traces of foreign files to ``--out`` or to a temporary directory.

    Use it as a context manager: :meth:`ingest` the files, verify the runs, and call
    :meth:`named_verdict` for each. Leaving the block removes a temporary directory.
    """

    def __init__(
        self,
        arguments: argparse.Namespace,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        """Read the command line; ``on_progress`` is called with a line while reading."""
        self.errors: list[str] = []
        """The errors of files that could not be read, one line each."""
        self._format_name: str | None = arguments.format
        self._options = read_options(arguments)
        self._out: Path | None = arguments.out
        self._on_progress = on_progress if on_progress is not None else lambda line: None
        self._ingested: dict[Path, IngestedRun] = {}
        self._names: dict[Path, str] = {}
        self._tables = 0

    def __enter__(self) -> "ForeignFiles":
        self._scratch = tempfile.TemporaryDirectory(prefix="antecede-")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._scratch.cleanup()

    def ingest(
        self, groups: Sequence[FileGroup], *, has_others: bool = False
    ) -> list[Path]:
        """Write the traces of files, and return their directories.

        The error of a group of files that cannot be read is added to :attr:`errors`. If
        there is only one group, and no others are verified elsewhere, the error is raised.

        Args:
            groups: Files that belong together.
            has_others: Spark verifies other groups of the command line.
        """
        runs: list[Path] = []
        for index, group in enumerate(groups):
            try:
                found = self._ingest(group, self._directory(index, group, len(groups)))
            except (ConfigError, StorageError, TraceError) as error:
                if len(groups) == 1 and not has_others:
                    raise
                self.errors.append(str(error))
                continue
            for each in found:
                suffix = f" run {each.run}" if len(found) > 1 else ""
                self._names[each.directory] = group.title + suffix
                self._ingested[each.directory] = each
                runs.append(each.directory)
        return runs

    def add_tables(
        self, tables: Sequence[Path | str], take: Callable[[FileGroup], bool]
    ) -> list[Path]:
        """Write the traces of tables, and return their directories.

        The error of a table that cannot be read is added to :attr:`errors`. If there is
        only one table, the error is raised.

        Args:
            tables: Delta and Iceberg tables, and Parquet files or folders of events.
            take: Is called with the copy of a table of spans or messages; returns whether
                Spark verifies it.
        """
        runs: list[Path] = []
        for where in tables:
            try:
                runs += self._add_table(where, take)
            except (ConfigError, StorageError, TraceError) as error:
                if len(tables) == 1:
                    raise
                self.errors.append(str(error))
        return runs

    def _add_table(
        self, where: Path | str, take: Callable[[FileGroup], bool]
    ) -> list[Path]:
        table = open_live_table(where)
        self._tables += 1
        directory = Path(self._scratch.name) / f"table-{self._tables}"
        if not is_event_table(table.schema):
            copy = write_copy(table, directory / f"{open_store(where).name}.parquet")
            group = FileGroup(title=table.name, name=copy.name, paths=(copy,))
            if take(group):
                return []
            runs = self._ingest(group, directory / "messages")
            for each in runs:
                self._names[each.directory] = table.name
                self._ingested[each.directory] = each
            return [each.directory for each in runs]
        found = write_table_runs(table, directory)
        for run, path in found:
            self._names[path] = f"{table.name} run {run}" if len(found) > 1 else table.name
        return [path for _, path in found]

    def named_verdict(
        self, path: Path, verdict: TraceVerdict
    ) -> tuple[str, TraceVerdict | IngestedVerdict]:
        """Return the name of a run, and its verdict with the names of its file."""
        ingested = self._ingested.get(path)
        if ingested is None:
            return self._names.get(path, str(path)), verdict
        return self._names[path], IngestedVerdict(trace_verdict=verdict, ingested=ingested)

    def _ingest(self, group: FileGroup, directory: Path) -> list[IngestedRun]:
        read = 0

        def count(records: int) -> None:
            nonlocal read
            read += records
            self._on_progress(f"{group.name}: {read:,} records read")

        return ingest(
            group.paths,
            directory,
            format_name=self._format_name,
            options=self._options,
            name=group.name,
            on_progress=count,
        )

    def _directory(self, index: int, group: FileGroup, groups: int) -> Path:
        if self._out is None:
            return Path(self._scratch.name) / str(index)
        return self._out if groups == 1 else self._out / f"{index:03}-{group.name}"


def _groups(paths: Sequence[Path]) -> list[FileGroup]:
    """Return the files of other formats, and the directories of Parquet files."""
    groups = []
    for path in paths:
        if path.is_file():
            groups.append(file_group(path))
        elif parts := find_parts(path):
            try:
                find_runs([path])
            except TraceError:
                groups.append(file_group(path, parts))
    return groups


@contextmanager
def one_run(
    arguments: argparse.Namespace, on_progress: Callable[[str], None] | None = None
) -> Iterator[tuple[Path, str]]:
    """Yield the directory and the name of the only run that the command line names.

    The trace of foreign files exists until the block ends; ``--out`` does not apply to it.

    Raises:
        ConfigError: The command line names several runs.
        TraceError: A file cannot be read.
    """
    paths: list[Path] = arguments.trace
    groups = _groups(paths)
    name = ", ".join(str(path) for path in paths)
    if len(paths) > 1 and not (arguments.one_run and len(groups) == len(paths)):
        raise ConfigError(
            f"{len(paths)} paths given: give one directory or file, or files with --one-run"
        )
    temporary = argparse.Namespace(**{**vars(arguments), "out": None})
    with ForeignFiles(temporary, on_progress) as foreign:
        runs = foreign.ingest([one_group(groups)]) if groups else find_runs(paths)
        if len(runs) > 1:
            hint = "; `antecede verify --out DIR` writes one for each" if groups else ""
            raise ConfigError(
                f"{name} has {len(runs)} runs: give the directory of one run{hint}"
            )
        yield runs[0], name
