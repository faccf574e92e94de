"""Find the files that the path of a data source names."""

import glob
import json
import re
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path

from antecede.errors import ConfigError, TraceError

__all__ = ["expand_braces", "find_files", "option_paths", "to_local"]

BRACES = re.compile(r"\{([^{}]*)\}")
WILDCARD = re.compile(r"[*?\[{]")
SCHEME = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]+)://")


def find_files(paths: Sequence[str], *, allow_empty: bool = False) -> list[str]:
    """Return the files of all paths, each once.

    Args:
        paths: Each is a file, a directory of files, or a pattern with ``*``, ``?``,
            ``[...]`` and ``{a,b}``.
        allow_empty: A directory may be empty, and a pattern may match nothing.

    Raises:
        ConfigError: A path is a URI of another file system.
        TraceError: There is no such file.
    """
    found: dict[str, None] = {}
    for path in paths:
        local = to_local(path)
        files = [local] if Path(local).is_file() else list(_files(local))
        may_be_empty = allow_empty and (
            Path(local).is_dir() or bool(WILDCARD.search(local))
        )
        if not files and not may_be_empty:
            raise TraceError(f"{path}: no such file")
        found.update(dict.fromkeys(files))
    return list(found)


def to_local(path: str) -> str:
    """Return a path without the scheme ``file:``; raise ConfigError for another scheme."""
    scheme = SCHEME.match(path)
    if scheme is not None and scheme[1] != "file":
        raise ConfigError(
            f"{path}: the data sources of antecede read local files and file: URIs, not"
            f" {scheme[1]}:; read the files with Spark, and pass the table to verify"
        )
    return re.sub(r"^file:(//)?(?=/)", "", path)


def option_paths(options: MutableMapping[str, str], known: Sequence[str]) -> list[str]:
    """Return the paths that were passed to ``load``.

    Args:
        options: The options of a data source.
        known: The names of its options, in lower case.

    Raises:
        ConfigError: There is no path, or another option.
    """
    unknown = [name for name in options if name.lower() not in (*known, "path", "paths")]
    if unknown:
        raise ConfigError(
            f'unknown option("{unknown[0]}", ...): the options are'
            f" {', '.join(known) or 'none'}"
        )
    paths = [options["path"]] if options.get("path") else []
    paths += json.loads(options.get("paths", "[]"))
    if not paths:
        raise ConfigError("path is missing: call load(PATH)")
    return paths


def _files(pattern: str) -> Iterator[str]:
    for each in expand_braces(pattern):
        matches = [each] if Path(each).exists() else sorted(glob.glob(each))
        for match in map(Path, matches):
            if match.is_dir():
                # Names that begin with a dot or an underscore are markers of Spark and
                # others.
                yield from sorted(
                    str(file)
                    for file in match.iterdir()
                    if file.name[0] not in "._" and file.is_file()
                )
            else:
                yield str(match)


def expand_braces(pattern: str) -> list[str]:
    """Return the patterns that ``{a,b}`` stands for, also nested."""
    found = BRACES.search(pattern)
    if found is None:
        return [pattern]
    before, after = pattern[: found.start()], pattern[found.end() :]
    return [
        each
        for choice in found[1].split(",")
        for each in expand_braces(before + choice + after)
    ]
