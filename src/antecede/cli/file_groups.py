"""Groups of foreign files that are one run, or parts of the same runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from antecede.trace.uri import redact

__all__ = ["FileGroup", "file_group", "find_parts", "one_group"]

PARQUET = ".parquet"
SUCCESS = "_SUCCESS"
"""The file that Spark writes into a directory when all its parts are complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Files that belong together."""

    title: str
    """The paths as the user gave them, without credentials."""
    name: str
    """The name of the run, if the files do not name it."""
    paths: tuple[Path | str, ...]


def file_group(where: Path | str, parts: Sequence[Path] = ()) -> FileGroup:
    """Return the group of one file, or of a directory with these parts."""
    from antecede.trace.store import open_store

    name = open_store(where).name
    return FileGroup(title=redact(str(where)), name=name, paths=tuple(parts) or (where,))


def one_group(groups: Sequence[FileGroup]) -> FileGroup:
    """Return all files as one group."""
    title = ", ".join(each.title for each in groups)
    paths = tuple(path for each in groups for path in each.paths)
    return FileGroup(title=title, name=groups[0].name, paths=paths)


def find_parts(directory: Path) -> list[Path] | None:
    """Return the Parquet files in a directory and below, such as Spark writes.

    Files and directories whose names begin with a dot or an underscore are not part of the
    table. The result is empty if Spark has written no rows, and None if the directory does
    not look like a table.
    """
    if not directory.is_dir():
        return None
    found = sorted(
        path
        for path in directory.rglob(f"*{PARQUET}")
        if path.is_file()
        and not any(name[0] in "._" for name in path.relative_to(directory).parts)
    )
    return found if found or (directory / SUCCESS).exists() else None
