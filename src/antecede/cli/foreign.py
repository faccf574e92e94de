"""What commands do with files of other formats than our own."""

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from antecede.errors import ConfigError, StorageError, TraceError
from antecede.ingest.conversion import IngestedRun, ingest
from antecede.ingest.formats.records import ReadOptions
from antecede.ingest.verdict import IngestedVerdict
from antecede.pipeline.verify.traces import find_runs
from antecede.verify.verdict import TraceVerdict

__all__ = ["ForeignFiles", "one_run", "options_of"]


def options_of(arguments: argparse.Namespace) -> ReadOptions:
    """Return what the command line tells of the files.

    Raise ConfigError if ``--columns`` is not a list of ``OURS=THEIRS``.
    """
    columns: dict[str, str] = {}
    for each in ",".join(arguments.columns or ()).split(","):
        ours, equals, theirs = each.partition("=")
        if each and not (ours and equals and theirs):
            raise ConfigError(f"--columns is OURS=THEIRS,..., not {each!r}")
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
    """Makes traces of foreign files, in a directory that is kept only if it was named.

    Enter it, :meth:`take` the files, verify the runs, and call :meth:`named_verdict` for each.
    """

    errors: list[str]
    """Why files could not be judged, in a line each."""

    def __init__(
        self, arguments: argparse.Namespace, show: Callable[[str], None] | None = None
    ) -> None:
        """Read what the command line tells; ``show`` is called while a file is read."""
        self.errors = []
        self._format_name: str | None = arguments.format
        self._options = options_of(arguments)
        self._out: Path | None = arguments.out
        self._show = show if show is not None else lambda line: None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._ingested: dict[Path, IngestedRun] = {}
        self._names: dict[Path, str] = {}

    def __enter__(self) -> "ForeignFiles":
        """Make a directory, unless one was named."""
        if self._out is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="antecede-")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the directory, unless it was named."""
        if self._temporary is not None:
            self._temporary.cleanup()

    def take(self, groups: Sequence[Sequence[Path]]) -> list[Path]:
        """Make traces of files, and return their directories.

        A group of files that cannot be read is noted in :attr:`errors`, and the others go
        on; if it is the only one, its error is raised.

        Args:
            groups: Files that belong together, such as each file by itself.
        """
        runs: list[Path] = []
        for place, paths in enumerate(groups):
            try:
                made = self._ingest(paths, self._directory(place, paths, len(groups)))
            except (ConfigError, StorageError, TraceError) as error:
                if len(groups) == 1:
                    raise
                self.errors.append(str(error))
                continue
            for each in made:
                name = ", ".join(str(path) for path in paths)
                more = f" run {each.run}" if len(made) > 1 else ""
                self._names[each.directory] = name + more
                self._ingested[each.directory] = each
                runs.append(each.directory)
        return runs

    def named_verdict(
        self, path: Path, report: TraceVerdict
    ) -> tuple[str, TraceVerdict | IngestedVerdict]:
        """Return the name of a run, and its verdict with the names and lines of its file."""
        ingested = self._ingested.get(path)
        if ingested is None:
            return str(path), report
        return self._names[path], IngestedVerdict(report=report, ingested=ingested)

    def _ingest(self, paths: Sequence[Path], directory: Path) -> list[IngestedRun]:
        read = 0

        def count(records: int) -> None:
            nonlocal read
            read += records
            self._show(f"{paths[0].name}: {read:,} records read")

        return ingest(
            paths,
            directory,
            format_name=self._format_name,
            options=self._options,
            report=count,
        )

    def _directory(self, place: int, paths: Sequence[Path], groups: int) -> Path:
        if self._out is None:
            assert self._temporary is not None
            return Path(self._temporary.name) / str(place)
        return self._out if groups == 1 else self._out / f"{place:03}-{paths[0].name}"


@contextmanager
def one_run(
    arguments: argparse.Namespace, show: Callable[[str], None] | None = None
) -> Iterator[tuple[Path, str]]:
    """Yield the directory of the one run that the command line names, and its name.

    The trace of foreign files is there until the block ends; ``--out`` is the command's.

    Raises:
        ConfigError: There are several runs, or a file cannot be read.
    """
    paths: list[Path] = arguments.trace
    files = [path for path in paths if path.is_file()]
    name = ", ".join(str(path) for path in paths)
    if len(paths) > 1 and not (arguments.together and len(files) == len(paths)):
        raise ConfigError("give one run: one directory or file, or files with --together")
    own = argparse.Namespace(**{**vars(arguments), "out": None})
    with ForeignFiles(own, show) as foreign:
        runs = foreign.take([files]) if files else find_runs(paths)
        if len(runs) > 1:
            kept = "; `antecede verify --out DIR` keeps each as one" if files else ""
            raise ConfigError(
                f"{name} holds {len(runs)} runs; give the directory of one{kept}"
            )
        yield runs[0], name
