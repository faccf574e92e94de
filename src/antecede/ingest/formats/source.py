"""Read plain or gzipped files, whole or in splits.

A plain file whose records are single lines can be divided into splits, which Spark reads in
parallel. A split has the number of its first line, so dividing a file reads all of it once.
A gzipped file is a single split. Every path may be a URI (:mod:`antecede.trace.store`).
"""

import codecs
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from gzip import GzipFile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from antecede.errors import TraceError
from antecede.ingest.formats.records import UnreadableError
from antecede.trace.store import StorePath, open_store
from antecede.trace.uri import local_path, redact

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "BYTE_ORDER_MARK",
    "ExpansionLimit",
    "SPLIT_BYTES",
    "Split",
    "divide_file",
    "file_size",
    "is_gzip",
    "open_bytes",
    "open_file",
    "read_blocks",
    "read_head",
    "read_lines",
    "read_text",
    "read_up_to",
    "whole_file",
]

SPLIT_BYTES = 64 << 20
"""About the size of a split of Spark's own file formats."""
READ_BYTES = 1 << 20
HEAD_BYTES = 1 << 16
GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
EXPANSION_MAX = 100
"""The most bytes per byte of a compressed file; logs have 5 to 50."""
EXPANDED_BYTES_ALLOWED = 256 << 20
"""A compressed file may expand to this size in any case."""


class ExpansionLimit:
    """Counts the bytes that a compressed file expands to, and raises TraceError."""

    def __init__(self, path: str | Path) -> None:
        """Start at 0; the limit follows from the size of the file."""
        self._path = path
        self._max = max(EXPANDED_BYTES_ALLOWED, EXPANSION_MAX * file_size(path))
        self._count = 0

    def add(self, count: int) -> None:
        """Count further bytes; raise TraceError if they are too many."""
        self._count += count
        if self._count > self._max:
            raise TraceError(
                f"{redact(str(self._path))}: expands to more than {self._max:,} bytes, the"
                f" limit for its size; if the file is valid, divide it"
            )


class _LimitedGzip(GzipFile):
    """A gzipped file that must not expand without limit."""

    def __init__(self, path: str | Path) -> None:
        self._limit = ExpansionLimit(path)
        self._compressed = open_bytes(path)
        super().__init__(fileobj=self._compressed, mode="rb")

    def read1(self, size: int = -1) -> bytes:
        data = super().read1(size)
        self._limit.add(len(data))
        return data

    def close(self) -> None:
        super().close()
        self._compressed.close()


