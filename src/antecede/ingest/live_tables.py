"""Read the live rows of Delta tables, Iceberg tables and Parquet event tables.

The directory of a Delta or an Iceberg table holds the files of earlier versions, too, so
its files must not be read directly. The packages ``deltalake`` and ``pyiceberg`` read the
list of live files from the log of the table, and apply its deletes. They are imported only
if such a table is read.

An Iceberg table is named by its metadata file, or by its directory: then the metadata file
with the highest version is read. A catalog can name another one.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa
import pyarrow.dataset as padataset
import pyarrow.fs as pafs

from antecede.errors import ConfigError, TraceError
from antecede.trace.reader import DELTA_LOG
from antecede.trace.store import StorePath, open_store
from antecede.trace.uri import is_uri, redact

__all__ = ["LiveTable", "TableFormat", "find_table_format", "open_live_table"]

TableFormat = Literal["delta", "iceberg"]
METADATA_SUFFIX = ".metadata.json"


@dataclass(frozen=True, slots=True)
class LiveTable:
    """The rows of the current version of a table."""

    name: str
    """Its path or redacted URI."""
    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
    """Yields the rows; the order is not defined."""


def find_table_format(where: str | Path) -> TableFormat | None:
    """Return the format of a table, or None if the path is not a Delta or Iceberg table."""
    path = open_store(where)
    if path.name.endswith(METADATA_SUFFIX):
        return "iceberg"
    if not path.is_dir():
        return None
    if (path / DELTA_LOG).is_dir():
        return "delta"
    folder = path / "metadata"
    if folder.is_dir() and any(_is_metadata(each) for each in folder.children()):
        return "iceberg"
    return None


def open_live_table(where: str | Path) -> LiveTable:
    """Open a Delta table, an Iceberg table, a Parquet file or a folder of Parquet files.

    Raises:
        ConfigError: The package that reads the table is not installed.
        TraceError: The table cannot be read.
    """
    path = open_store(where)
    found = find_table_format(where)
    try:
        if found == "delta":
            return _open_delta(where, path)
        if found == "iceberg":
            return _open_iceberg(where, path)
        dataset = padataset.dataset(path.path, filesystem=path.filesystem, format="parquet")
        return _from_dataset(path, dataset)
    except ModuleNotFoundError as error:
        package = {"delta": "deltalake", "iceberg": "pyiceberg[pyarrow]"}.get(found or "")
        if package is None:
            raise
        raise ConfigError(
            f"{path} is a table of {str(found).capitalize()}: pip install '{package}'"
        ) from error
    except (ConfigError, TraceError):
        raise
    except Exception as error:  # The packages raise exceptions of many types.
        reason = redact(str(error).strip().partition("\n")[0])
        raise TraceError(f"{path}: the table cannot be read: {reason}") from None


def _from_dataset(path: StorePath, dataset: padataset.Dataset) -> LiveTable:
    return LiveTable(str(path), dataset.schema, dataset.to_batches)


def _open_delta(where: str | Path, path: StorePath) -> LiveTable:
    from deltalake import DeltaTable

    uri = str(where) if is_uri(where) and path.local is None else path.path
    table = DeltaTable(_plain_uri(uri), storage_options=_delta_options(uri))
    if "deletionVectors" in (table.protocol().reader_features or ()):
        raise TraceError(
            f"{path}: deletion vectors are not supported: rewrite the table without them"
        )
    files = pafs.SubTreeFileSystem(path.path, path.filesystem)
    return _from_dataset(path, table.to_pyarrow_dataset(filesystem=files))


def _open_iceberg(where: str | Path, path: StorePath) -> LiveTable:
    from pyiceberg.table import StaticTable

    metadata = path if path.name.endswith(METADATA_SUFFIX) else _last_metadata(path)
    if path.local is not None:
        location, options = metadata.path, {}
    else:
        location, options = f"s3://{metadata.path}", _iceberg_options(str(where))
    scan = StaticTable.from_metadata(location, options).scan()
    schema = scan.to_arrow_batch_reader().schema
    return LiveTable(str(path), schema, lambda: iter(scan.to_arrow_batch_reader()))


def _is_metadata(path: StorePath) -> bool:
    return path.name.endswith(METADATA_SUFFIX)


def _last_metadata(path: StorePath) -> StorePath:
    """Return the metadata file of the last version; raise TraceError if two have it."""
    versions: dict[int, list[StorePath]] = {}
    for each in (path / "metadata").children():
        found = re.match(r"v?(\d+)", each.name)
        if _is_metadata(each) and found is not None:
            versions.setdefault(int(found[1]), []).append(each)
    last = versions[max(versions)] if versions else []
    if len(last) != 1:
        raise TraceError(
            f"{path} has {len(last)} metadata files of the last version: give the path of"
            f" one, *{METADATA_SUFFIX}"
        )
    return last[0]


def _plain_uri(uri: str) -> str:
    """Return a URI without credentials and parameters."""
    if not is_uri(uri):
        return uri
    scheme, _, rest = uri.partition("://")
    return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"


def _s3_parameters(uri: str) -> dict[str, str]:
    """Return key, secret, region, endpoint and scheme, as far as an S3 URI has them."""
    if not is_uri(uri):
        return {}
    parts = urlsplit(uri)
    if parts.scheme not in ("s3", "s3a"):
        raise ConfigError(
            f"{redact(uri)}: tables can be read from s3: and local paths only"
        )
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    found = {"region": query.get("region", "")}
    if "endpoint_override" in query:
        found["endpoint"] = f"{query.get('scheme', 'https')}://{query['endpoint_override']}"
    if parts.username and parts.password:
        found["key"], found["secret"] = unquote(parts.username), unquote(parts.password)
    return {name: value for name, value in found.items() if value}


def _delta_options(uri: str) -> dict[str, str]:
    names = {
        "key": "AWS_ACCESS_KEY_ID",
        "secret": "AWS_SECRET_ACCESS_KEY",
        "region": "AWS_REGION",
        "endpoint": "AWS_ENDPOINT_URL",
    }
    found = _s3_parameters(uri)
    options = {names[name]: value for name, value in found.items()}
    if found.get("endpoint", "").startswith("http://"):
        options["AWS_ALLOW_HTTP"] = "true"
    return options


def _iceberg_options(uri: str) -> dict[str, str]:
    names = {
        "key": "s3.access-key-id",
        "secret": "s3.secret-access-key",
        "region": "s3.region",
        "endpoint": "s3.endpoint",
    }
    return {names[name]: value for name, value in _s3_parameters(uri).items()}
