"""Open the files of foreign traces, plain or gzipped, whole or cut by size.

A plain file whose records are single lines can be cut into splits, which are read on their
own, on Spark for one. A split knows on which line it begins; to find that out, whoever cuts
a large file reads through it once. A gzipped file is one split.
"""

import codecs
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from gzip import GzipFile
from pathlib import Path
from typing import BinaryIO, cast

from antecede.errors import ConfigError
from antecede.ingest.formats.records import Unreadable

__all__ = [
    "SPLIT_BYTES",
    "Split",
    "blocks",
    "cut",
    "head",
    "lines",
    "open_file",
    "read_some",
    "texts",
    "whole",
]

SPLIT_BYTES = 64 << 20
"""About as much as Spark gives a task of a file of its own."""
READ_BYTES = 1 << 20
HEAD_BYTES = 1 << 16
GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A part of a file, which begins and ends with whole lines."""

    path: str
    start: int = 0
    """Its first byte."""
    stop: int | None = None
    """The byte after its last; None for the end of the file."""
    line: int = 1
    """The number of its first line."""


def whole(path: str | Path) -> Split:
    """Return the split that is all of a file."""
    return Split(path=str(path))


def cut(path: str | Path, size: int = SPLIT_BYTES) -> list[Split]:
    """Cut a file whose records are lines into splits of about this size.

    Read each with :func:`lines` or :func:`blocks`.
    """
    if Path(path).stat().st_size <= size or _is_gzip(path):
        return [whole(path)]
    splits: list[Split] = []
    start, line = 0, 1
    with Path(path).open("rb") as file:
        while True:
            counted = 0
            for wanted in _portions(size):
                data = file.read(wanted)
                counted += data.count(b"\n")
                if len(data) < wanted:
                    return [*splits, Split(path=str(path), start=start, line=line)]
            # On to the end of the line that the last byte belongs to.
            counted += file.readline().endswith(b"\n")
            stop = file.tell()
            splits.append(Split(path=str(path), start=start, stop=stop, line=line))
            start, line = stop, line + counted


def _portions(size: int) -> Iterator[int]:
    while size > 0:
        yield min(size, READ_BYTES)
        size -= READ_BYTES


def open_file(path: str | Path) -> BinaryIO:
    """Open a file for its bytes, those that were gzipped if it is a gzip.

    Raise ConfigError if it cannot be opened.
    """
    try:
        if _is_gzip(path):
            return cast("BinaryIO", GzipFile(path, "rb"))
        return Path(path).open("rb")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error


def _is_gzip(path: str | Path) -> bool:
    with Path(path).open("rb") as file:
        return file.read(len(GZIP_MAGIC)) == GZIP_MAGIC


def head(path: str | Path) -> bytes:
    """Return the first bytes of a file, without a mark of byte order.

    Raise ConfigError if there are none, or they cannot be read.
    """
    with open_file(path) as file:
        found, broken = read_some(file, HEAD_BYTES)
    if broken is not None and not found:
        raise ConfigError(f"{path}: line 1: {broken}")
    found = found.removeprefix(BYTE_ORDER_MARK)
    if not found.strip():
        raise ConfigError(f"{path} is empty: there is nothing to judge")
    return found


def read_some(file: BinaryIO, size: int) -> tuple[bytes, str | None]:
    """Return so many bytes, or fewer at the end, and why it cannot be read on, if so.

    A damaged gzip gives all that comes before the damage.
    """
    parts: list[bytes] = []
    wanted = size
    while wanted:
        try:
            # Not `read`, which keeps for itself what it has when it fails.
            part: bytes = file.read1(wanted)  # type: ignore[attr-defined]
        except (OSError, EOFError, zlib.error) as error:
            return b"".join(parts), f"damaged: {error}"
        if not part:
            break
        parts.append(part)
        wanted -= len(part)
    return b"".join(parts), None


def texts(split: Split, size: int = READ_BYTES) -> Iterator[tuple[str, str | None]]:
    """Yield the text of a file piece by piece, with line ends as they are on Unix.

    With each comes why it cannot be read on after it, if so.
    """
    decoder = io.IncrementalNewlineDecoder(
        codecs.getincrementaldecoder("utf-8-sig")("replace"), translate=True
    )
    with open_file(split.path) as file:
        ended = False
        while not ended:
            data, broken = read_some(file, size)
            ended = len(data) < size
            yield decoder.decode(data, final=ended), broken


def blocks(split: Split, size: int = READ_BYTES) -> Iterator[tuple[int, bytes]]:
    """Yield whole lines, some at a time, with the number of the first of them.

    Raises:
        Unreadable: A gzip is damaged, or ends too early.
    """
    line, left = split.line, b""
    with open_file(split.path) as file:
        if split.start:
            file.seek(split.start)
        rest = None if split.stop is None else split.stop - split.start
        while True:
            data, broken = read_some(file, size if rest is None else min(size, rest))
            if split.start == 0 and line == 1 and not left:
                data = data.removeprefix(BYTE_ORDER_MARK)
            if broken is not None:
                # The line in which it breaks is not whole.
                block = (left + data)[: (left + data).rfind(b"\n") + 1]
                if block:
                    yield line, block
                raise Unreadable(line + block.count(b"\n"), broken)
            if not data:
                if left:
                    yield line, left
                return
            if rest is not None:
                rest -= len(data)
            end = data.rfind(b"\n") + 1
            if not end:
                left += data
                continue
            block = left + data[:end]
            left = data[end:]
            yield line, block
            line += block.count(b"\n")


def lines(split: Split) -> Iterator[tuple[int, bytes]]:
    """Yield each line that is not empty, with its number and without its end.

    Raises:
        Unreadable: A gzip is damaged, or ends too early.
    """
    for first, block in blocks(split):
        for place, line in enumerate(block.split(b"\n")):
            stripped = line.strip()
            if stripped:
                yield first + place, stripped