class _StoreFile(io.RawIOBase):
    """A file in a store; its errors are TraceError, and not damage of the contents."""

    def __init__(self, path: StorePath) -> None:
        super().__init__()
        self._path = path
        self._file = path.open_input()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, buffer: "Buffer") -> int:
        view = memoryview(buffer)
        try:
            data = self._file.read(len(view))
        except OSError as error:
            reason = self._path.reason(error)
            raise TraceError(f"cannot read {self._path}: {reason}") from error
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A part of a file: whole lines, or row groups of Parquet."""

    path: str
    start: int = 0
    """The offset of its first byte; of Parquet, the index of its first row group."""
    stop: int | None = None
    """The offset after its last byte, or the index after its last row group; None for the
    end of the file."""
    line: int = 1
    """The number of its first line or row."""


def whole_file(path: str | Path) -> Split:
    """Return a split that is the whole file."""
    return Split(path=str(path))


def divide_file(path: str | Path, size: int = SPLIT_BYTES) -> list[Split]:
    """Divide a file whose records are lines into splits of about this size."""
    if file_size(path) <= size or is_gzip(path):
        return [whole_file(path)]
    splits: list[Split] = []
    start, line = 0, 1
    with open_bytes(path) as file:
        while True:
            count = 0
            for wanted in _portions(size):
                data = file.read(wanted)
                count += data.count(b"\n")
                if len(data) < wanted:
                    return [*splits, Split(path=str(path), start=start, line=line)]
            # Continue to the end of the last line.
            count += file.readline().endswith(b"\n")
            stop = file.tell()
            splits.append(Split(path=str(path), start=start, stop=stop, line=line))
            start, line = stop, line + count


def _portions(size: int) -> Iterator[int]:
    while size > 0:
        yield min(size, READ_BYTES)
        size -= READ_BYTES


def open_bytes(path: str | Path) -> BinaryIO:
    """Open a file for reading its bytes as they are."""
    local = local_path(path)
    if local is not None:
        return local.open("rb")
    return io.BufferedReader(_StoreFile(open_store(path)), READ_BYTES)


def file_size(path: str | Path) -> int:
    """Return the size of a file in bytes."""
    store = open_store(path)
    if store.local is not None:
        return store.local.stat().st_size
    return int(store.filesystem.get_file_info(store.path).size or 0)


def open_file(path: str | Path) -> BinaryIO:
    """Open a file for reading bytes; a gzipped file is decompressed.

    Raise TraceError if the file cannot be opened.
    """
    try:
        if is_gzip(path):
            return cast("BinaryIO", _LimitedGzip(path))
        return open_bytes(path)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror}") from error


def is_gzip(path: str | Path) -> bool:
    """Return whether the first bytes of a file are those of gzip."""
    with open_bytes(path) as file:
        return file.read(len(GZIP_MAGIC)) == GZIP_MAGIC


def read_head(path: str | Path) -> bytes:
    """Return the first bytes of a file, without a byte order mark.

    Raise TraceError if the file is empty or cannot be read.
    """
    with open_file(path) as file:
        data, damage = read_up_to(file, HEAD_BYTES)
    if damage is not None and not data:
        raise TraceError(f"{path}: line 1: {damage}")
    data = data.removeprefix(BYTE_ORDER_MARK)
    if not data.strip():
        raise TraceError(f"{path}: the file is empty")
    return data


def read_up_to(file: BinaryIO, size: int) -> tuple[bytes, str | None]:
    """Return the next bytes, fewer at the end of the file, and why reading failed or None.

    Of a damaged gzip file, return all bytes before the damage.
    """
    parts: list[bytes] = []
    wanted = size
    while wanted:
        try:
            # Unlike `read`, `read1` returns the data before the damage.
            part: bytes = file.read1(wanted)  # type: ignore[attr-defined]
        except (OSError, EOFError, zlib.error) as error:
            return b"".join(parts), f"damaged: {error}"
        if not part:
            break
        parts.append(part)
        wanted -= len(part)
    return b"".join(parts), None


def read_text(split: Split, size: int = READ_BYTES) -> Iterator[tuple[str, str | None]]:
    """Yield the text of a file in pieces, with Unix line ends.

    Each piece comes with the reason why reading failed after it, or None.
    """
    decoder = io.IncrementalNewlineDecoder(
        codecs.getincrementaldecoder("utf-8-sig")("replace"), translate=True
    )
    with open_file(split.path) as file:
        ended = False
        while not ended:
            data, damage = read_up_to(file, size)
            ended = len(data) < size
            yield decoder.decode(data, final=ended), damage


def read_blocks(split: Split, size: int = READ_BYTES) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of whole lines, each with the number of its first line.

    Raises:
        UnreadableError: A gzip file is damaged or truncated.
    """
    line, rest = split.line, b""
    unended: list[bytes] = []  # A long line is joined once, and not with every read.
    with open_file(split.path) as file:
        if split.start:
            file.seek(split.start)
        left = None if split.stop is None else split.stop - split.start
        while True:
            data, damage = read_up_to(file, size if left is None else min(size, left))
            if unended and (damage is not None or not data):
                rest, unended = b"".join([rest, *unended]), []
            if split.start == 0 and line == 1 and not (rest or unended):
                data = data.removeprefix(BYTE_ORDER_MARK)
            if damage is not None:
                # The line that contains the damage is incomplete.
                block = (rest + data)[: (rest + data).rfind(b"\n") + 1]
                if block:
                    yield line, block
                raise UnreadableError(line + block.count(b"\n"), damage)
            if not data:
                if rest:
                    yield line, rest
                return
            if left is not None:
                left -= len(data)
            end = data.rfind(b"\n") + 1
            if not end:
                unended.append(data)
                continue
            block = b"".join([rest, *unended, data[:end]])
            unended = []
            rest = data[end:]
            yield line, block
            line += block.count(b"\n")


def read_lines(split: Split) -> Iterator[tuple[int, bytes]]:
    """Yield each line that is not empty, stripped, with its number.

    Raises:
        UnreadableError: A gzip file is damaged or truncated.
    """
    for first, block in read_blocks(split):
        for index, line in enumerate(block.split(b"\n")):
            stripped = line.strip()
            if stripped:
                yield first + index, stripped
