"""A file system that behaves as an object store, on a local directory.

It cannot rename: :meth:`NoRename.move` copies, and fails before it removes the source. A
file is visible while it is being written, which object stores avoid and HDFS does not.
"""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

from antecede.trace.store import StorePath


class NoRename(pafs.FileSystemHandler):  # type: ignore[misc]
    """Passes all operations to a local directory, except that a rename fails halfway."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls: list[tuple[str, str]] = []
        self.fail_writes_of = "\0"
        """Writing a file whose name contains this text fails."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def get_type_name(self) -> str:
        return "no-rename"

    def normalize_path(self, path: str) -> str:
        return path

    def _local(self, path: str) -> Path:
        return self.root / path

    def _info(self, path: str) -> pafs.FileInfo:
        local = self._local(path)
        if local.is_dir():
            return pafs.FileInfo(path, pafs.FileType.Directory)
        if local.is_file():
            return pafs.FileInfo(path, pafs.FileType.File, size=local.stat().st_size)
        return pafs.FileInfo(path, pafs.FileType.NotFound)

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        folder = self._local(selector.base_dir)
        if not folder.is_dir():
            if selector.allow_not_found:
                return []
            raise FileNotFoundError(selector.base_dir)
        # An object store lists in the order of its keys; this is another one.
        names = sorted((child.name for child in folder.iterdir()), reverse=True)
        return [self._info(f"{selector.base_dir}/{name}") for name in names]

    def create_dir(self, path: str, recursive: bool) -> None:
        self._local(path).mkdir(parents=recursive, exist_ok=True)

    def delete_dir(self, path: str) -> None:
        self.calls.append(("delete", path))
        shutil.rmtree(self._local(path))

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        raise NotImplementedError

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def delete_file(self, path: str) -> None:
        self.calls.append(("delete", path))
        self._local(path).unlink()

    def move(self, source: str, target: str) -> None:
        self.calls.append(("move", source))
        shutil.copy(self._local(source), self._local(target))
        raise OSError("stopped between copy and removal")

    def copy_file(self, source: str, target: str) -> None:
        raise NotImplementedError

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        return pa.OSFile(str(self._local(path)), "rb")

    def open_output_stream(self, path: str, metadata: dict[str, str]) -> pa.NativeFile:
        self.calls.append(("write", path))
        if self.fail_writes_of in path:
            raise OSError("the store is full")
        return pa.OSFile(str(self._local(path)), "wb")

    def open_append_stream(self, path: str, metadata: dict[str, str]) -> pa.NativeFile:
        raise NotImplementedError


def store_without_rename(root: Path) -> tuple[NoRename, StorePath]:
    """Return the handler of a store on this directory, and the path ``bucket`` in it."""
    (root / "bucket").mkdir(parents=True)
    handler = NoRename(root)
    return handler, StorePath(pafs.PyFileSystem(handler), "bucket", "test://bucket")
