"""Paths in any store: a local directory, an object store, or HDFS.

:func:`open_store` is the one place that turns a path or a URI into a file system of
:mod:`pyarrow.fs` and a path in it. A URI can contain credentials, in its user info and in
the values of its query. :class:`StorePath` does not keep the URI, and no message contains
these parts: :func:`antecede.trace.uri.redact` replaces them.

This module needs the extra ``antecede[trace]``.
"""

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

from antecede.errors import ConfigError, StorageError, TraceError
from antecede.trace.uri import local_path, redact, redact_uri

__all__ = ["StorePath", "open_store"]

SCHEMES = {"file": "file", "s3": "s3", "s3a": "s3", "gs": "gs", "hdfs": "hdfs"}
"""By scheme of a URI, the scheme that pyarrow knows. Hadoop calls S3 ``s3a``."""
GS_RETRY_S = 30
"""Seconds for which requests to Google Cloud Storage are repeated; its default is 900."""

_AWS_ERROR = re.compile(r"AWS Error ([A-Z_]+)(?: \(HTTP status (\d+)\))?")
_DENIED = {
    "ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "INVALID_CLIENT_TOKEN_ID",
    "MISSING_AUTHENTICATION_TOKEN", "SIGNATURE_DOES_NOT_MATCH", "UNRECOGNIZED_CLIENT",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StorePath:
    """A file or directory in a store; ``str`` returns it without credentials."""

    filesystem: pafs.FileSystem = field(repr=False)
    """It holds the credentials, also when it is pickled."""
    path: str
    """The path in the file system; in an object store it begins with the bucket."""
    shown: str
    """The path or redacted URI for messages."""
    local: Path | None = None
    """The path on this machine; None in a store."""

    def __str__(self) -> str:
        return self.shown

    def __truediv__(self, name: str) -> "StorePath":
        shown, mark, query = self.shown.partition("?")
        shown = f"{shown.rstrip('/')}/{name}{mark}{query}"
        if self.local is not None:
            return _local_store(self.local / name)
        return replace(self, path=f"{self.path.rstrip('/')}/{name}", shown=shown)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rstrip("/").rpartition("/")[2]

    @property
    def parent(self) -> "StorePath":
        """The directory that contains the path."""
        if self.local is not None:
            return _local_store(self.local.parent)
        shown, mark, query = self.shown.partition("?")
        shown = f"{shown.rstrip('/').rpartition('/')[0]}{mark}{query}"
        path = self.path.rstrip("/").rpartition("/")[0]
        return replace(self, path=path, shown=shown)

    @property
    def is_in_object_store(self) -> bool:
        """Whether the file system has no directories, but objects with common prefixes."""
        return self.filesystem.type_name in ("s3", "gcs")

    def is_file(self) -> bool:
        """Return whether it is a file; raise TraceError if the store does not answer."""
        return bool(self._type() == pafs.FileType.File)

    def is_dir(self) -> bool:
        """Return whether it is a directory, in an object store a prefix of objects."""
        return bool(self._type() == pafs.FileType.Directory)

    def exists(self) -> bool:
        """Return whether it is a file or a directory."""
        return bool(self._type() != pafs.FileType.NotFound)

    def _type(self) -> pafs.FileType:
        try:
            return self.filesystem.get_file_info(self.path).type
        except (OSError, pa.ArrowException) as error:
            raise TraceError(f"cannot read {self}: {self.reason(error)}") from error

    def children(self) -> list["StorePath"]:
        """Return the entries of the directory, sorted by name; without it, none."""
        selector = pafs.FileSelector(self.path, allow_not_found=True)
        try:
            found = self.filesystem.get_file_info(selector)
        except (OSError, pa.ArrowException) as error:
            raise TraceError(f"cannot read {self}: {self.reason(error)}") from error
        return [self / name for name in sorted({info.base_name for info in found})]

    def open_input(self) -> pa.NativeFile:
        """Open the file for reading at any position; raise TraceError if that fails."""
        try:
            return self.filesystem.open_input_file(self.path)
        except (OSError, pa.ArrowException) as error:
            raise TraceError(f"cannot read {self}: {self.reason(error)}") from error

    def read_bytes(self) -> bytes:
        """Return the contents of the file; raise TraceError if it cannot be read."""
        with self.open_input() as file:
            try:
                data: bytes = file.read()
            except (OSError, pa.ArrowException) as error:
                raise TraceError(f"cannot read {self}: {self.reason(error)}") from error
        return data

    def open_output(self) -> pa.NativeFile:
        """Open the file for writing, from its start; raise StorageError if that fails."""
        try:
            return self.filesystem.open_output_stream(self.path)
        except (OSError, pa.ArrowException) as error:
            raise self.write_error(error) from error

    def write_bytes(self, data: bytes) -> None:
        """Write the file; raise StorageError if that fails."""
        try:
            with self.filesystem.open_output_stream(self.path) as file:
                file.write(data)
        except (OSError, pa.ArrowException) as error:
            raise self.write_error(error) from error

    def make_dir(self) -> None:
        """Create the directory; object stores have none, and need none."""
        if self.is_in_object_store:
            return
        try:
            self.filesystem.create_dir(self.path, recursive=True)
        except (OSError, pa.ArrowException) as error:
            raise self.write_error(error) from error

    def delete(self) -> None:
        """Delete a file, or a directory with its contents; raise StorageError."""
        try:
            info = self.filesystem.get_file_info(self.path)
            if info.type == pafs.FileType.Directory:
                self.filesystem.delete_dir(self.path)
            elif info.type != pafs.FileType.NotFound:
                self.filesystem.delete_file(self.path)
        except (OSError, pa.ArrowException) as error:
            raise self.write_error(error) from error

    def write_error(self, error: Exception) -> StorageError:
        """Return the error of a file that cannot be written."""
        return StorageError(f"cannot write to {self}: {self.reason(error)}")

    def missing_reason(self) -> str:
        """Return why a path does not exist: its bucket, or the path itself."""
        if self.is_in_object_store:
            bucket = self.path.partition("/")[0]
            if not replace(self, path=bucket).exists():
                return f"no such bucket: {bucket}"
        return "no such file or directory"

    def reason(self, error: Exception) -> str:
        """Return the cause of an error of the file system in a few words."""
        if isinstance(error, OSError) and error.errno:
            return os.strerror(error.errno)
        text = str(error)
        found = _AWS_ERROR.search(text)
        if found is not None:
            return self._aws_reason(found[1], found[2], text)
        if "libjvm" in text or "libhdfs" in text:
            return "HDFS needs Java and libhdfs: set JAVA_HOME, HADOOP_HOME and CLASSPATH"
        return redact(text.strip().partition("\n")[0])

    def _aws_reason(self, code: str, status: str | None, text: str) -> str:
        if code == "NO_SUCH_BUCKET":
            return f"no such bucket: {self.path.partition('/')[0]}"
        if code in _DENIED or status == "403":
            return "access denied: check the credentials and their permissions"
        if code == "NETWORK_CONNECTION":
            return "the store does not answer: check the endpoint"
        if "MissingContentLength" in text:
            return (
                "the store does not support checksums of uploads:"
                " set AWS_REQUEST_CHECKSUM_CALCULATION=when_required"
            )
        return f"error {code} of the store" + (f", HTTP status {status}" if status else "")


def _local_store(path: Path) -> StorePath:
    """Return a path on this machine as a store path."""
    filesystem = pafs.LocalFileSystem()
    return StorePath(filesystem, str(path.absolute()), str(path), path)


def open_store(where: "str | Path | StorePath") -> StorePath:
    """Return the file system and the path of a path or URI.

    The schemes are ``file``, ``s3`` or ``s3a``, ``gs`` and ``hdfs``. The parameters of a
    URI are those of :meth:`pyarrow.fs.FileSystem.from_uri`.

    Raises:
        ConfigError: The scheme is unknown, or the URI is invalid.
        StorageError: The store cannot be opened.
    """
    if isinstance(where, StorePath):
        return where
    path = local_path(where)
    if path is not None:
        return _local_store(path)
    uri = str(where)
    shown = redact_uri(uri)
    scheme, _, rest = uri.partition("://")
    known = SCHEMES.get(scheme.lower())
    if known is None:
        schemes = ", ".join(f"{each}:" for each in SCHEMES)
        raise ConfigError(
            f"{shown}: unknown scheme {scheme}: must be one of {schemes} or a plain path"
        )
    if known == "gs" and "retry_limit_seconds=" not in rest:
        rest += f"{'&' if '?' in rest else '?'}retry_limit_seconds={GS_RETRY_S}"
    try:
        filesystem, name = pafs.FileSystem.from_uri(f"{known}://{rest}")
    except pa.ArrowInvalid as error:
        # The text of other errors can contain parts of the URI.
        unknown = re.search(r"Unexpected query parameter in .{1,20}: '(\w+)'", str(error))
        why = f": unknown parameter {unknown[1]}" if unknown else ""
        raise ConfigError(f"{shown} is not a valid URI{why}") from None
    except (OSError, pa.ArrowException) as error:
        reason = StorePath(None, rest.rpartition("@")[2], shown).reason(error)
        raise StorageError(f"cannot open {shown}: {reason}") from None
    return StorePath(filesystem, name, shown)
